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
    assert good("run", d2l(HOLDS), "--out", "out", "--no-plots").splitlines()[-1] == "The expectation holds"
    facts = {"claim": HOLDS["claim"], "source": "D2L", "where": {}, "metric": "output", "expected": {"equal": MEANS}}
    (verdict,) = results()["expectations"]
    assert verdict == {**facts, "got": verdict["got"], "holds": True, "reason": None}


@pytest.mark.parametrize("option", ["--no-plots", "--quiet", "--json"])
def test_a_failure_is_said_and_ends_with_1(option: str) -> None:
    result = attncli("run", d2l(WRONG, BOUND, HOLDS), "--out", "out", "--no-plots", option)
    assert result.exit_code == 1
    assert [line.removeprefix("x.yaml:1:").partition(": ")[2] for line in result.stderr.splitlines()] == [
        'expect[0]: "planted" (D2L) does not hold; output: expected 2x1x4 numbers; '
        "1 of 8 numbers differ, most at [1, 0, 3]: got 13, expected 14",
        "expect[1]: max_weight (scorer = dot): expected below 0.1; got 0.3333",
    ]
    assert [each["holds"] for each in results()["expectations"]] == [False, False, True]
    assert "tensors.safetensors" in names_in(Path("out")), "everything is written"
    if option == "--json":
        assert json.loads(result.stdout) == {"folder": "out", **results()}
    else:
        assert result.stdout.splitlines()[-1:] == ([] if option == "--quiet" else ["1 of 3 expectations hold"])


def test_all_experiments_run_and_share_a_table() -> None:
    """Experiments of one name have the names of their files."""
    experiment(Path("a.yaml"), name="b", **D2L, expect=[WRONG])
    paths = [d2l(HOLDS, name="b.yaml"), experiment(Path("c.yaml")), d2l(HOLDS, name="d.yaml")]
    result = attncli("run", "a.yaml", *paths, "d.yaml", "--no-plots")
    assert result.exit_code == 1
    assert result.stdout.count("Expectations") == 1
    lines = [line.split() for line in result.stdout[result.stdout.index("Expectations") :].splitlines()]
    assert lines[1] == ["holds", "claim,", "expected,", "measured,", "source"]
    assert [line[0] for line in lines if line[0][-1] == ":"] == ["a.yaml:", "b.yaml:", "d.yaml:", "d.yaml:"]
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == ["a.yaml"]


def test_a_study_of_pairs_checks_itself_and_runs_again() -> None:
    Path("x.yaml").write_text(VARIANCE)
    good("run", "x.yaml", "--out", "out", "--no-plots", "--quiet")
    first = results()["expectations"]
    figures = {(row["label"], row["d"]): row["variance"] for row in results()["records"]}
    asked = [("scaled_dot", 4), ("scaled_dot", 16), ("dot", 16)]
    found = [(each["where"], each["got"], each["holds"]) for each in first]
    assert found == [({"label": label, "d": d}, figures[label, d], True) for label, d in asked]
    assert first[2]["expected"] == {"above": {"label": "dot", "d": 4}, "by": "3 x", "value": figures["dot", 4]}
    good("run", "out/config.yaml", "--out", "again", "--no-plots", "--quiet")
    assert results("again")["expectations"] == first
    assert Path("again/config.yaml").read_text() == Path("out/config.yaml").read_text()


def test_what_can_only_be_known_after_the_work_loses_nothing() -> None:
    text = VARIANCE + "  - {where: {label: dot, theory: limit}, metric: variance, above: 0}\n"
    Path("x.yaml").write_text(text + "  - {where: {label: dot, d: 5}, metric: variance, above: 0}\n")
    result = attncli("run", "x.yaml", "--out", "out", "--no-plots")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        'x.yaml:8:34: expect[2].where.theory: got "limit"; no row with label = dot has this theory; known: exact',
        "x.yaml:9:29: expect[3].where.d: got 5; no row with label = dot has this d; known: 4, 16",
    ]
    assert [each["holds"] for each in results()["expectations"]] == [True, True, True, None, None]
    assert results()["expectations"][3]["reason"].endswith("known: exact")
    assert result.stdout.splitlines()[-1] == "2 of 4 expectations hold, 2 could not be judged"


HEADS = {"data": {"queries": {"shape": [2, 8, 3, 4]}, "keys": {"shape": [2, 8, 5, 4]}}}
FAR: dict[str, Any] = {"where": {"label": "dot", "batch": 1, "head": 8}, "metric": "entropy", "above": 0}
AFTER: list[tuple[dict[str, Any], dict[str, Any], str]] = [  # keys, expectation, message
    ({}, {"metric": "js_divergence", "equal": 0}, 'metric: got "js_divergence", which no row of this run has\n'),
    ({"scorers": ["dot", "cosine"]}, {"metric": "entropy", "above": 1}, "where: got no `where`; 2 rows match, which "),
    ({}, {"metric": "output", "equal": [[1, 2]]}, "equal: got numbers of shape [1, 2]; expected [2, 1, 4], the shape "),
    ({"weights": False}, {"metric": "weights", "equal": [1]}, 'metric: got "weights", a stage that dot does not have'),
    (HEADS, FAR, "where.head: got 8; no row with label = dot, batch = 1 has this head; known: 0, 1, 2, 3, 4, 5, 6, 7"),
    ({}, {**FAR, "where": {"head": 0}}, "where.head: got 0; no row has a head; leave it out\n"),
]


@pytest.mark.parametrize(("keys", "asked", "message"), AFTER)
def test_rows_are_found_after_the_run_which_is_stored(
    keys: dict[str, Any], asked: dict[str, Any], message: str
) -> None:
    config = experiment(Path("x.yaml"), **{**D2L, "scorers": ["dot"], **keys}, expect=[asked])
    assert good("check", config) == "x.yaml: good, study attention\n"
    result = attncli("run", config, "--out", "out", "--no-plots", "--quiet")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.partition(": ")[2].startswith(f"expect[0].{message}")
    assert [each["holds"] for each in results()["expectations"]] == [None]


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
    ("arguments", "code", "count"),
    [
        ("run x.yaml --no-plots --json >&-", 1, 1),
        ("run x.yaml --no-plots --json >/dev/full", 2, 1),
        ("run x.yaml --no-plots >/dev/full", 2, 1),
        ("run x.yaml --no-plots 1</dev/null", 2, 1),
        ("variance --d 0 2>/dev/full", 2, 0),
    ],
)
def test_failures_are_told_where_a_stream_takes_nothing(arguments: str, code: int, count: int) -> None:
    d2l(WRONG)
    command = ["sh", "-c", f"{sys.executable} -m attncli {arguments}"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (result.returncode, result.stderr.count("planted")) == (code, count), result.stderr
    assert "Traceback" not in result.stderr
