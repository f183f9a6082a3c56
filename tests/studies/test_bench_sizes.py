"""Combinations of sizes, operations and traffic, counted by loops that do what the formula says."""

import pytest

from attncli.config.scorer_entries import ScorerEntry, entry_model
from attncli.scorers import SCORERS
from attncli.studies.bench.sizes import Case, cases_of, hidden_units, operations, traffic
from tests.studies.bench import options_of

N, M, D, H = 3, 5, 4, 2


def entry(name: str) -> ScorerEntry:
    options = {"num_hiddens": H} if name == "additive" else {}
    return entry_model(name, SCORERS[name]).model_validate({"scorer": name, **options})


def by_loops(name: str) -> int:
    """Operations of one matrix of scores; of a sum of x products, x products and x additions."""
    pairs = {
        "additive": H * (1 + 1 + 2),
        "scaled_dot": 2 * D + 1,
        "dot": 2 * D,
        "general": 2 * D,
        "cosine": 2 * D + 2,
        "gaussian": 3 * D + 1,
        "vector_sum": 1,
    }[name]
    vectors = {
        "additive": (N + M) * H * 2 * D,
        "general": N * D * 2 * D,
        "cosine": (N + M) * (2 * D + 1),
        "vector_sum": (N + M) * D,
    }.get(name, 0)
    return sum(pairs for _ in range(N) for _ in range(M)) + vectors


@pytest.mark.parametrize("name", SCORERS)
def test_operations(name: str) -> None:
    assert operations(entry(name), Case(N, M, D), "scores", False) == by_loops(name)
    pooled = by_loops(name) + N * M * (5 + 2 * D)
    for measure in ("weights", "output"):
        assert operations(entry(name), Case(N, M, D), measure, False) == pooled
    assert operations(entry(name), Case(N, M, D, 7, 2), "output", True) == 3 * 14 * pooled


def test_nobody_knows_the_operations_of_a_scorer_of_ones_own() -> None:
    assert operations(ScorerEntry(scorer="mine:Mine", label="mine"), Case(N, M, D), "scores", False) is None


def test_traffic() -> None:
    case = Case(N, M, D, 2, 3)
    inputs, scores, output = 6 * (N * D + M * D), 6 * N * M, 6 * N * D
    assert traffic(case, "scores", False, 4) == 4 * (inputs + scores)
    assert traffic(case, "output", False, 2) == 2 * (inputs + 6 * M * D + output)
    assert traffic(case, "weights", True, 8) == 2 * 8 * (inputs + 6 * M * D + scores + output)


def test_all_combinations_the_smallest_first() -> None:
    cases = list(cases_of(options_of(n=[8, 2], d=[4, 16], batch=[1, 3])))
    assert [(case.n, case.m, case.d, case.batch, case.heads) for case in cases] == [
        (n, n, d, batch, None) for n in (2, 8) for d in (4, 16) for batch in (1, 3)
    ]
    cases = list(cases_of(options_of(n=[8, 2], m=[5, 3], heads=2)))
    assert [(case.n, case.m, case.leading) for case in cases] == [(n, m, (1, 2)) for n in (2, 8) for m in (3, 5)]


def test_numbers_of_a_case() -> None:
    case = Case(6, 9, 4, 2, 3)
    assert (case.matrices, case.numbers) == (6, 6 * (6 + 9 + 9) * 4)
    assert case.halved(1) == Case(3, 4, 4, 2, 3)
    assert case.halved(9) == Case(1, 1, 4, 2, 3)


def test_hidden_units() -> None:
    assert hidden_units(entry("additive")) == H
    assert hidden_units(entry("dot")) is None
