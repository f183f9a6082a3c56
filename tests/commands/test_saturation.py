"""`attncli saturation`: its records, its arrays and its tables."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from tests.cli import good
from tests.commands.sweeps import config, swept

COLUMNS = ["scorer", "d", "keys", "rows", "entropy", "max_weight", "effective_keys"]
COLUMNS += ["jacobian_median", "jacobian_q25", "jacobian_q75", "query_gradient_median"]
LABELS = ["dot", "scaled_dot", "scaled_dot_1_over_d", "additive", "cosine"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_columns_of_the_records() -> None:
    records = swept("saturation", "--d", 4, "--d", 8, "--rows", 50, "--keys", 6)["records"]
    assert [name for name in records[0] if name in COLUMNS] == COLUMNS
    assert all(list(record) == list(records[0]) for record in records)
    assert [(record["label"], record["d"]) for record in records] == [(label, d) for d in (4, 8) for label in LABELS]
    for record in records:
        assert (record["keys"], record["rows"]) == (6, 50)
        assert 0 < record["entropy"] < 1
        assert 1 / 6 < record["max_weight"] < 1
        assert 1 < record["effective_keys"] < 6
        assert record["jacobian_q25"] < record["jacobian_median"] < record["jacobian_q75"]
        assert record["query_gradient_median"] > 0


def test_64_keys_and_2000_rows_by_default() -> None:
    record = swept("saturation", "--d", 1, "--scorer", "dot")["records"][0]
    assert (record["keys"], record["rows"]) == (64, 2000)


def test_a_single_d_is_all_the_table_has_and_the_end_of_the_curve() -> None:
    found = swept("saturation", "--d", 6, "--rows", 50, "--keys", 6)
    assert {record["d"] for record in found["records"]} == {6}
    assert config()["d"] == [6]
    tensors = load_file("out/tensors.safetensors")
    for label, record in zip(LABELS, found["records"], strict=True):
        assert tensors[f"curve/{label}/d"].tolist() == [1, 2, 4, 6]
        for name in COLUMNS[2:]:
            assert tensors[f"curve/{label}/{name}"][-1] == record[name]
    assert not any(name.startswith("histogram") for name in tensors)


def test_keys_and_rows_of_a_file(here: Path) -> None:
    numbers = np.random.default_rng(0)
    np.savez(here / "qk.npz", queries=numbers.normal(size=(2, 3, 4)), keys=numbers.normal(size=(2, 5, 4)))
    records = swept("saturation", "--from", "qk.npz")["records"]
    assert {(record["d"], record["keys"], record["rows"]) for record in records} == {(4, 5, 6)}


def test_weights_that_are_known(here: Path) -> None:
    """One query, keys whose scores are 0 and ln 3: weights 1/4 and 3/4."""
    np.savez(here / "qk.npz", queries=np.array([[1.0]]), keys=np.array([[0.0], [math.log(3)]]))
    record = swept("saturation", "--from", "qk.npz", "--scorer", "dot", "--dtype", "float64")["records"][0]
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert record["max_weight"] == pytest.approx(0.75)
    assert record["entropy"] == pytest.approx(entropy / math.log(2))
    assert record["effective_keys"] == pytest.approx(math.exp(entropy))
    assert record["jacobian_median"] == pytest.approx(0.25 * 0.75 * 2)  # four entries of +-p (1 - p)


def test_the_table_names_what_it_shows() -> None:
    stdout = good("saturation", "--d", 4, "--rows", 50, "--keys", 6, "--no-plots")
    assert all(word in stdout for word in ("entropy", "median", "6 keys", "50 rows", *LABELS[:2]))


def test_yaml_with_the_same_keys(here: Path) -> None:
    by_flags = swept("saturation", "--d", 4, "--rows", 50, "--keys", 6)["records"]
    (here / "s.yaml").write_text("study: saturation\nd: 4\nrows: 50\nkeys: 6\n")
    content = json.loads(good("run", "s.yaml", "--no-plots", "--json"))
    assert (content["records"], content["name"]) == (by_flags, "s")
