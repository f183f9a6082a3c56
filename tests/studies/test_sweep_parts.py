"""The parts that rows are drawn in, and the sizes that a study builds scorers for."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from attncli.studies.sweep import ENTRIES_AT_A_TIME, PAIRS_AT_A_TIME, Parts
from tests.studies.sweeps import prepared, swept


@pytest.mark.parametrize(
    ("rows", "d", "keys"), [(1, 1, 1), (16385, 1, 1), (10_000, 512, 1), (3000, 8, 64), (5, 4096, 999)]
)
def test_parts_cover_all_rows_once(rows: int, d: int, keys: int) -> None:
    parts = list(Parts(rows, d, keys))
    assert [part.index for part in parts] == list(range(len(Parts(rows, d, keys))))
    assert sum(part.rows for part in parts) == rows
    assert {part.rows for part in parts[:-1]} <= {Parts(rows, d, keys).step}
    assert all(1 <= part.rows <= Parts(rows, d, keys).step for part in parts)


@pytest.mark.parametrize(("d", "keys"), [(1, 1), (64, 1), (1000, 7), (3, 64)])
def test_parts_are_bounded(d: int, keys: int) -> None:
    step = Parts(10**12, d, keys).step
    assert step * d * keys <= ENTRIES_AT_A_TIME
    assert step * keys <= PAIRS_AT_A_TIME
    assert next(iter(Parts(10**12, d, keys))).rows == step, "parts are not made before they are needed"


def test_a_single_size_has_the_powers_of_two_for_the_picture() -> None:
    assert [(point.d, point.asked) for point in prepared("variance", d=6).points] == [
        (1, False),
        (2, False),
        (4, False),
        (6, True),
    ]
    assert [point.d for point in prepared("variance", d=[6, 3]).points] == [6, 3]


def test_parameters_that_are_read_have_one_size(tmp_path: Path) -> None:
    save_file({"W.weight": 2.0 * torch.eye(4)}, tmp_path / "w.safetensors")
    general = {"scorer": "general", "label": "general", "parameters": {"file": "w.safetensors"}}
    (record,) = swept("variance", tmp_path, d=4, samples=1000, scorers=[general]).records
    assert record["theory_variance"] == pytest.approx(16.0)
    assert abs(record["z"]) < 4


def test_points_of_the_picture_alone_have_no_more_samples_than_they_need() -> None:
    result = swept("variance", d=4, samples=500_000, scorers=[{"scorer": "dot"}])
    assert {row["d"]: row["samples"] for row in result.curve} == {1: 320_000, 2: 200_000, 4: 500_000}
    few = swept("variance", d=4, samples=100, scorers=[{"scorer": "dot"}])
    assert {row["samples"] for row in few.curve} == {100}
