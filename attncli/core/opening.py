"""Open files that the user names: regular files. Devices may have no end, and pipes no writer, so they are refused."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from attncli.errors import in_bytes

LARGEST_CONFIG = 64 * 2**20  # bytes


class UnfitFileError(OSError):
    """The path is no regular file; `kind` is its kind in words, such as `a folder`."""

    def __init__(self, path: Path) -> None:
        self.kind = "a folder" if path.is_dir() else "a pipe or a device"
        super().__init__(errno.EINVAL, f"it is {self.kind}", str(path))


def check_regular(path: Path) -> None:
    """Raise an OSError unless the path is a regular file; the file is not opened."""
    try:
        is_regular = stat.S_ISREG(path.stat().st_mode)
    except ValueError:  # a null character or a lone surrogate
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
    if not is_regular:
        raise UnfitFileError(path)


def open_file(path: Path) -> BufferedReader:
    """Open a regular file for reading.

    Raises:
        UnfitFileError: the path is anything else, such as a folder or a device.
        OSError: the system cannot open it.
    """
    check_regular(path)
    return path.open("rb")


def read_config(path: Path) -> bytes:
    """Return the content of a YAML file.

    Raises:
        UnfitFileError: the path is anything but a regular file.
        OSError: the system cannot open or read it, or it has more than LARGEST_CONFIG bytes.
    """
    with open_file(path) as file:
        content = file.read(LARGEST_CONFIG + 1)
    if len(content) > LARGEST_CONFIG:
        cure = "put large tensors into files of their own, such as .npz"
        raise OSError(errno.EFBIG, f"it has more than {in_bytes(LARGEST_CONFIG)}; {cure}", str(path))
    return content
