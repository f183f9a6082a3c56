"""What the view of `variance` says of real tensors: which scale they need, and which part the softmax sees."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from attncli.runs.records import SweepResult
from attncli.studies.study import Record
from attncli.views import load_view
from attncli.views.variance import sentences
from tests.views.samples import printed
from tests.views.sweep_samples import changed, real_variance

NO_CHANGE = "all keys of a query have the same score, so no scale changes a weight."


def by_head(result: SweepResult, figures: Mapping[int, Record]) -> SweepResult:
    """The result with other figures in some heads."""
    return replace(result, records=[record | figures.get(record["head"], {}) for record in result.records])


def test_real_tensors_say_which_scale_they_need() -> None:
    one = sentences(real_variance(None))
    assert one == [
        "For variance 1, q . k needs the scale 0.125, where 1/sqrt(d) is 0.125.",
        "The variance of q . k is that of independent entries with mean 0 and variance 1, to within 2 %.",
    ]
    needed, heads, ratio = sentences(real_variance(3))
    assert "needs the scale 0.1021 to 0.125, where" in needed
    assert heads == (
        "The variance of q . k is largest in head 2 (96, which needs the scale 0.1021) and smallest in head 0 (64, "
        "which needs the scale 0.125)."
    )
    assert "is 1 to 1.5 times that of independent entries" in ratio
    wide = changed(real_variance(None), "dot", unit_scale=0.0625)
    assert sentences(wide)[1].startswith("The variance of q . k is 4.00 times that of".replace("4.00", "4"))
    assert sentences(wide)[1].endswith("its std is 2 times theirs.")


def test_real_scores_that_do_not_vary() -> None:
    result = changed(real_variance(2, {"dot": "dot"}), "dot", unit_scale=None, variance=0.0)
    assert sentences(result) == ["q . k does not vary, so no scale gives it variance 1."]
    unknown = changed(real_variance(2, {"dot": "dot"}), "dot", unit_scale=None, variance=math.nan)
    assert sentences(unknown) == ["Some scores are NaN or infinite, so nothing can be said of q . k."]
    mixed = real_variance(4, {"dot": "dot"})
    records = [record | ({"unit_scale": None} if record["head"] == 2 else {}) for record in mixed.records]
    assert "in 1 of 4 heads the scores do not vary" in sentences(replace(mixed, records=records))[0]


def test_other_scorers_of_real_tensors() -> None:
    result = changed(real_variance(None, {"additive": "additive"}), "additive", unit_scale=3.0)
    assert sentences(result) == ["additive: variance 1 needs the scale 3 in place of 1."]
    level = changed(result, "additive", unit_scale=None)
    assert sentences(level) == ["additive: the scores do not vary, so no scale gives them variance 1."]


def test_what_all_keys_of_a_query_share_is_set_apart() -> None:
    figures = {"variance": 28.94, "row_variance": 0.969, "scale": 8**-0.5, "unit_scale": 8**-0.5 / 28.94**0.5}
    result = changed(real_variance(None, {"scaled_dot": "scaled_dot"}, 8), "scaled_dot", **figures)
    assert (
        "scaled_dot: of this variance 27.97 of 28.94 is shared by all keys of a query, where the softmax does not see "
        "it; within a row it is 0.969, for which the scale would be 0.3592."
    ) in sentences(result)


@pytest.mark.parametrize(
    ("part", "told"), [(0.89, True), (0.91, False), (1.0, False), (None, False), (math.nan, False)]
)
def test_only_a_noticeable_part_is_told(part: float | None, told: bool) -> None:
    within = None if part is None else 64 * part
    result = changed(real_variance(None, {"dot": "dot"}), "dot", row_variance=within)
    assert any("shared by all keys" in sentence for sentence in sentences(result)) == told


def test_records_without_that_figure_are_shown_without_it() -> None:
    result = real_variance(2)
    records = [{key: value for key, value in record.items() if key != "row_variance"} for record in result.records]
    old = replace(result, records=records)
    assert not any("within a row" in sentence for sentence in sentences(old))
    text = printed(load_view("variance").tables(old, width=80, full=False, csv=None), 80)
    assert "within" not in text.split("What holds")[0]


def test_rows_of_equal_scores_need_no_scale() -> None:
    result = changed(real_variance(None, {"dot": "dot"}), "dot", row_variance=0.0)
    assert f"dot: {NO_CHANGE}" in sentences(result)
    heads = by_head(real_variance(3, {"dot": "dot"}), {1: {"row_variance": 0.0}})
    assert f"dot, head 1: {NO_CHANGE}" in sentences(heads)
    assert not any("shared by all keys" in sentence for sentence in sentences(heads))


def test_heads_are_told_by_the_one_with_the_largest_shared_part() -> None:
    result = by_head(real_variance(3, {"dot": "dot"}), {0: {"row_variance": 16.0}, 2: {"row_variance": 4.0}})
    (found,) = [sentence for sentence in sentences(result) if "shared by all keys" in sentence]
    assert found.startswith("dot: of this variance 92 of 96 in head 2 is shared")
    assert found.endswith("within a row it is 4, for which the scale would be 0.25 to 0.5 over 2 heads.")


def test_other_scorers_have_shared_parts_too() -> None:
    result = changed(real_variance(None, {"additive": "additive"}), "additive", row_variance=1.0)
    assert sentences(result)[1].startswith("additive: of this variance 63 of 64 is shared")


def test_heads_of_the_same_variance_are_not_compared() -> None:
    result = changed(real_variance(2, {"dot": "dot"}), "dot", variance=4.0, unit_scale=0.5)
    assert not any("largest" in sentence for sentence in sentences(result))
