"""How much memory a study will take, known before anything is made."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import psutil
import torch
from torch import nn

from attncli import pooling
from attncli.attention import computing_dtype
from attncli.errors import InputError, in_bytes

PROGRAM = 384 * 2**20  # Python, torch and matplotlib with their working space, beside the tensors
FIGURES = 6  # of each row that are kept, in float64
RESERVE = 0.9  # of the available memory may be used
_NEEDS: ContextVar[list[int] | None] = ContextVar("_NEEDS", default=None)
REFUSALS = ("can't allocate memory", "not enough memory", "out of memory")
_PROCESSES = ContextVar("_PROCESSES", default=1)


def estimate_attention(
    shapes: Mapping[str, tuple[int, ...]],
    dtype: torch.dtype,
    stages: Sequence[int],
    scorers: Sequence[nn.Module],
    matrices: int = 0,
) -> dict[str, int]:
    """Bytes at the peak of the study, by what they are needed for.

    Queries are (..., n, q), keys (..., m, k) and values (..., m, v), leading axes repeated. `stages` has, for each
    scorer, how many (..., n, m) matrices it keeps, none where only outputs are asked for; `scorers` may be on the meta
    device. `matrices` is what normalisers that need more than softmax hold at most, as `attncli.normalizers` has it.
    """
    element = computing_dtype(dtype).itemsize
    (*most, n, q), (*_, m, k), v = shapes["queries"], shapes["keys"], shapes["values"][-1]
    leading = math.prod(most)
    pairs, output = leading * n * m, leading * n * v
    entries = {name: math.prod(shape) for name, shape in shapes.items()}
    parameters = [parameter for scorer in scorers for parameter in scorer.parameters()]
    unbounded = [scorer for scorer in scorers if not hasattr(scorer, "workspace_bytes")]  # the others need no more
    bound = max((getattr(scorer, "workspace_bytes", 0) for scorer in scorers), default=0)
    width = max((projected(parameter, q, k) for scorer in unbounded for parameter in scorer.parameters()), default=0)
    converted = 0 if dtype == torch.float32 else 4  # parameters are drawn in float32
    wider = entries.get("bias", 0) * (element - dtype.itemsize)  # which is kept as scores are computed
    # Never at the same time: drawing in float64; scoring and pooling, on copies in the computing dtype.
    drawing = 16 * max(entries.values())
    scoring = element * 3 * max(entries["queries"] + entries["keys"], entries["values"])
    # The scores masked, and the weights before masked ones are set to 0; masks.
    weighting = max(pairs * (2 * element + 3), pairs * element * matrices)
    working = weighting if any(stages) else pooling.WORKSPACE_BYTES * torch.get_num_threads()
    rows = FIGURES * 8 * leading * n
    return {
        "inputs": sum(entries.values()) * dtype.itemsize + wider + (pairs if any(stages) else 0),
        "scores and weights": (sum(stages) * pairs + len(stages) * output) * element + len(stages) * rows,
        "parameters": sum(parameter.numel() for parameter in parameters) * (dtype.itemsize + converted),
        "projections": width * leading * (n + m) * element + bound,
        "working space": max(drawing, scoring + working),
        "program": PROGRAM,
    }


def projected(parameter: nn.Parameter, q: int, k: int) -> int:
    """Entries of a vector after multiplication by a parameter: what remains of its shape without q or k."""
    shape = list(parameter.shape)
    if shape:  # a single number has none
        shape.remove(next((size for size in (q, k) if size in shape), shape[0]))
    return max(shape, default=1)


def require_memory(
    needed: Mapping[str, int], device: torch.device, cure: str, path: Sequence[str | int] = ("data",)
) -> None:
    """Raise an InputError with the figures and the cure where these bytes do not fit into the memory of the device."""
    if (needs := _NEEDS.get()) is not None:
        needs.append(sum(needed.values()))
    if reason := too_large(needed, device):
        raise InputError.of(f"{reason}; {cure}", path)


@contextmanager
def noting_needs() -> Iterator[list[int]]:
    """Notes the bytes of every check inside that asks for them."""
    token = _NEEDS.set(needs := list[int]())
    try:
        yield needs
    finally:
        _NEEDS.reset(token)


def too_large(needed: Mapping[str, int], device: torch.device) -> str | None:
    """Why these bytes do not fit into the memory of the device; None where they do."""
    available = available_memory(device)
    # The program runs already, and on the CPU: what it has taken is not taken from what is available.
    loaded = min(psutil.Process().memory_info().rss, PROGRAM) if device.type == "cpu" else PROGRAM
    if sum(needed.values()) - loaded <= RESERVE * available:
        return None
    each = f" to each of {_PROCESSES.get()} processes" if _PROCESSES.get() > 1 else ""
    return f"needs about {in_words(needed)}; {in_bytes(available)} of memory is available{each}"


def in_words(needed: Mapping[str, int]) -> str:
    """The sum of bytes, and in brackets what they are needed for."""
    parts = ", ".join(f"{name} {in_bytes(size)}" for name, size in needed.items() if size)
    return f"{in_bytes(sum(needed.values()))} ({parts})"


def ran_out(error: BaseException) -> bool:
    """Whether something failed for want of memory; torch's allocator on the CPU says so in words only."""
    in_words = isinstance(error, RuntimeError) and any(words in str(error.args).lower() for words in REFUSALS)
    return in_words or isinstance(error, MemoryError | torch.OutOfMemoryError)


def available_memory(device: torch.device) -> int:
    """Free bytes on the device, and no more than this process's part where several work side by side."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
    else:
        memory = psutil.virtual_memory()
        free, total = memory.available, memory.total
    return min(free, total // _PROCESSES.get())


@contextmanager
def shared_by(processes: int) -> Iterator[None]:
    """So many processes work side by side on this machine, and each may have its part of the memory."""
    token = _PROCESSES.set(processes)
    try:
        yield
    finally:
        _PROCESSES.reset(token)
