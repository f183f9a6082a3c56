"""Expectations from the command line: the saved and printed verdicts, and the exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli import attncli, experiment, good, names_in, results

pytestmark = pytest.mark.usefixtures("here")
D2L: dict[str, Any] = {
    "data": {
        "queries": {"shape": [2, 1, 2]},
        "keys": {"shape": [2, 10, 2], "fill": "ones"},
        "values": {"shape": [1, 10, 4], "fill": "arange"},
        "valid_lens": [2, 6],
    }
}
MEANS = [[[2, 3, 4, 5]], [[10, 11, 12, 13]]]
HOLDS = {"claim": "equal keys give the mean of the valid values", "source": "D2L", "metric": "output", "equal": MEANS}
WRONG = {**HOLDS, "claim": "planted", "equal": [[[2, 3, 4, 5]], [[10, 11, 12, 14]]]}
BOUND = {"where": {"scorer": "dot"}, "metric": "max_weight", "below": 0.1}
VARIANCE = """\
study: variance
scorers: [dot, scaled_dot]
d: [4, 16]
samples: 20000
expect:
  - {where: {label: scaled_dot, d: [4, 16]}, metric: variance, about: 1, within: 5 %}
  - {where: {label: dot, d: 16}, metric: variance, above: {label: dot, d: 4}, by: 3 x}
"""


def d2l(*expectations: dict[str, Any], name: str = "x.yaml") -> Path:
    return experiment(Path(name), **D2L, expect=list(expectations))


def test_what_holds_is_shown_and_stored() -> None:
    text = good("run", d2l(HOLDS), "--out", "out", "--no-plots")
    assert text.splitlines()[-1] == "The expectation holds"
    (verdict,) = results()["expectations"]
    keys = ["claim", "source", "where", "metric", "expected", "got", "holds", "reason"]
    assert list(verdict) == keys
    assert [verdict[key] for key in keys[:5]] == [HOLDS["claim"], "D2L", {}, "output", {"equal": MEANS}]
    assert (verdict["holds"], verdict["reason"]) == (True, None)


@pytest.mark.parametrize("option", ["", "--quiet", "--json"])
def test_what_fails_is_said_and_ends_with_1(option: str) -> None:
    result = attncli("run", d2l(WRONG, BOUND, HOLDS), "--out", "out", "--no-plots", *filter(None, [option]))
    assert result.exit_code == 1
    place = "x.yaml:1:"
    first, second = [line.removeprefix(place).partition(": ")[2] for line in result.stderr.splitlines()]
    assert first == (
        'expect[0]: "planted" (D2L) does not hold; output: expected 2x1x4 numbers; '
        "1 of 8 numbers differ, most at [1, 0, 3]: got 13, expected 14"
    )
    assert second == "expect[1]: max_weight (scorer = dot): expected below 0.1; got 0.3333"
    assert [each["holds"] for each in results()["expectations"]] == [False, False, True]
    assert "tensors.safetensors" in names_in(Path("out")), "everything is written"
    if option == "--json":
        assert json.loads(result.stdout) == {"folder": "out", **results()}
    elif option:
        assert result.stdout == ""
    else:
        assert result.stdout.splitlines()[-1] == "1 of 3 expectations hold"


def test_all_experiments_run_and_share_a_table() -> None:
    paths = [d2l(WRONG, name="a.yaml"), d2l(HOLDS, name="b.yaml"), experiment(Path("c.yaml")), d2l(name="d.yaml")]
    result = attncli("run", *paths, "--no-plots")
    assert result.exit_code == 1
    assert [results(f"outputs/{name}/latest")["expectations"] != [] for name in "abcd"] == [True, True, False, False]
    assert result.stdout.count("Expectations") == 1
    lines = [line.split() for line in result.stdout[result.stdout.index("Expectations") :].splitlines()]
    assert lines[1] == ["holds", "claim,", "expected,", "measured,", "source"]
    assert [line for line in lines if line[0][-1] == ":"] == [["a:"], ["b:"]]
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == ["a.yaml"]


def test_a_study_of_pairs_checks_itself_and_runs_again() -> None:
    Path("x.yaml").write_text(VARIANCE)
    good("run", "x.yaml", "--out", "out", "--no-plots", "--quiet")
    first = results()["expectations"]
    assert [(each["where"], each["holds"]) for each in first] == [
        ({"label": "scaled_dot", "d": 4}, True),
        ({"label": "scaled_dot", "d": 16}, True),
        ({"label": "dot", "d": 16}, True),
    ]
    figures = {(row["label"], row["d"]): row["variance"] for row in results()["records"]}
    assert [each["got"] for each in first] == [figures[tuple(each["where"].values())] for each in first]
    assert first[2]["expected"] == {"above": {"label": "dot", "d": 4}, "by": "3 x", "value": figures["dot", 4]}
    good("run", "out/config.yaml", "--out", "again", "--no-plots", "--quiet")
    assert results("again")["expectations"] == first
    assert Path("again/config.yaml").read_text() == Path("out/config.yaml").read_text()


def test_heads_and_batch_elements_check_themselves() -> None:
    shape, pair = {"shape": [2, 3, 4, 5]}, {"a": "dot", "b": "sharp"}
    asked: list[dict[str, Any]] = [
        {"where": {"label": "dot", "batch": 1, "head": [0, 2]}, "metric": "entropy", "between": [0, 9]},
        {"where": {"normalizer": "sigmoid"}, "metric": "weight_sum", "below": {"normalizer": "softmax"}},
        {"where": {"a": "sharp", "b": "dot", "batch": 0, "head": 1}, "metric": "js_divergence", "above": 0},
        {"where": {**pair, "batch": 1, "head": [0, 1]}, "metric": "top1_agreement", "above": {**pair, "batch": 0}},
        {"where": {"label": "dot", "batch": 0, "head": 1}, "metric": "score_std", "above": {"label": "dot"}},
    ]
    asked[3]["above"]["head"] = [0, 1]
    asked[4]["above"] |= {"batch": 1, "head": 2}
    scorers = [{"scorer": "dot"}, {"scorer": "dot", "label": "sharp", "normalizer": "sigmoid"}]
    config = experiment(Path("x.yaml"), data={"queries": shape, "keys": shape}, scorers=scorers, expect=asked)
    attncli("run", config, "--out", "out", "--no-plots", "--quiet")
    content = results()
    heads = {(row["label"], row["batch"], row["head"]): row for row in content["heads"]}
    pairs = {(row["batch"], row["head"]): row for row in content["head_comparisons"]}
    records = {row["normalizer"]: row["weight_sum"] for row in content["records"]}
    agreed = [pairs[batch, head]["top1_agreement"] for head in (0, 1) for batch in (1, 0)]
    deviations = [heads["dot", *place]["score_std"] for place in ((0, 1), (1, 2))]
    found = [(each["got"], each["expected"].get("value"), each["holds"]) for each in content["expectations"]]
    assert found == [
        (heads["dot", 1, 0]["entropy"], None, True),
        (heads["dot", 1, 2]["entropy"], None, True),
        (records["sigmoid"], records["softmax"], records["sigmoid"] < records["softmax"]),
        (pairs[0, 1]["js_divergence"], None, True),
        (*agreed[:2], agreed[0] > agreed[1]),
        (*agreed[2:], agreed[2] > agreed[3]),
        (*deviations, deviations[0] > deviations[1]),
    ]


def test_what_can_only_be_told_after_the_work_loses_nothing() -> None:
    text = VARIANCE + "  - {where: {label: dot, theory: limit}, metric: variance, above: 0}\n"
    Path("x.yaml").write_text(text + "  - {where: {label: dot, d: 5}, metric: variance, above: 0}\n")
    assert good("check", "x.yaml") == "x.yaml: good, study variance\n"
    result = attncli("run", "x.yaml", "--out", "out", "--no-plots")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        'x.yaml:8:34: expect[2].where.theory: got "limit"; no row with label = dot has this theory; known: exact',
        "x.yaml:9:29: expect[3].where.d: got 5; no row with label = dot has this d; known: 4, 16",
    ]
    assert [each["holds"] for each in results()["expectations"]] == [True, True, True, None, None]
    assert results()["expectations"][3]["reason"].endswith("known: exact")
    assert result.stdout.splitlines()[-1] == "2 of 4 expectations hold, 2 could not be judged"


HEADS = {"queries": {"shape": [2, 8, 3, 4]}, "keys": {"shape": [2, 8, 5, 4]}}
AFTER: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {  # further keys, expectation, message
    "no pairs": (
        {},
        {"metric": "js_divergence", "equal": 0},
        'metric: got "js_divergence", which no row of this run has',
    ),
    "two rows": (
        {"scorers": ["dot", "cosine"]},
        {"metric": "entropy", "above": 1},
        "where: got no `where`; 2 rows match, which differ in scorer (dot, cosine), label (dot, cosine); expected one "
        "row, or a list of values to select several",
    ),
    "another shape": (
        {},
        {"metric": "output", "equal": [[1, 2], [3, 4]]},
        "equal: got numbers of shape [2, 2]; expected [2, 1, 4], the shape of output of dot; leading sizes of 1 may be "
        "left out",
    ),
    "no weights": (
        {"weights": False},
        {"metric": "weights", "equal": [1]},
        'metric: got "weights", a stage that dot does not have',
    ),
    "no such head": (
        {"data": HEADS},
        {"where": {"label": "dot", "batch": 1, "head": 8}, "metric": "entropy", "above": 0},
        "where.head: got 8; no row with label = dot, batch = 1 has this head; known: 0, 1, 2, 3, 4, 5, 6, 7",
    ),
    "no heads": (
        {},
        {"where": {"head": 0}, "metric": "entropy", "above": 0},
        "where.head: got 0; no row has a head; leave it out",
    ),
}


@pytest.mark.parametrize("case", AFTER)
def test_rows_are_found_after_the_run_which_is_stored(case: str) -> None:
    keys, asked, message = AFTER[case]
    config = experiment(Path("x.yaml"), **({**D2L, "scorers": ["dot"], "expect": [asked]} | keys))
    assert good("check", config) == "x.yaml: good, study attention\n"
    result = attncli("run", config, "--out", "out", "--no-plots", "--quiet")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.partition(": ")[2] == f"expect[0].{message}\n"
    assert [each["holds"] for each in results()["expectations"]] == [None]


def test_a_value_that_is_not_swept_over_is_found_after_the_sweep() -> None:
    config = experiment(Path("x.yaml"), **D2L, expect=[{"where": {"seed": 3}, "metric": "entropy", "above": 0}])
    result = attncli("sweep", config, "--over", "seed=0..1", "--out", "out", "--no-plots", "--quiet", "--jobs", "1")
    assert result.exit_code == 2
    assert result.stderr.endswith("expect[0].where.seed: got 3; no row has this seed; known: 0, 1\n")
    assert len(results()["records"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("option", "closed"), [("--full", "stderr"), ("--json", "stderr"), ("--json", "stdout")])
def test_readers_that_have_had_enough_end_nothing(option: str, closed: str) -> None:
    for name in ("a", "b"):
        d2l(WRONG, name=f"{name}.yaml")
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "attncli", "run", "a.yaml", "b.yaml", "--no-plots", option]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, closed: writing}
    result = subprocess.run(command, **streams, text=True, timeout=300, check=False)
    os.close(writing)
    assert result.returncode == 1
    assert [len(results(f"outputs/{name}/latest")["expectations"]) for name in "ab"] == [1, 1]
    if closed == "stdout":
        places = [line.partition(":")[0] for line in result.stderr.splitlines()]
        assert [place for place in places if place.endswith(".yaml")] == ["a.yaml", "b.yaml"], "beside progress"
    elif option == "--json":
        assert [each["name"] for each in json.loads(result.stdout)] == ["a", "b"]
    else:
        assert result.stdout.splitlines().count("The expectation does not hold") == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("streams", "code"), [("--json >&-", 1), ("--json >/dev/full", 2), (">/dev/full", 2), ("1</dev/null", 2)]
)
def test_failures_are_told_where_stdout_takes_nothing(streams: str, code: int) -> None:
    command = f"{sys.executable} -m attncli run {d2l(WRONG)} --no-plots {streams}"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count("planted") == 1


@pytest.mark.slow
def test_what_cannot_be_told_changes_no_exit_code() -> None:
    full = ["sh", "-c", f"{sys.executable} -m attncli variance --d 0 2>/dev/full"]
    assert subprocess.run(full, capture_output=True, timeout=300, check=False).returncode == 2


def test_experiments_of_one_name_are_told_apart() -> None:
    experiment(Path("a.yaml"), name="b", **D2L, expect=[WRONG])
    paths = [d2l(HOLDS, name=f"{name}.yaml") for name in "bcd"]
    result = attncli("run", "a.yaml", *paths, "d.yaml", "--no-plots")
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert [line for line in lines if line.endswith(":")] == ["a.yaml:", "b.yaml:", "c:", "d.yaml:", "d.yaml:"]
