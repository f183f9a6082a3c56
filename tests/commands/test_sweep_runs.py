"""Runs of `attncli variance` and `attncli saturation`: what is printed and written, and how they end early."""

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from attncli.studies.saturation import study as saturation
from attncli.studies.variance import study as variance
from tests.cli import attncli, experiment, good, names_in, refusal
from tests.commands.sweeps import FEW, SWEEPS, swept


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("study", SWEEPS)
def test_records_csv_has_the_same_rows(study: str) -> None:
    records = swept(study, "--d", 4, "--d", 2, *FEW[study])["records"]
    with Path("out/records.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [{name: "" if value is None else str(value) for name, value in each.items()} for each in records]


@pytest.mark.parametrize("study", SWEEPS)
def test_json_is_results_json_and_nothing_else(study: str) -> None:
    result = attncli(study, "--d", 2, *FEW[study], "--no-plots", "--json", "--out", "out")
    assert result.stdout == Path("out/results.json").read_text(encoding="utf-8")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert {"study", "name", "seed", "created", "command", "environment", "inputs", "records", "files"} <= set(found)


@pytest.mark.parametrize("study", SWEEPS)
def test_files_with_and_without_pictures(study: str) -> None:
    files = ["config.yaml", "records.csv", "results.json", "tensors.safetensors"]
    assert swept(study, "--d", 2, *FEW[study])["files"] == names_in(Path("out")) == files
    stdout = good(study, "--d", 2, *FEW[study])
    folder, names = stdout.splitlines()[-2:]
    assert Path(folder).resolve() == Path("outputs", study, "latest").resolve()
    assert names.split() == names_in(Path(folder)) == sorted([*files, f"{study}.png"])
    assert Path(folder, f"{study}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("study", SWEEPS)
def test_tables_on_stdout_and_nothing_on_stderr(study: str) -> None:
    result = attncli(study, "--d", 2, *FEW[study], "--no-plots")
    assert (result.exit_code, result.stderr) == (0, "")
    assert all(word in result.stdout for word in ("dot", "scaled_dot", f"outputs/{study}/"))
    quiet = attncli(study, "--d", 2, *FEW[study], "--no-plots", "--quiet")
    assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (0, "", "")


@pytest.mark.parametrize("study", SWEEPS)
def test_out_and_overwrite(study: str) -> None:
    swept(study, "--d", 2, *FEW[study])
    refused = '--out: got "out", which holds a run; expected a new or empty folder; --overwrite replaces this run'
    assert refusal(study, "--d", 2, *FEW[study], "--no-plots", "--out", "out") == refused
    assert swept(study, "--d", 2, *FEW[study], "--overwrite", "--seed", 4)["seed"] == 4


@pytest.mark.parametrize("study", SWEEPS)
def test_check(study: str, here: Path) -> None:
    (here / "x.yaml").write_text(f"study: {study}\nscorer: dot\nd: 4\n")
    assert good("check", "x.yaml") == f"x.yaml: good, study {study}\n"
    (here / "x.yaml").write_text(f"study: {study}\nscorer: dot\nfrom: gone.npz\n")
    assert refusal("check", "x.yaml") == 'x.yaml:3:7: from: got "gone.npz"; no such file'
    assert names_in(here) == ["x.yaml"]


@pytest.mark.parametrize("study", SWEEPS)
def test_only_weights_are_drawn_as_heatmaps(study: str, here: Path) -> None:
    swept(study, "--d", 2, *FEW[study])
    before = names_in(here)
    problem = f'got "{study}"; only the study attention has weights to draw'
    assert refusal("heatmap", "out/config.yaml") == f"out/config.yaml:1:8: study: {problem}"
    assert (
        refusal("heatmap", "out")
        == f'SOURCE: got "out", a run of the study {study}; only the study attention has weights to draw'
    )
    assert names_in(here) == before


@pytest.mark.parametrize("study", SWEEPS)
def test_experiments_of_all_studies_together(study: str, here: Path) -> None:
    (here / "s.yaml").write_text(
        json.dumps({"study": study, "d": 2, "rows" if study == "saturation" else "samples": 10})
    )
    contents = json.loads(good("run", experiment(here / "x.yaml"), "s.yaml", "--no-plots", "--json"))
    assert [each["study"] for each in contents] == ["attention", study]


@pytest.mark.parametrize("study", SWEEPS)
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
