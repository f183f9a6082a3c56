"""What can be wrong with a tensor file, in words."""

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from attncli.errors import InputError, got, show

MOST_NAMES = 10  # names of tensors that a message lists
LONGEST = 120  # characters of a name out of a file, or of a library's own words
AGAIN = "make it or copy it again"


def problem(path: Path, what: str, cure: str = "") -> InputError:
    """Something is wrong with the file."""
    return InputError.of(got(path.name or str(path), what, cure), ("file",))


def name_problem(path: Path, name: str | None, what: str, cure: str) -> InputError:
    """Something is wrong with the name that picks a tensor in the file."""
    return InputError.of(got(name, f"{show(path.name)} {what}", cure), ("tensor",))


def broken(path: Path, reason: str) -> InputError:
    """The file is of the right kind, but its bytes make no sense."""
    return problem(path, f"damaged or cut short ({reason})", AGAIN)


def unusable(path: Path, name: str | None, what: str, dtype: str, cure: str) -> InputError:
    """The file is fine, but what it holds (or its tensor of this name) is no plain tensor of numbers."""
    holder = "" if name is None else f"its tensor {printable(show(name))} "
    return problem(path, f"{holder}holds {what} ({dtype}); expected numbers", cure)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Around everything that reads the file: what the system refuses is an InputError."""
    try:
        yield
    except MemoryError as error:
        raise problem(path, "needs more memory than there is", "save only what is needed") from error
    except PermissionError as error:
        raise problem(path, "may not be read (permission denied)", "allow it: chmod u+r") from error
    except OSError as error:
        raise problem(path, f"cannot be read ({error.strerror or error})") from error


@contextmanager
def parsing(path: Path) -> Iterator[None]:
    """Around a call of a library that parses: whatever it raises means a broken file; its warnings are dropped."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # what parsers raise on broken bytes is written down nowhere (zlib.error, TokenError...)
        raise broken(path, reason(error)) from error


def reason(error: Exception) -> str:
    """The first line of a library's error, short and printable."""
    lines = re.sub(r" at 0x[0-9a-f]+", "", str(error)).splitlines() or [""]
    return short(f"{type(error).__name__}: {lines[0]}".rstrip(": "))


def printable(text: str) -> str:
    """Text out of a file with its control characters spelt out: a terminal would obey them."""
    return text if text.isprintable() else ascii(text)[1:-1]


def short(text: str) -> str:
    """Printable text, not too long for a message."""
    text = printable(text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def listed(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    every = list(names)
    text = ", ".join(short(name) for name in islice(every, MOST_NAMES))
    return text if len(every) <= MOST_NAMES else f"{text} and {len(every) - MOST_NAMES} more"
