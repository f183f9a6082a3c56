"""Check before the work whether a run fits into memory, and recognise errors that mean that memory ran out."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import psutil
import torch

from attncli.attention import computing_dtype
from attncli.errors import InputError, in_bytes
from attncli.scorers import Scorer

# The peak of a run is at most this multiple of the bytes it stores. Measured peaks of processes with 30 to 1000 MiB
# of tensors: attention 2.5 (one scorer with sparsemax), 2.1 (one with softcap), 1.6 (three), 2.4 (without weights);
# variance 1.7; saturation 2.6; train 2.8 (cosine of 20,000 features) and 2.2. Tiles have a fixed size and do not count.
FACTOR = 3
PROGRAM = 384 * 2**20  # Python, torch and matplotlib, before the first tensor
_NEEDS: ContextVar[list[int] | None] = ContextVar("_NEEDS", default=None)
REFUSALS = ("can't allocate memory", "not enough memory", "out of memory")
_PROCESSES = ContextVar("_PROCESSES", default=1)


def attention_bytes(shapes: Mapping[str, tuple[int, ...]], dtype: torch.dtype, stages: Iterable[int] = ()) -> int:
    """Return the bytes of the inputs, and of the tensors that the scorers make from them.

    Args:
        shapes: the shapes of queries (..., n, q), keys (..., m, k), values (..., m, v) and other inputs.
        dtype: the dtype of the inputs; everything counts as float32 if it is narrower.
        stages: for each scorer, how many (..., n, m) tensors it keeps, besides an output (..., n, v).
    """
    *leading, n, _ = shapes["queries"]
    rows, m, v = math.prod(leading) * n, shapes["keys"][-2], shapes["values"][-1]
    inputs = sum(math.prod(shape) for shape in shapes.values())
    kept = sum(count * rows * m + rows * v for count in stages)
    return computing_dtype(dtype).itemsize * (inputs + kept)


def parameter_bytes(scorers: Iterable[Scorer]) -> int:
    """Return the bytes of the parameters of all scorers, also of scorers on the meta device."""
    return sum(each.numel() * each.element_size() for scorer in scorers for each in scorer.parameters())


def require_memory(stored: int, device: torch.device, cure: str, path: tuple[str | int, ...] = ("data",)) -> None:
    """Raise an InputError if a run that stores this many bytes needs more memory than is available.

    The message ends with `cure`, such as `use fewer queries`; `path` is the YAML key that it names.
    """
    if (needs := _NEEDS.get()) is not None:
        needs.append(needed_for(stored) + PROGRAM)
    if reason := too_large(stored, device):
        raise InputError.of(f"{reason}; {cure}", path)


def needed_for(stored: int) -> int:
    """Return the peak memory of a run that stores this many bytes, a rough estimate."""
    return int(FACTOR * stored)


def too_large(stored: int, device: torch.device) -> str | None:
    """Return why a run that stores this many bytes does not fit into the memory of the device; None if it does."""
    needed, available = needed_for(stored), available_memory(device)
    if needed <= available:
        return None
    each = f" to each of {_PROCESSES.get()} processes" if _PROCESSES.get() > 1 else ""
    return f"needs about {in_bytes(needed)}; {in_bytes(available)} of memory is available{each}"


@contextmanager
def noting_needs() -> Iterator[list[int]]:
    """Yield a list to which each `require_memory` inside the `with` adds the memory of a process in bytes."""
    token = _NEEDS.set(needs := list[int]())
    try:
        yield needs
    finally:
        _NEEDS.reset(token)


def ran_out(error: BaseException) -> bool:
    """Whether an error means that memory ran out; torch's allocator on the CPU raises a plain RuntimeError."""
    in_words = isinstance(error, RuntimeError) and any(words in str(error.args).lower() for words in REFUSALS)
    return in_words or isinstance(error, MemoryError | torch.OutOfMemoryError)


def available_memory(device: torch.device) -> int:
    """Return the free bytes of the device, at most an equal share of its memory if several processes use it."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
    else:
        memory = psutil.virtual_memory()
        free, total = memory.available, memory.total
    return min(free, total // _PROCESSES.get())


@contextmanager
def shared_by(processes: int) -> Iterator[None]:
    """Limit `available_memory` inside the `with` to the share of one process, if several run at a time."""
    token = _PROCESSES.set(processes)
    try:
        yield
    finally:
        _PROCESSES.reset(token)
