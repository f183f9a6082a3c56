"""Global modes of torch, set by the caller, change no result."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import attncli
from attncli.attention import attend
from attncli.core.modes import torch_isolated
from attncli.normalizers import NORMALIZERS
from attncli.pooling import pool
from attncli.scorers import SCORERS
from tests.scorers.catalogue import make, normal

BACKENDS: Any = torch.backends
SIZES = {"queries": {"shape": [2, 3, 8]}, "keys": {"shape": [2, 5, 8]}, "valid_lens": [2, 5]}
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "attention": {"data": SIZES, "scorers": [*SCORERS, "dot:normalizer=sparsemax"]},
    "outputs alone": {"data": SIZES, "scorers": [*SCORERS, "dot:normalizer=sparsemax"], "weights": False},
    "variance": {"study": "variance", "d": [4], "samples": 200, "scorers": ["additive", "dot", "gaussian"]},
    "saturation": {"study": "saturation", "d": [4], "rows": 50, "scorers": ["additive", "dot", "gaussian"]},
    "train": {"study": "train", "d": [4], "steps": 5, "seeds": 2, "scorers": ["additive", "dot", "gaussian"]},
}


@contextlib.contextmanager
def while_set(setter: Callable[..., Any], inside: Any, after: Any) -> Iterator[None]:
    setter(inside)
    try:
        yield
    finally:
        setter(after)


MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "inference": torch.inference_mode,
    "no gradients": torch.no_grad,
    "default dtype float64": lambda: while_set(torch.set_default_dtype, torch.float64, torch.float32),
    "default device": lambda: torch.device("meta"),
    "deterministic": lambda: while_set(torch.use_deterministic_algorithms, True, False),
    "short products": lambda: while_set(torch.set_float32_matmul_precision, "medium", "highest"),
    "short products of a backend": lambda: while_set(
        lambda precision: setattr(BACKENDS.mkldnn.matmul, "fp32_precision", precision), "bf16", "none"
    ),
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_modes_of_the_caller_change_no_number(name: str) -> None:
    plain = attncli.run(EXPERIMENTS[name])
    for mode, open_mode in MODES.items():
        with open_mode():
            found = attncli.run(EXPERIMENTS[name])
        for theirs, ours in zip(found.records, plain.records, strict=True):
            assert theirs == ours, mode
        for key, tensor in {**plain.tensors, **plain.parameters}.items():
            other = {**found.tensors, **found.parameters}[key]
            torch.testing.assert_close(other, tensor, rtol=0, atol=0, equal_nan=True, msg=f"{key}: {mode}")


def modes() -> list[Any]:
    """Return all modes of torch that `torch_isolated` resets."""
    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # it was set by backend
        precision = "mixed"
    return [
        *(precision, BACKENDS.mkldnn.matmul.fp32_precision, BACKENDS.cuda.matmul.fp32_precision),
        *(torch.get_default_dtype(), torch.get_default_device(), torch.is_autocast_enabled("cpu")),
        *(torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
    ]


@pytest.mark.parametrize("mode", MODES)
def test_the_caller_gets_its_modes_back(mode: str) -> None:
    with MODES[mode]():
        before = modes()
        with contextlib.suppress(ZeroDivisionError), torch_isolated():
            assert modes()[3:8] == [torch.float32, torch.device("cpu"), False, True, False]
            raise ZeroDivisionError
        assert modes() == before


@pytest.mark.parametrize("name", [*SCORERS, *NORMALIZERS])
def test_scores_weights_outputs_and_gradients_are_the_same_in_autocast(name: str) -> None:
    queries, keys, values = normal(2, 20, 8).requires_grad_(), normal(2, 24, 8, seed=1), normal(2, 24, 4, seed=2)
    scorer, normalizer = make(name if name in SCORERS else "kernel", 8), NORMALIZERS.get(name, NORMALIZERS["softmax"])()

    def everything() -> list[Tensor]:
        scores = scorer(queries, keys)
        weights = normalizer(scores), normalizer(scores, normal(2, 20, 24, seed=3) > 0)
        outputs = *attend(scores, values, [2, 5]), pool(scorer, queries, keys, values, [2, 5])
        own_backward = torch.autograd.grad(scores.sum(), queries) if name == "additive" else ()
        return [scores, *weights, *outputs, *own_backward]

    plain = everything()
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(everything(), plain, rtol=0, atol=0)


def test_a_model_that_runs_in_autocast_is_computed_again_outside_of_it() -> None:
    queries, keys, values = normal(2, 3, 5, 8), normal(2, 3, 7, 8, seed=1), normal(2, 3, 7, 8, seed=2)
    with torch.autocast("cpu", torch.bfloat16):
        (record,) = attncli.capture(lambda: F.scaled_dot_product_attention(queries, keys, values)).records
        weights, output = record.weights(), record.rescored()
    torch.testing.assert_close(record.queries, queries.bfloat16())
    wanted = (record.queries.float() @ record.keys.float().mT * record.scale).softmax(-1)
    assert weights.dtype == output.dtype == torch.float32
    torch.testing.assert_close(weights, wanted)
    torch.testing.assert_close(output, wanted @ record.values.float())


def test_versions_of_torch_without_a_precision_of_each_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "backends", SimpleNamespace(mkldnn=object(), cuda=SimpleNamespace(matmul=object())))
    with torch_isolated():
        assert torch.get_float32_matmul_precision() == "highest"
