"""The pictures of the documentation are made by their commands, of the experiments and the version there are."""

import shutil
from pathlib import Path

import pytest

from docs.website import pictures


def test_pictures_are_of_the_current_version_command_and_experiment() -> None:
    assert list(pictures.stale(("version", "command", "experiment"))) == []


def test_a_stamp_changes_with_the_version_the_command_the_experiment_and_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "attncli heatmap minilm --layer 0"
    current = pictures.stamp(command)
    assert pictures.stamp("attncli heatmap minilm --layer 1")["command"] != current["command"]
    assert {path.name for path in pictures.sources(command)} == {"minilm.yaml", "minilm.safetensors"}
    assert pictures.sources("attncli saturation") == pictures.sources("attncli variance --d 512") == []
    for folder in ("attncli/show/pictures", "attncli/config", "experiments"):
        shutil.copytree(pictures.ROOT / folder, tmp_path / folder)
    monkeypatch.setattr(pictures, "ROOT", tmp_path)
    before = pictures.stamp(command)
    assert before["experiment"] == current["experiment"]
    for file, key in (("attncli/show/pictures/cells.py", "code"), ("experiments/minilm.safetensors", "experiment")):
        (tmp_path / file).write_bytes((tmp_path / file).read_bytes() + b" ")
        after = pictures.stamp(command)
        assert [name for name in after if after[name] != before[name]] == [key]
        before = after
    monkeypatch.setattr("attncli.__version__", "99.1.2")
    assert pictures.stamp(command)["version"] == "99.1"
