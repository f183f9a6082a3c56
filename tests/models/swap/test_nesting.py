"""Which modules, calls and runs a `Swap` replaces, alone and inside of others."""

import itertools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import reduce
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

import attncli
from attncli.errors import InputError
from tests.models.families import of_transformers
from tests.models.swap.oracle import TEXTBOOK, attention, main_output
from tests.models.written import Computed
from tests.studies.swap.models import Strides, Tower, Written

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers


def blocks(count: int = 4) -> Any:
    """Return a model of blocks that a caller may also run one by one."""
    modules = nn.ModuleList([Strides() if index % 2 else Written() for index in range(count)])
    return Computed(lambda module, x: reduce(lambda x, block: x + block(x), module.blocks, x), blocks=modules)


@pytest.fixture(autouse=True)
def no_gradients() -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


@pytest.mark.parametrize(("outer", "inner"), [*itertools.permutations(["uniform", "cosine", "model"], 2)])
@pytest.mark.parametrize("where", [(None, [0]), ([1], [0]), ([0, 1], [1]), (None, None), ([0], None)], ids=str)
@pytest.mark.parametrize("way", ["sdpa", "eager"])
def test_the_inner_swap_decides_for_its_calls(way: str, where: Any, outer: str, inner: str) -> None:
    model, inputs = of_transformers("gqa", way)
    weights = dict.fromkeys(where[0] or range(2), TEXTBOOK[outer]) | dict.fromkeys(
        where[1] or range(2), TEXTBOOK[inner]
    )
    with attention(model, weights):
        expected = main_output(model, inputs)
    with attncli.Swap(outer, layers=where[0]) as first, attncli.Swap(inner, layers=where[1]) as second:
        assert_close(main_output(model, inputs), expected, rtol=1e-4, atol=1e-4)
    assert len(second.swapped) == len(where[1] or range(2))
    assert first.swapped.keys().isdisjoint(second.swapped)


@pytest.mark.parametrize("order", ["outside", "inside"])
@pytest.mark.parametrize("way", ["sdpa", "eager"])
def test_a_capture_records_the_swapped_call_and_no_arithmetic(way: str, order: str) -> None:
    model, inputs = of_transformers("gqa", way)
    own = attncli.capture(model, **inputs).records
    swap, seen = attncli.Swap("cosine", layers=[0]), attncli.Capture()
    with ExitStack() as stack:
        for each in (swap, seen) if order == "inside" else (seen, swap):
            stack.enter_context(each)
        main_output(model, inputs)
    first, second = seen.records
    assert (first.problem, second.problem, seen.missed) == (None, None, [])
    assert_close((first.queries, first.keys, first.values), (own[0].queries, own[0].keys, own[0].values))
    valid = torch.ones(12, 12, dtype=torch.bool).tril() & inputs["attention_mask"][:, None, None].bool()
    keys, values = (each.repeat_interleave(2, 1) for each in (first.keys, first.values))
    expected = TEXTBOOK["cosine"](first.queries, keys, 1.0, valid) @ values
    counted = inputs["attention_mask"][:, None, :, None]  # how a model treats queries in padding differs
    assert_close(first.output * counted, expected * counted)
    assert_close(second.rescored(), second.output)


def test_a_scorer_with_attention_inside_is_no_attention_of_the_model() -> None:
    model, x = Tower(), torch.randn(2, 5, 32)
    with (
        attncli.Capture() as seen,
        attncli.Swap("uniform"),
        attncli.Swap(lambda q, k: (q @ k.mT).softmax(-1) @ k @ k.mT),
    ):
        model(x)
    assert [call.layer for call in seen.records] == ["first", "second"]
    assert seen.missed == []


def test_a_module_that_calls_itself_has_all_calls_under_its_name() -> None:
    """It attends before and after the inner call, which it has not left by an error."""

    def recursive(attend: Any) -> Any:
        def forward(module: Any, x: Tensor, levels: int = 2) -> Any:
            inner = x + attend(x)
            inner = module(inner, levels - 1) if levels else inner
            return inner + attend(inner)

        return forward

    own = recursive(lambda x: scaled_dot_product_attention(*[x[:, None]] * 3)[:, 0])
    model = nn.ModuleDict({name: Computed(own) for name in "ab"})
    whole, x = Computed(lambda module, x: module.parts["b"](module.parts["a"](x), 0), parts=model), torch.randn(2, 5, 8)
    with attncli.Swap("uniform", model=whole) as swap, attncli.Capture() as seen:
        found = whole(x)
    uniform = Computed(recursive(lambda x: x.mean(1, keepdim=True).expand_as(x)))
    assert_close(found, uniform(uniform(x), 0))
    calls = [f"parts.a#{number}" if number else "parts.a" for number in range(6)] + ["parts.b", "parts.b#1"]
    assert (swap.swapped, swap.missed) == (dict.fromkeys(calls, 1), [])
    assert [call.name for call in seen.records] == calls


def test_a_loop_over_the_blocks_is_a_run_and_so_is_the_whole_model_after_it() -> None:
    model, x = blocks(), torch.randn(2, 5, 32)
    wrapped = nn.Sequential(model, nn.Linear(32, 4))
    with attncli.Swap("uniform", model=model, layers=[1, 2]) as swap:
        expected = model(x)
    assert swap.swapped == {"blocks.1": 1, "blocks.2": 1}
    with swap:
        for _ in range(2):
            assert_close(model.forward(x), expected)
        assert_close(model(x), expected)
        assert_close(wrapped(x), wrapped[1](expected))
        assert_close(model.forward(x), expected)
    assert swap.swapped == {"blocks.1": 5, "blocks.2": 5}


def test_weights_that_a_model_returns_stay_its_own() -> None:
    model, inputs = of_transformers("bert", "eager")
    own = model(**inputs, output_attentions=True).attentions
    with attncli.Swap("uniform", layers=[0]):
        assert_close(model(**inputs, output_attentions=True).attentions[0], own[0])


def test_inference_mode_and_bfloat16() -> None:
    model, inputs = of_transformers("gqa", "sdpa")
    model = model.bfloat16()
    with torch.inference_mode():
        own = main_output(model, inputs)
        with attncli.Swap("model"):
            same = main_output(model, inputs)
    assert same.dtype == torch.bfloat16
    assert float((same.float() - own.float()).norm() / own.float().norm()) < 0.05


def test_sparse_tensors_beside_attention() -> None:
    model = Computed(lambda module, x: module.block(x.to_sparse().detach().to_dense()).to_sparse(), block=blocks())
    assert attncli.capture(model, torch.randn(2, 5, 32)).missed == []


def test_a_block_that_is_called_twice_in_one_run_of_its_model_is_two_calls() -> None:
    model = Computed(lambda module, x: module.blocks(module.blocks(x)), blocks=blocks(2))
    with attncli.Swap("uniform", layers=[2]) as swap:
        model(torch.randn(1, 5, 32))
    assert swap.swapped == {"blocks.blocks.0#1": 1}


def test_only_the_named_model_is_replaced() -> None:
    teacher, student, x = Tower(), Tower(), torch.randn(2, 5, 32)
    own = teacher(x)
    with attncli.Swap("zero"):
        expected = student(x)
    with attncli.Swap("zero", model=student) as swap:
        assert_close(teacher(x), own, rtol=0, atol=0)
        assert_close(student(x), expected)
        assert_close(teacher(x), own, rtol=0, atol=0)
    assert swap.swapped == {"first": 1, "second": 1}


def test_two_models_with_calls_of_one_name_are_an_error() -> None:
    first, second, x = Tower(), Tower(), torch.randn(2, 5, 32)
    with pytest.raises(InputError, match=r"two modules with attention of the name first.* as model="):  # noqa: SIM117
        with attncli.Swap("zero"):
            second(first(x))
    with pytest.raises(InputError, match="model="), attncli.Swap("zero", layers=[0]):
        blocks().forward(x)
    with attncli.Swap("zero") as swap:  # other names
        blocks()(first(x))
    assert list(swap.swapped) == ["first", "second", *(f"blocks.{index}" for index in range(4))]


def test_each_forward_of_generate_is_a_run() -> None:
    model, inputs = of_transformers("t5")
    inputs.pop("decoder_input_ids")
    options: dict[str, Any] = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
    own = model.generate(**inputs, **options)  # type: ignore[operator]
    with attncli.Swap("model"):
        assert torch.equal(model.generate(**inputs, **options), own)  # type: ignore[operator]
    with attncli.Swap("uniform", layers=[0, 2]) as swap:
        for _ in range(2):
            model.generate(**inputs, **options)  # type: ignore[operator]
    assert list(swap.swapped.values()) == [2, 8]


def test_an_interrupt_at_any_line() -> None:
    """Raise KeyboardInterrupt at lines of our code and of torch's modes in turn; the next run is replaced as well."""
    model, x = Tower(), torch.randn(2, 5, 32)
    own = model(x)
    with attncli.Swap("uniform", layers=[1]):
        expected = model(x)
    lines, last = 0, 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(
            ("watching.py", "following.py", "trail.py", "_python_dispatch.py", "overrides.py")
        ):
            return None
        lines += event == "line"
        if lines == last:
            lines += 1
            raise KeyboardInterrupt
        return trace

    interrupts = 0
    while lines >= last:
        lines, last = 0, last + 97
        with attncli.Swap("uniform", layers=[1]):
            sys.settrace(trace)
            try:
                model(x)
            except KeyboardInterrupt:
                interrupts += 1
            finally:
                sys.settrace(None)
            assert_close(model(x), expected)
        assert_close(model(x), own, rtol=0, atol=0)
    assert interrupts > 10


def test_threads_have_swaps_of_their_own() -> None:
    model, x, outputs = Tower(), torch.randn(2, 5, 32), dict[str, Tensor]()
    entries = ["uniform", "zero", "cosine", "model"]
    for entry in entries:
        with attncli.Swap(entry):
            outputs[entry] = model(x)
    start = threading.Barrier(len(entries))

    def run(entry: str) -> Tensor:
        with attncli.Swap(entry) as swap, torch.no_grad():
            start.wait()
            output: Tensor = [model(x) for _ in range(5)][-1]
            start.wait()
        assert swap.missed == []
        return output

    with ThreadPoolExecutor(len(entries)) as threads:
        assert_close(dict(zip(entries, threads.map(run, entries), strict=True)), outputs)


def test_a_compiled_model_and_compiled_parts() -> None:
    model, x = Tower(), torch.randn(2, 5, 32)
    compiled = torch.compile(model, backend="eager")
    with attncli.Swap("zero", layers=[0]):
        expected = model(x)
    compiled(x)
    with attncli.Swap("uniform"), attncli.Swap("zero", layers=[0]) as swap, attncli.Swap("model", layers=[1]):
        assert_close(compiled(x), expected)
    assert swap.swapped == {"first": 1}


@pytest.mark.parametrize("watch", [attncli.Swap("zero"), attncli.Capture()])
def test_no_experiment_is_seen_or_replaced(watch: Any) -> None:
    with pytest.raises(InputError, match="inside of `with Swap` or `with Capture`"), watch:
        attncli.run("d2l")


def test_a_refused_second_use_leaves_the_counts_of_the_first() -> None:
    swap = attncli.Swap("zero", layers=[0])
    for _ in range(2):
        with swap:
            Tower()(torch.randn(1, 5, 32))
            with pytest.raises(InputError, match="this Swap is active already; make another one"):
                swap.__enter__()
            assert swap.swapped == {"first": 1}
