"""No such file, no file at all, or none that may be read."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.inputs.broken import NPY, refusal


@pytest.mark.parametrize("error", [MemoryError(), PermissionError(13, "no"), OSError(5, "Input/output error")])
@pytest.mark.parametrize(
    ("name", "content", "moment"),
    [("q.csv", b"1,2\n", "its kind"), ("q.npy", NPY, "its header"), ("q.csv", b"1,2\n", "its numbers")],
)
def test_what_the_system_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, name: str, content: bytes, moment: str
) -> None:
    (tmp_path / name).write_bytes(content)
    opened = Path.open
    before = [] if moment == "its kind" else ["its kind"]

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if len(done) == len(before):
            done.clear()
            raise error
        done.append("its kind")
        return opened(path, *arguments, **options)

    done: list[str] = []
    monkeypatch.setattr(Path, "open", refuse)
    assert (
        refusal(tmp_path / "q.csv")
        == 'got "q.csv"; '
        + {
            MemoryError: "needs more memory than there is; save only what is needed",
            PermissionError: "may not be read (permission denied); allow it: chmod u+r",
            OSError: "cannot be read (Input/output error)",
        }[type(error)]
    )


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("querys.npy", 'got "querys.npy"; no such file; did you mean `queries.npy`?'),
        ("queries", 'got "queries"; no such file; did you mean `queries.npy`?'),
        ("weights.npy", 'got "weights.npy"; no such file'),
        ("data/q.pt", 'got "q.pt"; no such file in data'),
        ("dada/q.pt", 'got "q.pt"; no such folder: dada'),
        ("queries.npy/q.pt", 'got "q.pt"; no such folder: queries.npy'),
        ("data", 'got "data"; a folder; expected a file'),
        ("pipe.npy", 'got "pipe.npy"; neither a file nor a link to one; expected a file'),
        ("loop.npy", 'got "loop.npy"; cannot be read (Too many levels of symbolic links)'),
        ("a\0b.npy", 'got "a\\u0000b.npy"; no file can have a name with a zero byte'),
        ("a" * 300, f'got "{"a" * 58}…; cannot be read (File name too long)'),
    ],
)
def test_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("queries.npy").write_bytes(NPY)
    Path("data").mkdir()
    os.mkfifo("pipe.npy")
    Path("loop.npy").symlink_to("loop.npy")
    assert refusal(Path(wanted)) == message
    assert refusal(tmp_path / wanted) == message


def test_a_missing_file_elsewhere_says_where(tmp_path: Path) -> None:
    assert refusal(tmp_path / "q.npy") == f'got "q.npy"; no such file in {tmp_path}'
