"""The tensor files that can be read: one format, one module with `contents(path) -> Contents`."""

from collections.abc import Callable
from pathlib import Path

from attncli.inputs.formats import csv, npy, npz, pt, safetensors
from attncli.inputs.formats.contents import Contents

FORMATS: dict[str, Callable[[Path], Contents]] = {
    ".npy": npy.contents,
    ".npz": npz.contents,
    ".safetensors": safetensors.contents,
    ".pt": pt.contents,
    ".pth": pt.contents,
    ".csv": csv.contents,
}
