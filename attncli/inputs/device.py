"""Which device the work is done on."""

import torch

from attncli.errors import InputError


def resolve_device(name: str, dtype: torch.dtype = torch.float32) -> torch.device:
    """The device of a config's `device`; `auto` takes a CUDA device, else Apple's (which has no float64), else the CPU.

    Raises:
        InputError: a device that this machine or this build of torch does not have.
    """
    if name == "auto":
        return torch.device(_best(dtype))
    if name == "cpu" or (name == "mps" and _has_mps() and dtype != torch.float64):
        return torch.device(name)
    count = torch.cuda.device_count()
    if name.startswith("cuda") and int(name.partition(":")[2] or 0) < count:
        return torch.device(name)
    there = "cpu" + "".join(f", cuda:{index}" for index in range(count)) + (", mps" if _has_mps() else "")
    lacking = "; mps has no float64" if name == "mps" and _has_mps() else ""
    raise InputError.of(f'got "{name}"{lacking}; expected one of the devices here: {there}; or auto', ["device"])


def _best(dtype: torch.dtype) -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if _has_mps() and dtype != torch.float64 else "cpu"


def _has_mps() -> bool:
    return torch.backends.mps.is_available()
