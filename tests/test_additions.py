"""What the design promises to be small: each addition is made in a copy of the package, and passes its tests there."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
COPIED = ("attncli", "tests", "experiments", "docs", "README.md", "CHANGELOG.md", "pyproject.toml", "constraints.txt")

MANHATTAN = '''
import torch
from torch import Tensor, nn

from attncli.attention import at_least_float32
from attncli.scorers._sizes import require_equal_sizes


class Manhattan(nn.Module):
    """-scale * sum_i |q_i - k_i| (Rahimi and Recht 2007)

    Needs queries and keys of one size.
    """

    def __init__(self, query_size: int, key_size: int, *, scale: float = 1.0) -> None:
        super().__init__()
        require_equal_sizes(query_size, key_size)
        self.scale = scale

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        queries, keys = at_least_float32(queries, keys)
        return -self.scale * torch.cdist(queries, keys, p=1.0)  # ... n m
'''
ORACLE = "lambda _, q, k: for_each_pair(lambda x, y: -sum(abs(a - b) for a, b in zip(x, y, strict=True)), q, k)"


def insert(path: Path, before: str, line: str) -> None:
    """Put a line before the first one that begins with something."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    place = next(number for number, each in enumerate(lines) if each.startswith(before))
    path.write_text("".join([*lines[:place], f"{line}\n", *lines[place:]]), encoding="utf-8")


def run(folder: Path, *arguments: str) -> str:
    """What a command of Python in that folder prints; it must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of everything that the tests need."""
    for name in COPIED:
        source, target = ROOT / name, tmp_path / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return tmp_path


@pytest.fixture
def with_a_scorer(copy: Path) -> Path:
    """Its file, one line in SCORERS with the import that it needs, and its oracle."""
    (copy / "attncli" / "scorers" / "manhattan.py").write_text(MANHATTAN)
    insert(
        copy / "attncli" / "scorers" / "__init__.py", "from attncli", "from attncli.scorers.manhattan import Manhattan"
    )
    insert(copy / "attncli" / "scorers" / "__init__.py", "}", '    "manhattan": Manhattan,')
    insert(copy / "tests" / "reference.py", "}", f'    "manhattan": {ORACLE},')
    return copy


def test_a_scorer(with_a_scorer: Path) -> None:
    """The tests of the catalogue hold it to what every scorer promises, and every study takes it."""
    tests = ["scorers/test_contract.py", "scorers/test_oracles.py", "commands/test_small_commands.py"]
    passed = run(with_a_scorer, "pytest", "-n0", *(f"tests/{name}" for name in tests), "-k", "manhattan or every")
    assert "passed" in passed
    pairs = {"d": 4, "scorers": [{"scorer": "manhattan", "scale": 0.5}]}
    tensors = {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 4]}}
    experiments: dict[str, dict[str, Any]] = {
        "attention": {**pairs, "data": tensors},
        "variance": {**pairs, "samples": 1000},
        "saturation": {**pairs, "rows": 10},
        "bench": {**pairs, "n": 4},
        "train": {**pairs, "steps": 2},
    }
    del experiments["attention"]["d"]
    for study, keys in experiments.items():
        (with_a_scorer / f"{study}.yaml").write_text(json.dumps({"study": study, **keys}))  # JSON is YAML
    run(with_a_scorer, "attncli", "run", *(f"{study}.yaml" for study in experiments), "--quiet")


@pytest.mark.slow
def test_a_scorer_leaves_no_test_failing(with_a_scorer: Path) -> None:
    left_out = [f"--ignore=tests/{name}" for name in ("test_additions.py", "test_claims.py", "test_claims_fail.py")]
    run(with_a_scorer, "pytest", "-p", "no:cacheprovider", *left_out)
