"""Where real queries and keys are read from: files of others, run folders, configs; and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor

from attncli.errors import InputError
from attncli.runs.tensors import save_named, save_tensors
from tests.experiments import inputs_of, result_of
from tests.scorers.catalogue import normal
from tests.studies.pairs.samples import swept
from tests.studies.pairs.test_real_pairs import assert_records, stored, tensors

DATA: dict[str, Any] = {
    "queries": {"shape": [2, 3, 4, 5]},
    "keys": {"shape": [2, 3, 6, 5], "fill": "student_t", "df": 5},
    "values": {"shape": [2, 3, 6, 1]},
    "valid_lens": [2, 6],
}


def expected(data: dict[str, Any], **keys: Any) -> dict[str, Tensor]:
    inputs = inputs_of(data=data, **keys)
    given = {"queries": inputs.queries, "keys": inputs.keys}
    return given if inputs.valid.is_full else given | {"valid": inputs.valid.whole}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_run_folder(dtype: str, tmp_path: Path) -> None:
    save_tensors(tmp_path / "tensors.safetensors", result_of(data=DATA, dtype=dtype))
    given = expected(DATA, dtype=dtype)
    assert_records(tmp_path, given, heads=True)
    assert_records(tmp_path / "tensors.safetensors", given, heads=True)


@pytest.mark.parametrize("heads", [True, False])
def test_a_config_with_its_own_seed(heads: bool, tmp_path: Path) -> None:
    data = DATA if heads else {"queries": {"shape": [2, 4, 5]}, "keys": {"shape": [2, 6, 5]}}
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({"seed": 7, "data": data, "scorers": [{"scorer": "cosine"}]}))
    assert_records(path, expected(data, seed=7), heads=heads)


@pytest.mark.parametrize("study", ["variance", "saturation"])
@pytest.mark.parametrize("leading", [(2,), (2, 3), (2, 3, 2)])
def test_what_is_kept_gives_the_same_again(study: str, leading: tuple[int, ...], tmp_path: Path) -> None:
    given = tensors(*leading)
    given["valid"] = normal(*leading, 3, 4, seed=2) > -1
    first = swept(study, source=stored(tmp_path, given))
    assert set(first.inputs) == {"queries", "keys", "valid"}
    (tmp_path / "again").mkdir()
    save_named(tmp_path / "again" / "tensors.safetensors", dict(first.inputs))
    assert repr(swept(study, source=tmp_path / "again").records) == repr(first.records)


def test_the_dtype_of_the_config_rounds(tmp_path: Path) -> None:
    given = tensors(2)
    result = swept("variance", source=stored(tmp_path, given), scorers=[{"scorer": "dot"}], dtype="bfloat16")
    scores = given["queries"].bfloat16().double() @ given["keys"].bfloat16().double().mT
    assert result.records[0]["variance"] == pytest.approx(float(scores.var(correction=0)), rel=1e-5)


def test_integers_are_numbers_too(tmp_path: Path) -> None:
    given = {"queries": torch.arange(6).reshape(2, 3), "keys": torch.arange(3)[None]}
    row = swept("variance", source=stored(tmp_path, given), scorers=[{"scorer": "dot"}]).records[0]
    assert (row["mean"], row["variance"]) == (9.5, 20.25)  # scores 0*0 + 1*1 + 2*2 = 5 and 3*0 + 4*1 + 5*2 = 14


@pytest.mark.parametrize("valid", [torch.full((2, 3, 4), 0.5), torch.ones(2, 3, dtype=torch.bool), torch.ones(5, 3, 4)])
def test_something_else_that_is_called_valid(valid: Tensor, tmp_path: Path) -> None:
    """Ignored, it would let padding count without a word."""
    with pytest.raises(InputError, match=r'got "valid" of .*fits scores of shape \[2, 3, 4\]; rename it'):
        swept("variance", source=stored(tmp_path, tensors(2) | {"valid": valid}))


@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (1, 3, 4), (2, 1, 4)])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.int64])
def test_a_mask_is_repeated_where_it_has_size_1(shape: tuple[int, ...], dtype: torch.dtype, tmp_path: Path) -> None:
    given = tensors(2)
    valid = normal(*shape, seed=2) > -0.7
    assert 0 < int(valid.sum()) < valid.numel()
    source = stored(tmp_path, given | {"valid": valid.to(dtype)})
    assert_records(source, given | {"valid": valid.expand(2, 3, 4)}, heads=False)


def test_valid_lengths_of_a_file(tmp_path: Path) -> None:
    given = tensors(2)
    source = stored(tmp_path, given | {"valid_lens": torch.tensor([1, 3])})
    valid = torch.arange(4) < torch.tensor([[[1]], [[3]]])
    assert_records(source, given | {"valid": valid.expand(2, 3, 4)}, heads=False)


def test_no_valid_pair_at_all(tmp_path: Path) -> None:
    source = stored(tmp_path, tensors(2) | {"valid": torch.zeros(2, 3, 4, dtype=torch.bool)})
    with pytest.raises(InputError, match="no query has a valid key; expected one at least"):
        swept("variance", source=source)


def test_variance_within_rows_is_what_the_softmax_sees(tmp_path: Path) -> None:
    """Keys with a large common part: its product with a query is the same for all keys of that query."""
    given = {"queries": normal(1, 50, 8), "keys": 5.0 + normal(1, 40, 8, seed=1)}
    (row,) = swept("variance", source=stored(tmp_path, given), scorers=[{"scorer": "dot"}]).records
    scores = given["queries"].double() @ given["keys"].double().mT
    within = scores.var(-1, correction=0).mean().item()
    assert row["row_variance"] == pytest.approx(within, rel=1e-5)
    assert row["variance"] == pytest.approx(scores.var(correction=0).item(), rel=1e-5)
    assert within < 0.2 * row["variance"]
    valid = (normal(1, 50, 40, seed=2) > 0) | torch.eye(50, 40, dtype=torch.bool)
    (row,) = swept("variance", source=stored(tmp_path, given | {"valid": valid}), scorers=[{"scorer": "dot"}]).records
    squares = [(scores[0, i][valid[0, i]] - scores[0, i][valid[0, i]].mean()).square().sum().item() for i in range(50)]
    assert row["row_variance"] == pytest.approx(sum(squares) / int(valid.sum()), rel=1e-5)


def test_histograms_hold_all_heads(tmp_path: Path) -> None:
    given = tensors(2, 3)
    result = swept("variance", source=stored(tmp_path, given), scorers=[{"scorer": "dot"}])
    scores = (given["queries"].double() @ given["keys"].double().mT).flatten().numpy()
    edges, counts = (result.tensors[f"histogram/dot/{part}"].numpy() for part in ("edges", "counts"))
    assert [edges[0], edges[-1]] == pytest.approx([scores.mean() - 5 * scores.std(), scores.mean() + 5 * scores.std()])
    assert np.abs(counts - np.histogram(scores, edges)[0]).sum() <= 2  # of scores on an edge, but for rounding


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"queries": normal(2, 3), "values": normal(2, 3)}, "which has no keys; expected one of keys, key, k, K in it"),
        ({"queries": normal(2, 4, 3), "keys": normal(3, 4, 3)}, "expected equal leading axes, or of size 1"),
        ({"queries": normal(3), "keys": normal(4, 3)}, "expected numbers of shape (..., rows, features)"),
        ({"queries": normal(4, 3) > 0, "keys": normal(4, 3)}, "expected numbers of shape (..., rows, features)"),
    ],
)
def test_files_that_make_no_sense(given: dict[str, Tensor], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        swept("variance", source=stored(tmp_path, given))
    assert str(caught.value).startswith("from: got ")
    assert message in str(caught.value)


def test_folders_that_are_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no tensors\.safetensors; expected the folder of a run"):
        swept("variance", source=tmp_path)
    (tmp_path / "latest").mkdir()
    with pytest.raises(InputError, match="did you mean"):
        swept("variance", source=tmp_path)


def test_a_config_of_another_study(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("study: variance\n")
    with pytest.raises(InputError, match="only experiments of the study attention have queries and keys"):
        swept("saturation", source=path)


def test_scorers_that_need_equal_sizes(tmp_path: Path) -> None:
    path = stored(tmp_path, {"queries": normal(3, 5), "keys": normal(4, 7)})
    with pytest.raises(InputError) as caught:
        swept("variance", source=path, scorers=[{"scorer": "general"}, {"scorer": "dot"}])
    assert [problem.path for problem in caught.value.problems] == [("scorers", 1)]
