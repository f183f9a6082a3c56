"""The tables of `saturation` and what it says holds, read back from what a pipe gets."""

import math
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len

from attncli.runs.records import SweepResult
from attncli.show.numbers import figure
from attncli.studies.study import Record
from attncli.views import load_view
from attncli.views.saturation import sentences
from tests.views.samples import printed
from tests.views.sweep_samples import FIVE, changed, many_scorers, real_saturation, saturation_result

COLUMNS = ["entropy", "max_weight", "effective_keys", "jacobian_median", "jacobian_q25", "jacobian_q75"]
COLUMNS += ["jacobian_mean", "query_gradient_median"]
NORM = "the median norm of the softmax Jacobian"


def shown(result: SweepResult, width: int = 80) -> str:
    return printed(load_view("saturation").tables(result, width=width, full=False, csv=None), width)


def cells(record: Record) -> list[str]:
    return [figure(record[key], 4 if key == "entropy" else 3) for key in COLUMNS]


def said(result: SweepResult, start: str) -> str:
    """The only sentence that begins so."""
    (found,) = [sentence for sentence in sentences(result) if sentence.startswith(start)]
    return found


def with_norms(norms: list[float], **figures: float) -> SweepResult:
    """`dot` with these median norms at d = 8, 16, ..., and a gradient for the query that does not change."""
    result = saturation_result([8 * 2**power for power in range(len(norms))], {"dot": "dot"})
    records = [
        record | {"jacobian_median": norm, "jacobian_mean": norm, "query_gradient_median": 1.0} | figures
        for record, norm in zip(result.records, norms, strict=True)
    ]
    return replace(result, records=records, curve=records)


def test_every_label_has_a_table_of_80_columns() -> None:
    result = saturation_result()
    found = [line.split() for line in shown(result).splitlines() if re.match(r"\d+ ", line)]
    assert found == [[str(record["d"]), *cells(record)] for record in result.records]
    assert "normal entries, mean 0, std 1; 64 keys, 10,000 rows\n" in shown(result)


def test_a_single_size_is_one_table_of_80_columns() -> None:
    result = saturation_result([512])
    text = shown(result)
    table = text.split("What holds")[0]
    for record in result.records[:2]:
        assert re.search(rf"^{record['label']} +" + " +".join(map(re.escape, cells(record))) + "$", table, re.M)
    assert "d = 512, 64 keys, 10,000 rows" in table
    assert "scaled_dot_1_over_d (scaled_dot): the formula of scaled_dot" in table


def test_heads_have_rows_of_their_own() -> None:
    text = shown(real_saturation())
    assert len(re.findall(r"^[0-3] +0\.", text, re.M)) == 12
    assert text.count("head   / ln m") == 3
    assert "queries and keys from tensors/qkv.safetensors; d = 64, 64 keys" in text
    assert "head  " not in shown(real_saturation(None))


def test_keys_that_change_have_a_column() -> None:
    result = saturation_result([8, 16], {"dot": "dot"})
    records = [record | {"keys": 10 + record["d"]} for record in result.records]
    text = shown(replace(result, records=records))
    assert re.search(r"^8 +18 +0\.5", text, re.M)
    assert "64 keys" not in text


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("sizes", [[8], [8, 1024]])
def test_no_number_is_cut_at_any_width(width: int, sizes: list[int]) -> None:
    result = saturation_result(sizes, FIVE | many_scorers(5))
    text = shown(result, width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    for record in result.records:
        for cell in cells(record):
            assert re.search(rf"(?<=[ \n]){re.escape(cell)}(?=\s)", text)


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, 1e-300])
def test_any_number_can_be_shown(value: float) -> None:
    every = dict.fromkeys(COLUMNS, value)
    assert f" {figure(value, 3)} " in shown(changed(saturation_result(), "dot", **every))
    assert " - " in shown(changed(saturation_result([8, 16]), "dot", query_gradient_median=None)).replace("\n", " ")


def test_a_norm_that_stays() -> None:
    assert sentences(with_norms([0.2, 0.17, 0.18]))[0] == f"dot: {NORM} stays near 0.18 at every d (0.17 to 0.2)."
    assert "falls from 0.2" in sentences(with_norms([0.2, 0.18, 0.165]))[0]  # little, but over a short way


def test_a_norm_that_falls() -> None:
    assert sentences(with_norms([0.3, 0.1, 0.003]))[0] == (
        f"dot: {NORM} falls from 0.3 at d = 8 to 0.003 at d = 32, 100 times smaller."
    )
    assert sentences(with_norms([0.3, 0.1, 0.0]))[0] == f"dot: {NORM} falls from 0.3 at d = 8 to 0 at d = 32."


def test_a_norm_that_rises() -> None:
    assert sentences(with_norms([0.05, 0.1, 0.2]))[0] == (
        f"dot: {NORM} rises from 0.05 at d = 8 to 0.2 at d = 32, 4 times larger."
    )


def test_a_norm_that_turns_back() -> None:
    assert sentences(with_norms([0.1, 0.3, 0.01]))[0] == (
        f"dot: {NORM} rises to 0.3 at d = 16 and then falls to 0.01 at d = 32, 30 times smaller."
    )
    assert sentences(with_norms([0.2, 0.01, 0.1]))[0].startswith(f"dot: {NORM} falls")
    assert sentences(with_norms([0.1, 0.01, 0.1]))[0] == (
        f"dot: {NORM} falls to 0.01 at d = 16 and then rises to 0.1 at d = 32, 10 times larger."
    )


def test_norms_that_are_no_numbers() -> None:
    assert sentences(with_norms([math.nan, math.inf]))[0] == f"dot: {NORM} is not a finite number."
    assert sentences(with_norms([math.nan, 0.1]))[0] == f"dot: {NORM} is 0.1 at d = 16."


def test_the_gradient_of_the_query_is_told_where_it_falls() -> None:
    sentence = said(saturation_result(), "dot")
    assert "; the gradient that reaches the query falls from 0.557 at d = 16 to 0.0136 at d = 1024" in sentence
    assert sentence.endswith(": a query then hardly learns.")
    assert "gradient" not in said(saturation_result(), "scaled_dot:")
    assert "gradient" not in said(changed(saturation_result(), "dot", query_gradient_median=None), "dot")
    result = with_norms([0.2, 0.2, 0.2])
    falling = [record | {"query_gradient_median": 8 / record["d"] ** 2} for record in result.records]
    told = said(replace(result, curve=falling), "dot")
    assert told.endswith("16 times smaller.")  # it is not the softmax that keeps this query from learning


def test_what_the_weights_end_as() -> None:
    result = saturation_result()
    assert said(result, "Nearly all") == (
        "Nearly all weight is on one key: dot at d = 1024 (mean of the largest weight 0.9924)."
    )
    uniform = said(result, "Weights are nearly uniform")
    for label in ("scaled_dot_1_over_d", "additive", "cosine"):
        assert f"{label} at d = 1024" in uniform
    assert "dot at d = 1024, " not in uniform.replace("1_over_d at", "")
    assert f"uniform weights over 64 keys have the norm {math.sqrt(63) / 64:.3g}" in uniform
    middle = sentences(saturation_result([8], {"scaled_dot": "scaled_dot"}))
    assert not any(sentence.startswith(("Nearly", "Weights")) for sentence in middle)


def test_one_key_alone_has_all_weight_and_nothing_to_say() -> None:
    result = changed(saturation_result([8], {"dot": "dot"}), "dot", keys=1, max_weight=1.0, entropy=math.nan)
    assert not any(sentence.startswith(("Nearly", "Weights")) for sentence in sentences(result))


def test_heads_are_told_by_their_range() -> None:
    result = real_saturation(3, {"dot": "dot"})
    records = [record | {"jacobian_median": 0.1 * (1 + record["head"])} for record in result.records]
    assert (
        said(replace(result, records=records), "dot")
        == f"dot: {NORM} is 0.1 to 0.3 at d = 64, over 3 heads, and lowest in head 0."
    )
    turned = [record | {"jacobian_median": 0.1 * (3 - record["head"])} for record in result.records]
    assert said(replace(result, records=turned), "dot").endswith("over 3 heads, and lowest in head 2.")


def test_the_mean_that_hides_the_effect_is_named() -> None:
    result = with_norms([0.3, 0.1, 0.01])
    assert not any(sentence.startswith("The mean") for sentence in sentences(result))
    means = [record | {"jacobian_mean": mean} for record, mean in zip(result.records, [0.3, 0.2, 0.1], strict=True)]
    assert "for dot at d = 32 the mean norm is 0.1, the median 0.01;" in said(
        replace(result, records=means), "The mean hides"
    )
    zero = [record | {"jacobian_mean": 0.05, "jacobian_median": 0.0} for record in result.records[:1]]
    assert "the mean norm is 0.05, the median 0;" in said(replace(result, records=zero), "The mean hides")
    head = real_saturation(2, {"dot": "dot"})
    assert "for dot at d = 64, head 0 the mean" in said(head, "The mean hides")


def test_a_single_size_is_told_with_the_smaller_ones_of_the_picture() -> None:
    result = saturation_result([1024], {"dot": "dot"}, curve=[64, 256, 1024])
    assert re.match(rf"dot: {NORM} falls from 0\.\d+ at d = 64 to 0\.\d+ at d = 1024", sentences(result)[0])


def test_a_correlation_that_all_keys_have_is_explained() -> None:
    result = saturation_result()
    assert not any("correlated" in sentence for sentence in sentences(result))
    assert said(replace(result, settings=result.settings | {"rho": -0.3}), "All keys") == (
        "All keys of a row are correlated with the query alike, which shifts their scores together and leaves the "
        "weights flatter: this is not one matching key among others."
    )


def test_the_legend_says_what_is_a_mean_and_what_a_median() -> None:
    text = " ".join(shown(saturation_result()).split())
    assert "entropy / ln m (1 for uniform weights), largest weight and effective keys are means over the rows" in text
    assert "query gradient is the median norm of the gradient" in text
    assert "from a pooled value that is standard normal per key" in text
