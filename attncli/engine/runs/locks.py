"""Lock files with advisory locks.

The system releases a lock when its process ends, killed or not. Unlike process numbers and host names, a lock has the
same meaning in all containers of a machine, and on most network file systems on all machines.
"""

import errno
import os
import struct
import sys

if os.name != "nt":
    import fcntl

    OF_DESCRIPTOR = getattr(fcntl, "F_OFD_SETLK", None)  # on Linux: a lock that belongs to the open file
    QUESTION = getattr(fcntl, "F_OFD_GETLK", fcntl.F_GETLK)
    # struct flock for a lock on a whole file: Linux begins with its type, macOS and BSD with its range.
    WHOLE, KIND = ("hhqqi4x", 0) if sys.platform == "linux" else ("qqihh", 3)
    WRITING = struct.pack(WHOLE, *(fcntl.F_WRLCK if index == KIND else 0 for index in range(5)))


def lock(descriptor: int) -> bool | None:
    """Lock the file that is open for writing at `descriptor`, until the file is closed.

    Return True on success, False if the file is locked already, None if locks are not supported.
    """
    if os.name == "nt":
        return None
    try:
        if OF_DESCRIPTOR is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            fcntl.fcntl(descriptor, OF_DESCRIPTOR, WRITING)
    except OSError as error:
        return False if error.errno in (errno.EAGAIN, errno.EACCES) else None
    return True


def is_locked(descriptor: int) -> bool | None:
    """Whether a file is locked; None if locks are not supported. The check takes no lock."""
    if os.name == "nt":
        return None
    try:
        answer = fcntl.fcntl(descriptor, QUESTION, WRITING)
    except OSError:
        return None
    return bool(struct.unpack(WHOLE, answer)[KIND] != fcntl.F_UNLCK)
