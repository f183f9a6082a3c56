"""Which implementations are measured: all that there are, patterns, and the baseline in any case."""

from typing import Any

import pytest

from attncli.errors import InputError
from attncli.scorers import SCORERS
from attncli.studies.bench.plan import plan_of, variants
from tests.studies.bench import options_of

EVERYTHING = [
    "additive/attncli", "additive/textbook", "scaled_dot/attncli", "scaled_dot/textbook", "scaled_dot/fused",
    "dot/attncli", "general/attncli", "cosine/attncli", "gaussian/attncli", "vector_sum/attncli",
]  # fmt: skip
TWO = {"scorers": [{"scorer": "additive"}, {"scorer": "dot", "label": "product"}]}


def names(**keys: Any) -> list[str]:
    return [each.name for each in plan_of(options_of(**keys)).contenders]


def test_everything_by_default() -> None:
    assert names() == EVERYTHING
    assert {name.partition("/")[0] for name in EVERYTHING} == set(SCORERS)
    assert names(compile=True) == ["additive/attncli", "additive/compiled", *EVERYTHING[1:]]


def test_the_baseline_comes_along() -> None:
    assert names(**TWO) == ["scaled_dot/textbook", "additive/attncli", "additive/textbook", "product/attncli"]
    assert plan_of(options_of(**TWO)).baseline.index is None
    assert names(only=["additive"]) == ["additive/attncli", "additive/textbook", "scaled_dot/textbook"]
    assert "scaled_dot/textbook" in names(skip=["textbook"])
    assert plan_of(options_of(baseline="dot/attncli", only=["additive"])).baseline.name == "dot/attncli"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"only": ["textbook"]}, ["additive/textbook", "scaled_dot/textbook"]),
        ({"only": ["textbook", "product"]}, ["scaled_dot/textbook", "additive/textbook", "product/attncli"]),
        ({"only": ["additive/attncli"]}, ["scaled_dot/textbook", "additive/attncli"]),
        ({"skip": ["additive"]}, ["scaled_dot/textbook", "product/attncli"]),
        ({"skip": ["additive/textbook"]}, ["scaled_dot/textbook", "additive/attncli", "product/attncli"]),
        ({"only": ["additive"], "skip": ["textbook"]}, ["scaled_dot/textbook", "additive/attncli"]),
    ],
)
def test_patterns(keys: dict[str, Any], expected: list[str]) -> None:
    assert names(**keys | (TWO if expected[0] != "additive/textbook" else {})) == expected


def test_textbook_code_stands_for_its_own_scale_only() -> None:
    scorers = [{"scorer": "scaled_dot", "scale": "1/d", "label": "a"}, {"scorer": "scaled_dot", "label": "b"}]
    found = names(scorers=scorers, baseline="b/textbook")
    assert found == ["a/attncli", "a/fused", "b/attncli", "b/textbook", "b/fused"]


def test_hidden_units() -> None:
    named = {"scorer": "additive", "num_hiddens": 3, "label": "named"}
    options = options_of(scorers=[{"scorer": "additive"}, named, {"scorer": "dot"}], num_hiddens=[5, 7])
    found = {
        each.entry.label: [variant.options.get("num_hiddens") for variant in variants(options, each, 4)]
        for each in plan_of(options).contenders
    }
    assert found == {"additive": [5, 7], "named": [3], "dot": [None], "scaled_dot": [None]}
    alone = options_of(scorers=[{"scorer": "additive"}])
    assert [each.options["num_hiddens"] for each in variants(alone, plan_of(alone).contenders[1], 9)] == [9], "d"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"only": ["textbok", "additive"]},
            'only[0]: got "textbok"; unknown label or implementation; did you mean `textbook`?',
        ),
        (
            {"skip": ["dot"], **TWO},
            'skip[0]: got "dot"; unknown label or implementation; known: additive, product, attncli, textbook, '
            "additive/attncli, additive/textbook, product/attncli",
        ),
        (
            {"only": ["compiled"]},
            'only[0]: got "compiled"; unknown label or implementation; '
            "only --compile (in YAML `compile: true`) measures that",
        ),
        (
            {"skip": ["additive", "product"], **TWO},
            'skip: got ["additive", "product"]; nothing is left to measure; leave one of them out',
        ),
        (
            {"baseline": "additive/textbok"},
            'baseline: got "additive/textbok"; unknown baseline; expected label/implementation; '
            "did you mean `additive/textbook`?",
        ),
        (
            {"baseline": "scaled_dot/fused"},
            'baseline: got "scaled_dot/fused", which gives the output only and no scores; choose another, '
            "or measure the output only",
        ),
    ],
)
def test_what_nothing_has_the_name_of(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_of(options_of(**keys))
    assert str(caught.value) == message


def test_all_problems_at_once() -> None:
    with pytest.raises(InputError) as caught:
        plan_of(options_of(only=["x"], skip=["y"], baseline="z"))
    assert [problem.path for problem in caught.value.problems] == [("only", 0), ("skip", 0), ("baseline",)]


def test_the_fused_kernel_is_a_baseline_for_outputs() -> None:
    assert plan_of(options_of(baseline="scaled_dot/fused", measure=["output"])).baseline.implementation == "fused"
