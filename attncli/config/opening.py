"""Open files that the user names: regular files. Devices may have no end, and pipes no writer, so they are refused."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from attncli.errors import in_bytes

LARGEST_CONFIG = 64 * 2**20  # bytes
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class TooLargeError(OSError):
    """A config of more than LARGEST_CONFIG bytes."""


class UnfitFileError(OSError):
    """The path is not a regular file but of another `kind`, such as `a pipe`."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(errno.EINVAL, f"it is {kind}", str(path))
        self.kind = kind


def check_regular(path: Path) -> None:
    """Raise an OSError unless the path is a regular file; the file is not opened."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except ValueError:  # a null character or a lone surrogate
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
    if kind != stat.S_IFREG:
        raise UnfitFileError(path, KINDS.get(kind, "a special file"))


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        UnfitFileError: the path is anything else, such as a folder or a device.
        OSError: the system cannot open it.
    """
    check_regular(path)
    # Without O_NONBLOCK, opening a pipe that has just taken the file's place would wait for its other end.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags), "rb")


def read_config(path: Path) -> bytes:
    """Return the content of a YAML file.

    Raises:
        UnfitFileError: the path is anything but a regular file.
        TooLargeError: the content has more than LARGEST_CONFIG bytes.
        OSError: the system cannot open or read it.
    """
    with open_file(path) as file:
        content = file.read(LARGEST_CONFIG + 1)
    if len(content) > LARGEST_CONFIG:
        raise TooLargeError(errno.EFBIG, f"it has more than {in_bytes(LARGEST_CONFIG)}", str(path))
    return content
