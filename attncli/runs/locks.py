"""Advisory locks: which process has a file for itself.

The system gives a lock back when its process ends, killed or not. Unlike numbers of processes and names of machines, a
lock means the same in all containers of a machine, and on most network file systems on all machines.
"""

import errno
import os
import struct
import sys

if os.name != "nt":
    import fcntl

    OF_DESCRIPTOR = getattr(fcntl, "F_OFD_SETLK", None)  # of Linux: can be asked for, and does not belong to a process
    QUESTION = getattr(fcntl, "F_OFD_GETLK", fcntl.F_GETLK)
    # struct flock for a lock on a whole file: Linux begins with its type, macOS and BSD with its range.
    WHOLE, KIND = ("hhqqi4x", 0) if sys.platform == "linux" else ("qqihh", 3)
    WRITING = struct.pack(WHOLE, *(fcntl.F_WRLCK if place == KIND else 0 for place in range(5)))


def lock(descriptor: int) -> bool | None:
    """Take a file, open for writing, for this process as long as it is open: False where another one has it.

    None where the system or the file system has no such locks.
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
    """Whether someone has locked a file, without taking it; None where nobody can tell."""
    if os.name == "nt":
        return None
    try:
        answer = fcntl.fcntl(descriptor, QUESTION, WRITING)
    except OSError:
        return None
    return bool(struct.unpack(WHOLE, answer)[KIND] != fcntl.F_UNLCK)
