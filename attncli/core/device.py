"""Choose the torch device of a run, and check its memory."""

import psutil
import torch

from attncli.errors import InputError, in_bytes


def resolve_device(name: str, dtype: torch.dtype = torch.float32) -> torch.device:
    """Return the torch device named by the key `device`; `auto` means CUDA, else MPS except for float64, else the CPU.

    Raises:
        InputError: this machine or this build of torch does not have the device, or `mps` is requested with float64.
    """
    has_mps, cuda = torch.backends.mps.is_available(), torch.cuda.device_count()
    mps_fits = has_mps and dtype != torch.float64
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps" if mps_fits else "cpu")
    if name == "cpu" or (name == "mps" and mps_fits):
        return torch.device(name)
    if name.startswith("cuda") and int(name.partition(":")[2] or 0) < cuda:
        return torch.device(name)
    present = ", ".join(["cpu", *(f"cuda:{index}" for index in range(cuda)), *(["mps"] if has_mps else [])])
    lacking = "; mps has no float64" if name == "mps" and has_mps else ""
    raise InputError.of(f'got "{name}"{lacking}; expected auto or a device of this machine: {present}', ["device"])


def too_large(size: int, device: torch.device) -> str | None:
    """Return `needs 8.0 TiB; 4.0 GiB of memory is available` if the device has fewer free bytes than `size`."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    return None if size <= free else f"needs {in_bytes(size)}; {in_bytes(free)} of memory is available"
