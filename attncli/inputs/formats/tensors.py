"""From torch's view of a file's bytes (mapped, not read) to a tensor of one's own."""

from collections.abc import Callable
from pathlib import Path

import psutil
import torch
from torch import Tensor

from attncli.inputs.formats.contents import Entry
from attncli.inputs.formats.problems import broken, parsing, problem, unusable
from attncli.units import in_bytes

KEPT = {
    torch.bool,
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
}
SAVE_PARTS = "save its real and imaginary parts as two tensors"


def entry(path: Path, tensor: Tensor, name: str | None = None) -> Entry:
    """A mapped tensor as an entry of the file."""
    fault = next(((words, cure) for is_so, words, cure in UNUSABLE if is_so(tensor)), None)

    def read() -> Tensor:
        if fault:
            words, cure = fault
            raise unusable(path, name, words, str(tensor.dtype).removeprefix("torch."), cure)
        if tensor.untyped_storage().nbytes() > path.stat().st_size:  # a pickle may ask torch for memory of any size
            raise broken(path, "it describes more numbers than it holds")
        with parsing(path):
            return own(tensor)

    # A broadcast tensor is small in the file and large once copied: its own size counts, not that of its storage.
    return Entry(read, 0 if fault else tensor.numel() * tensor.element_size())


UNUSABLE: tuple[tuple[Callable[[Tensor], bool], str, str], ...] = (
    (lambda t: t.is_meta, "a shape without numbers", "save it with its numbers"),
    (lambda t: t.is_nested, "a nested tensor", "save it padded: tensor.to_padded_tensor(0)"),
    (lambda t: t.is_quantized, "quantized numbers", "save tensor.dequantize()"),
    (lambda t: t.layout != torch.strided, "a sparse tensor", "save tensor.to_dense()"),
    (lambda t: t.is_complex(), "complex numbers", SAVE_PARTS),
    (lambda t: t.dtype not in KEPT, "numbers of a rare kind", "save tensor.to(torch.float32)"),
)


def own(tensor: Tensor) -> Tensor:
    """A contiguous, writable copy, without gradient, that shares nothing with the file."""
    return tensor.detach().as_subclass(Tensor).resolve_neg().clone(memory_format=torch.contiguous_format)


def refuse_unmappable(path: Path) -> None:
    """The system maps no file that is larger than all of its memory."""
    memory = psutil.virtual_memory().total + psutil.swap_memory().total
    if path.stat().st_size > memory:
        figures = f"holds {in_bytes(path.stat().st_size)}; there are {in_bytes(memory)} of memory"
        raise problem(path, figures, "save only the tensors that are needed")
