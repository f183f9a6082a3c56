"""Open files that the user names: regular files; configs may also be pipes or stdin.

Devices are refused, since they may have no end. Pipes are opened without blocking, since they may have no writer.
"""

import errno
import os
import select
import stat
import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

from attncli.errors import in_bytes

STDIN = Path("-")  # given as the path of a config, it means stdin
LARGEST_CONFIG = 64 * 2**20  # bytes
PATIENCE = 2.0  # seconds to wait for the writer of a pipe
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


def check_regular(path: Path, *, or_pipe: bool = False) -> None:
    """Raise an OSError unless the path is a regular file, or a pipe if `or_pipe`; the file is not opened."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except ValueError:  # a null character or a lone surrogate
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
    if kind != stat.S_IFREG and not (or_pipe and kind == stat.S_IFIFO):
        raise UnfitFileError(path, KINDS.get(kind, "a special file"))


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        UnfitFileError: the path is anything else, such as a folder or a device.
        OSError: the system cannot open it.
    """
    return os.fdopen(_opened(path), "rb")


def read_config(path: Path) -> bytes:
    """Return the content of a YAML file, of a pipe, or of stdin for `-`.

    Raises:
        UnfitFileError: the path is a device, a folder or the like, or a pipe without a writer.
        TooLargeError: the content has more than LARGEST_CONFIG bytes.
        OSError: the system cannot open or read it.
    """
    if path == STDIN and sys.stdin is None:
        raise OSError(errno.EBADF, "stdin is closed")
    with nullcontext(sys.stdin.buffer) if path == STDIN else os.fdopen(_opened(path, or_pipe=True), "rb") as file:
        is_pipe = path != STDIN and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)
        content = _content_of_pipe(path, file.fileno()) if is_pipe else file.read(LARGEST_CONFIG + 1)
    if len(content) > LARGEST_CONFIG:
        raise TooLargeError(errno.EFBIG, f"it has more than {in_bytes(LARGEST_CONFIG)}", str(path))
    return content


def _content_of_pipe(path: Path, descriptor: int) -> bytes:
    """Return the content of a pipe. Raise UnfitFileError if it has no writer after PATIENCE seconds."""
    content = bytearray()
    while len(content) <= LARGEST_CONFIG:
        is_ready = bool(select.select([descriptor], [], [], PATIENCE)[0])
        with suppress(BlockingIOError):  # the writer has written nothing yet
            part = os.read(descriptor, 2**16)
            if not part and not is_ready:
                raise UnfitFileError(path, "a pipe that nobody writes into")
            if not part:
                break
            content += part
    return bytes(content)


def _opened(path: Path, *, or_pipe: bool = False) -> int:
    check_regular(path, or_pipe=or_pipe)
    # Without O_NONBLOCK, opening a pipe waits until somebody opens its other end.
    return os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
