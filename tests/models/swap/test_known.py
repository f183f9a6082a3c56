"""Calls whose readings are known from an earlier run: only they are seen, without the model's own kernel."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import attncli
from attncli.models.call import AttentionCall
from attncli.studies.swap.study import Survey
from tests.models.families import of_transformers
from tests.models.swap.oracle import TEXTBOOK, assert_same, attention, main_output, passed
from tests.scorers.peaks import profiled

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers


def surveyed(family: str, right: bool = True) -> tuple[nn.Module, dict[str, Any], dict[str, AttentionCall]]:
    """Return a model, a batch with padding at one side, and the readings of its calls."""
    model, inputs = of_transformers(family, "sdpa")
    if right and "attention_mask" in inputs:
        inputs["attention_mask"] = inputs["attention_mask"].flip(-1)
    with torch.no_grad(), Survey() as survey:
        survey.take_names(model)
        model(**inputs)
    return model, inputs, survey.readings


@pytest.mark.parametrize("right", [True, False], ids=["right", "left"])
@pytest.mark.parametrize("entry", TEXTBOOK)
@pytest.mark.parametrize("family", ["llama", "gqa", "gemma3", "bert", "gpt2"])
def test_known_calls_are_replaced_as_in_the_textbook(family: str, entry: str, right: bool) -> None:
    model, inputs, readings = surveyed(family, right)
    with torch.no_grad(), attncli.Swap(entry, known=readings) as swap:
        swap.take_names(model)
        output = main_output(model, inputs)
    assert not swap.follows
    assert swap.swapped == dict.fromkeys(readings, 1)
    with torch.no_grad(), attention(model, TEXTBOOK[entry]):
        expected = main_output(model, inputs)
    assert_close(output, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))


def test_kernels_run_where_their_output_is_needed() -> None:
    model, inputs, readings = surveyed("gqa")
    name, *_ = readings
    outputs, counts = dict[str, Tensor](), dict[str, int]()
    ways: dict[str, dict[str, Any]] = {"known": {"known": readings}, "heads": {"known": readings, "heads": [1]}}
    ways |= {
        "all": {},
        "head": {"heads": [1]},
        "others": {"known": {name: readings[name]}},
        "layer": {"layers": [name]},
    }
    for way, options in ways.items():
        with torch.no_grad(), profiled() as seen, attncli.Swap("zero", **options) as swap:
            swap.take_names(model)
            outputs[way] = main_output(model, inputs)
        counts[way] = sum(event.name == "aten::scaled_dot_product_attention" for event in seen.events() or ())
    assert counts == {"known": 0, "heads": 2, "all": 2, "head": 2, "others": 1, "layer": 2}
    for one, other in (("known", "all"), ("heads", "head"), ("others", "layer")):
        assert_close(outputs[one], outputs[other], rtol=0, atol=0)


def test_a_capture_sees_known_calls_as_replaced() -> None:
    model, inputs, readings = surveyed("gqa")
    with torch.no_grad(), attncli.Swap("uniform", known=readings) as swap:
        swap.take_names(model)
        with attncli.Capture() as seen:
            inside = main_output(model, inputs)
        assert_close(main_output(model, inputs), inside, rtol=1e-5, atol=1e-5)
    assert [record.problem for record in seen.records] == [None, None]
    for record in seen.records:
        assert record.valid is not None
        values = record.values.repeat_interleave(record.groups, 1)
        assert_close(record.output, record.valid.float() / record.valid.sum(-1, keepdim=True) @ values)


def test_padding_at_the_right_is_a_length() -> None:
    model, inputs, readings = surveyed("gqa")
    for call in readings.values():
        assert call.lengths is not None
        assert call.lengths.tolist() == [12, 8]
    for call in attncli.capture(model, **inputs).records:
        assert call.is_causal
        mask = torch.ones(12, 12, dtype=torch.bool).tril() & inputs["attention_mask"].bool()[:, None, None]
        assert torch.equal(call.valid_keys.whole[:, :1], mask)


def test_known_calls_have_gradients() -> None:
    model, inputs, readings = surveyed("gqa")
    ways = [passed(model, inputs, attncli.Swap("cosine", model=model, known=each)) for each in (readings, None)]
    assert_same(ways[0], ways[1])
