"""Mistakes of users, read from tests/bad_input/*.txt.

A mistake begins with `## its name`. The next lines change the good experiment below: `keys: ...` replaces `{keys}`, and
`+ ...` adds a line. Lines `| ...` replace the whole experiment. `$ attncli ...` replaces the usual command. `> ...` are
the expected lines of stderr; a word like SCORERS stands for the list of all scorers.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path

GOOD = {
    "queries": "{shape: [2, 3, 4]}",
    "keys": "{shape: [2, 5, 4]}",
    "values": "{shape: [2, 5, 6]}",
    "valid_lens": "[2, 5]",
    "scorers": "[{scorer: dot}]",
}
EXPERIMENT = """\
data:
  queries: {queries}
  keys: {keys}
  values: {values}
  valid_lens: {valid_lens}
scorers: {scorers}
"""
COMMAND = "attncli run x.yaml"


@dataclass(frozen=True)
class Mistake:
    """`config` is the content of x.yaml; `text` the mistake's text in the .txt file."""

    name: str
    command: list[str]
    config: bytes
    message: str
    text: str = ""


def mistakes(path: Path) -> list[Mistake]:
    """Return all mistakes of a file."""
    blocks = path.read_text(encoding="utf-8").removeprefix("## ").split("\n\n## ")
    return [_mistake(block.rstrip("\n")) for block in blocks]


def _mistake(block: str) -> Mistake:
    name, *lines = block.split("\n")
    pieces, written, added, message, command = dict(GOOD), [], [], [], COMMAND
    for line in lines:
        mark, _, rest = line.partition(" ")
        match mark:
            case "|":
                written.append(rest)
            case "+":
                added.append(rest)
            case ">":
                message.append(rest)
            case "$":
                command = rest
            case _:
                assert mark.removesuffix(":") in GOOD, line
                pieces[mark.removesuffix(":")] = rest
    config = "\n".join(written) if written else EXPERIMENT.format(**pieces) + "\n".join(added)
    return Mistake(name, shlex.split(command)[1:], config.encode() + b"\n", "\n".join(message), block)
