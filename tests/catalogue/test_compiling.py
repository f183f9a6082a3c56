"""Torch's warnings while scorers are compiled or measured."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import attncli

CUDA_BUILD = """
import logging, sys
import torch

# A build for CUDA, on a machine without a GPU.
torch.version.cuda, torch.cuda._is_compiled, torch.cuda.is_available = "13.0", lambda: True, lambda: False
if "ours" in sys.argv:
    import attncli.scorers
from torch.utils import cpp_extension  # which torch's compiler and its timer load

logging.getLogger(cpp_extension.__name__).warning("another")
"""


@pytest.mark.slow
@pytest.mark.parametrize("ours", [False, True])
def test_a_build_for_cuda_does_not_warn_of_a_missing_gpu(ours: bool, tmp_path: Path) -> None:
    environment = {**os.environ, "CUDA_HOME": str(tmp_path), "PYTHONPATH": str(Path(attncli.__file__).parents[1])}
    command = [sys.executable, "-c", CUDA_BUILD, *["ours"] * ours]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr
    assert [line.rpartition("] ")[2] for line in said.splitlines()] == (
        [] if ours else [f"No CUDA runtime is found, using CUDA_HOME='{tmp_path}'"]
    ) + ["another"]
