"""`attncli variance` and `attncli saturation`: what they print and write, and real tensors in place of random ones."""

import csv
import math
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from attncli.commands import progress
from attncli.studies.saturation import study as saturation
from attncli.studies.variance import study as variance
from tests.cli import attncli, experiment, good, names_in, refusal, run
from tests.commands.pairs import FEW, PAIRS, config, swept


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pairs(path: Path, **shapes: tuple[int, ...]) -> Path:
    """Queries and keys in a file."""
    numbers = np.random.default_rng(0)
    np.savez(path, **{name: numbers.normal(size=shape) for name, shape in shapes.items()})  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize("study", PAIRS)
def test_files_and_tables(study: str) -> None:
    result = attncli(study, "--d", 2, *FEW[study])
    assert (result.exit_code, result.stderr) == (0, "")
    folder, names = result.stdout.splitlines()[-2:]
    assert Path(folder).resolve() == Path("outputs", study, "latest").resolve()
    files = ["config.yaml", "records.csv", "results.json", "tensors.safetensors"]
    assert names.split() == names_in(Path(folder)) == sorted([*files, f"{study}.png"])
    assert Path(folder, f"{study}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    content = swept(study, "--d", 2, *FEW[study])
    assert content["files"] == names_in(Path("out")) == files
    assert all(finding["text"].split()[0] in result.stdout for finding in content["findings"])
    assert all(record["label"] in result.stdout for record in content["records"])


@pytest.mark.parametrize("study", PAIRS)
def test_records_csv_has_the_same_rows(study: str) -> None:
    records = swept(study, "--d", 4, "--d", 2, *FEW[study])["records"]
    assert [record["d"] for record in records] == sorted((record["d"] for record in records), reverse=True)
    with Path("out/records.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [{name: "" if value is None else str(value) for name, value in each.items()} for each in records]


@pytest.mark.parametrize("study", PAIRS)
def test_arrays_of_the_picture(study: str) -> None:
    """A single d is all that the tables have, and the end of the curve."""
    records = swept(study, "--d", 12, *FEW[study])["records"]
    assert config()["d"] == [12]
    tensors = load_file("out/tensors.safetensors")
    for record in records:
        label = record["label"]
        assert tensors[f"curve/{label}/d"].tolist() == [1, 2, 4, 8, 12]
        for name, value in record.items():
            if isinstance(value, float):
                assert tensors[f"curve/{label}/{name}"][-1] == value
        if study == "variance":
            ends = [tensors[f"curve/{label}/variance_ci_{end}"][-1].item() for end in ("low", "high")]
            edges, counts = (tensors[f"histogram/{label}/{part}"] for part in ("edges", "counts"))
            assert ends == record["variance_ci"]
            assert len(edges) == len(counts) + 1
            assert 990 <= counts.sum() <= 1000, "nearly all lie within five standard deviations"


def test_keys_and_rows_by_default() -> None:
    record = swept("saturation", "--d", 1, "--scorer", "dot")["records"][0]
    assert (record["keys"], record["rows"]) == (64, 2000)


def test_weights_that_are_known(here: Path) -> None:
    """One query, keys whose scores are 0 and ln 3: weights 1/4 and 3/4."""
    np.savez(here / "qk.npz", queries=np.array([[1.0]]), keys=np.array([[0.0], [math.log(3)]]))
    record = swept("saturation", "--from", "qk.npz", "--scorer", "dot", "--dtype", "float64")["records"][0]
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    figures = [record[name] for name in ("max_weight", "entropy", "effective_keys", "jacobian_median")]
    assert figures == pytest.approx([0.75, entropy / math.log(2), math.exp(entropy), 0.25 * 0.75 * 2])


def test_progress_names_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    lines = attncli("variance", "--d", 2, "--d", 4, *FEW["variance"], "--no-plots").stderr.splitlines()
    assert lines[:2] == ["variance: d = 2 (1 of 2 done)", "variance: d = 4 (2 of 2 done)"]


@pytest.mark.parametrize("study", PAIRS)
@pytest.mark.parametrize("kind", ["heads", "run", "config", "study"])
def test_tensors_that_were_read_are_kept(study: str, kind: str, here: Path) -> None:
    """config.yaml gives the same figures when everything that was read is gone."""
    leading = (2, 3) if kind == "heads" else (2,)
    source = pairs(here / "qk.npz", queries=(*leading, 3, 4), keys=(*leading, 5, 4))
    own = {"queries": {"file": "qk.npz", "tensor": "queries"}, "keys": {"file": "qk.npz", "tensor": "keys"}}
    if kind in ("run", "config"):
        source = experiment(here / "x.yaml", data={**own, "valid_lens": [2, 5]})
    if kind == "run":
        run(source, here / "first")
        source = here / "first"
    if kind == "study":
        swept(study, "--from", source, out="first")
        source = here / "first"
    save_file({"W.weight": torch.arange(16.0).reshape(4, 4)}, here / "W.safetensors")
    records = swept(study, "--from", source, "--scorer", "dot", "--scorer", "general:parameters={file: W.safetensors}")
    assert {record["head"] for record in records["records"]} == ({0, 1, 2} if kind == "heads" else {None})
    assert len(records["inputs"]) == (3 if kind in ("run", "config") else 2)
    elsewhere = here / "moved"
    (here / "out").rename(elsewhere)
    for path in (here / "qk.npz", here / "x.yaml", here / "W.safetensors"):
        path.unlink(missing_ok=True)
    assert config("moved")["from"] == "tensors.safetensors"
    assert not {"d", "distribution", "mean", "samples", "keys", "rows"} & set(config("moved"))
    again = run(elsewhere / "config.yaml", here / "again")
    assert (again["records"], again["inputs"]) == (records["records"], records["inputs"])


def test_masked_pairs_of_a_config_do_not_count(here: Path) -> None:
    source = experiment(here / "x.yaml", data={"valid_lens": [2, 5]})
    assert {record["samples"] for record in swept("variance", "--from", source)["records"]} == {3 * 2 + 3 * 5}


def test_from_all_runs_of_a_name(here: Path) -> None:
    good("run", experiment(here / "x.yaml"), "--no-plots", "--quiet")
    expected = "which has no tensors.safetensors; did you mean `outputs/x/latest`?"
    line = f'attncli variance: --from outputs/x: got "outputs/x", {expected}'
    assert refusal("variance", "--from", "outputs/x") == line
    swept("variance", "--from", "outputs/x/latest")


@pytest.mark.parametrize("study", PAIRS)
def test_check(study: str, here: Path) -> None:
    (here / "x.yaml").write_text(f"study: {study}\nscorer: dot\nd: 4\n")
    assert good("check", "x.yaml") == f"x.yaml: good, study {study}\n"
    (here / "x.yaml").write_text(f"study: {study}\nscorer: dot\nfrom: gone.npz\n")
    assert refusal("check", "x.yaml") == 'x.yaml:3:7: from: got "gone.npz"; no such file'
    assert names_in(here) == ["x.yaml"]


def test_only_weights_are_drawn_as_heatmaps() -> None:
    swept("variance", "--d", 2, *FEW["variance"])
    problem = "only the study attention has weights to draw"
    assert refusal("heatmap", "out/config.yaml") == f'out/config.yaml:1:8: study: got "variance"; {problem}'
    assert refusal("heatmap", "out") == f'SOURCE: got "out", a run of the study variance; {problem}'


@pytest.mark.parametrize("study", PAIRS)
def test_places_are_looked_at_before_the_work(study: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (variance, saturation):
        monkeypatch.setattr(module, "prepare", lambda *args: pytest.fail("the work began"))
    (here / "outputs").touch()
    assert refusal(study, "--d", 2, "--no-plots").startswith(f"outputs/{study}: got a file at ")
    assert refusal(study, "--d", 2, "--no-plots", "--out", "outputs").startswith('--out: got "outputs", a file; ')


def heed_interrupts() -> None:
    """Where tests run in the background, the shell has told them to ignore interrupts, and so their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(("study", "much"), [("variance", ["--samples", 10**9]), ("saturation", ["--rows", 10**6])])
def test_control_c(study: str, much: list[object], here: Path) -> None:
    """A real one, in the middle of work that would take far longer than this test may."""
    command = [sys.executable, "-m", "attncli", study, "--d", 64, *much, "--no-plots"]
    process = subprocess.Popen(
        list(map(str, command)),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith(f"{study}: d = "), "the work has begun"
    assert any((here / "outputs" / study).iterdir()), "so there is something to clean up"
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=300)
    assert (process.returncode, stdout) == (130, "")
    assert stderr.splitlines()[-1] == "interrupted; no unfinished run folder is left"
    assert names_in(here) == []
