"""The plan of `bench`: implementations, the baseline, sizes, and the operations of each formula."""

from typing import Any

import pytest

from attncli.catalogue.building import outline
from attncli.scorers import SCORERS, Scorer
from attncli.studies.bench.plan import Case, baseline_name, bench_cases, bench_plan, operations, traffic
from tests.experiments import entry_of
from tests.studies.bench.small import options_of

N, M, D, H = 3, 5, 4, 2
EVERYTHING = [
    "additive/attncli", "additive/textbook", "scaled_dot/attncli", "scaled_dot/textbook", "scaled_dot/fused",
    "dot/attncli", "general/attncli", "cosine/attncli", "gaussian/attncli", "vector_sum/attncli", "kernel/attncli",
]  # fmt: skip
TWO = {"scorers": [{"scorer": "additive"}, {"scorer": "dot", "label": "product"}]}


def names(**keys: Any) -> list[str]:
    return [each.name for each in bench_plan(options_of(**keys))]


def test_everything_by_default() -> None:
    assert names()[: len(EVERYTHING)] == EVERYTHING
    assert {name.partition("/")[0] for name in names()} == set(SCORERS)
    assert names(compile=True)[:3] == ["additive/attncli", "additive/compiled", EVERYTHING[1]]


SCALES = [{"scorer": "scaled_dot", "scale": "1/d", "label": "a"}, {"scorer": "scaled_dot", "label": "b"}]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (TWO, ["additive/attncli", "additive/textbook", "product/attncli"]),
        ({"implementations": ["textbook"]}, ["additive/textbook", "scaled_dot/textbook"]),
        (TWO | {"implementations": ["textbook", "compiled"]}, ["additive/compiled", "additive/textbook"]),
        (TWO | {"implementations": ["textbook"], "compile": True}, ["additive/compiled", "additive/textbook"]),
        ({"scorers": SCALES}, ["a/attncli", "a/fused", "b/attncli", "b/textbook", "b/fused"]),  # of its own scale only
    ],
)
def test_chosen_implementations(keys: dict[str, Any], expected: list[str]) -> None:
    assert names(**keys) == expected


def test_the_baseline_is_the_chapters_code_or_the_first_row() -> None:
    fused = {"scorers": SCALES[1:], "implementations": "fused", "measure": "output"}
    for keys, name in (({}, "scaled_dot/textbook"), (fused, "b/fused"), (TWO, "additive/attncli")):
        assert baseline_name(bench_plan(options_of(**keys))) == name


def by_hand(name: str) -> int:
    """Return the operations for one matrix of scores; a sum of x products counts as x products and x additions."""
    pair, vectors = {
        "additive": (H * (1 + 1 + 2), (N + M) * H * 2 * D),
        "scaled_dot": (2 * D + 1, 0),
        "dot": (2 * D, 0),
        "general": (2 * D, N * D * 2 * D),
        "cosine": (2 * D + 2, (N + M) * (2 * D + 1)),
        "gaussian": (3 * D + 1, 0),
        "vector_sum": (1, (N + M) * D),
        "kernel": (2 * D, (N + M) * D),
    }[name]
    return N * M * pair + vectors


@pytest.mark.parametrize("name", [name for name, cls in SCORERS.items() if cls.operations is not Scorer.operations])
def test_operations(name: str) -> None:
    scorer = outline(entry_of(scorer=name, **({"num_hiddens": H} if name == "additive" else {})), D, D)
    assert operations(scorer, Case(N, M, D), "scores", False) == by_hand(name)
    pooled = by_hand(name) + N * M * (5 + 2 * D)
    for measure in ("weights", "output"):
        assert operations(scorer, Case(N, M, D), measure, False) == pooled
    assert operations(scorer, Case(N, M, D, 7, 2), "output", True) == 3 * 14 * pooled


def test_traffic() -> None:
    assert operations(Scorer(), Case(N, M, D), "scores", False) is None, "its class does not say"
    case = Case(N, M, D, 2, 3)
    inputs, scores, output = 6 * (N * D + M * D), 6 * N * M, 6 * N * D
    assert traffic(case, "scores", False, 4) == 4 * (inputs + scores)
    assert traffic(case, "output", False, 2) == 2 * (inputs + 6 * M * D + output)
    assert traffic(case, "weights", True, 8) == 2 * 8 * (inputs + 6 * M * D + scores + output)


def test_all_combinations_the_smallest_first() -> None:
    cases = list(bench_cases(options_of(n=[8, 2], d=[16, 4], batch=[3, 1])))
    assert cases == [(n, n, d, batch, 1) for n in (2, 8) for d in (4, 16) for batch in (1, 3)]
    cases = list(bench_cases(options_of(n=[8, 2], m=[5, 3], heads=2)))
    assert cases == [(n, m, 4, 1, 2) for n in (2, 8) for m in (3, 5)]
