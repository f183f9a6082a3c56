"""A scorer's options: its signature is their schema."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from attncli.config.scorer_entries import entry_model, options_of
from attncli.errors import InputError
from attncli.scorers import SCORERS
from tests.config.documents import GOOD, problems_of
from tests.config.documents import options_of as read_options

DATA = GOOD.partition("scorers:")[0]
MINE = """
from typing import Annotated, Literal

from pydantic import Field
from torch import nn


class Base(nn.Module):
    def __init__(self, query_size, key_size):
        super().__init__()


class Many(Base):
    def __init__(
        self,
        query_size,
        key_size,
        positional=1,
        *,
        count: Annotated[int, Field(ge=1, le=4)] = 2,
        kind: Literal["wide", "deep"] = "wide",
        rate: float | None = None,
        must: bool,
        layers: list[int] = [1],
    ):
        super().__init__(query_size, key_size)


class Untyped(Base):
    def __init__(self, query_size, key_size, *, anything=3):
        super().__init__(query_size, key_size)


class Open(Base):
    def __init__(self, query_size, key_size, *sizes, **options):
        super().__init__(query_size, key_size)


class Later(Base):
    def __init__(self, query_size, key_size, *, power: "float" = 2.0):
        super().__init__(query_size, key_size)


class Inherited(Later):
    pass


class Strange(Base):
    def __init__(self, query_size, key_size, *, layer: nn.Module = None):
        super().__init__(query_size, key_size)


class Hidden(Base):
    def __init__(self, query_size, key_size, *, _power=2):
        super().__init__(query_size, key_size)


class Shadowing(Base):
    def __init__(self, query_size, key_size, *, copy=False):
        super().__init__(query_size, key_size)
"""


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    sys.modules.pop("mine", None)


def options(folder: Path, entry: str) -> dict[str, Any]:
    found: dict[str, Any] = read_options(folder, f"{DATA}scorers: [{entry}]").scorers[0].options
    return found


def problems(folder: Path, entry: str) -> list[str]:
    return [problem.partition(": ")[2] for problem in problems_of(folder, f"{DATA}scorers: [{entry}]")]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("{scorer: additive}", {"num_hiddens": 8}),
        ("{scorer: additive, num_hiddens: 1}", {"num_hiddens": 1}),
        ("{scorer: scaled_dot}", {"scale": "1/sqrt(d)"}),
        ("{scorer: scaled_dot, scale: 1/d}", {"scale": "1/d"}),
        ("{scorer: scaled_dot, scale: 2}", {"scale": 2.0}),
        ("{scorer: cosine, scale: 1e-3}", {"scale": 0.001}),
        ("{scorer: gaussian, sigma: 0.5, label: g, dropout: 0.5, softcap: 2}", {"sigma": 0.5}),
        ("{scorer: dot, parameters: null, softcap: null}", {}),
        ("{scorer: 'mine:Many', must: true}", {"count": 2, "kind": "wide", "rate": None, "must": True, "layers": [1]}),
        ("{scorer: 'mine:Many', must: false, count: 4, kind: deep, rate: 1, layers: [2, 3]}",
         {"count": 4, "kind": "deep", "rate": 1.0, "must": False, "layers": [2, 3]}),
        ("{scorer: 'mine:Untyped'}", {"anything": 3}),
        ("{scorer: 'mine:Untyped', anything: {a: [1, x]}}", {"anything": {"a": [1, "x"]}}),
        ("{scorer: 'mine:Open'}", {}),
        ("{scorer: 'mine:Hidden'}", {}),
        ("{scorer: 'mine:Later', power: 3}", {"power": 3.0}),
        ("{scorer: 'mine:Inherited', power: 3}", {"power": 3.0}),
    ],
)  # fmt: skip
def test_good_options(entry: str, expected: dict[str, Any], tmp_path: Path) -> None:
    assert options(tmp_path, entry) == expected


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("{scorer: gaussian, sigma: 2e9}", ["scorers[0].sigma: got 2000000000.0; expected a number of at most 1e+09"]),
        ("{scorer: additive, num_hiddens: true}", ["scorers[0].num_hiddens: got true; expected an integer"]),
        ("{scorer: additive, num_hiddens: null}", ["scorers[0].num_hiddens: got nothing; expected an integer"]),
        ("{scorer: cosine, scale: '2'}", ['scorers[0].scale: got "2"; expected a number; leave out the quotes']),
        ("{scorer: dot, options: {}}", [
            "scorers[0].options: unknown key; known: scorer, label, dropout, softcap, parameters"
        ]),
        ("{scorer: 'mine:Many'}", ["scorers[0].must: this key is missing"]),
        ("{scorer: 'mine:Many', must: 1, count: 5, kind: long, rate: x, layers: [1, a], positional: 1}", [
            "scorers[0].must: got 1; expected true or false",
            "scorers[0].count: got 5; expected an integer of at most 4",
            'scorers[0].kind: got "long"; expected wide or deep',
            'scorers[0].rate: got "x"; expected a number',
            'scorers[0].layers[1]: got "a"; expected an integer',
            "scorers[0].positional: unknown key; known: scorer, label, dropout, softcap, parameters, "
            "count, kind, rate, must, layers",
        ]),
        ("{scorer: 'mine:Open', depth: 3}", [
            "scorers[0].depth: unknown key; known: scorer, label, dropout, softcap, parameters"
        ]),
        ("{scorer: 'mine:Many', must: true, dropout: 2, label: a/b, parameters: {}}", [
            "scorers[0].dropout: got 2; expected a number below 1",
            'scorers[0].label: got "a/b"; '
            'expected a name without / \\ : * ? " < > | that does not begin with a dot or a space',
            "scorers[0].parameters.file: this key is missing",
        ]),
    ],
)  # fmt: skip
def test_bad_options(entry: str, expected: list[str], tmp_path: Path) -> None:
    assert sorted(problems(tmp_path, entry)) == sorted(expected)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Shadowing", "the option `copy` has a name that is in use; rename it"),
        ("Strange", "Unable to generate pydantic-core schema for <class 'torch.nn.modules.module.Module'>"),
    ],
)
def test_signatures_that_cannot_be_options(name: str, reason: str, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, f"{{scorer: 'mine:{name}'}}")
    assert problem.startswith(f'scorers[0].scorer: got "mine:{name}", whose options make no sense as YAML: {reason}')
    assert "\n" not in problem


@pytest.mark.parametrize(
    "name", ["additive:", ":Additive", "a b:C", "a..b:C", "1a:B", "mine:Many.x", "a:B\\n", "a:b:c"]
)
def test_names_that_are_no_module_and_class(name: str, tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, f'{{scorer: "{name}"}}')
    assert problem.endswith("; expected module:Class, for instance my_package.my_module:MyScorer")


@pytest.mark.parametrize("name", SCORERS)
def test_the_default_label_is_the_name(name: str, tmp_path: Path) -> None:
    assert read_options(tmp_path, f"{DATA}scorers: [{{scorer: {name}}}]").scorers[0].label == name


def test_the_default_label_of_an_own_scorer_is_its_class(tmp_path: Path) -> None:
    assert read_options(tmp_path, f"{DATA}scorers: [{{scorer: 'mine:Later'}}]").scorers[0].label == "Later"


def test_options_are_the_keyword_only_parameters() -> None:
    class Scorer:
        def __init__(
            self, query_size: int, key_size: int, other: int = 1, *, a: int, b: str = "x", _c: int = 2
        ) -> None: ...

    assert options_of(Scorer) == {"a": (int, ...), "b": (str, "x")}


@pytest.mark.parametrize("option", ["scorer", "label", "dropout", "softcap", "parameters", "options", "model_dump"])
def test_names_of_every_entry_are_in_use(option: str) -> None:
    scope: dict[str, Any] = {"Field": Field}
    exec(f"class Scorer:\n    def __init__(self, q, k, *, {option}=1): ...", scope)
    with pytest.raises(InputError, match=f"the option `{option}` has a name that is in use; rename it"):
        entry_model("mine:Scorer", scope["Scorer"])
