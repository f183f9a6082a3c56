"""What `bench` says of its records in plain sentences."""

from dataclasses import replace

import pytest

from attncli.runs.records import BenchResult
from attncli.studies.study import Record
from attncli.views.bench import sentences
from attncli.views.bench_ratios import uncertain
from tests.views.bench_samples import FEW, USUAL, bench_result, changed, not_timed, textbook_additive

SCORES = ["scores"]


def said(result: BenchResult, start: str) -> str:
    """The only sentence with this beginning."""
    (found,) = [sentence for sentence in sentences(result) if sentence.startswith(start)]
    return found


def dot(ratio: float, low: float, high: float) -> BenchResult:
    """Few implementations, with this ratio of `dot`."""
    result = bench_result(pairs=FEW, measures=SCORES)
    return changed(result, lambda record: record["label"] == "dot", ratio=ratio, ratio_ci=[low, high])


def test_the_implementations_of_a_label_share_a_sentence() -> None:
    result = changed(bench_result(pairs=FEW, measures=SCORES), textbook_additive, ratio_ci=[186.8, 187.2])
    assert said(result, "additive") == (
        "additive is 4.1 ± 0.2 times slower than textbook scaled_dot at n = 512; the textbook code is 187 times slower."
    )


def test_faster_is_said_with_the_factor_turned_round() -> None:
    result = bench_result(pairs=[*FEW, ("scaled_dot", "attncli"), ("scaled_dot", "fused")], measures=["output"])
    result = changed(result, lambda record: record["implementation"] == "attncli", ratio=0.5, ratio_ci=[0.4, 2 / 3])
    assert said(result, "scaled_dot") == (
        "scaled_dot is 2.0 ± 0.5 times faster than textbook scaled_dot at n = 512; the fused kernel is 1.67 ± 0.08 "
        "times faster."
    )


def test_an_interval_with_1_is_no_measurable_difference() -> None:
    assert "not measurably different: dot" in said(dot(1.04, 0.99, 1.09), "against")
    assert "slower: dot 1.04 ± 0.01 times" in said(dot(1.04, 1.03, 1.05), "against")
    assert "not measurably different: dot" in said(dot(0.99, 1.01, 1.05), "against")  # they contradict
    result = bench_result(pairs=[*FEW, ("dot", "compiled")], measures=SCORES)
    assert said(result, "dot") == (
        "dot is not measurably different from textbook scaled_dot at n = 512; compiled it is not measurably different "
        "from textbook scaled_dot."
    )


def test_a_wide_interval_with_1_tells_nothing() -> None:
    assert "too noisy to tell: dot (0.69 to 39)" in said(dot(5.2, 0.69, 39.0), "against")
    assert "not measurably different: dot" in said(dot(1.0, 0.6, 2.3), "against")
    both = bench_result(pairs=[*FEW, ("dot", "compiled")], measures=SCORES)
    both = changed(both, lambda record: record["label"] == "dot", ratio=5.2, ratio_ci=[0.69, 39.0])
    assert said(both, "dot") == (
        "dot is too noisy to tell from textbook scaled_dot (0.69 to 39 times its time) at n = 512; compiled it is too "
        "noisy to tell (0.69 to 39)."
    )


def comparison(implementation: str, n: int, low: float, high: float) -> Record:
    sizes = {"n": n, "m": n, "d": 64, "num_hiddens": 64, "batch": 1, "heads": 1}
    middle = {"times_as_fast": (low * high) ** 0.5, "times_as_fast_ci": [low, high]}
    return {"label": "additive", "implementation": implementation, "measure": "scores", **sizes, **middle}


def test_how_many_times_as_fast_as_its_own_textbook_code() -> None:
    rows = [comparison("attncli", 64, 2.0, 3.0), comparison("attncli", 512, 10.0, 12.0)]
    result = replace(bench_result((64, 512), FEW, SCORES), comparisons=rows)
    said_first = "additive is 11.0 ± 1.0 times as fast as the textbook's additive code at n = 512"
    assert sentences(result)[0] == f"{said_first}."
    lost = comparison("compiled", 512, 1.0, 1.0) | {"times_as_fast": None, "times_as_fast_ci": None}
    assert sentences(replace(result, comparisons=[*rows, lost])) == sentences(result)
    more = replace(result, comparisons=[*rows, comparison("compiled", 512, 40.0, 48.0)])
    assert sentences(more)[0] == f"{said_first}; compiled it is 44 ± 4 times as fast."
    for low, high, words in [(0.9, 1.2, "not measurably different"), (0.2, 9.0, "too noisy to tell (0.2 to 9)")]:
        unclear = replace(result, comparisons=[comparison("attncli", 512, low, high)])
        assert sentences(unclear)[0] == f"additive beside the textbook's additive code at n = 512: {words}."
    own = changed(more, lambda _: True, baseline="additive/textbook")
    assert "times as fast" not in " ".join(sentences(own)), "which the ratios say already"


def test_labels_with_one_implementation_share_a_sentence() -> None:
    assert said(bench_result(measures=SCORES), "against") == (
        "against textbook scaled_dot at n = 512, slower: general 1.30 ± 0.07 times, cosine 1.25 ± 0.06 times, gaussian "
        "1.40 ± 0.07 times; faster: vector_sum 2.00 ± 0.10 times; not "
        "measurably different: scaled_dot, dot."
    )


def test_the_baseline_is_not_compared_with_itself() -> None:
    result = bench_result(pairs=[("scaled_dot", "textbook")], measures=SCORES)
    assert sentences(result) == ["beyond the inputs, memory at n = 512 peaks at 1.0 MiB (textbook scaled_dot)."]
    own = changed(bench_result(pairs=FEW), lambda _: True, baseline="dot/attncli")
    assert "times slower than dot at n = 512" in " ".join(sentences(own))


def test_each_measure_has_its_own() -> None:
    result = bench_result()
    found = sentences(result)
    assert [sentence.split(": ")[0] for sentence in found] == ["scores"] * 2 + ["output"] * 3 + ["scores", "output"]
    assert said(result, "output: additive").startswith("output: additive is 6.1 ± 0.3 times slower")


def test_what_was_too_large_is_compared_where_it_was_not() -> None:
    result = bench_result((512, 4096), FEW, SCORES)
    result = not_timed(
        result, lambda record: textbook_additive(record) and record["n"] == 4096, "too large", "Needs 32.0 GiB."
    )
    assert said(result, "additive").endswith("at n = 4096; the textbook code is 187 ± 9 times slower at n = 512.")
    assert said(result, "textbook additive") == "textbook additive is too large at n = 4096: Needs 32.0 GiB."
    assert "slower: cosine" not in " ".join(sentences(result))


def test_a_single_implementation_compared_elsewhere_says_where() -> None:
    result = bench_result((512, 4096), [*FEW, ("cosine", "attncli"), ("general", "attncli")], SCORES)
    result = not_timed(result, lambda record: record["label"] == "cosine" and record["n"] == 4096, "too large", "")
    assert said(result, "against textbook scaled_dot at n = 4096, ").count("cosine 1.25 ± 0.06 times (at n = 512)") == 1


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ("disagrees", "textbook additive disagrees with the reference, so it was not timed: a\\nreason."),
        ("not available", "textbook additive is not available: a\\nreason."),
        ("too large", "textbook additive is too large: a\\nreason."),
        ("failed", "textbook additive failed: a\\nreason."),
        ("melted", "textbook additive was not timed (melted): a\\nreason."),
    ],
)
def test_what_was_not_timed_is_said_with_its_reason(status: str, text: str) -> None:
    result = not_timed(bench_result((64, 512), FEW), textbook_additive, status, "a\nreason")
    assert said(result, "textbook additive") == text


def test_where_it_was_not_timed_is_said_as_far_as_it_is_not_everywhere() -> None:
    result = bench_result([2**power for power in range(8)], FEW)
    one = not_timed(result, lambda r: textbook_additive(r) and r["measure"] == "scores", "disagrees", "why")
    assert said(one, "textbook additive").startswith("textbook additive disagrees with the reference, so it was not")
    assert "timed (scores): why" in said(one, "textbook additive")
    large = not_timed(result, lambda r: textbook_additive(r) and r["n"] > 4, "too large", "why")
    assert said(large, "textbook additive") == (
        "textbook additive is too large at n = 8 and 4 more, up to n = 128: why."
    )


def test_memory_is_said_from_the_least_to_the_most() -> None:
    result = bench_result((512, 1024), FEW, SCORES)
    assert said(result, "beyond") == (
        "beyond the inputs, memory at n = 1024 peaks at 4.0 MiB (additive, textbook scaled_dot, dot), 256.0 MiB "
        "(textbook additive)."
    )
    first = changed(result, lambda record: record["label"] == "dot", peak_bytes=2**30 * 3)
    assert said(first, "beyond").endswith("256.0 MiB (textbook additive), 3.0 GiB (dot).")
    last = replace(result, records=result.records[::-1])
    assert said(last, "beyond").endswith("(dot, textbook scaled_dot, additive), 256.0 MiB (textbook additive).")
    least = changed(result, lambda record: record["label"] == "dot", peak_bytes=1)
    assert "peaks at 1 byte (dot), 4.0 MiB (additive, textbook scaled_dot), 256.0" in said(least, "beyond")
    none = changed(result, lambda _: True, peak_bytes=None)
    assert not [sentence for sentence in sentences(none) if "memory" in sentence]


def test_without_the_baseline_nothing_is_compared() -> None:
    result = changed(bench_result(pairs=FEW, measures=SCORES), lambda _: True, ratio=None, ratio_ci=None)
    assert sentences(result)[0] == (
        "nothing can be compared, as no time was measured beside one of textbook scaled_dot."
    )


def test_without_an_interval_there_is_no_plus_or_minus() -> None:
    result = changed(bench_result(pairs=FEW, measures=SCORES), lambda _: True, ratio_ci=None)
    assert said(result, "additive is 4.1 times slower than textbook scaled_dot")


def test_other_sizes_that_change_are_named() -> None:
    result = bench_result((64, 128), FEW, SCORES)
    result = replace(result, records=[record | {"batch": batch} for record in result.records for batch in (1, 8)])
    assert "at n = 128, batch = 8;" in said(result, "additive")


@pytest.mark.parametrize(
    ("value", "interval", "text"),
    [
        (4.1234, (3.8, 4.4), "4.1 ± 0.3"),
        (187.3, (186.9, 187.7), "187"),
        (187.3, (180, 195), "187 ± 8"),
        (0.83, (0.7, 0.98), "0.83 ± 0.14"),
        (0.83, (0.63, 1.09), "0.8 ± 0.2"),
        (187.3, (175, 203), "187 ± 14"),
        (1234.0, (1000, 1500), "1234 ± 250"),
        (1.021, (1.019, 1.023), "1.02"),
        (1.021, (1.01, 1.03), "1.02 ± 0.01"),
        (3.0, (1.5, 6.2), "1.5 to 6.2"),
        (3.0, (3.0, 3.0), "3"),
        (3.0, None, "3"),
        (3.0, (float("nan"), 4.0), "3"),
    ],
)
def test_a_factor_has_no_more_digits_than_its_error_allows(
    value: float, interval: tuple[float, float] | None, text: str
) -> None:
    assert uncertain(value, interval) == text


def test_the_usual_result_has_few_sentences() -> None:
    assert len(sentences(bench_result((128, 512), USUAL))) == 7
