"""Each expectation of experiments/claims and papers fails if a likely mistake is planted in the code."""

from pathlib import Path

import pytest
import yaml

from tests.claims import LONG, PATHS, with_model
from tests.cli import attncli, results
from tests.mutants import mistakes

SMALLER = {"04_variance": ["samples=40000"]}  # smaller settings for the same claim, to save time
TRAIN = "train=true"  # turns dropout on, although the experiment is about its absence
MISTAKES: dict[str, dict[str, set[int]]] = {  # for each file: the expectations that fail under a mistake
    "01a_mask_per_example": {"mask_shifted": {0}},
    "01b_mask_per_query": {"minus_a_million": {0}},
    "02_identical_keys": {"softmax_over_queries": {0, 1}},
    "03_modified_keys": {"softmax_over_queries": {0, 1}},
    "04_variance": {"queries_for_keys": {0, 1, 2, 3, 4}},
    "05a_one_over_d_variance": {"root_whatever_was_asked": {0, 1, 2}},
    "05b_one_over_d_weights": {"scale_left_out": {0, 1, 2}},
    "06_nonzero_means": {"means_left_out": {0, 1, 2}},
    "07_saturation": {"dot_is_scaled": {0, 1, 3}, "scale_left_out": {2, 3}},
    "08_learning": {
        "scores_left_out steps=300 seeds=2": {0, 1, 2, 3},  # on every processor, also with fewer steps
        "one_seed_for_all": {4},
    },
    "09_cost": {
        "product_without_a_matrix_product": {0, 1},
        "additive_as_in_textbooks": {2},
        "additive_without_tanh": {2, 3},
    },
    "10_different_lengths": {"biases": {1, 2}, "mask_shifted": {0}},
    "11_vector_sum": {"product_for_sum": {0, 1}},
    "12_perceptron": {"additive_without_tanh": {0, 1}},
    "13a_nadaraya_watson": {"gaussian_without_the_two": {0}},
    "13b_equal_norms": {"scale_left_out": {0}, "always_a_quarter": {1}},
    "14a_dropout_training": {"dropout_left_out": {1}, "dropout_in_place": {0}},
    "14b_dropout_evaluation": {f"dropout_in_place {TRAIN}": {0, 1}},
    "15_many_keys": {"softmax_plus_one_for_softmax": {0, 1}, "ssmax_without_the_number": {2, 3}},
    "16a_sparse_weights": {"sparsemax_is_softmax": {0}, "sparsemax_for_entmax": {1}},
    "16b_sparse_attention": {"scale_left_out": {0, 1, 2, 3}},
    "17_attending_to_nothing": {"nothing_left_out": {1}, "softmax_plus_one_for_softmax": {0}},
    "18_no_competition": {"sigmoid_competes": {1}, "relu_competes": {2}, "softmax_plus_one_for_softmax": {0}},
    "19_alibi": {"alibi_turned_round": {0}},
    "20_cosine": {"no_cosine": {0, 1}, "cosine_without_its_scale": {2}},
    "21_softpick": {"softpick_is_softmax": {0, 2}, "softmax_plus_one_for_softmax": {1}},
    "22_stick_breaking": {"stick_from_the_first_key": {0}, "stick_is_not_broken": {0, 1}},
    "britz_2017": {"scores_left_out steps=300 seeds=2": {0, 1}, "dot_is_scaled seeds=2": {2}},
    "dehghani_2023": {"scores_left_out steps=100": {0, 1, 2, 3, 4}, "norm_left_out": {2, 3}},
    "gemma_2024": {"scores_left_out": {0, 1, 2, 3}, "softcap_left_out": {2, 3}},
    "henry_2020": {"scores_left_out": {0, 1, 2, 3, 4}},
    "kasai_2021": {"steps=0": {1, 3, 4}, "kernel_is_exponential steps=0": {0, 2, 3}},
    "katharopoulos_2020": {"linear_makes_the_matrix": {0, 1, 2}},
    "luong_2015": {"scores_left_out steps=300 seeds=2": {0, 1, 2}},
    "ramapuram_2024": {"sigmoid_competes": {0, 1, 2, 3}, "softmax_plus_one_for_softmax": {4}},
    "ramsauer_2021": {"scores_left_out": {0, 1, 2}},
    "su_2021": {"rope_left_out": {0, 1, 2, 3, 4}, "window_left_out": {0, 1, 3}},
    "tan_2024": {"stick_is_not_broken": {1, 3}, "softmax_plus_one_for_softmax": {0, 2}},
    "tsai_2019": {"scores_left_out steps=300 seeds=2": {0, 1, 3}, "sum_is_uniform seeds=2": {2}},
    "xiao_2023": {"window_left_out": {1, 2, 3}, "first_keys_left_out": {2, 3}, "scores_left_out": {0}},
    "yang_2022": {"no_root": {1, 2, 3}, "root_whatever_was_asked": {0}},
    "zhai_2023": {"scale_left_out": {0, 1, 2, 3, 4, 5}},
    "zhang_2024": {"steps=0": {1, 4}, "kernel_is_exponential steps=0": {0, 1, 2, 3}},
    "zhang_2025": {"steps=0": {1, 3}, "kernel_is_exponential steps=0": {0, 2}},
    "zuhri_2025": {"softpick_is_softmax": {0, 1, 3}, "scores_left_out": {2}},
}


CASES = [
    pytest.param(name, *case, marks=pytest.mark.nightly if name in LONG else pytest.mark.slow, id=f"{name}-{case[0]}")
    for name, planted in MISTAKES.items()
    for case in planted.items()
]


def failed(name: str, folder: Path, *changes: str) -> set[int]:
    """Return the indices of the expectations of a file that do not hold."""
    sets = [f"--set={change}" for change in (*SMALLER.get(name, []), *with_model(name), *changes)]
    result = attncli("run", PATHS[name], "--out", folder / "run", "--no-plots", "--quiet", *sets)
    assert result.exit_code in (0, 1), result.stderr
    claims = [each["claim"] for each in yaml.safe_load(PATHS[name].read_text())["expect"]]
    judged = results(folder / "run")["expectations"]
    return {claims.index(each["claim"]) for each in judged if each["holds"] is False}


@pytest.mark.parametrize(("name", "mistake", "failing"), CASES)
def test_mistakes_are_found(
    name: str, mistake: str, failing: set[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = mistake.split()
    for word in words:
        if "=" not in word:
            getattr(mistakes, word)(monkeypatch)
    assert failed(name, tmp_path, *(word for word in words if "=" in word)) >= failing


@pytest.mark.nightly
@pytest.mark.parametrize("name", SMALLER)
def test_what_is_tried_at_smaller_sizes_holds_there(name: str, tmp_path: Path) -> None:
    assert failed(name, tmp_path) == set()


def test_every_expectation_fails_under_some_mistake() -> None:
    assert list(MISTAKES) == list(PATHS)
    for name, planted in MISTAKES.items():
        assert set().union(*planted.values()) == set(range(len(yaml.safe_load(PATHS[name].read_text())["expect"])))
