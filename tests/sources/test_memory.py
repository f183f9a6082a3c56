"""Shapes of a config that cannot fit into memory are refused before a tensor is made; others are not."""

from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch

import attncli
from attncli.core.device import too_large
from attncli.runtime import Progress
from attncli.studies import load_study, options_model
from tests.experiments import CPU
from tests.scorers.peaks import peak_of

NEEDS = r"data: needs .*; 64\.0 MiB of memory is available; use fewer queries, keys or batch elements"


@pytest.fixture(autouse=True)
def memory_of_64_mebibytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=2**26))


def config(shape: list[int], **keys: Any) -> dict[str, Any]:
    data = {role: {"shape": shape, "fill": "ones"} for role in ("queries", "keys")}
    return {"name": "x", "data": data, "scorers": [{"scorer": "dot"}], **keys}


TOO_LARGE = [
    config([1, 4_000, 8]),  # its scores, not its inputs
    config([1, 10**10, 10**10]),  # more than torch can count
    config([1, 2**22, 8], weights=False),
    config([1, 4_000, 8], study="doctor"),
]


@pytest.mark.parametrize("keys", TOO_LARGE, ids=str)
def test_too_large_is_refused_before_anything_large_is_made(keys: dict[str, Any]) -> None:
    def refused() -> None:
        with pytest.raises(ValueError, match=NEEDS):
            attncli.run(keys)

    assert peak_of(refused) < 10_000


@pytest.mark.parametrize("keys", [config([24, 192, 64]), config([1, 2**15, 32], weights=False)], ids=str)
def test_what_fits_is_not_refused(keys: dict[str, Any]) -> None:
    load_study("attention").prepare(options_model("attention").model_validate(keys), Progress())


def test_the_memory_of_the_device_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (123, 456))
    assert too_large(124, torch.device("cuda:1")) == "needs 124 bytes; 123 bytes of memory is available"
    assert too_large(123, torch.device("cuda:1")) is None
    assert too_large(2**26, CPU) is None
    assert too_large(2**26 + 1, CPU) == "needs 64.0 MiB; 64.0 MiB of memory is available"
