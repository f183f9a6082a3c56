"""Run the blocks of README and documentation, in their order.

- A `yaml`, `python` or `csv` block with a title is a file of that name; a `python` block without a title is run.
- A line `$ attncli ...` of a `console` block is a command with its output below; a line `...` stands for any lines.
  `$ echo $?` prints the exit code of the previous command.
- `<!-- slow -->` above a block: only `pytest --everything` runs it. `<!-- differs -->`: the output depends on the
  processor, so the command only has to succeed.

All blocks of a page share one folder. `python -m tests.docs PAGE...` updates the output in the pages.
"""

import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from difflib import SequenceMatcher
from pathlib import Path

from tests.cli import attncli

ROOT = Path(__file__).resolve().parents[1]
PAGES = {path.relative_to(ROOT).as_posix(): path for path in [*ROOT.glob("README*.md"), *(ROOT / "docs").rglob("*.md")]}
BLOCK = re.compile(
    r'(?:^<!-- (?P<flags>[a-z ]+) -->\n+)?^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$',
    flags=re.M | re.S,
)
COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", flags=re.M)
NUMBER = re.compile(r"\d+\.\d+")
ANY_LINES = "..."


@dataclass(frozen=True)
class Block:
    """A fenced block: `flags` are the words of the comment above it, `start` and `end` the place of its text."""

    language: str
    text: str
    title: str | None
    flags: frozenset[str]
    start: int
    end: int


@dataclass
class Shell:
    """Runs commands in the working directory, and keeps the last exit code."""

    code: int = 0

    def __call__(self, command: str) -> str:
        """Return the output of a command at width 80, without trailing spaces."""
        if command == "echo $?":
            return str(self.code)
        program, *arguments = shlex.split(command, comments=True)
        assert program == "attncli", f"{command}: only attncli is run"
        result = attncli(*arguments, COLUMNS="80")
        self.code = result.exit_code
        return "\n".join(line.rstrip() for line in (result.stdout + result.stderr).rstrip().splitlines())


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    for found in BLOCK.finditer(text):
        flags = frozenset((found["flags"] or "").split())
        yield Block(found["language"], found["text"], found["title"], flags, found.start("text"), found.end("text"))


def follow(text: str, folder: Path, check: Callable[[Block, str, str, str], None], slow: bool = True) -> None:
    """Run the blocks of a page in the working directory `folder`; `check` gets block, command, shown and real text."""
    shell, names = Shell(), {"__name__": "page"}
    for block in blocks(text):
        if block.title is not None:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            exec(compile(block.text, "page", "exec"), names)
        elif block.language == "console" and (slow or "slow" not in block.flags):
            for found in COMMAND.finditer(block.text):
                printed = shell(found["command"])
                assert shell.code == 0 or "differs" not in block.flags, printed
                check(block, found["command"], found["output"].rstrip("\n"), printed)


def assert_same_text(shown: str, printed: str) -> None:
    """Compare two outputs, except for times, for lines at `...`, and for a difference of 1 in the last digit.

    A machine may have no font with Chinese characters, and then a warning says so.
    """
    printed = without_times(re.sub(r"\nwarning: no installed font can draw .*", "", printed))
    parts = [without_times(part) for part in re.split(rf"^{re.escape(ANY_LINES)}$", shown, flags=re.M)]
    pattern = r"[\s\S]*".join(NUMBER.sub(r"(\\d+\\.\\d+)", re.escape(part).replace(r"\.", ".")) for part in parts)
    found = re.fullmatch(pattern, printed)
    if found is None:
        assert "\n".join(parts) == printed
    numbers = [number for part in parts for number in NUMBER.findall(part)]
    for old, new in zip(numbers, found.groups() if found else (), strict=True):
        assert abs(Decimal(old) - Decimal(new)) <= Decimal(1).scaleb(-len(old.partition(".")[2])), (old, new)


def without_times(text: str) -> str:
    """Return the text without dates and times, and with single spaces, since times change the widths of columns."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(-\d+)?", "<start>", text)
    text = re.sub(r" +([\d.]+ (s|ms|µs)|time)$", " <time>", text, flags=re.M)
    return re.sub("(─| )+", r"\1", text)


def excerpt(shown: str, printed: str) -> str:
    """Return the lines of the real output most similar to the lines shown, with `...` at the same places."""
    parts = [part.strip("\n").splitlines() for part in re.split(rf"^{re.escape(ANY_LINES)}$", shown, flags=re.M)]
    lines, begin, chosen = printed.splitlines(), 0, list[str]()
    for index, part in enumerate(parts):
        last = len(lines) - len(part)
        likeness = {
            at: SequenceMatcher(None, part, lines[at : at + len(part)]).ratio() for at in range(begin, last + 1)
        }
        at = 0 if index == 0 else last if index == len(parts) - 1 else max(likeness, key=lambda at: likeness[at])
        chosen.append("\n".join(lines[at : at + len(part)]))
        begin = at + len(part)
    return f"\n{ANY_LINES}\n".join(chosen).strip("\n")


def written_anew(text: str, folder: Path, everything: bool) -> str:
    """Return a page with the real output of its commands; blocks that differ from machine to machine stay."""
    lines: dict[Block, list[str]] = {}

    def keep(block: Block, command: str, shown: str, printed: str) -> None:
        output = excerpt(shown, printed) if ANY_LINES in shown.splitlines() else printed
        lines.setdefault(block, []).extend([f"$ {command}", *([output] if output else [])])

    follow(text, folder, keep, everything)
    for block in reversed(lines):
        if everything or "differs" not in block.flags:
            text = text[: block.start] + "".join(f"{line}\n" for line in lines[block]) + text[block.end :]
    return text


if __name__ == "__main__":
    import os

    from attncli.cli import progress

    progress.PATIENCE = 1e6  # no line of progress
    named = [name for name in sys.argv[1:] if not name.startswith("-")]
    for name, path in PAGES.items():
        if name in named or not named:
            with tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                sys.path.insert(0, folder)
                page = written_anew(path.read_text(encoding="utf-8"), Path(folder), "--everything" in sys.argv)
                os.chdir(ROOT)
                sys.path.remove(folder)
            path.write_text(page, encoding="utf-8")
