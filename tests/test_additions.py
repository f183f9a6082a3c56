"""What the design promises to be small: additions are made in a copy of the package, and pass its tests there."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
LEFT_OUT = [f"--ignore=tests/{name}" for name in ("test_additions.py", "test_claims.py", "test_claims_fail.py")]
FOLDERS = ("attncli", "tests", "experiments", "docs")
COPIED = (*FOLDERS, "README.md", "README.zh.md", "CHANGELOG.md", "pyproject.toml", "constraints.txt")

MANHATTAN = '''
import torch
from torch import Tensor, nn

from attncli.attention import at_least_float32
from attncli.scorers._sizes import require_equal_sizes


class Manhattan(nn.Module):
    """-scale * w * sum_i |q_i - k_i| (Rahimi and Recht 2007)

    Needs queries and keys of one size.
    """

    def __init__(self, query_size: int, key_size: int, *, scale: float = 1.0) -> None:
        super().__init__()
        require_equal_sizes(query_size, key_size)
        self.scale = scale
        self.w = nn.Parameter(torch.ones(()))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        queries, keys, w = at_least_float32(queries, keys, self.w)
        return -self.scale * w * torch.cdist(queries, keys, p=1.0)  # ... n m
'''
ORACLE = "lambda _, q, k: for_each_pair(lambda x, y: -sum(abs(a - b) for a, b in zip(x, y, strict=True)), q, k)"

SQUARED_RELU = '''
import torch
from pydantic import PositiveFloat
from torch import Tensor, nn


class SquaredRelu(nn.Module):
    """max(s_j, 0)^p / sum_i max(s_i, 0)^p (Hua et al. 2022, arXiv:2202.10447)

    A query whose scores are all negative attends to nothing.
    """

    def __init__(self, *, p: PositiveFloat = 2.0) -> None:
        super().__init__()
        self.p = p

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        valid = torch.ones((), dtype=torch.bool) if valid is None else valid
        positive = scores.masked_fill(~valid, 0.0).relu()
        top = positive.detach().amax(-1, keepdim=True)
        powers = (positive / top.where(top != 0, 1.0)) ** self.p
        total = powers.sum(-1, keepdim=True)
        return (powers / total.where(total != 0, 1.0)).masked_fill(~valid, 0.0)  # ... n m
'''
SQUARED_RELU_ORACLE = """
def squared_relu(scores: Vector, *, p: float = 2.0) -> Vector:
    shares = [max(score, 0.0) / (max(scores) if max(scores) > 0 else 1.0) for score in scores]
    return [share**p / max(math.fsum(each**p for each in shares), 1e-300) for share in shares]


NORMALIZERS["squared_relu"] = squared_relu
"""


STUDY = {  # the largest score of random queries and keys against their size
    "__init__": "",
    "options": """
from typing import Annotated, Any, Literal
from pydantic import Field
from attncli.config.models import Experiment
from attncli.config.scorer_entries import Scorers
from attncli.config.values import Sizes

DEFAULT: list[Any] = [{"scorer": "dot"}]

class PeakOptions(Experiment):
    study: Literal["peak"] = "peak"
    d: Annotated[Sizes, Field(description="size of queries and keys")] = [4]
    scorers: Scorers = DEFAULT

OPTIONS = PeakOptions
""",
    "columns": """
from attncli.show.numbers import counted, figure
from attncli.studies.study import Column

COLUMNS = (
    Column("scorer", "scorer", "The scoring function.", text=True),
    Column("label", "label", "Its label.", text=True),
    Column("d", "d", "Size of queries and keys.", format=counted),
    Column("peak", "peak", "The largest score.", format=figure),
)
COMPARISONS = ()
""",
    "study": """
from dataclasses import dataclass
import torch
from attncli.inputs.device import resolve_device
from attncli.inputs.seeding import generator
from attncli.studies.peak.columns import COLUMNS
from attncli.studies.peak.options import PeakOptions
from attncli.studies.progress import Progress
from attncli.studies.scoring import build_scorer
from attncli.studies.study import Finding, Result, Rows

@dataclass(frozen=True)
class Prepared:
    options: PeakOptions
    device: torch.device

    @property
    def places(self):
        each = ((entry, d) for entry in self.options.scorers for d in self.options.d)
        return [({"scorer": entry.scorer, "label": entry.label, "d": d}, entry) for entry, d in each]

def prepare(options: PeakOptions, progress: Progress) -> Prepared:
    return Prepared(options, resolve_device(options.device))

def expected_rows(prepared: Prepared) -> Rows:
    return Rows(COLUMNS, [place for place, _ in prepared.places])

def run(prepared: Prepared, progress: Progress) -> Result:
    records, seed = [], prepared.options.seed
    for place, entry in prepared.places:
        d = place["d"]
        queries, keys = (torch.randn(9, d, generator=generator(seed, name)) for name in ("queries", "keys"))
        scores = build_scorer(entry, d, d, seed, torch.float32)(queries, keys)
        records.append({**place, "peak": float(scores.detach().max())})
    found = [Finding(f"{row['label']}: {row['peak']:.3g}", row["label"]) for row in records]
    return Result("peak", prepared.options.name, {}, records, findings=found)
""",
    "tables": """
from attncli.show.tables import tables as blocks
from attncli.studies.peak.columns import COLUMNS

def tables(result, *, width, full, csv):
    yield from blocks(COLUMNS[1:3], COLUMNS[3:], result.records, width)
""",
    "figure": """
from functools import partial
from attncli.show.panels import drawn, panels

def figures(result, note, look):
    return {"peak": partial(drawn, _draw, result, note, look)}

def _draw(result, note, sheet):
    figure, (axes,) = panels(sheet, (3.0,), 3.0, "the largest score")
    axes.plot([row["d"] for row in result.records], [row["peak"] for row in result.records])
    return figure
""",
}

HELD = (  # some of the tests that find them by themselves
    "scorers/test_oracles.py::test_every_shape[manhattan-",
    "normalizers/test_contract.py::test_weights_against_the_oracle[squared_relu-",
    "studies/test_columns.py::test_rows_are_as_expected[peak]",
)
BOTH = """
import json, shlex, sys
import pytest
tests, commands = json.loads(sys.argv[1])
if code := pytest.main(tests):
    sys.exit(code)
from tests.cli import good
print(json.dumps([good(*shlex.split(each)) for each in commands]))
"""
CUBED = {"normalizer": "squared_relu", "p": 3}
NORMALIZED = ["dot", "manhattan:normalizer=squared_relu", {"scorer": "additive", "normalizer": CUBED}]
HALVED = [{"scorer": "manhattan", "scale": 0.5}]
SHAPES = {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 4]}, "valid_lens": [0, 4]}
PEAK = {"study": "peak", "d": [2, 3], "expect": [{"where": {"d": 2}, "metric": "peak", "between": [0, 100]}]}
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "attention": {"data": SHAPES, "scorers": NORMALIZED},
    "outputs": {"data": SHAPES, "scorers": NORMALIZED, "weights": False},
    "variance": {"study": "variance", "scorers": HALVED, "d": 4, "samples": 1000},
    "saturation": {"study": "saturation", "scorers": NORMALIZED, "d": 4, "rows": 10},
    "bench": {"study": "bench", "scorers": HALVED, "d": 4, "n": 4, "measure": "scores"},
    "train": {"study": "train", "scorers": NORMALIZED, "d": 4, "steps": 2},
}


def insert(path: Path, before: str, line: str) -> None:
    """Put a line before the first one that begins with something."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    place = next(number for number, each in enumerate(lines) if each.startswith(before))
    path.write_text("".join([*lines[:place], f"{line}\n", *lines[place:]]), encoding="utf-8")


def python(folder: Path, *arguments: str) -> str:
    """What Python prints in that folder; it must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of everything that the tests need, with the three additions."""
    folder = tmp_path_factory.mktemp("copy")
    for name in COPIED:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    add_a_scorer(folder)
    add_a_normalizer(folder)
    add_a_study(folder)
    return folder


def add_a_scorer(folder: Path) -> None:
    """Its file, one line in SCORERS with the import that it needs, and its oracle."""
    scorers = folder / "attncli" / "scorers"
    (scorers / "manhattan.py").write_text(MANHATTAN)
    insert(scorers / "__init__.py", "from attncli", "from attncli.scorers.manhattan import Manhattan")
    insert(scorers / "__init__.py", "}", '    "manhattan": Manhattan,')
    insert(folder / "tests" / "reference.py", "}", f'    "manhattan": {ORACLE},')


def add_a_normalizer(folder: Path) -> None:
    """Its file, one line in NORMALIZERS with the import that it needs, and its oracle."""
    normalizers = folder / "attncli" / "normalizers"
    (normalizers / "squared_relu.py").write_text(SQUARED_RELU)
    insert(normalizers / "__init__.py", "from attncli", "from attncli.normalizers.squared_relu import SquaredRelu")
    insert(normalizers / "__init__.py", "}", '    "squared_relu": SquaredRelu,')
    with (folder / "tests" / "reference.py").open("a") as file:
        file.write(SQUARED_RELU_ORACLE)


def add_a_study(folder: Path) -> None:
    """Its folder, and one line in the registry."""
    studies = folder / "attncli" / "studies"
    (studies / "peak").mkdir()
    for name, text in STUDY.items():
        (studies / "peak" / f"{name}.py").write_text(text)
    insert(studies / "__init__.py", "}", '    "peak": "Find the largest score against d.",')


@pytest.fixture(scope="module")
def printed(copy: Path) -> list[str]:
    """What the tests of the catalogues print in the copy, and some commands after them: torch is loaded once."""
    tests = [
        *("test_catalogues.py", "scorers/test_contract.py", "scorers/test_oracles.py", "normalizers/test_contract.py"),
        *("studies/test_columns.py", "commands/test_small_commands.py", "test_architecture.py", "test_cold_start.py"),
    ]
    kept = "manhattan or squared_relu or peak or every_ or catalogue or test_architecture or heavy[help]"
    for name, keys in {**EXPERIMENTS, "peak": PEAK}.items():
        (copy / f"{name}.yaml").write_text(json.dumps(keys))  # JSON is YAML
    commands = [
        f"run {' '.join(f'{name}.yaml' for name in EXPERIMENTS)} --quiet --no-plots",
        "run peak.yaml --quiet",
        "scorers",
        "peak --d 5 --scorer manhattan --no-plots --out flags",
    ]
    pytest_arguments = ["-n0", "-vv", *(f"tests/{name}" for name in tests), "-k", kept]
    tested, _, listed = python(copy, "-c", BOTH, json.dumps([pytest_arguments, commands])).rstrip("\n").rpartition("\n")
    return [tested, *json.loads(listed)]


def test_the_tests_of_the_catalogues_hold_them_to_what_each_promises(printed: list[str]) -> None:
    assert [each for each in HELD if each not in printed[0]] == []


def test_studies_take_them(copy: Path, printed: list[str]) -> None:
    """The new study has flags, tables, a picture, a run folder, and expectations of its columns, too."""
    *_, listed, shown = printed
    assert "p = 2.0" in listed
    assert "manhattan" in shown
    content = json.loads((copy / "outputs" / "peak" / "latest" / "results.json").read_text())
    assert [row["d"] for row in content["records"]] == [2, 3]
    assert content["findings"][0]["label"] == "dot"
    assert content["expectations"][0]["holds"] is True
    assert "peak.png" in content["files"]


@pytest.mark.slow
def test_they_leave_no_test_failing(copy: Path) -> None:
    python(copy, "-m", "pytest", "-p", "no:cacheprovider", *LEFT_OUT)
