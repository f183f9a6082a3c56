"""Judge the claims of experiments/claims in this process, without files.

`python -m tests.claims` runs them all and prints the table of docs/claims.md.
"""

import sys
from collections.abc import Sequence
from typing import Any

from attncli.commands.experiments import load_experiments
from attncli.common.progress import Progress
from attncli.config.builtin import builtin_folder
from attncli.config.overrides import parse_override
from attncli.expect.judging import Verdict, judge
from attncli.expect.tables import lines_of

PATHS = {path.stem: path for path in sorted((builtin_folder() / "claims").glob("*.yaml"))}
LONG = ["04_variance", "08_learning", "09_cost"]  # seconds each
HEADER = "| experiment | claim | source | expected | measured | holds |"
MARKS = {"NO": "**no**"}


def result_of(name: str, *changes: str) -> tuple[Any, Sequence[Verdict]]:
    """Run one file, and return its result and the verdicts of its expectations."""
    (loaded,) = load_experiments([PATHS[name]], [parse_override(each) for each in changes])
    prepared = loaded.study.prepare(loaded.options, Progress())
    result = loaded.study.run(prepared, Progress())
    return result, judge(result, loaded.options.expect, loaded.study.expected_rows(prepared))


def table_rows(name: str, verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Return the rows of the table for one file."""
    return [
        [f"`{name}`", line.claim, line.source, line.expected, line.measured, MARKS.get(line.holds, line.holds)]
        for line in lines_of(verdicts)
    ]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return the table in Markdown."""
    return "\n".join([HEADER, "|---" * 6 + "|", *(f"| {' | '.join(row)} |" for row in rows)])


if __name__ == "__main__":
    table = [row for name in PATHS for row in table_rows(name, result_of(name)[1])]
    sys.stdout.write(markdown(table) + "\n")
