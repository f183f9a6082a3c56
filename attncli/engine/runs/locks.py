"""Lock files with advisory locks.

The system releases a lock when its process ends, killed or not. Unlike process numbers and host names, a lock has the
same meaning in all containers of a machine, and on most network file systems on all machines.
"""

import os

if os.name != "nt":
    import fcntl


def lock(descriptor: int, *, shared: bool = False) -> bool | None:
    """Lock the file that is open at `descriptor`, until it is closed; several processes may hold a `shared` lock.

    Return True on success, False if another process has locked the file, None if locks are not supported.
    """
    if os.name == "nt":
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_NB | (fcntl.LOCK_SH if shared else fcntl.LOCK_EX))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
