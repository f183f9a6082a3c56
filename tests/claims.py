"""The claims of experiments/claims: judged in this process, without files; and as a table for the README.

`python -m tests.claims FOLDER` prints that table for the folder `outputs` of `attncli run experiments/claims/*.yaml`.
"""

import json
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from attncli.commands.experiments import load_experiments
from attncli.config.builtin import builtin_folder
from attncli.config.overrides import parse_override
from attncli.results.records import Record
from attncli.results.verdicts import Verdict
from attncli.studies.judging import judge
from attncli.studies.progress import Silent
from attncli.views.numbers import significant
from attncli.views.verdict_words import expected_words, got_words

PATHS = {path.stem: path for path in sorted((builtin_folder() / "claims").glob("*.yaml"))}
SMALLER = {  # of what takes long; what is claimed stays the same
    "08_learning": ["steps=300", "seeds=2"],
    "09_cost": ["batch=1"],
}
HEADER = "| experiment | claim | source | expected | measured | holds |"


def verdicts_of(name: str) -> Sequence[Verdict]:
    """What becomes of the expectations of one file, at smaller sizes where it takes long."""
    (loaded,) = load_experiments([PATHS[name]], [parse_override(each) for each in SMALLER.get(name, [])])
    prepared = loaded.study.prepare(loaded.options, Silent())
    return judge(loaded.study.run(prepared, Silent()), loaded.options.expect)


def table_rows(name: str, expectations: Sequence[Record]) -> list[list[str]]:
    """A row for each claim from `expectations` of results.json, where several rows are the smallest and the largest."""
    rows = []
    for claim, group in groupby(expectations, key=lambda each: each["claim"]):
        found = list(group)
        holds = "yes" if all(each["holds"] for each in found) else "**no**"
        rows.append([f"`{name}`", claim, found[0]["source"], _expected(found[0]), _measured(found), holds])
    return rows


def _expected(record: Record) -> str:
    """As the YAML has it: other rows by name, whatever their figures were."""
    static = {key: value for key, value in record["expected"].items() if key != "value"}
    return expected_words(_verdict(record | {"expected": static}))


def _measured(group: Sequence[Record]) -> str:
    figures = [each["got"] for each in group]
    if not all(isinstance(figure, int | float) for figure in figures):
        return got_words(_verdict(group[0]))
    words = " to ".join(dict.fromkeys(significant(figure) for figure in (min(figures), max(figures))))
    other = group[0]["expected"].get("value")
    return words if other is None else f"{words} against {significant(other)}"


def _verdict(record: Record) -> Verdict:
    return Verdict(0, **record)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """The table of the README."""
    return "\n".join([HEADER, "|---" * 6 + "|", *(f"| {' | '.join(row)} |" for row in rows)])


if __name__ == "__main__":
    stored = {name: json.loads((Path(sys.argv[1]) / name / "latest" / "results.json").read_text()) for name in PATHS}
    table = [row for name, content in stored.items() for row in table_rows(name, content["expectations"])]
    sys.stdout.write(markdown(table) + "\n")
