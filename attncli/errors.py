"""Report errors in the user's input: the place, the value, the expected values, and how to fix it."""

import difflib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

Path = tuple[str | int, ...]
# Limits of texts in messages.
LONGEST_VALUE = 60  # characters of a value
LONGEST_NAME = 120  # characters of a name, of a key, and of a library's message
LONGEST_MESSAGE = 2000  # characters of a problem
MOST_LISTED = 25  # names
MOST_PROBLEMS = 20  # in one message
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "storage size calculation overflowed")
JOINERS = "\u200c\u200d"  # they shape Persian words and join emoji, and do nothing else


@dataclass(frozen=True)
class Problem:
    """A problem, shown as `where: path: message`, for instance `d2l.yaml:7:14: data.keys.shape: got ...; ...`."""

    message: str
    path: Path = ()
    where: str = ""
    at_key: bool = False  # the key itself is wrong, not its value

    def __str__(self) -> str:
        path = dotted(tuple(shortened(key) if isinstance(key, str) else key for key in self.path))
        return as_line(": ".join(words for words in (self.where, path, self.message) if words))


class InputError(ValueError):
    """The input of the user is wrong. The error has all problems; as text it has MOST_PROBLEMS, and how many more."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        lines, rest = [*map(str, self.problems[:MOST_PROBLEMS])], len(self.problems) - MOST_PROBLEMS
        if rest > 0:
            lines.append(f"and {rest:,} more problem{'' if rest == 1 else 's'}")
        return "\n".join(lines)

    @classmethod
    def of(cls, message: str, path: Sequence[str | int] = (), where: str = "") -> "InputError":
        """Return an error with one problem."""
        return cls([Problem(message, tuple(path), where)])

    def under(self, *prefix: str | int) -> "InputError":
        """Return an error with the same problems, and `prefix` before their paths."""
        return InputError(replace(problem, path=(*prefix, *problem.path)) for problem in self.problems)


def printable(text: str) -> str:
    r"""Return the text with control and invisible characters escaped: `\n`, `\x1b`, `\u202e`, `' '`."""
    escaped = (c if c.isprintable() or c in JOINERS else c.encode("unicode_escape").decode("ascii") for c in text)
    line = "".join(escaped)
    return line if line.strip() else ascii(text)


def printable_lines(text: str) -> str:
    """Return the text with control and invisible characters escaped, except the ends of lines."""
    return "\n".join(line if line.isprintable() else printable(line) for line in text.split("\n"))


def shortened(text: str, most: int = LONGEST_NAME) -> str:
    """Return the text, cut off after `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def as_line(text: str) -> str:
    """Return the text as a printable line for a terminal, without its middle if it is too long."""
    line, half = printable(text), LONGEST_MESSAGE // 2
    return line if len(line) <= LONGEST_MESSAGE else f"{line[:half]} … {line[-half:]}"


def listed(names: Sequence[str], most: int = MOST_LISTED, comma: str = ", ") -> str:
    """Return the names joined by commas, or by `comma`; after `most` names only how many more there are."""
    rest = f" and {len(names) - most:,} more" if len(names) > most else ""
    return comma.join(shortened(name) for name in names[:most]) + rest


def number_ranges(numbers: Sequence[int]) -> list[str]:
    """Return sorted numbers as texts with the ends of each range: `0 to 3` or `7`."""
    ends = [[number, number] for number in numbers[:1]]
    for number in numbers[1:]:
        if number == ends[-1][1] + 1:
            ends[-1][1] = number
        else:
            ends.append([number, number])
    return [str(first) if first == last else f"{first} to {last}" for first, last in ends]


def in_ranges(numbers: Sequence[int]) -> str:
    """Return sorted numbers as text with the ends of each range: `0 to 3`, or `1, 4 to 6 or 9`."""
    words = number_ranges(numbers)
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def got(value: object, expected: str, cure: str = "") -> str:
    """Return the message `got VALUE; expected; cure` for a wrong value."""
    return "; ".join(words for words in (f"got {show(value)}", expected, cure) if words)


def plain(value: object) -> str:
    """Return text unchanged, and other values as `show` does."""
    return value if isinstance(value, str) else show(value)


def show(value: object) -> str:
    """Return a value as in YAML, on one line and shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    text = "nothing" if text == "null" else " ".join(text.split())
    return shortened(text, LONGEST_VALUE)


def in_bytes(size: float) -> str:
    """Return a number of bytes with a unit: `8.0 TiB`."""
    if size < 1024:
        return "1 byte" if size == 1 else f"{size:.0f} bytes"
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size:.2g} PiB"


def ran_out(error: BaseException) -> bool:
    """Whether an error means that memory ran out; torch raises a RuntimeError."""
    in_words = isinstance(error, RuntimeError) and any(words in str(error).lower() for words in OUT_OF_MEMORY)
    return in_words or isinstance(error, MemoryError)


def dotted(path: Path) -> str:
    """Return a path as text: `scorers[0].scale` for `("scorers", 0, "scale")`; numbers as text are numbers, too."""
    text = ""
    for key in path:
        is_number = isinstance(key, int) or (bool(text) and key.isdecimal())
        text += f"[{key}]" if is_number else f".{key}" if text else str(key)
    return text


def did_you_mean(word: object, choices: Iterable[str]) -> str:
    """Suggest the most similar of the choices, or list all."""
    names = list(choices)
    near = nearest(word, names)
    return f"known: {listed(names)}" if near is None else f"did you mean `{shortened(near)}`?"


def nearest(word: object, choices: Collection[str]) -> str | None:
    """Return the most similar of the choices, or the only one that continues the word.

    None if half of the letters or more are others; one letter may always be another. Upper case is as lower case.
    """
    text = word.casefold() if isinstance(word, str) else ""
    names = {name.casefold(): name for name in choices}
    longer = [name for name in names if name.startswith(f"{text}.")] if text else []
    if len(longer) == 1:
        return names[longer[0]]
    for near in difflib.get_close_matches(text, names, n=1):
        shared = sum(block.size for block in difflib.SequenceMatcher(None, near, text).get_matching_blocks())
        if max(len(near), len(text)) - shared < max(shared, 2):
            return names[near]
    return None


def refusal(error: OSError | ValueError) -> str:
    """Return the reason of an error about a path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


@contextmanager
def os_errors_as_input_errors(path: object, where: str = "") -> Iterator[None]:
    """Turn an OSError in the `with` block, such as for a name that is too long, into an InputError about the path."""
    try:
        yield
    except OSError as error:
        raise InputError.of(got(str(path), f"cannot be read: {refusal(error)}"), where=where) from error


@contextmanager
def below(*prefix: str | int) -> Iterator[None]:
    """Put `prefix` before the paths of an InputError raised in the `with` block."""
    try:
        yield
    except InputError as error:
        raise error.under(*prefix) from error


class Collector:
    """Collects the problems of independent steps, to report all at once.

    with collector.under("data", "queries"):
        ...                     # an InputError is kept, with paths below data.queries
    collector.check()           # raises one InputError with all problems
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    @contextmanager
    def under(self, *prefix: str | int) -> Iterator[None]:
        """Keep the problems of an InputError raised in the `with` block, with `prefix` before their paths."""
        try:
            yield
        except InputError as error:
            self.problems.extend(error.under(*prefix).problems)

    def check(self) -> None:
        """Raise an InputError with all collected problems, if any."""
        if self.problems:
            raise InputError(self.problems)
