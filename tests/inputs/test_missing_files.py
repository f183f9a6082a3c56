"""No such file, no file at all, or none that may be read."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.inputs.broken import NPY, refusal


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "needs more memory than there is; save only what is needed"),
        (PermissionError(13, "Permission denied"), "may not be read (permission denied); allow it: chmod u+r"),
        (OSError(5, "Input/output error"), "cannot be read (Input/output error)"),
    ],
)
@pytest.mark.parametrize(
    ("name", "content", "good"),
    [
        pytest.param("q.csv", b"1,2\n", 0, id="while its kind is told"),
        pytest.param("q.npy", NPY, 1, id="while its header is read"),
        pytest.param("q.csv", b"1,2\n", 1, id="while its numbers are read"),
    ],
)
def test_what_the_system_refuses(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    content: bytes,
    good: int,
    error: Exception,
    message: str,
) -> None:
    """A file is opened `good` times before the system refuses."""
    (tmp_path / name).write_bytes(content)
    opened = Path.open
    times: list[Path] = []

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if len(times) == good:
            times.clear()
            raise error
        times.append(path)
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    assert refusal(tmp_path / name) == f'got "{name}"; {message}'


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
