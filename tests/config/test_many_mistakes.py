"""However many mistakes a config has, they are answered in time in proportion to their number, and on one screen."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from attncli.config.document import read_document
from attncli.config.overrides import parse_override
from attncli.config.values import each_once
from attncli.errors import MOST_PROBLEMS, InputError, Problem
from attncli.studies import options_model

HEAD = "data: {queries: {shape: [2, 3, 4]}, keys: {shape: [2, 5, 4]}%s}\n"
KINDS = {  # before the mistakes, a mistake
    "keys": (HEAD % "" + "scorers: [dot]\n", "wrong{i}: 1\n"),
    "keys with mappings": (HEAD % "" + "scorers: [dot]\n", "wrong{i}: {{shape: [2]}}\n"),
    "keys of data": (
        "scorers: [dot]\ndata:\n  queries: {shape: [2, 3, 4]}\n  keys: {shape: [2, 5, 4]}\n",
        "  wrong{i}: 1\n",
    ),
    "keys of figure": (HEAD % "" + "scorers: [dot]\nfigure:\n", "  wrong{i}: 1\n"),
    "keys of an entry": (HEAD % "" + "scorers:\n  - scorer: dot\n", "    wrong{i}: 1\n"),
    "keys of a normaliser": (
        HEAD % "" + "scorers:\n  - scorer: dot\n    normalizer:\n      normalizer: entmax\n",
        "      wrong{i}: 1\n",
    ),
    "scorers": (HEAD % "" + "scorers:\n", "  - wrong{i}\n"),
    "options": (HEAD % "" + "scorers:\n", "  - {{scorer: additive, label: a{i}, num_hidden: 3}}\n"),
    "normalisers": (HEAD % "" + "scorers:\n", "  - {{scorer: dot, label: a{i}, normalizer: wrong{i}}}\n"),
    "expectations": (HEAD % "" + "scorers: [dot]\nexpect:\n", "  - {{metric: entropy, wrong{i}: 1}}\n"),
    "tokens": (HEAD % "" + "scorers: [dot]\ntokens:\n  queries:\n", "  - {i}\n"),
    "saved stages": (HEAD % "" + "scorers: [dot]\nsave:\n", "  - wrong{i}\n"),
    "layers": ("study: swap\nmodel: m:f\ntexts: [a]\nscorers: [dot]\nlayers:\n", "  - -{i}\n"),
    "layers of a plan": (
        "study: swap\nmodel: m:f\ntexts: [a]\nscorers:\n  - label: mixed\n    plan:\n",
        "      layer{i}: wrong{i}\n",
    ),
}


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """Yield a list to which the number of calls of functions in the `with` block is appended at its end."""
    count, counts = 0, list[int]()

    def called(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        yield counts
    finally:
        sys.setprofile(before)
        counts.append(count)


def refused(path: Path, sets: int = 0) -> tuple[int, str]:
    """Return how many functions are called to refuse a config, with `sets` wrong options --set; and the message."""

    def read() -> None:
        document = read_document(path, [parse_override(f"data.wrong{index}=1") for index in range(sets)])
        document.validate(options_model(document.study(["attention", "swap"])))

    with counted_calls() as calls, pytest.raises(InputError) as error:
        read()
    return calls[0], str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_twice_as_many_mistakes_take_twice_as_long(kind: str, tmp_path: Path) -> None:
    head, mistake = KINDS[kind]
    calls = list[int]()
    for count in (30, 200, 400):  # the first loads what is loaded once
        path = tmp_path / f"{count}.yaml"
        path.write_text(head + "".join(mistake.format(i=index) for index in range(1, count + 1)), encoding="utf-8")
        number, message = refused(path)
        calls.append(number)
        lines = message.splitlines()
        assert len(lines) == MOST_PROBLEMS + 1
        assert lines[-1] == f"and {count - MOST_PROBLEMS} more problems"
        assert all("; " in line for line in lines[:-1])  # each with what is expected
    assert calls[2] <= 2.2 * calls[1]


def test_twice_as_many_options_take_twice_as_long(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(HEAD % "" + "scorers: [dot]\n", encoding="utf-8")
    calls = [refused(path, sets=count)[0] for count in (30, 200, 400)]
    assert calls[2] <= 2.2 * calls[1]


def test_keys_of_a_sweep_are_refused_by_their_number(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    axes = "".join(f"    - wrong{index}: [1, 2]\n" for index in range(20_000))
    path.write_text(HEAD % "" + f"scorers: [dot]\nsweep:\n  over:\n{axes}", encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_document(path).sweep()
    assert str(error.value) == f"{path}:5:5: sweep.over: got 20,000 keys to sweep over; expected at most 100"


def test_one_more_problem_is_in_the_singular() -> None:
    error = InputError(Problem("wrong", where=f"--set {index}") for index in range(MOST_PROBLEMS + 1))
    assert str(error).splitlines()[-1] == "and 1 more problem"
    assert len(error.problems) == MOST_PROBLEMS + 1


def test_true_is_no_one_and_repetitions_are_located() -> None:
    assert each_once([1, True, 0, False]) == [1, True, 0, False]
    with pytest.raises(ValueError, match="got 1 twice") as error:
        each_once([1, True, 2, 1])
    assert error.value.context["under"] == [3]  # type: ignore[attr-defined]
