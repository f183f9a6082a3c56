"""The tables of `variance`, read back from what a pipe gets."""

import math
import re
from typing import Any

import pytest
from rich.cells import cell_len

from attncli.runs.records import SweepResult
from attncli.show.numbers import counted, entries, figure
from attncli.views import load_view
from tests.views.samples import printed
from tests.views.sweep_samples import FIVE, NORMAL, POWERS, changed, many_scorers, real_variance, variance_result


def shown(result: SweepResult, width: int = 80, full: bool = False) -> str:
    return printed(load_view("variance").tables(result, width=width, full=full, csv=None), width)


def rows(text: str) -> list[list[str]]:
    """Lines that start with a size or head."""
    return [line.split() for line in text.split("What holds")[0].splitlines() if re.match(r"\d+ ", line)]


def test_three_scorers_at_eleven_sizes_are_three_tables_of_80_columns() -> None:
    result = variance_result()
    text = shown(result)
    found = rows(text)
    assert len(found) == 33
    assert {len(row) for row in found} == {10}
    for row, record in zip(found, result.records, strict=True):
        low, high = record["variance_ci"]
        half = (record["mean_ci"][1] - record["mean_ci"][0]) / 2
        wanted = [record["d"], record["samples"], record["mean"], half, record["theory_mean"], record["variance"]]
        wanted += [low, high, record["theory_variance"], record["z"]]
        assert [float(cell.replace(",", "")) for cell in row] == pytest.approx(wanted, rel=0.03, abs=1e-9)
        variances = [figure(value) for value in (record["variance"], low, high, record["theory_variance"])]
        assert row[5:9] == variances
    assert len(re.findall("^ +theory .* theory *$", text, re.M)) == 3


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("scorers", [FIVE, many_scorers(5)])
def test_no_number_is_cut_at_any_width(width: int, scorers: dict[str, str]) -> None:
    result = variance_result([1, 1024], scorers, query_mean=-0.5, key_mean=0.25)
    text = shown(result, width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    for record in result.records:
        for value in (record["variance"], *record["variance_ci"]):
            assert re.search(rf"(?<=[ \n]){re.escape(figure(value))}(?=\s)", text)
        assert re.search(rf"(?<=[ \n]){re.escape(figure(record['mean'], 3))}(?=\s)", text)


def test_headings_say_label_scorer_scale_and_formula() -> None:
    text = shown(variance_result([4, 64]), 120)
    assert "\ndot: scale 1\nthe formula of dot" in text
    assert "\nscaled_dot_1_over_d (scaled_dot): scale 0.25 at d = 4 to 0.01562 at d = 64\nthe formula" in text
    assert "[bold] (dot): scale 1\n" in shown(variance_result([4], many_scorers(5)), 120)


def test_a_limit_is_marked_and_explained() -> None:
    text = shown(variance_result([64], {"additive": "additive"}))
    assert rows(text)[0][2:] == ["2.4e-04", "0.00155", "0", "0.1002", "0.09922", "0.1012", "~0.1000", "-"]
    assert text.count("~ is a variance known as a limit for large sizes") == 1
    assert "~" not in shown(variance_result())


def test_what_has_no_theory_is_a_dash_and_explained() -> None:
    unknown = dict.fromkeys(["theory", "theory_mean", "theory_variance", "z", "z_mean"])
    text = shown(changed(variance_result([64]), "dot", **unknown))
    first, second, _ = rows(text)
    assert [first[4], first[8], first[9]] == ["-"] * 3
    assert [second[4], second[8], second[9]] == ["0", "1.000", "0.40"]
    assert text.count("no closed form") == 1
    assert "no closed form" not in shown(variance_result())


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, 1e-300, 1e300])
def test_any_number_can_be_shown(value: float) -> None:
    figures: dict[str, Any] = {"variance": value, "variance_ci": [value, value], "z": value, "unit_scale": None}
    text = shown(changed(variance_result([4, 64]), "dot", **figures))
    assert rows(text)[0][5] == figure(value)
    assert shown(changed(variance_result([4, 64]), "dot", mean=value, mean_ci=None, variance_ci=None, z_mean=value))


def test_real_tensors_are_one_table_without_intervals() -> None:
    text = shown(changed(real_variance(), "dot", row_variance=40.0))
    found = [line.split() for line in text.splitlines() if "4,096" in line]
    assert found[1] == ["dot", "1", "4,096", "0.5000", "80.00", "40.00", "1.000", "0.1118"]
    assert found[4] == ["scaled_dot", "0", "4,096", "0.06250", "1.000", "1.000", "0.1250", "0.1250"]
    assert len(found) == 12
    assert found[8][:2] == ["scaled_dot_1_over_d", "0"]  # not folded
    assert "queries and keys from tensors/qkv.safetensors; d = 64, so 1/sqrt(d) = 0.125\n" in text
    assert "no intervals" in text
    assert "within rows is the mean over the queries" in text
    assert "±" not in text
    assert "scaled_dot_1_over_d (scaled_dot): the formula of scaled_dot" in text


def test_real_tensors_without_heads_have_no_column_for_them() -> None:
    text = shown(real_variance(None))
    assert "head" not in text.split("What holds")[0]
    assert re.search("^dot +4,096 ", text, re.M)


def test_long_tables_are_whole_with_full_only() -> None:
    result = real_variance(60, {"dot": "dot"})
    assert len(re.findall("^dot +", shown(result), re.M)) == 40
    assert "20 of 60 rows left out; see them with --full" in shown(result)
    assert len(re.findall("^dot +", shown(result, full=True), re.M)) == 60
    assert "left out" not in shown(result, full=True) + shown(variance_result())


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1.000"), (512.34, "512.3"), (999.96, "1000"), (9.766e-4, "9.77e-04"), (-0.0123, "-0.01230"), (0.0, "0")],
)
def test_figures_have_four_digits(value: float, text: str) -> None:
    assert figure(value) == text


def test_large_counts_stay_narrow() -> None:
    assert [counted(160_000), counted(9_999_999), counted(100_000_000)] == ["160,000", "9,999,999", "1e+08"]


def test_entries_say_how_queries_and_keys_came_about() -> None:
    assert entries(NORMAL) == "normal entries, mean 0, std 1"
    drawn = NORMAL | {"distribution": "student_t", "df": 8.0, "query_mean": 0.5, "rho": -0.3}
    assert entries(drawn) == (
        "student_t (df 8) entries, mean 0.5, std 1 (queries) and mean 0, std 1 (keys), correlation -0.3"
    )
    assert "mean 0, std 1" in shown(variance_result(POWERS))
