"""Judge the claims of experiments/claims and experiments/papers.

`python -m tests.claims claims` runs the claims of one folder and prints the table of docs/claims.md, and
`python -m tests.claims papers` the table of docs/papers.md.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attncli.commands.experiments import load_experiments
from attncli.common.progress import Progress
from attncli.config.builtin import builtin_folder
from attncli.config.overrides import parse_override
from attncli.expect.judging import Verdict
from attncli.expect.tables import lines_of

FOLDERS = ("claims", "papers")
PATHS = {path.stem: path for folder in FOLDERS for path in sorted((builtin_folder() / folder).glob("*.yaml"))}
LEARNING = ["britz_2017", "dehghani_2023", "luong_2015", "tsai_2019", "yang_2022"]
LONG = ["04_variance", "08_learning", "09_cost", "katharopoulos_2020", *LEARNING]  # seconds each
HEADER = "| experiment | claim | source | expected | measured | holds |"
MARKS = {"NO": "**no**"}


def result_of(name: str, *changes: str) -> tuple[Any, Sequence[Verdict]]:
    """Run one file, and return its result and the verdicts of its expectations."""
    (loaded,) = load_experiments([PATHS[name]], [parse_override(each) for each in changes])
    with tempfile.TemporaryDirectory() as folder:
        finished = loaded.run(Progress(), "", Path(folder, "run"), overwrite=False, pictures=False, report=False)
    return finished.result, finished.verdicts


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
    names = [name for name, path in PATHS.items() if path.parent.name in sys.argv[1:]]
    table = [row for name in names for row in table_rows(name, result_of(name)[1])]
    sys.stdout.write(markdown(table) + "\n")
