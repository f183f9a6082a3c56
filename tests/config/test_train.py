"""What `study: train` says: defaults, short forms, and what does not go together."""

from pathlib import Path

import pytest

from tests.config.documents import options_of, problems_of


def test_defaults(tmp_path: Path) -> None:
    options = options_of(tmp_path, "study: train")
    assert [entry.label for entry in options.scorers] == ["dot", "scaled_dot", "additive"]
    assert (options.d, options.seeds, options.steps, options.batch) == ([16, 64, 256, 1024], 5, 800, 64)
    assert (options.keys, options.vocabulary, options.classes, options.embedding) == (8, 16, 8, 64)
    assert (options.optimizer, options.lr, options.dtype) == ("adam", 0.001, "float32")
    assert (options.test_keys, options.tested, options.resume, options.unused()) == (None, [8], None, set())


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("d: 4", "d", [4]),
        ("scorer: 'additive:num_hiddens=64'", "d", [16, 64, 256, 1024]),
        ("optimizer: sgd", "lr", 1.0),
        ("{optimizer: sgd, lr: 0.5}", "lr", 0.5),
        ("lr: null", "lr", 0.001),
        ("test_keys: 16", "tested", [8, 16]),
        ("test_keys: {from: 4, to: 16}", "tested", [8, 4, 16]),
        ("{keys: 2, test_keys: [8, 2]}", "tested", [2, 8]),
    ],
)
def test_short_forms(text: str, key: str, value: object, tmp_path: Path) -> None:
    whole = f"{{study: train, {text[1:]}" if text.startswith("{") else f"study: train\n{text}\n"
    assert getattr(options_of(tmp_path, whole), key) == value


def test_a_run_to_resume_lies_beside_the_file_and_is_no_part_of_the_experiment(tmp_path: Path) -> None:
    options = options_of(tmp_path, "study: train\nresume: old\n")
    assert options.resume == str(tmp_path / "old")
    assert options.unused() == {"resume"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seeds: 0", "2:8: seeds: got 0; expected an integer of at least 1"),
        ("keys: 1", "2:7: keys: got 1; expected an integer of at least 2"),
        (
            "keys: 20",
            "2:7: keys: got 20 different keys of 16 symbols; expected at most as many; use a larger vocabulary",
        ),
        (
            "test_keys: [8, 17]",
            "2:12: test_keys: got 17 different keys of 16 symbols; expected at most as many; use a larger vocabulary",
        ),
        ("lr: 0", "2:5: lr: got 0; expected a number above 0"),
        ("optimizer: adamw", '2:12: optimizer: got "adamw"; expected adam or sgd'),
        ("optimizer: [1]", "2:12: optimizer: got [1]; expected adam or sgd"),
        ("optimizer: {a: 1}", '2:12: optimizer: got {"a": 1}; expected adam or sgd'),
        ("test_keys: 1", "2:12: test_keys: got 1; expected an integer of at least 2"),
        ("test_keys: [8, 1]", "2:12: test_keys: got 1; expected an integer of at least 2"),
        ("dtype: float16", '2:8: dtype: got "float16"; expected float32 or float64'),
        ("test_key: 3", "2:1: test_key: unknown key; did you mean `test_keys`?"),
        (
            "scorers: [{scorer: dot, dropout: 0.5}]",
            "2:34: scorers[0].dropout: got 0.5; this study trains without dropout; leave it out",
        ),
    ],
)
def test_what_is_wrong(text: str, message: str, tmp_path: Path) -> None:
    assert message in problems_of(tmp_path, f"study: train\n{text}\n")
