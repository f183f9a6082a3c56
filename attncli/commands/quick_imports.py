"""Importing torch and matplotlib, which is most of the time that a small run takes."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quick_imports() -> Iterator[None]:
    """No garbage collection while modules load: they make objects by the hundred thousand, and all of them stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
