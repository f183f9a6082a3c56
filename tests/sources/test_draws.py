"""The random draws of a seed are the same in every version: metrics that follow from them are in contract.json."""

from pathlib import Path

import pytest

from tests.test_contract import DRAWN, EXPECTED, numbers, run, write_more

pytestmark = pytest.mark.usefixtures("sketches")
RELATIVE, ABSOLUTE = 1e-3, 1e-5  # far above what processors round differently, far below what other draws change


@pytest.mark.parametrize("name", DRAWN)
def test_numbers_that_follow_from_the_draws(name: str, tmp_path: Path) -> None:
    write_more(tmp_path)
    for row, expected in zip(numbers(run(name, tmp_path)), EXPECTED["numbers"][name], strict=True):
        assert row == pytest.approx(expected, rel=RELATIVE, abs=ABSOLUTE)
