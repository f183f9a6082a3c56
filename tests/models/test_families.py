"""Capture small random models of well-known families. Tests of runs compare their weights."""

import pytest
import torch
import transformers
from torch.testing import assert_close

import attncli
from attncli.errors import InputError
from tests.models.families import BOTH, EAGER_ONLY, SMALL, of_transformers
from tests.models.rounding import output_rounding, row_rounding

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers


@pytest.mark.parametrize("family", BOTH)
def test_fused_calls_are_those_that_are_written_out(family: str) -> None:
    """A model that computes attention in two ways has the same inputs of its calls in both."""
    models = [of_transformers(family, how) for how in ("eager", "sdpa")]
    eager, fused = (attncli.capture(model, **inputs).records for model, inputs in models)
    assert [record.name for record in eager] == [record.name for record in fused]
    for one, other in zip(eager, fused, strict=True):
        assert (one.how, other.how) == ("steps", "function")
        assert other.error <= output_rounding(other)
        assert (one.groups, other.groups, one.softcap) == (other.groups, one.groups, other.softcap)
        assert one.scale * one.pre_scale == pytest.approx(other.scale * other.pre_scale)
        assert (one.valid is None) == (other.valid is None)
        full = torch.ones(one.queries.shape[:-1], dtype=torch.bool)
        valid = full if one.valid is None else one.valid.any(-1).expand_as(full)  # for the others kernels differ
        assert_close(one.queries[valid], other.queries[valid], rtol=1e-3, atol=1e-4)
        assert_close(one.weights()[valid], other.weights()[valid], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_generate(attention: str, cache: str) -> None:
    """Each step of decoding is one call. Overwritten caches and packed heads do not change the records."""
    model, inputs = of_transformers("gqa", attention)
    options = {"max_new_tokens": 3, "do_sample": False, "cache_implementation": cache, "pad_token_id": 0}
    with attncli.Capture() as seen:
        written = model.generate(**inputs, **options)  # type: ignore[operator]
    assert [record.problem for record in seen.records] == [None] * 6
    for record in seen.records:
        assert record.error <= output_rounding(record)
    assert [record.call for record in seen.records] == [0, 0, 1, 1, 2, 2]
    assert [record.queries.shape[1:3] for record in seen.records] == [(4, 12)] * 2 + [(4, 1)] * 4
    assert {record.groups for record in seen.records} == {2}
    mask = torch.cat([inputs["attention_mask"], torch.ones(2, 2, dtype=torch.int64)], 1)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    whole = attncli.capture(model, written[:, :-1], attention_mask=mask, position_ids=positions).records[0]
    last = seen.records[-2]
    assert_close(last.queries, whole.queries[:, :, -1:], rtol=1e-3, atol=1e-4)
    assert_close(last.output, whole.output[:, :, -1:], rtol=1e-3, atol=1e-4)
    assert_close(last.keys[:, :, :14], whole.keys, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("family", [*BOTH, *EAGER_ONLY])
def test_every_row_is_the_models_own_in_every_dtype(family: str, dtype: torch.dtype) -> None:
    """The relative L2 distance of each re-scored row from the model's own is of rounding; rows of 0 must be 0."""
    for attention in ("eager",) if family in EAGER_ONLY else ("eager", "sdpa"):
        model, inputs = of_transformers(family, attention)
        inputs = {name: each.to(dtype) if each.is_floating_point() else each for name, each in inputs.items()}
        seen = attncli.capture(model.to(dtype), **inputs)
        assert [record.problem for record in seen.records] == [None] * len(seen.records)
        assert {record.queries.dtype for record in seen.records} == {dtype}
        for record in seen.records:
            lengths = record.output.double().norm(dim=-1)
            distances = (record.rescored().double() - record.output.double()).norm(dim=-1)
            assert not bool(distances[lengths == 0].any())
            assert float((distances / lengths)[lengths > 0].max()) == pytest.approx(0, abs=row_rounding(record))


def test_attention_in_chunks_cannot_be_followed() -> None:
    model = transformers.LongformerModel(transformers.LongformerConfig(**SMALL, attention_window=[4, 4]))
    message = (
        r"encoder.layer.0.attention.self \(LongformerSelfAttention\): it ran, and no attention was recognised in it"
    )
    with pytest.raises(InputError, match=message):
        attncli.capture(model, input_ids=torch.full((1, 8), 5))
