"""What the view of `variance` says holds: each sentence where it does, and where it does not."""

import math
from dataclasses import replace

import pytest

from attncli.runs.records import SweepResult
from attncli.views.variance import sentences
from tests.views.sweep_samples import DOTS, changed, product_moments, variance_result


def said(result: SweepResult, start: str) -> str:
    """The only sentence that begins so."""
    (found,) = [sentence for sentence in sentences(result) if sentence.startswith(start)]
    return found


def test_all_within_their_intervals() -> None:
    first, second = sentences(variance_result())[:2]
    assert first == (
        "11 of 11 variances and 11 of 11 means (dot and its scaled forms see the same draws and count once) have "
        "their theory within the 95 % interval; by chance about 1 in 20 falls outside."
    )
    assert second == "The largest |z| is 0.40 (dot at d = 1, variance): among 22 comparisons chance alone may do that."


def test_other_scores_count_on_their_own() -> None:
    first = sentences(variance_result([8, 64], {"dot": "dot", "wide": "general", "narrow": "general"}))[0]
    assert first.startswith("6 of 6 variances and 6 of 6 means have")


def test_intervals_that_miss_are_counted() -> None:
    result = changed(variance_result([8, 64]), "dot", variance_ci=[0.5, 0.6], mean_ci=[7.0, 8.0], z=9.0)
    assert said(result, "0 of 2").startswith("0 of 2 variances and 0 of 2 means (dot and its scaled forms see")
    alone = variance_result([8], {"dot": "dot"})
    assert said(alone, "1 of").startswith("1 of 1 variance and 1 of 1 mean have")
    assert "scaled forms" not in said(alone, "1 of")


def test_an_interval_without_width_holds_what_differs_by_rounding() -> None:
    result = changed(variance_result([1], {"dot": "dot"}), "dot", variance_ci=[1 + 1e-12, 1 + 1e-12])
    assert said(result, "1 of 1")
    unknown = changed(variance_result([1], {"dot": "dot"}), "dot", variance_ci=[math.nan, math.nan])
    assert said(unknown, "0 of 1")
    missed = changed(variance_result([1], {"dot": "dot"}), "dot", variance_ci=[1 + 1e-6, 1 + 1e-6])
    assert said(missed, "0 of 1")


@pytest.mark.parametrize(
    ("z", "count", "chance"),
    [(2.5, 1, True), (2.6, 1, False), (2.6, 11, True), (3.3, 11, True), (4.0, 11, False), (math.inf, 2, False)],
)
def test_how_far_is_too_far_depends_on_the_number_of_comparisons(z: float, count: int, chance: bool) -> None:
    result = variance_result([2**power for power in range(count)], {"dot": "dot"})
    records = [record | {"z": z if index == 0 else 0.1, "z_mean": None} for index, record in enumerate(result.records)]
    sentence = said(replace(result, records=records), "The largest |z|")
    assert ("chance alone may do that" in sentence) == chance
    assert ("too far to be chance" in sentence) != chance
    assert ("in one comparison" in sentence) == (count == 1)


def test_the_farthest_may_be_a_mean_and_below() -> None:
    result = changed(variance_result([8, 64]), "scaled_dot", z_mean=-7.25)
    assert "7.25 (scaled_dot at d = 8, mean): too far" in said(result, "The largest |z|")


def test_nothing_is_said_of_agreement_where_there_is_no_exact_theory() -> None:
    unknown = {"theory_mean": None, "z_mean": None, "theory_variance": None, "theory": None}
    result = changed(variance_result([8, 64], {"additive": "additive"}), "additive", **unknown)
    text = "\n".join(sentences(result))
    assert "interval" not in text
    assert "|z|" not in text
    assert "Why" not in text


def test_a_mean_that_all_keys_share_is_put_into_its_place() -> None:
    shared = (
        "A mean that all keys of a query share changes no weight, as the softmax sees only differences within a row"
    )
    assert said(variance_result(query_mean=0.5, key_mean=0.5), shared).endswith("others do not, as with rho.")
    assert said(variance_result(rho=0.3), shared).endswith("others do not, which is what rho stands for here.")
    last = [sentence[:20] for sentence in sentences(variance_result(rho=0.3))[-2:]]
    assert last == ["That is the argument", "A mean that all keys"]
    assert not any("share" in sentence for sentence in sentences(variance_result(query_mean=0.5)))


def test_a_distance_that_chance_does_not_explain_has_its_usual_causes() -> None:
    sentence = said(changed(variance_result([8, 64]), "dot", z=9.0), "The largest |z|")
    assert "the samples are too few, or float32 rounds too coarsely" in sentence
    assert sentence.endswith("where the mean is large against the spread (--dtype float64 cures that).")


def test_the_mean_of_a_limit_is_known_exactly() -> None:
    result = variance_result([8, 64], {"additive": "additive"})
    assert said(result, "2 of 2 means have their theory within the 95 % interval")
    assert "variances" not in sentences(result)[0]
    far = said(changed(result, "additive", z_mean=8.0, mean_ci=[1.0, 2.0]), "The largest |z|")
    assert "8.00 (additive at d = 8, mean): too far to be chance among 2 comparisons" in far


def test_forms_that_count_once_are_named() -> None:
    forms = {"a": "dot", "b": "scaled_dot", "c": "cosine", "e": "cosine", "f": "general", "g": "general"}
    first = sentences(variance_result([8], forms))[0]
    assert "(dot, cosine and their scaled forms see the same draws and count once)" in first
    assert first.startswith("4 of 4 variances")


def test_why_standard_entries_need_the_square_root() -> None:
    why = said(variance_result(), "Why")
    assert "independent entries of mean 0 each product q_i k_i has variance 1, so q . k" in why
    assert "1/sqrt(d) brings it back to 1" in why
    assert not [sentence for sentence in sentences(variance_result()) if "The mean of q . k" in sentence]
    assert "brings it back to 1" in said(variance_result(query_std=2.0, key_std=0.5), "Why")


def test_why_no_scale_gives_one_with_means() -> None:
    result = variance_result([64, 1024], query_mean=0.5, key_mean=0.5)
    assert product_moments(result.settings) == (0.25, 1.5)
    why = said(result, "Why")
    assert "not all of mean 0, each product" in why
    assert "(s_q^2 + m_q^2)(s_k^2 + m_k^2) - m_q^2 m_k^2 = 1.5, so q . k has variance 1.5 d" in why
    assert "neither of them 1 at every d; 1/sqrt(1.5 d) would be" in why
    assert said(result, "The mean") == (
        "The mean of q . k is m_q m_k d = 0.25 d: 1/sqrt(d) leaves a mean that grows like 0.25 sqrt(d) "
        "(8 at d = 1024), 1/d one of 0.25 at every d."
    )


def test_a_mean_of_queries_only_leaves_no_mean() -> None:
    found = sentences(variance_result(query_mean=0.5))
    assert any("= 1.25, so q . k has variance 1.25 d" in sentence for sentence in found)
    assert not any(sentence.startswith("The mean") for sentence in found)


def test_why_standard_deviations_count() -> None:
    why = said(variance_result(query_std=2.0), "Why")
    assert "with independent entries of mean 0 each product q_i k_i has variance s_q^2 s_k^2 = 4" in why
    assert "1/sqrt(4 d) would be" in why


def test_why_correlation_speaks_for_one_over_d() -> None:
    result = variance_result([4, 64], rho=0.3)
    assert "with correlated entries each product q_i k_i has variance 1 + rho^2 = 1.09" in said(result, "Why")
    assert "is rho d = 0.3 d: 1/sqrt(d) leaves a mean that grows like 0.3 sqrt(d) (2.4 at d = 64)" in said(
        result, "The mean"
    )
    assert "at 0.3, whatever d is" in said(result, "That is the argument for 1/d")


def test_queries_and_keys_that_point_away_are_not_aligned() -> None:
    found = sentences(variance_result([4, 64], rho=-0.3))
    assert any("is rho d = -0.3 d" in sentence for sentence in found)
    assert not any("aligned" in sentence for sentence in found)


def test_correlation_with_means_has_its_own_numbers() -> None:
    result = variance_result([4, 64], rho=0.5, query_mean=1.0)
    mean, variance = product_moments(result.settings)
    assert f"has variance {variance:g}, so" in said(result, "Why")
    assert f"The mean of q . k is {mean:g} d" in said(result, "The mean")


def test_a_variance_without_theory_is_not_explained_but_its_mean_is() -> None:
    result = variance_result(distribution="laplace", rho=0.3)
    for label in DOTS:
        result = changed(result, label, theory_variance=None, z=None)
    assert not any(sentence.startswith("Why") for sentence in sentences(result))
    assert said(result, "The mean of q . k is rho d = 0.3 d")
    assert not any("of 33 variances" in sentence for sentence in sentences(result))


def test_why_is_read_from_any_scale() -> None:
    result = variance_result([64], {"scaled_dot_1_over_d": "scaled_dot"}, query_mean=0.5, key_mean=0.5)
    assert "so q . k has variance 1.5 d" in said(result, "Why")
    assert "= 0.25 d" in said(result, "The mean")


def test_means_alone_do_not_align_queries_and_keys() -> None:
    found = sentences(variance_result([4, 64], rho=-0.3, query_mean=1.0, key_mean=1.0))
    assert any("The mean of q . k is 0.7 d" in sentence for sentence in found)
    assert not any("aligned" in sentence for sentence in found)
