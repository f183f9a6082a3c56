"""The YAML of each study: short forms, and keys that exclude each other."""

from pathlib import Path

import pytest

from tests.config.documents import options_of, problems_of


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("{study: variance, d: {from: 2, to: 16}}", "d", [2, 4, 8, 16]),
        ("{study: variance, d: {from: 2, to: 15}}", "d", [2, 4, 8]),
        ("{study: variance, d: {from: 5, to: 500, factor: 10}}", "d", [5, 50, 500]),
        ("{study: variance, distribution: student_t}", "df", 10),
        ("{study: bench, measure: output}", "measure", ["output"]),
        ("{study: bench, implementations: textbook}", "implementations", ["textbook"]),
        ("{study: train, optimizer: sgd}", "lr", 1.0),
        ("{study: train, test_keys: {from: 4, to: 16}}", "tested", [8, 4, 16]),
        ("{study: train, keys: 2, test_keys: [8, 2]}", "tested", [2, 8]),
    ],
)
def test_short_forms(text: str, key: str, value: object, tmp_path: Path) -> None:
    assert getattr(options_of(tmp_path, text), key) == value


def test_what_is_read_makes_keys_meaningless(tmp_path: Path) -> None:
    options = options_of(tmp_path, "study: variance\nfrom: a/b.npz")
    assert options.source == str(tmp_path / "a" / "b.npz")
    assert options.unused() >= {"d", "distribution", "df", "mean", "std", "rho", "samples", "key_std"}
    assert not options.unused() & {"source", "scorers", "seed", "dtype", "name"}
    assert options_of(tmp_path, "study: saturation\nfrom: a.npz").unused() >= {"d", "keys", "rows"}
    assert options_of(tmp_path, "study: saturation").unused() == {"df"}


def test_hidden_units_that_are_left_open_stay_open(tmp_path: Path) -> None:
    options = options_of(tmp_path, "study: bench\nscorers: [additive, 'additive:num_hiddens=8', dot]\n")
    assert [options.ignores_num_hiddens(entry) for entry in options.scorers] == [False, True, True]
    assert options.unused() == {"scorers": {0: {"num_hiddens"}}}


@pytest.mark.parametrize(
    ("keys", "least"), [("rho: 0.5", 8), ("rho: 0", 4), ("scorer: gaussian", 8), ("scorer: cosine", 4)]
)
def test_the_fourth_moment(keys: str, least: int, tmp_path: Path) -> None:
    text = f"{keys}\ndistribution: student_t\ndf: "
    assert options_of(tmp_path, f"study: variance\n{text}{least + 0.1}").df == least + 0.1
    assert problems_of(tmp_path, f"study: variance\n{text}{least}")[0].startswith(f"4:5: df: got df {least}; ")
    assert options_of(tmp_path, f"study: saturation\n{text}0.1").df == 0.1
