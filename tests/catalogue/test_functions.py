"""Functions of queries and keys in place of the names of scorers, in Python."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attncli
from attncli.errors import InputError
from attncli.scorers import SCORERS
from tests.studies.bench.small import hurry
from tests.studies.swap.models import tower
from tests.test_python import STUDIES

pytestmark = pytest.mark.usefixtures("no_pictures")
DATA = {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 4]}, "valid_lens": [2, 5]}


def product(queries: Tensor, keys: Tensor, factor: float = 1.0) -> Tensor:
    """The factor times q . k

    A function for tests.
    """
    return factor * queries @ keys.mT


thrice = partial(product, factor=3.0)


class Bilinear(nn.Module):
    """A form of queries and keys."""

    def __init__(self, query_size: int, key_size: int, *, factor: float = 1.0) -> None:
        super().__init__()
        self.factor, self.form = factor, nn.Linear(query_size, key_size, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        scores: Tensor = self.factor * self.form(queries) @ keys.mT
        return scores


def test_a_run_with_functions() -> None:
    entries = [product, lambda queries, keys: 2 * queries @ keys.mT, thrice, "dot", torch.cdist]
    result = attncli.run({"data": DATA, "scorers": [*entries, {"scorer": product, "label": "b", "softcap": 1.0}]})
    assert result.labels == ["product", "lambda", "partial", "dot", "cdist", "b"]
    own = f"{__name__}:product"
    names = [own, f"{__name__}:lambda", "functools:partial", "dot", f"{torch.cdist.__module__}:cdist", own]
    assert [row["scorer"] for row in result.records] == names
    scores = {label: result.tensors[f"{label}/scores"] for label in result.labels}
    for label, factor in (("product", 1), ("lambda", 2), ("partial", 3)):
        torch.testing.assert_close(scores[label], factor * scores["dot"])
    torch.testing.assert_close(result.tensors["b/capped"], scores["dot"].tanh())
    assert result.formulas["product"] == "The factor times q . k"
    assert result.explain("product", query=1).label == "product"


@pytest.mark.parametrize("study", ["variance", "saturation", "bench", "train", "doctor", "swap", "fit"])
def test_every_study(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    records = attncli.run({"study": study, **STUDIES[study], "scorers": [product, "dot"]}).records
    mine, dot = ([row for row in records if row["label"] == label] for label in ("product", "dot"))
    assert mine != []
    if study in ("variance", "saturation", "doctor"):
        for row, other in zip(mine, dot, strict=True):  # of an unknown function there is no theory
            same = {key for key in row if not key.startswith(("scorer", "label", "theory", "z", "ratio"))}
            assert {key: row[key] for key in same} == {key: other[key] for key in same}


def test_a_function_is_named_in_yaml_as_a_class_is(tmp_path: Path) -> None:
    second = {"scorer": f"{__name__}:product", "label": "b", "softcap": 2.0}
    entries: list[Any] = ["torch:cdist", second, f"{__name__}:thrice"]
    by_name = attncli.run({"data": DATA, "scorers": entries}, out=tmp_path / "out")
    assert by_name.labels == ["cdist", "b", "thrice"]
    direct = attncli.run({"data": DATA, "scorers": [torch.cdist, {**second, "scorer": product}, thrice]})
    again = attncli.run(str(tmp_path / "out" / "config.yaml"))
    for name, tensor in direct.tensors.items():
        torch.testing.assert_close(by_name.tensors[name.replace("partial", "thrice")], tensor, rtol=0, atol=0)
        torch.testing.assert_close(again.tensors[name.replace("partial", "thrice")], tensor, rtol=0, atol=0)
    assert by_name.formulas["b"] == "The factor times q . k"


@pytest.mark.parametrize(
    ("scorers", "expected"),
    [
        ([dict], "[0].scorer: got the class dict; expected a subclass of torch.nn.Module"),
        ([lambda queries: queries], "[0]: the scorer gave TypeError: "),
        ([product, product], '[1].label: got "product", the label of scorers[0] too'),
        ([{"scorer": Bilinear(4, 4), "factor": 2.0}], "[0].factor: unknown key"),  # it is made already
    ],
    ids=["no scorer", "one argument", "twice", "options of a module"],
)
def test_what_is_no_function_of_queries_and_keys(scorers: Any, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        attncli.run({"data": DATA, "scorers": scorers})
    assert str(caught.value).startswith(f"attncli.run: scorers{expected}")


def test_classes_and_modules_in_place_of_names(tmp_path: Path) -> None:
    """A class is made for the sizes as if it was named; a module is made already, and stays as it is."""
    module = Bilinear(4, 4).train()
    own, name = module.form.weight.detach().clone(), f"{__name__}:Bilinear"
    torch.save({"form.weight": own}, tmp_path / "form.pt")
    options = {"factor": 2.0, "parameters": {"file": str(tmp_path / "form.pt")}}
    entries: list[Any] = [
        {"scorer": Bilinear, "label": "class", **options},
        {"scorer": name, "label": "named", **options},
    ]
    result = attncli.run({"data": DATA, "scorers": [*entries, SCORERS["dot"], {"scorer": module, "label": "module"}]})
    assert [row["scorer"] for row in result.records] == [name, name, "dot", name]
    scores = {label: result.tensors[f"{label}/scores"] for label in result.labels}
    assert torch.equal(scores["class"], scores["named"])
    torch.testing.assert_close(scores["class"], 2 * scores["module"])
    queries, keys = result.inputs["queries"], result.inputs["keys"]
    torch.testing.assert_close(scores["module"], queries @ own.T @ keys.mT)
    assert module.training
    assert torch.equal(module.form.weight, own)
    attncli.run({"data": DATA, "scorers": [Bilinear]}, out=tmp_path / "run")
    assert attncli.run(tmp_path / "run" / "config.yaml").labels == ["Bilinear"]


@pytest.mark.parametrize(
    ("scorer", "kind", "name"), [(product, "a function", "function"), (Bilinear(4, 4), "a module or a class", "Class")]
)
def test_no_folder_and_no_sweep_has_an_object(scorer: Any, kind: str, name: str, tmp_path: Path) -> None:
    cure = f"put it in a module, and name it module:{name}"
    config = {"data": DATA, "scorers": ["dot", scorer]}
    for call, why in (
        (partial(attncli.run, config), "which the config.yaml in `out` cannot hold"),
        (partial(attncli.sweep, config, over={"seed": [0, 1]}), "which the processes of a sweep cannot load"),
    ):
        with pytest.raises(InputError, match=f": scorers\\[1\\]: got {kind}, {why}; {cure}$"):
            call(out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_modules_and_classes_inside_a_model() -> None:
    scorers = [{"scorer": Bilinear(8, 8), "label": "made"}, Bilinear, product]
    rows = attncli.swap(*tower(), scorers=scorers, by="all").records
    assert {"made", "Bilinear", "product"} <= {row["label"] for row in rows}
