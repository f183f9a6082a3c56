"""Every kind of comparison is measured against its bound; one that is too tight is printed and fails the run."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.margins import sampled

pytest_plugins = ["pytester"]

Run = Callable[..., tuple[int, str]]

BEGINNING = """\
import math
import numpy as np
import pytest
import torch
from tests.margins import sampled

error = 3e-7
values = torch.tensor([1.0, 2.0], dtype=torch.float64)

def test_of_numbers():
"""
FIRST = len(BEGINNING.splitlines()) + 1  # line of the test
# Each with the share of its bound that its error takes.
COUNTED = {
    "torch.testing.assert_close(values + error, values, rtol=0, atol=1e-6)": 0.3,
    "torch.testing.assert_close(values.float() + 4e-6, values.float())": 0.359,  # 34 eps / (1e-5 + 1.3e-6)
    "torch.testing.assert_close({'a': [values, values + error]}, {'a': [values, values]}, rtol=0, atol=1e-6)": 0.3,
    "assert torch.allclose(values, values + 2e-6 * values, 4e-6, 0)": 0.5,
    "assert values.allclose(values + 1e-8, rtol=0)": 1.0,
    "np.testing.assert_allclose([1 + 5e-8, 2], [1, 2])": 0.5,
    "assert np.allclose([1 + 5e-6], [1], atol=0)": 0.5,
    "assert math.isclose(1 + 6e-10, 1)": 0.6,
    "assert 1 + error == pytest.approx(1)": 0.3,
    "assert [1, 1 + error] == pytest.approx([1, 1], abs=1e-6)": 0.3,
    "assert {'a': 1 + error} == pytest.approx({'a': 1}, rel=1e-6)": 0.3,
    "assert np.array([1 + error]) == pytest.approx(np.array([1.0]))": 0.3,
    "assert error <= 1e-6, 'a reason'": 0.3,
    "assert 0 <= error < 1e-6": 0.3,
    "assert len(values) == 2 and abs(1 - 1 - error) < 1e-6 * len(values)": 0.15,
    "assert (torch.ones(2, requires_grad=True) * 1e-7).max() < 2 * torch.finfo(torch.float32).eps": 0.419,
    "bound = 1e-6; assert np.float32(error) <= bound": 0.3,
}
NOT_COUNTED = [
    "torch.testing.assert_close(values, values, rtol=0, atol=0)",
    "torch.testing.assert_close(torch.arange(3), torch.arange(3))",
    "assert torch.tensor([True]).allclose(torch.tensor([True]))",
    "assert 3 == pytest.approx(3)",
    "assert [math.nan, math.inf, None] == pytest.approx([math.nan, math.inf, None], nan_ok=True)",
    "assert not math.isclose(1, 2)",
    "assert error > 1e-7",
    "assert 1e-7 < error",
    "assert len(values) <= 3",
    "assert abs(0.5004 - 0.5) < sampled(5e-4, 3e-4)",
    "assert 0.5004 == pytest.approx(0.5, abs=sampled(5e-4, 3e-4))",
    "torch.testing.assert_close(values + error, values, rtol=0, atol=sampled(3.1e-7, 3e-7))",
]


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Load the modules of the first comparison, which cannot be loaded again after a run in this process."""
    torch.testing.assert_close(1.0, 1.0)


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs lines of a test with the plugin, and gives its exit code and what it prints."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))  # for workers

    def run(lines: list[str], *options: str) -> tuple[int, str]:
        pytester.makeini("[pytest]\nenable_assertion_pass_hook = true\n")
        (pytester.path / "test_lines.py").write_text(BEGINNING + "".join(f"    {line}\n" for line in lines))
        result = pytester.runpytest_inprocess("-p", "tests.margins", "-p", "no:randomly", *options)
        return int(result.ret), result.stdout.str()

    return run


@pytest.mark.parametrize("line", COUNTED)
def test_a_bound_that_is_too_tight_is_seen_in_every_form(line: str, run: Run) -> None:
    ended, printed = run([line], "--margins", "0.1")
    place = f"test_lines.py:{FIRST}  test_lines.py::test_of_numbers"
    (row,) = [row for row in printed.splitlines() if row.endswith(place)]
    assert float(row.split()[0]) == pytest.approx(COUNTED[line], abs=2e-3)
    assert ended == pytest.ExitCode.TESTS_FAILED
    assert "margins: 1 place with an error above 0.1 of its bound" in printed


def test_the_tightest_twenty_are_printed_first_the_tightest(run: Run) -> None:
    ended, printed = run([f"assert {number}e-9 < 1e-6" for number in range(100, 130)], "--margins", "1")
    rows = [row.split() for row in printed.splitlines() if "::test_of_numbers" in row]
    assert [float(row[0]) for row in rows] == [number / 1000 for number in range(129, 109, -1)]
    assert rows[0][1:4] == ["1.29e-07", "/", "1.00e-06"]
    assert ended == pytest.ExitCode.OK


@pytest.mark.parametrize("line", NOT_COUNTED)
def test_exact_comparisons_sampling_and_other_bounds_are_not_counted(line: str, run: Run) -> None:
    ended, printed = run([line, "assert error < 1"], "--margins", "1")
    assert "error / bound at 0 places" in printed
    assert "margins: no comparison was recorded" in printed
    assert ended == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(("line", "expected"), [("assert error < 1e-5", 0), ("assert error < 1e-7", 1)])
def test_a_run_ends_as_its_tests_do_where_no_bound_is_too_tight(line: str, expected: int, run: Run) -> None:
    ended, printed = run(["assert error < 2e-6", line], "--margins", "0.25")
    assert ended == expected
    assert "margins: 1" not in printed


@pytest.mark.parametrize(
    "line",
    ["assert all(each < 1e-6 for each in [error])", "assert (values < 1e-3).all() or (values - values < 1e-3).all()"],
)
def test_a_small_bound_whose_numbers_are_not_shown_is_named(line: str, run: Run) -> None:
    ended, printed = run(["assert error < 1e-5", line], "--margins", "0.25")
    assert ended == pytest.ExitCode.TESTS_FAILED
    assert "compare a maximum" in printed
    assert f"test_lines.py:{FIRST + 1}" in printed


def test_the_margins_of_several_processes_are_gathered(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in {"one": 4e-7, "other": 6e-7}.items():
        pytester.makepyfile(**{f"test_{name}": f"def test_{name}():\n    assert {number} < 1e-6\n"})
    monkeypatch.setenv("PYTEST_ADDOPTS", "--margins 0.5")
    ended, printed = run(["assert error < 1e-6"], "-n", "2")
    rows = [row.split() for row in printed.splitlines() if "::test_" in row]
    assert [(row[0], row[4]) for row in rows] == [
        ("0.600", "test_other.py:2"),
        ("0.400", "test_one.py:2"),
        ("0.300", f"test_lines.py:{FIRST}"),
    ]
    assert ended == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("share", ["0", "1.5", "-1", "nan"])
def test_a_share_is_above_zero_and_at_most_one(share: str, pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("-p", "tests.margins", "--margins", share)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--margins: got {share}; a share of a bound is above 0 and at most 1"])


@pytest.mark.parametrize("standard_error", [0.0, -1e-3, 2e-3, float("nan")])
def test_a_standard_error_is_positive_and_within_its_bound(standard_error: float) -> None:
    with pytest.raises(ValueError, match="standard error: got"):
        sampled(1e-3, standard_error)
