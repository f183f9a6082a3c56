"""Comparing runs: verdicts on planted changes, and differences against slow loops over the files."""

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.spatial.distance import jensenshannon
from torch import Tensor

import attncli
from tests.cli import good, kept, results
from tests.studies.bench.small import hurry

pytestmark = pytest.mark.usefixtures("sketches")

ROOT = Path(__file__).parents[3]
TENSORS = {
    "queries": {"shape": [2, 3, 4, 8]},
    "keys": {"shape": [2, 3, 6, 8], "fill": "student_t", "df": 5},
    "values": {"shape": [2, 3, 6, 5], "fill": "uniform", "low": -1, "high": 1},
    "valid_lens": {"random": [0, 6]},
}
SCORERS = [{"scorer": "additive"}, {"scorer": "scaled_dot"}, {"scorer": "gaussian"}]
STUDIES: dict[str, dict[str, Any]] = {
    "attention": {"data": TENSORS, "scorers": SCORERS},
    "variance": {"study": "variance", "d": [4, 64], "samples": 4000, "scorers": SCORERS},
    "bench": {"study": "bench", "n": [4], "d": [4], "scorers": SCORERS[1:2]},
    "train": {"study": "train", "d": [4], "steps": 3, "seeds": 2, "scorers": SCORERS[1:2]},
}
OF_TABLES = ("records", "comparisons", "heads", "head_comparisons")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with a run of each study, and a run of the study attention with another seed."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        hurry(patch)
        for study, config in STUDIES.items():
            kept(config, folder / study)
        kept(STUDIES["attention"] | {"seed": 1}, folder / "other")
        yield folder


@pytest.mark.parametrize("study", STUDIES)
def test_two_runs_of_a_config_are_identical(runs: Path, study: str) -> None:
    """Times are not compared. The name and the look of pictures are no settings."""
    again = attncli.run({**STUDIES[study], "name": "again", "figure": {"theme": "dark"}})
    found = attncli.compare(runs / study, again)
    assert repr(found) == f"<attncli.Comparison {found.sentence}>"
    assert found.settings == []
    assert (found.verdict, found.differences, found.largest) == ("identical", [], 0.0)
    assert found.sentence.startswith("identical, bit for bit: ")
    assert any("not compared, since they vary" in note for note in found.notes) == (study == "bench")
    if study == "attention":  # the labels of a pair are swapped, and its output_difference is relative to the other
        turned = attncli.compare(runs / study, attncli.run({**STUDIES[study], "scorers": SCORERS[::-1]}))
        assert (turned.verdict, turned.differences) == ("identical", [])


def test_another_setting_is_named_and_makes_a_difference_both_ways(runs: Path) -> None:
    scaled = attncli.run({**STUDIES["attention"], "scorers": [*SCORERS[::2], {**SCORERS[1], "scale": "1/d"}]})
    found, back = attncli.compare(runs / "attention", scaled), attncli.compare(scaled, runs / "attention")
    assert found.sentence.startswith("different: first in scores of scaled_dot, at [")
    assert found.sentence.endswith("; the inputs are the same; changed settings: scorers.scaled_dot.scale")
    assert found.settings == [{"key": "scorers.scaled_dot.scale", "a": "1/sqrt(d)", "b": "1/d"}]
    assert (back.verdict, back.largest, back.settings[0]["a"]) == (found.verdict, found.largest, "1/d")


def tensor(name: str, change: Callable[[Tensor], Tensor], place: Any = (1, 2, 0, 0)) -> Callable[[Path], None]:
    """Return a function that changes a number of a tensor in a run folder, or all numbers at `place`."""

    def plant(folder: Path) -> None:
        tensors = load_file(folder / "tensors.safetensors")
        tensors[name][place] = change(tensors[name][place])
        save_file(tensors, folder / "tensors.safetensors")

    return plant


def changed(change: Callable[[Any], object]) -> Callable[[Path], None]:
    """Return a function that changes results.json in a run folder."""

    def plant(folder: Path) -> None:
        content = results(folder)
        change(content)
        (folder / "results.json").write_text(json.dumps(content), encoding="utf-8")

    return plant


def figures(kind: str, index: int, **given: Any) -> Callable[[Path], None]:
    """Return a function that changes numbers in a row of a run folder."""
    return changed(lambda results: results[kind][index].update(given))


def copied(run: Path, to: Path, *plants: Callable[[Path], None]) -> Path:
    """Return a copy of a run folder with planted changes."""
    copy = Path(shutil.copytree(run, to / "copy"))
    for plant in plants:
        plant(copy)
    return copy


def next_number(number: Tensor) -> Tensor:
    """Return the next larger number of the dtype."""
    return torch.nextafter(number, torch.tensor(torch.inf))


VERDICTS = {"identical": "identical", "equal": "rounding", "different": "different"}  # by how the sentence begins
ROUNDED = "equal up to rounding: the largest relative difference is "
FIRST, RANDOM = "different: first in ", "additive (random parameters)"
PLANTED: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "an ulp": ("attention", tensor("gaussian/output", next_number), ROUNDED),
    "minus zero": ("attention", tensor("gaussian/weights", lambda x: torch.where(x == 0, -0.0, x), ...), "identical"),
    "a score": ("attention", tensor("scaled_dot/scores", lambda x: 1.01 * x), f"{FIRST}scores of scaled_dot, at ["),
    "no number": ("attention", figures("heads", 4, entropy=None), f"{FIRST}entropy of {RANDOM}, batch 1, head 1 ("),
    "a row less": (
        "attention",
        changed(lambda results: results["records"].pop()),
        "different: only in A: the row of gaussian; all else: equal",
    ),
    "order": ("variance", changed(lambda results: results["records"].reverse()), "identical"),
    "an interval": ("variance", figures("records", 0, variance_ci=[1e3, 2e3]), f"{FIRST}variance_low of {RANDOM}, d 4"),
    "a time": ("bench", figures("records", -1, ratio=1e4, ratio_ci=[9e3, 2e4]), "identical"),
    "a word": ("attention", figures("records", 1, normalizer="sum"), f"{FIRST}normalizer of scaled_dot (softmax -> "),
}


@pytest.mark.parametrize("change", PLANTED)
def test_planted_changes_get_the_right_verdict(runs: Path, tmp_path: Path, change: str) -> None:
    study, plant, sentence = PLANTED[change]
    copy = copied(runs / study, tmp_path, plant)
    found = attncli.compare(runs / study, copy)
    assert found.verdict == VERDICTS[sentence.split()[0].rstrip(",:")]
    assert found.sentence.startswith(sentence)
    assert (found.differences == []) == (found.verdict == "identical" or "only in" in sentence)
    largest = found.largest if math.isfinite(found.largest) else None
    printed = json.loads(good("compare", runs / study, copy, "--json"), parse_constant=pytest.fail)
    assert (printed["verdict"], printed["largest"]) == (found.verdict, largest)


def test_other_digests_are_judged_by_numbers_where_both_runs_have_them(runs: Path, tmp_path: Path) -> None:
    digest = changed(lambda results: results["inputs"]["keys"].update(sha256="another"))
    copy = copied(runs / "attention", tmp_path, tensor("keys", next_number), digest)
    assert attncli.compare(runs / "attention", copy).verdict == "rounding"
    alone = attncli.compare(runs / "attention" / "results.json", copy / "results.json")
    assert alone.sentence.startswith("different: first in the input keys (float32 2x3x6x8 ")
    assert [row["key"] for row in alone.inputs] == ["keys"]


def test_results_alone_and_in_memory_have_settings_and_rows(runs: Path, tmp_path: Path) -> None:
    attention, other = runs / "attention", runs / "other" / "results.json"
    found = attncli.compare(attention, other)
    assert found.notes == ["B is results.json alone, without tensors"]
    assert ({row["rows"] for row in found.differences}, found.weights) == ({*OF_TABLES, "inputs"}, [])
    copy = copied(attention, tmp_path, changed(lambda results: results.update(interrupted=True)))
    assert attncli.compare(attention, copy).notes == ["B was interrupted: rows are missing"]
    a, b = (attncli.run(STUDIES["attention"], seed=seed) for seed in (0, 1))
    pairs: list[tuple[Any, Any]] = [(attention, other), (a, b), (attention, b), (other, a)]
    for pair in pairs:
        assert [row["key"] for row in attncli.compare(*pair).settings] == ["seed"]
    assert attncli.compare(b, b).notes == ["both are the same run"]


def test_rows_of_sweeps_are_joined_by_swept_keys(runs: Path) -> None:
    """The order of the values does not matter, and rows with values of only one sweep are listed."""
    small = {**STUDIES["variance"], "samples": 100}
    a, b, c = (attncli.sweep(small, {"seed": seeds}, jobs=1) for seeds in ([0, 1], [1, 0], [2, 1, 0]))
    assert attncli.compare(a, b).verdict == "identical"
    found = attncli.compare(a, c)
    assert found.sentence.startswith("different: only in B: seed 2; seed 0, 1: equal; ")
    assert (found.differences, found.largest) == ([], math.inf)
    found = attncli.compare(runs / "variance", a)
    assert found.sentence == "different: B alone is a sweep of variance; compare a sweep with a sweep"
    assert (found.settings, found.differences, found.largest) == ((), (), math.inf)
    other = attncli.compare(runs / "train", runs / "variance")
    assert other.sentence == "different: runs of the studies train and variance"


MINILM = str(ROOT / "experiments" / "minilm.safetensors")
LAYER = "layer encoder.layer.{}.attention.self"
NEGATIVE = {"scorer": "scaled_dot", "scale": "1/d", "label": "Negative"}
OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {  # what both have, A alone, B alone
    "scorers": (
        {"data": TENSORS},
        {"scorers": [SCORERS[1], {"scorer": "dot"}, NEGATIVE]},
        {"scorers": [{"scorer": "cosine"}, {"scorer": "dot"}, NEGATIVE]},
        "only in A: scaled_dot; only in B: cosine; dot, Negative: equal",
    ),
    "sizes": (
        {"study": "variance", "samples": 100, "scorers": SCORERS[1:2]},
        {"d": [4, 16]},
        {"d": [16, 32, 64]},
        "only in A: d 4; only in B: d 32, 64; d 16: equal; changed settings: d",
    ),
    "layers": (
        {"scorers": [{"scorer": "dot"}]},
        {"data": {"capture": MINILM, "layers": [1, 2]}},
        {"data": {"capture": MINILM, "layers": [2, 5]}},
        f"only in A: {LAYER.format(1)}; only in B: {LAYER.format(5)}; {LAYER.format(2)}: equal; changed",
    ),
    "heads": (  # of which means over heads and tensors are not compared
        {"scorers": [{"scorer": "dot"}, {"scorer": "cosine"}]},
        {"data": {"capture": MINILM, "layer": 2, "heads": [0, 3]}},
        {"data": {"capture": MINILM, "layer": 2, "heads": [3, 5, 7]}},
        "only in A: head 0; only in B: head 5, 7; head 3: equal; changed settings: data.heads",
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_one_run_has_alone_is_named_once_and_the_rest_is_compared(kind: str) -> None:
    both, of_a, of_b, sentence = OTHERS[kind]
    a, b = (attncli.run(both | own) for own in (of_a, of_b))
    found = attncli.compare(a, b)
    assert found.sentence.startswith(f"different: {sentence}")
    assert (found.verdict, found.differences, found.largest) == ("different", [], math.inf)
    swapped = sentence.partition(";")[0].replace("in A", "in C").replace("in B", "in A").replace("in C", "in B")
    assert swapped in attncli.compare(b, a).sentence


def test_differences_are_those_of_a_loop_over_the_files(runs: Path) -> None:
    """The differences have every number of every row, the largest difference first."""
    found = attncli.compare(runs / "attention", runs / "other")
    a, b = results(runs / "attention"), results(runs / "other")
    places, words = ("label", "a", "b", "batch", "head"), ("scorer", "normalizer")
    slow = {}
    for kind in OF_TABLES:
        for row, other in zip(a[kind], b[kind], strict=True):
            place = tuple(row.get(name) for name in places)
            for key in (key for key in row if key not in (*places, *words) and row[key] != other[key]):
                x, y, least = row[key], other[key], 0.1 if key == "score_mean" else 1e-3
                apart = (None, math.inf) if None in (x, y) else (y - x, abs(y - x) / max(abs(x), abs(y), least))
                slow[kind, place, key] = (x, y, *apart)
    fast = {
        (row["rows"], tuple(row["where"].get(name) for name in places), row["metric"]): (
            tuple(row[key] for key in ("a", "b", "difference", "relative"))
        )
        for row in found.differences
        if row["rows"] in OF_TABLES
    }
    assert len(slow) > 100
    assert fast == slow
    relative = [row["relative"] for row in found.differences if row["verdict"] == "different"]
    assert relative == sorted(relative, reverse=True)


def test_weights_are_those_of_scipy_and_tensors_those_of_slow_loops(runs: Path) -> None:
    """A tensor has its largest difference with the place, relative to the largest number of both tensors."""
    found = attncli.compare(runs / "attention", runs / "other")
    a, b = (load_file(runs / name / "tensors.safetensors") for name in ("attention", "other"))
    assert len(found.weights) == 3 * 2 * 3
    for row in found.weights:
        at = (row["batch"], row["head"])
        p, q = (each[f"{row['label']}/weights"][at].double() for each in (a, b))
        seen = (p.sum(-1) > 0) & (q.sum(-1) > 0)
        mean = np.mean(jensenshannon(p[seen].T, q[seen].T, base=2) ** 2) if seen.any() else None
        assert row["js_divergence"] == (None if mean is None else pytest.approx(mean, rel=1e-9, abs=1e-12))
        assert row["max_abs_difference"] in (float((p - q).abs().max()), None)
        x, y = (each[f"{row['label']}/output"][at].double() for each in (a, b))
        if length := float(x.norm()):
            assert row["output_change"] == pytest.approx(float((y - x).norm()), rel=1e-9)
            assert row["output_difference"] == pytest.approx(float((y - x).norm()) / length, rel=1e-9)

    rows = [row for row in found.differences if row["rows"] == "stages"]
    assert {row["metric"] for row in rows} == {"scores", "weights", "output"}
    assert len(rows) == 3 * 3
    for row in rows:
        x, y = (each[f"{row['where']['label']}/{row['metric']}"].double() for each in (a, b))
        apart, at = float((y - x).abs().max()), tuple(row["where"]["at"])
        assert (row["a"], row["b"], abs(row["difference"])) == (x[at].item(), y[at].item(), apart)
        assert row["relative"] == apart / max(float(x.abs().max()), float(y.abs().max()))


@pytest.mark.slow
def test_another_way_to_compute_differs_by_rounding(runs: Path, tmp_path: Path) -> None:
    """The same run with other CPU instructions and one thread differs by rounding, or not at all."""
    setting = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "attncli", "run", str(runs / "attention.yaml"), "--no-plots", "--quiet"]
    subprocess.run(command, cwd=tmp_path, env=os.environ | setting, check=True)
    found = attncli.compare(runs / "attention", tmp_path / "outputs" / "attention" / "latest")
    assert found.verdict in ("identical", "rounding"), found.sentence
    assert found.largest < found.rounding == 1000 * 2**-23
    assert found.inputs == []


@pytest.mark.parametrize(("dtype", "rounding"), [("float64", 1000 * 2**-52), ("bfloat16", 2 * 2**-7)])
def test_what_rounding_may_cause_depends_on_the_dtype(dtype: str, rounding: float) -> None:
    """A run in another dtype is compared number by number; the coarser dtype says what is rounding."""
    result = attncli.run(STUDIES["attention"], dtype=dtype)
    assert attncli.compare(result, result).rounding == rounding
    found = attncli.compare(attncli.run(STUDIES["attention"]), result)
    assert (found.verdict, found.rounding) == ("rounding", max(rounding, 1000 * 2**-23))
    assert found.largest > 0
