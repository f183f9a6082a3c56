"""Plans: other entries in other layers and heads, with functions of transformers' registry as the oracle."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import attncli
from attncli.errors import InputError
from tests.cli import refusal
from tests.models.families import of_transformers
from tests.models.swap.oracle import TEXTBOOK, assert_same, attention, main_output, of_heads, passed, softmax
from tests.studies.swap.models import tower

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers


PLANS: dict[str, tuple[Any, Any]] = {
    "two numbers": ({0: "uniform", 1: "sparsemax"}, {0: TEXTBOOK["uniform"], 1: TEXTBOOK["sparsemax"]}),
    "a range": ({"0-1": "softmax_plus_one"}, dict.fromkeys(range(2), TEXTBOOK["softmax_plus_one"])),
    "names": ({"model.layers.0.self_attn": "cosine", "1": "uniform"}, {0: TEXTBOOK["cosine"], 1: TEXTBOOK["uniform"]}),
    "a pattern": ({"*.1.*": "uniform"}, {1: TEXTBOOK["uniform"]}),
    "heads": (
        {0: {"heads": {0: "sparsemax", 3: "uniform"}}, 1: "cosine"},
        {0: of_heads({0: TEXTBOOK["sparsemax"], 3: TEXTBOOK["uniform"]}), 1: TEXTBOOK["cosine"]},
    ),
    "ranges of heads": (
        {1: {"heads": {"1-2": "cosine"}}},
        {1: of_heads({1: TEXTBOOK["cosine"], 2: TEXTBOOK["cosine"]})},
    ),
    "functions": (
        {0: lambda q, k: q @ k.mT, 1: {"scorer": lambda q, k: q @ k.mT, "label": "other"}},
        dict.fromkeys(range(2), lambda q, k, scale, valid: softmax(q, k, 1.0, valid)),
    ),
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("way", ["sdpa", "eager"])
def test_outputs_and_gradients_are_those_of_the_textbook(way: str, name: str) -> None:
    plan, weights = PLANS[name]
    model, inputs = of_transformers("gqa", way)
    assert_same(passed(model, inputs, attncli.Swap(plan)), passed(model, inputs, attention(model, weights)))


def test_entries_of_a_plan_have_parameters_of_their_own() -> None:
    model, inputs = of_transformers("llama", "sdpa")
    with attncli.Swap({0: "additive", 1: "additive"}) as swap:
        main_output(model, inputs).sum().backward()  # type: ignore[no-untyped-call]
    assert [each.grad is not None for each in swap.parameters()] == [True] * 6
    with attncli.Swap({"0-1": "additive"}) as swap:
        main_output(model, inputs)
    assert len([*swap.parameters()]) == 3


def test_layers_and_heads_beside_a_plan_limit_it() -> None:
    model, inputs = of_transformers("gqa", "sdpa")
    with torch.no_grad():
        with attention(model, {1: of_heads({2: TEXTBOOK["uniform"]})}):
            expected = main_output(model, inputs)
        with attncli.Swap({0: "zero", 1: "uniform"}, layers=[1], heads=[2]) as swap:
            assert_close(main_output(model, inputs), expected, rtol=1e-4, atol=1e-4)
    assert list(swap.swapped) == ["layers.1.self_attn"]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({0: "uniform", "0-1": "zero"}, r'got "0-1", which has 0 as "0" does; expected each once'),
        ({0: "uniform", "f*": "zero"}, 'plan: got "f\\*"; it has first, as "0" does; expected each once'),
        ({0: "dott"}, r"plan\[0\].scorer: got \"dott\"; unknown scorer; did you mean `dot`"),
        ({0: {"heads": {"x": "zero"}}}, 'plan\\[0\\].heads.x: got "x"; expected numbers of heads, such as 0 or 4-7'),
        ({1: {"heads": {9: "zero"}}}, r"^plan\[1\].heads\[9\]: got 9; expected 0 to 3, of the 4 heads of second"),
        ({0: {"heads": {2: "zero", "2": "dot"}}}, r'plan\[0\].heads\[2\]: got "2", which has 2 as 2 does'),
        ({0: {"plan": {0: "zero"}}}, "got a plan inside of a plan; expected an entry"),
        ({0: {"heads": {0: {"heads": {0: "dot"}}}}}, "got heads inside of heads; expected an entry"),
        ({"plan": {0: "zero"}, "window": 3}, "window: got 3; expected in the entries of the plan"),
        ({0: {"scorer": "dot", "dropout": 0.5}}, "dropout: got 0.5; models run without dropout inside of a Swap"),
        ({1: lambda q, k: q @ k.mT * torch.nan}, "^second: lambda gives an output without a finite number$"),
        (torch.ones(2), "entry: got .*; expected NAME, NAME:KEY=VALUE,... or a mapping"),
    ],
)
def test_what_is_no_plan(plan: Any, message: str) -> None:
    model, x = tower()
    with pytest.raises(InputError, match=message), attncli.Swap(plan):
        model(x)


def test_a_plan_in_yaml(tmp_path: Path) -> None:
    config = tmp_path / "a.yaml"
    plan = "{0: sparsemax, second: {heads: {0: zero, 1-2: {scorer: cosine, scale: 16}}}}"
    config.write_text(
        f"study: swap\nmodel: tests.studies.swap.models:tower\nscorers: [sparsemax, {{label: mixed, plan: {plan}}}]\n"
    )
    result = attncli.run(config, out=tmp_path / "out")
    rows = {(row["label"], row["layer"]): row for row in result.records}
    assert (rows["mixed", None]["scorer"], rows["mixed", None]["normalizer"]) == ("plan", "several")
    assert rows["mixed", "first"]["relative_l2"] == rows["sparsemax", "first"]["relative_l2"]
    assert result.formulas["mixed"] == "0: sparsemax; second, heads 0: zero; second, heads 1 to 2: cosine"
    model, x = tower()
    own_plan = {0: "sparsemax", "second": {"heads": {0: "zero", "1-2": {"scorer": "cosine", "scale": 16.0}}}}
    with torch.no_grad():
        own = model(x)
        with attncli.Swap(own_plan):
            change = float((model(x) - own).norm() / own.norm())
    same = attncli.swap(model, x, scorers=[own_plan], by="all").records[1]
    assert [row["relative_l2"] for row in (rows["mixed", None], same)] == pytest.approx([change] * 2)
    again = attncli.run(tmp_path / "out" / "config.yaml")
    assert [row["relative_l2"] for row in again.records] == [row["relative_l2"] for row in result.records]


def test_layers_and_heads_may_be_numbers_of_numpy() -> None:
    model, x = tower()
    for swap in (
        attncli.Swap("zero", layers=np.array([1]), heads=[*np.arange(2)]),
        attncli.Swap({np.int64(1): {"heads": {np.int64(0): "zero"}}}),
        attncli.Swap("zero", layers=np.int64(1)),  # type: ignore[arg-type]
    ):
        with torch.no_grad(), swap:
            model(x)
        assert list(swap.swapped) == ["second"]


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (5, "[5]: got 5; expected 0 to 1, of 2 layers with attention"),
        ("x*", '.x*: got "x*"; no layer with attention; known: first, second'),
    ],
)
def test_each_layer_of_a_plan_is_one_of_the_model(layer: str | int, message: str) -> None:
    model, x = tower()
    for by in ("all", "layer"):
        with pytest.raises(InputError, match=re.escape(f"attncli.swap: scorers[0].plan{message}")):
            attncli.swap(model, x, scorers=[{0: "zero", layer: "uniform"}], by=by)
    with pytest.raises(InputError, match=re.escape(message.partition(": ")[2])), attncli.Swap({layer: "zero"}):
        model(x)


def test_findings_say_what_a_plan_replaced() -> None:
    model, x = tower()
    result = attncli.swap(model, x, scorers=[{"label": "mixed", "plan": {1: {"heads": {"1-2": "zero"}}}}])
    (mixed,) = [each for each in result.findings if each.label == "mixed"]
    change = max(row["relative_l2"] for row in result.records if row["label"] == "mixed")
    assert mixed.text.startswith("mixed (1, heads 1 to 2: zero): changes the output by ")
    assert mixed.text.endswith(f"; one layer at a time most in layer 1 ({100 * change:.2g} %).")
    assert "all layers" not in mixed.text


def test_other_studies_have_no_layers(tmp_path: Path) -> None:
    config = tmp_path / "a.yaml"
    config.write_text("data: {queries: {shape: [2, 3]}, keys: {shape: [4, 3]}}\nscorers: [{plan: {0: dot}}]\n")
    expected = "scorers[0].plan: got a plan, which is for the layers of a whole model: study swap"
    assert expected in refusal("check", config)
