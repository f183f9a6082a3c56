"""Torch's warnings while scorers are compiled or measured."""

import logging
from pathlib import Path

import pytest
import torch

import attncli.scorers  # noqa: F401


def test_a_build_for_cuda_does_not_warn_of_a_missing_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without our filter torch warns; all other warnings pass it."""
    from torch.utils import cpp_extension  # which torch's compiler and its timer load

    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "_is_compiled", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    logger, said = logging.getLogger(cpp_extension.__name__), list[str]()
    warning = f"No CUDA runtime is found, using CUDA_HOME='{tmp_path}'"
    monkeypatch.setattr(logger, "callHandlers", lambda record: said.append(record.getMessage()))
    for filters, expected in ((logger.filters, ["another"]), ([], ["another", warning, "another"])):
        monkeypatch.setattr(logger, "filters", filters)
        cpp_extension._find_cuda_home()
        logger.warning("another")
        assert said == expected
