"""Paths of devices, pipes, folders and huge files: they are refused or read in part, and messages stay short."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from attncli.core import opening
from attncli.core.opening import UnfitFileError, open_file, read_config
from attncli.errors import LONGEST_MESSAGE, MOST_LISTED, Problem, did_you_mean, printable
from tests.cli import attncli, experiment, refusal, run
from tests.config.documents import GOOD

EXPERIMENT = b"data: {queries: {shape: [2, 4]}, keys: {shape: [3, 4]}}\nscorers: [dot]\n"


def test_only_regular_files_are_opened(here: Path) -> None:
    (here / "zeros").symlink_to("/dev/zero")
    with pytest.raises(UnfitFileError) as error:
        open_file(Path("zeros"))
    assert (error.value.kind, error.value.filename) == ("a pipe or a device", "zeros")
    Path("text").write_bytes(b"x")
    Path("link").symlink_to("text")
    with open_file(Path("link")) as file:
        assert file.read() == b"x"


def test_names_that_no_file_has(here: Path) -> None:
    for name in ("a\0b", "a\ud800b", "missing"):
        with pytest.raises(FileNotFoundError):
            open_file(Path(name))
    Path("x.yaml").symlink_to("nowhere.yaml")
    assert refusal("check", "x.yaml") == "x.yaml: a link to a file that is not there"


def test_configs_of_any_size(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "LARGEST_CONFIG", len(EXPERIMENT))
    Path("x.yaml").write_bytes(EXPERIMENT)
    assert read_config(Path("x.yaml")) == EXPERIMENT
    Path("x.yaml").write_bytes(EXPERIMENT + b"\n")
    assert refusal("check", "x.yaml") == (
        f"x.yaml: cannot be read: it has more than {len(EXPERIMENT)} bytes; put large tensors "
        "into files of their own, such as .npz; expected a YAML file"
    )


READERS = {  # commands that read each file, and their message after `got`; FILE is the file
    "x.yaml": (["run FILE", "heatmap FILE"], "a pipe or a device; expected a YAML file"),
    "q.npy": (["variance --from FILE"], '"FILE"; a pipe or a device'),
    "q.safetensors": (["heatmap FILE", "run FILE"], '"FILE"; a pipe or a device'),
    "run/results.json": (["report run", "figure run"], '"FILE", a pipe or a device'),
    "run/tensors.safetensors": (["report run", "heatmap run"], '"FILE", a pipe or a device'),
    "run/config.yaml": (["report run"], '"FILE", a pipe or a device'),
    "swept/points.jsonl": (["sweep --status swept", "sweep --resume swept"], '"swept", which is not the folder of a'),
    "workers.json": (["sweep good.yaml --over seed=0,1 --cluster FILE"], '"FILE"; no such file'),
}


@pytest.mark.parametrize("name", READERS)
def test_no_reader_waits_for_a_pipe(name: str, here: Path) -> None:
    """Devices are refused in the same place; see above."""
    experiment(here / "good.yaml")
    if name.startswith("run/"):
        run(here / "good.yaml", here / "run")
    (here / "swept").mkdir()
    (here / "swept" / "config.yaml").write_bytes(EXPERIMENT)
    file = here / name
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    commands, message = READERS[name]
    for command in commands:
        words = command.replace("FILE", name).split()
        expected = f"got {message.replace('FILE', name)}"
        assert expected in refusal(*words).replace(f"{here}/", "").replace(file.name, name.rpartition("/")[2]), command


LONG = "x" * 100_000


def test_messages_have_bounds(here: Path) -> None:
    """Messages are short for names of any length in options and files."""
    assert len(str(Problem(f'got "{LONG}"; the end', (LONG,), LONG))) < LONGEST_MESSAGE + 10
    assert did_you_mean("nothing", [f"name{index}" for index in range(MOST_LISTED + 1000)]).endswith("and 1,000 more")
    assert len(did_you_mean(LONG[1:], [LONG])) < 200
    save_file({f"name{index}": torch.rand(3, 4) for index in range(1025)}, here / "many.safetensors")
    assert " and 1,000 more; choose with --tensor NAME" in refusal("heatmap", "many.safetensors")
    (here / "x.yaml").write_text(f"{GOOD}\n? {LONG}\n: 1\n")
    assert len(refusal("check", "x.yaml")) < 500


def test_names_never_reach_the_terminal_raw(here: Path) -> None:
    red = "\x1b[31mred\x07"
    assert printable(red) == "\\x1b[31mred\\x07"
    save_file({"queries": torch.rand(3, 4), "keys": torch.rand(2, 4), red: torch.rand(1)}, here / "q.safetensors")
    result = attncli("variance", "--from", "q.safetensors", "--no-plots")
    assert result.exit_code == 0
    assert "not used: \\x1b[31mred\\x07" in result.stderr
    assert not {"\x1b", "\x07"} & {*result.stdout, *result.stderr}
