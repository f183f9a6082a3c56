"""One point: it has the result of a run, and errors name places in its config."""

import json
from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch

from attncli.engine.sweeps import work
from attncli.engine.sweeps.work import Job, run_point, tried_twice
from attncli.results import Row
from attncli.studies import load_study
from tests.engine.sweeps.jobs import config, job, jobs


def test_nan_is_null() -> None:
    data = {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 4]}, "valid_lens": [0, 0]}
    row = run_point(job("nan", config(0, data=data, mask={"empty_row": "nan"})))
    assert row["records"][0]["entropy"] is None
    assert "NaN" not in json.dumps(row)


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ({"dtype": 3, "device": "tpu"}, "device: got "),
        ({"study": "attend"}, 'study: got "attend"; unknown study'),
    ],
)
def test_mistakes_are_told_on_one_line(keys: dict[str, Any], error: str) -> None:
    row = run_point(job("bad", {**config(0), **keys}))
    assert (row["status"], row["records"]) == ("failed", [])
    assert row["error"].startswith(error)
    assert "\n" not in row["error"]


@pytest.mark.parametrize(
    ("dying", "deaths", "at_once", "calls"),
    [
        ("b", 0, False, ["abcde"]),
        ("b", 1, False, ["abcde", "b"]),
        ("b", 2, False, ["abcde", "b"]),
        ("b", 2, True, ["abcde", "b", "cde"]),
        ("abc", 2, False, ["abcde", "a", "b", "c", "de"]),  # the first three
    ],
)
def test_points_that_died_are_tried_once_more_alone(dying: str, deaths: int, at_once: bool, calls: list[str]) -> None:
    """At the end, unless the first three die or `at_once` is set."""
    called = list[str]()

    def engine(jobs: Iterable[Job]) -> Generator[Row]:
        called.append("".join(each["key"] for each in jobs))
        for key in called[-1]:
            dies = key in dying and "".join(called).count(key) <= deaths
            yield {"key": key, "status": "died" if dies else "done"}

    rows = list(tried_twice(engine, [job(key, {}) for key in "abcde"], at_once))
    assert {row["key"]: row["status"] == "died" for row in rows} == {
        key: key in dying and deaths == 2 for key in "abcde"
    }
    assert (len(rows), called) == (5, calls)


def test_other_code_is_refused() -> None:
    row = run_point({**jobs(1)[0], "code": "0.0.1+abc"})
    assert row["status"] == "failed"
    assert row["error"].endswith("on this worker; expected 0.0.1+abc, as where the sweep was started")


@pytest.mark.parametrize(("study", "threads"), [("attention", 1), ("bench", 3)])
def test_studies_of_time_have_all_threads(monkeypatch: pytest.MonkeyPatch, study: str, threads: int) -> None:
    before, seen = torch.get_num_threads(), list[int]()
    counting = replace(load_study(study), prepare=lambda *_: seen.append(torch.get_num_threads()))
    monkeypatch.setattr(work, "load_study", lambda name: counting)
    torch.set_num_threads(3)
    try:
        run_point(job("threads", config(0) if study == "attention" else {"study": "bench"}))
        assert (seen, torch.get_num_threads()) == ([threads], 3)
    finally:
        torch.set_num_threads(before)
