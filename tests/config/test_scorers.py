"""`scorers:` in YAML: options from a scorer's signature, and scorers on one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from attncli.catalogue.catalogue import class_formula
from attncli.catalogue.scorer_entries import ENTRY_KEYS
from attncli.catalogue.short_forms import parsed_scorer
from tests.config.documents import GOOD, problems_of
from tests.config.documents import options_of as read_options

DATA = GOOD.partition("scorers:")[0]
MINE = """
from typing import Annotated, Literal

from pydantic import Field
from torch import nn


class Many(nn.Module):
    def __init__(
        self,
        query_size,
        key_size,
        positional=1,
        *,
        count: Annotated[int, Field(ge=1, le=4)] = 2,
        kind: Literal["wide", "deep"] = "wide",
        rate: "float | None" = None,
        must: bool,
        layers: list[int] = [1],
        _hidden=2,
    ): ...


class Untyped(nn.Module):
    def __init__(self, query_size, key_size, *sizes, anything=3, **options): ...


class Inherited(Untyped): ...


class Strange(nn.Module):
    def __init__(self, query_size, key_size, *, layer: nn.Module = None): ...


class Ranged(nn.Module):
    def __init__(self, query_size, key_size, *, sizes=range(3)): ...
"""


@pytest.fixture(autouse=True)
def mine(own_module: Callable[[str, str], None]) -> None:
    own_module("mine", MINE)


@pytest.mark.parametrize(
    ("entry", "label", "expected"),
    [
        ("{scorer: scaled_dot, scale: 2}", "scaled_dot", {"scale": 2.0}),
        ("{scorer: gaussian, sigma: 0.5, label: g, dropout: 0.5, softcap: 2}", "g", {"sigma": 0.5}),
        ("{scorer: 'mine:Many', must: true}", "Many",
         {"count": 2, "kind": "wide", "rate": None, "must": True, "layers": [1]}),
        ("{scorer: 'mine:Many', must: false, count: 4, kind: deep, rate: 1, layers: [2, 3]}", "Many",
         {"count": 4, "kind": "deep", "rate": 1.0, "must": False, "layers": [2, 3]}),
        ("{scorer: 'mine:Inherited', anything: {a: [1, x]}}", "Inherited", {"anything": {"a": [1, "x"]}}),
    ],
)  # fmt: skip
def test_good_entries(entry: str, label: str, expected: dict[str, Any], tmp_path: Path) -> None:
    (read,) = read_options(tmp_path, f"{DATA}scorers: [{entry}]").scorers
    assert (read.label, read.options) == (label, expected)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("{scorer: gaussian, sigma: 2e9}", ["sigma: got 2000000000.0; expected a number of at most 1e+09"]),
        ("{scorer: 'mine:Many', must: 1, count: 5, kind: long, rate: x, layers: [1, a], positional: 1}", [
            "count: got 5; expected an integer of at most 4",
            'kind: got "long"; expected wide or deep',
            'layers[1]: got "a"; expected an integer',
            "must: got 1; expected true or false",
            f"positional: unknown key; known: {', '.join(ENTRY_KEYS)}, count, kind, rate, must, layers",
            'rate: got "x"; expected a number',
        ]),
        ("{scorer: 'mine:Many', must: true, dropout: 2, parameters: {}}", [
            "dropout: got 2; expected a number below 1", "parameters.file: this key is missing",
        ]),
        ("{scorer: 'mine:Ranged'}", ["sizes: got range(0, 3); expected numbers, text, lists or mappings, which YAML"]),
        ("{scorer: 'mine:Strange'}", [
            'scorer: got "mine:Strange", whose options cannot be written in YAML: Unable to generate'
        ]),
        *((f'{{scorer: "{name}"}}', [f'scorer: got "{name}"; expected module:Class, for instance my_package'])
          for name in (":Additive", "a b:C", "a..b:C", "mine:Many.x", "a:b:c")),
    ],
)  # fmt: skip
def test_bad_entries(entry: str, expected: list[str], tmp_path: Path) -> None:
    problems = [each.partition("scorers[0].")[2] for each in problems_of(tmp_path, f"{DATA}scorers: [{entry}]")]
    assert len(problems) == len(expected)
    for problem, start in zip(sorted(problems), expected, strict=True):
        assert problem.startswith(start)
        assert "\n" not in problem


def test_a_class_without_a_docstring_is_named_without_that_of_torch() -> None:
    assert class_formula(type("Silent", (nn.Module,), {})) == "Silent"


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("", {"scorer": ""}),
        ("additive : num_hiddens = 64 ", {"scorer": "additive", "num_hiddens": 64, "label": "additive_64"}),
        ("scaled_dot:scale=1/d", {"scorer": "scaled_dot", "scale": "1/d", "label": "scaled_dot_1_over_d"}),
        ("dot:normalizer=entmax:alpha=1.3,softcap=3",
         {"scorer": "dot", "normalizer": "entmax:alpha=1.3", "softcap": 3, "label": "dot_3_entmax_1.3"}),
        ("dot:normalizer={normalizer: ssmax, c: 2}",
         {"scorer": "dot", "normalizer": {"normalizer": "ssmax", "c": 2}, "label": "dot_ssmax_2"}),
        ("mine:Mine:a=[1, 2],b=x", {"scorer": "mine:Mine", "a": [1, 2], "b": "x", "label": "Mine_x"}),
        ("general:parameters={file: a:b.pt, names: {W: x}}",
         {"scorer": "general", "parameters": {"file": "a:b.pt", "names": {"W": "x"}}, "label": "general"}),
        ("scaled_dot:scale=a\\b|c?", {"scorer": "scaled_dot", "scale": "a\\b|c?", "label": "scaled_dot_a_b_c_"}),
    ],
)  # fmt: skip
def test_entries_on_one_line(text: str, entry: dict[str, Any]) -> None:
    assert parsed_scorer(text) == entry


@pytest.mark.parametrize("text", ["dot:", ":x", "scaled_dot:1/d", "a:b:c", "a b:C", "dot:softcap=", "dot:a=1,=3",
                                  "dot:a=1,a=2", "dot:a=1,scorer=cosine", "a:b:c:d=1"])  # fmt: skip
def test_no_entry_on_one_line(text: str) -> None:
    assert parsed_scorer(text) == text


@pytest.mark.parametrize(
    ("entry", "seed_name"),
    [
        ("{scorer: additive}", "additive"),
        ("{scorer: additive, normalizer: relu, label: a_relu_x_relu}", "a_relu_x"),
        ("'additive:normalizer=entmax:alpha=1.3'", "additive"),
        ("'additive:num_hiddens=4,normalizer=entmax:alpha=1.3'", "additive_4"),
        ("{scorer: additive, normalizer: {normalizer: entmax, alpha: 1.3}, label: a_entmax_1.5}", "a_entmax_1.5"),
    ],
)
def test_random_numbers_depend_on_the_label_without_the_normaliser_at_its_end(
    tmp_path: Path, entry: str, seed_name: str
) -> None:
    (read,) = read_options(tmp_path, f"{DATA}scorers: [{entry}]").scorers
    assert read.seed_name == seed_name
