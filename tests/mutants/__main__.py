"""Plant mistakes in a copy of the project, one at a time, and run the tests that are to find them.

    python -m tests.mutants          # all of mutants.yaml
    python -m tests.mutants swap     # those with this word in the file, the change or the tests

Prints a line for each mutant and exits with 1 if one survives. The tests must pass without a mutant. A mutant that no
longer applies to its file is an error; `test_applied.py` finds it early.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.yaml")
FOLDERS = ("attncli", "tests", "experiments", "docs")
TEXTS = [*ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "constraints.txt"]  # which tests read, or copy
LONGEST = 120  # seconds of the processor; a mutant may run forever
WAITING = 10  # seconds on the clock for each of these, at most
FAILED, BROKEN = 1, 99  # exit codes: of pytest, if some tests fail, and of a process that could not run them


@dataclass(frozen=True)
class Mutant:
    """A line of a file below `attncli/`, the mistaken line, and the tests (arguments of pytest) that are to find it."""

    file: str
    old: str
    new: str
    tests: str

    def __str__(self) -> str:
        return f"{self.file}: {self.old} -> {self.new}"

    def planted(self, text: str) -> str:
        """Return the text of the file with the mistake, or raise ValueError if it does not apply exactly once."""
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self}: the old text stands {count} times in the file; expected 1")
        return text.replace(self.old, self.new)


def mutants(word: str = "") -> list[Mutant]:
    """Return the mutants with this word in one of their fields."""
    read = [Mutant(**fields) for fields in yaml.safe_load(LIST.read_text(encoding="utf-8"))]
    return [mutant for mutant in read if word in f"{mutant} {mutant.tests}"]


def survives(mutant: Mutant, copy: Path) -> bool:
    """Return whether the tests pass in the copy with the mutant; the copy is left as it was."""
    path = copy / "attncli" / mutant.file
    text = path.read_text(encoding="utf-8")
    path.write_text(mutant.planted(text), encoding="utf-8")
    passed = passes(mutant.tests.split(), copy)
    path.write_text(text, encoding="utf-8")
    return passed


def passes(tests: list[str], copy: Path, longest: int = LONGEST) -> bool:
    """Return whether tests pass in the copy within a time; raise ValueError if they cannot be run."""
    child = os.fork()
    if not child:
        try:
            signal.setitimer(signal.ITIMER_PROF, longest)
            signal.alarm(WAITING * longest)
            code = run_tests(tests, copy)
        except BaseException:
            traceback.print_exc()
            code = BROKEN
        os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) > FAILED:
        raise ValueError(f"pytest {' '.join(tests)} ended with {os.WEXITSTATUS(status)}")
    return status == 0


def run_tests(tests: list[str], copy: Path) -> int:
    """Run pytest in the copy, without its output, and return its exit code."""
    import pytest

    os.chdir(copy)
    sys.path[:0] = [str(copy)]
    for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:  # this one, of the project itself
        del sys.modules[name]
    with (copy / "log").open("w") as log:
        os.dup2(log.fileno(), 1)
    quiet = ["-p", "no:cacheprovider", "-W", "ignore:Module already imported"]
    return pytest.main(["-x", "-n0", "-m", "", *quiet, *tests])


def survivors(word: str = "") -> Iterator[tuple[Mutant, bool]]:
    """Yield each mutant with whether it survives."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in FOLDERS:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in TEXTS:
            shutil.copy(path, copy)
        # by content: two changes within a second do not differ in the time of the file
        command = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", "attncli", "tests"]
        subprocess.run(command, cwd=copy, check=True)
        sys.dont_write_bytecode = True
        tests = sorted({test for mutant in mutants(word) for test in mutant.tests.split()})
        if not passes(tests, copy, LONGEST * len(tests)):
            raise ValueError(f"the tests fail without a mutant: {(copy / 'log').read_text()}")
        for mutant in mutants(word):
            yield mutant, survives(mutant, copy)


def preload() -> None:
    """Load the libraries of the tests once, for all processes; nothing of attncli."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PAGE_PATIENCE"] = "10000"  # milliseconds; tests of pages find most mistakes by waiting in vain
    import matplotlib.figure
    import pydantic
    import pytest
    import torch
    import transformers

    libraries = (matplotlib, pydantic, pytest, torch, transformers)
    assert all(libraries)
    assert not any(name.startswith("attncli.") for name in sys.modules)


if __name__ == "__main__":
    word = " ".join(sys.argv[1:])
    if not mutants(word):
        sys.exit(f"no mutant has `{word}` in its file, its change or its tests")
    preload()
    alive = 0
    for mutant, survived in survivors(word):
        sys.stdout.write(f"{'SURVIVED' if survived else 'dead'}  {mutant}\n")
        sys.stdout.flush()
        alive += survived
    sys.exit(bool(alive))
