import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

# Before torch is loaded: tests run side by side, and threads that wait for each other would cost most of the time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

pytest_plugins = ["tests.margins"]

# Nothing that is loaded until the tests begin is garbage, and looking for some takes seconds.
gc.disable()

# `pytest -m quick` runs these folders and files, except tests of measured memory, compiled code, other processes, and
# the option of every command.
QUICK = {"attention", "config", "core", "engine/expect", "sources", "scorers", "normalizers", "pooling"}
QUICK |= {"test_catalogues.py", "sources/test_draws.py", "engine/sweeps/test_journal.py"}
QUICK |= {"test_contract.py", "studies/test_columns.py"}
NOT_QUICK = ("compiled", "memory", "installed", "layouts")
# `pytest -m numbers` runs these, which compare numbers that another processor rounds otherwise.
NUMBERS = {"attention", "core", "sources", "scorers", "normalizers", "pooling", "models", "studies"}
NUMBERS |= {"test_properties.py"}
NOT_NUMBERS: tuple[str, ...]
NOT_NUMBERS = ("compiled", "memory", "command", "shown", "screens", "columns", "tokens", "problems", "bad_files")
NOT_NUMBERS += ("layouts", "names", "opening", "threads", "selection", "reproducible", "random_parameters")
MARKS = {"quick": (QUICK, NOT_QUICK), "numbers": (NUMBERS, NOT_NUMBERS)}
FIRST_TIER = "not slow and not nightly"  # in pyproject.toml
# The second tier, beside tests that are marked as slow one by one and all tests that open a page in the browser.
SLOW = {
    *("test_additions.py", "test_additive_compiled.py", "test_additive_memory.py", "test_cluster.py"),
    *("test_compiling.py", "test_killed.py", "test_notebook.py", "test_processes.py", "test_site.py"),
}
BESIDE = "the docs' pages and pictures, the browser, notebooks, processes, clusters, the compiler, memory, additions"
# These take or wait longest, and begin first: at the end they would leave all processors but one idle.
LONGEST = {"test_docs.py", "test_site.py"}
FIRST = {*SLOW, *LONGEST, "test_contract.py", "test_interrupts.py", "test_python.py"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--everything", action="store_true", help="run the slow and the nightly tests, too")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("everything"):
        config.option.markexpr = ""
    if config.option.dist == "no" or hasattr(config, "workerinput"):  # otherwise only its workers need torch
        prepare(config)


def prepare(config: pytest.Config) -> None:
    """Set up the libraries of the tests in a process that runs some."""
    from hypothesis import HealthCheck, settings
    from torch.backends.cpu import get_cpu_capability

    from attncli.cli import progress

    # The same examples on every machine and every run; there is no limit on the time of an example, or of drawing it.
    options: dict[str, Any] = {"derandomize": True, "database": None, "deadline": None, "max_examples": 25}
    settings.register_profile("attncli", **options, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("attncli")
    # No line of progress on stderr, however busy the machine is: tests of progress set their own patience.
    progress.PATIENCE = 1e6
    # Torch's compiler does not ask for which instructions the code in its cache was compiled: AVX-512 code fails to
    # build, or gives other digits, with ATEN_CPU_CAPABILITY=default or avx2.
    if cache := getattr(config, "cache", None):  # None with `-p no:cacheprovider`
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache.mkdir(f"inductor-{get_cpu_capability()}"))


def is_marked(mark: str, path: Path) -> bool:
    """Whether a file or folder may have tests with a mark of MARKS."""
    folders, others = MARKS[mark]
    name = path.relative_to(Path(__file__).parent).as_posix()
    is_inside = any(f"{name}/".startswith(f"{part}/") or f"{part}/".startswith(f"{name}/") for part in folders)
    return name == "." or (is_inside and not any(word in path.name for word in others))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import tests that are not to run: for `-m quick` this would take as long as the quick tests do."""
    expression = config.option.markexpr
    if expression in MARKS and not is_marked(expression, collection_path):
        return True
    return True if expression == FIRST_TIER and collection_path.name in SLOW else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the items; `-k NAME` also runs tests of whole catalogues: @pytest.mark.catalogue("scorers", "studies")."""
    from attncli.normalizers import NORMALIZERS  # loads torch
    from attncli.scorers import SCORERS
    from attncli.studies import STUDIES

    catalogues = {"scorers": [*SCORERS], "normalizers": [*NORMALIZERS], "studies": [*STUDIES]}
    items.sort(key=lambda item: (item.path.name not in LONGEST, item.path.name not in FIRST))
    for item in items:
        if item.path.name in SLOW or "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")
        if not any(map(item.get_closest_marker, ("slow", "nightly"))):
            for name in filter(partial(is_marked, path=item.path), MARKS):
                item.add_marker(name)
        for mark in item.iter_markers("catalogue"):
            item.extra_keyword_matches.update(name for kind in mark.args for name in catalogues[kind])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say last what was not tested: the second tier, and why tests were skipped and what to install for them."""
    yield
    if terminalreporter.config.option.markexpr == FIRST_TIER:
        terminalreporter.write_line(f"NOT TESTED: {BESIDE}; `pytest --everything` runs them, too")
    skipped = [str(report.longrepr[2]).removeprefix("Skipped: ") for report in terminalreporter.getreports("skipped")]
    for reason, count in Counter(skipped).items():
        terminalreporter.write_line(f"NOT TESTED ({count} skipped): {reason}", yellow=True)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def restored_threads() -> Iterator[None]:
    """Restore the number of torch's threads: more than there are idle processors slow down all tests that follow."""
    import torch

    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def points_in_this_process() -> Iterator[None]:
    """Compute the points of sweeps here: starting other processes, which load torch, takes most of a small sweep."""
    from attncli.engine.sweeps import running  # loads torch
    from attncli.engine.sweeps.work import run_point

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "on_processes", lambda jobs, *_: (run_point(job) for job in jobs))
        yield


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no pictures in the folders of single runs, since they take most of the time of a small run."""
    monkeypatch.setattr("attncli.engine.experiment.result_drawers", lambda *_: {})


@pytest.fixture(scope="module")
def sketches() -> Iterator[Any]:
    """Draw pictures without the layout of their panels, which takes most of their time, where only content matters."""
    from attncli.show.pictures import panels  # loads matplotlib

    layout = panels._execute
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(panels, "_execute", lambda figure: True)
        yield layout


@pytest.fixture
def laid_out(sketches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lay out the pictures of one test of a file with sketches."""
    monkeypatch.setattr("attncli.show.pictures.panels._execute", sketches)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Return the browser of all tests that open pages; a process may have one."""
    from tests.show.page.conftest import running_browser  # loads playwright

    yield from running_browser()


@pytest.fixture(scope="session")
def minilm() -> str:
    """Return the folder of all-MiniLM-L6-v2, a sentence transformer that is part of a package."""
    from tests.claims import model_folder

    return model_folder()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty working directory and return its path."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def own_module(here: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that writes a user's module into the working directory, to be loaded anew."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(name: str, text: str) -> None:
        (here / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)

    return write
