"""What a run folder has of the study `bench`: the raw times, and parameters that were read."""

from pathlib import Path

from attncli.runs.records import BenchResult
from attncli.runs.tensors import save_named


def save_bench(folder: Path, result: BenchResult) -> None:
    """tensors.safetensors, and parameters.safetensors where parameters were read.

    The first has `<label>/<implementation>/<measure>/<sizes>`: seconds per call, one number for each round.
    """
    save_named(folder / "tensors.safetensors", result.times)
    parameters = {f"{label}/{name}": each for label, state in result.states.items() for name, each in state.items()}
    if parameters:
        save_named(folder / "parameters.safetensors", parameters)
