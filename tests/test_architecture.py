"""Rules for imports between parts, for imports of libraries, for files and prints, and for the size of folders."""

import ast
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import attncli
from attncli.studies import STUDIES

pytestmark = pytest.mark.catalogue("scorers", "normalizers", "studies")
PACKAGE = Path(attncli.__file__).parent
TESTS = Path(__file__).parent
MOST_FILES, FAMILY = 25, 4

# Parts from the bottom to the top, and from left to right. A part imports those before it; a config has entries, and an
# entry is a validated model: config and catalogue import each other's modules.
LAYERS = (
    ("errors", "runtime"),
    ("textbook", "core", "attention", "normalizers", "scorers", "pooling"),
    ("results",),
    ("config", "catalogue"),
    ("models",),
    ("sources", "show"),
    ("studies",),
    ("engine", "api", "cli", "__main__"),
)
PLACE = {part: (index, across) for index, parts in enumerate(LAYERS) for across, part in enumerate(parts)}
PLACE["__init__"] = (-1, 0)
# Each library with the only places that may import it.
LIBRARIES = {
    "rich": ("show/", "cli/", "engine/*/tables.py", "studies/study.py", "studies/*/tables.py"),
    "matplotlib": ("show/", "studies/*/figure.py", "engine/sweeps/figure.py"),
    "typer": ("cli/",),
    "jinja2": ("show/page/",),
    "markdown_it": ("show/page/",),
}


def part_of(path: Path) -> str:
    """Return `studies` for studies/train/task.py, and `errors` for errors.py."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def file_of(module: str) -> Path:
    """Return the file of the module `attncli.part.module`, or of the module that has this name in it."""
    names = module.split(".")[1:]
    for length in range(len(names), -1, -1):
        place = PACKAGE.joinpath(*names[:length])
        for path in (place.with_suffix(".py"), place / "__init__.py"):
            if path.exists():
                return path
    raise AssertionError(module)


SOURCES = sorted(PACKAGE.rglob("*.py"))


@cache
def nodes() -> list[tuple[Path, ast.AST]]:
    """Return every file of the package with each node of its syntax tree."""
    return [(path, node) for path in SOURCES for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


@cache
def imports() -> list[tuple[Path, str]]:
    """Return every file with each name that it imports, anywhere in the file."""
    names = list[tuple[Path, str]]()
    for path, node in nodes():
        if isinstance(node, ast.Import):
            names += [(path, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names += [(path, f"{node.module}.{alias.name}") for alias in node.names]
    return names


@cache
def arrows() -> list[tuple[Path, Path]]:
    """Return every file with each file of the package that it imports."""
    return [(path, file_of(name)) for path, name in imports() if name.partition(".")[0] == "attncli"]


def shown(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_every_part_has_its_place() -> None:
    assert {part_of(path) for path in SOURCES} == set(PLACE)
    assert len(LAYERS) == 8
    assert len([*PACKAGE.glob("*.py")]) <= 10


def test_arrows_point_one_way() -> None:
    """`attncli/__init__.py` has the version, and loads what it names when it is used."""
    wrong = list[str]()
    for path, other in arrows():
        part, below = part_of(path), part_of(other)
        is_free = part in ("__init__", below) or {part, below} == {"config", "catalogue"}
        wrong += [] if is_free or PLACE[below] < PLACE[part] else [f"{shown(path)} imports {shown(other)}"]
    assert wrong == []


def test_studies_do_not_import_each_other() -> None:
    """Nor does what they share, such as studies/study.py, import a study."""
    inner = {path: path.relative_to(PACKAGE / "studies").parts[0] for path in SOURCES if part_of(path) == "studies"}
    pairs = [(path, other) for path, other in arrows() if path in inner and inner.get(other) in STUDIES]
    assert pairs
    assert [f"{shown(path)} imports {shown(other)}" for path, other in pairs if inner[path] != inner[other]] == []


@pytest.mark.parametrize("folder", ["scorers", "normalizers"])
def test_those_of_a_catalogue_do_not_import_each_other(folder: str) -> None:
    files = {path for path in SOURCES if path.parent.name == folder and not path.name.startswith("_")}
    assert len(files) > 6
    assert [shown(path) for path, other in arrows() if path in files and other in files - {path}] == []


def test_options_of_studies_are_free_of_torch_and_so_is_config() -> None:
    places = [path for path in SOURCES if path.name == "options.py" or part_of(path) in ("config", "errors", "runtime")]
    assert {path for path, name in imports() if name.partition(".")[0] == "torch"} & set(places) == set()


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_stay_where_they_belong(library: str) -> None:
    def allowed(path: Path) -> bool:
        where = Path(shown(path))
        return any(shown(path).startswith(place) or where.match(place) for place in LIBRARIES[library])

    users = {path for path, name in imports() if name.partition(".")[0] == library}
    assert users
    assert sorted(shown(path) for path in users if not allowed(path)) == []


# Imports that may fail: each has a message with the package to install, or a way to do without.
MAY_BE_MISSING = {"distributed", "pandas", "transformers"}
OF_OTHER_NAMES = {"PIL": "matplotlib", "markupsafe": "jinja2", "yaml": "pyyaml", "markdown_it": "markdown-it-py"}
OF_OTHER_NAMES |= dict.fromkeys(("pydantic_core", "typing_extensions"), "pydantic")


def test_imports_are_of_dependencies_or_may_fail() -> None:
    project = tomllib.loads((TESTS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = {Requirement(word).name for word in project["dependencies"]}
    modules = {name.partition(".")[0] for _, name in imports()} - sys.stdlib_module_names - {"attncli"}
    assert {module for module in modules if OF_OTHER_NAMES.get(module, module) not in installed} == MAY_BE_MISSING


WRITES = {"write_text", "write_bytes", "mkdir", "rename", "rmdir", "unlink", "symlink_to", "touch", "save_file"}


def callers(names: set[str]) -> set[str]:
    """Return the files that call a function or method with one of these names."""
    calls = ((path, node.func) for path, node in nodes() if isinstance(node, ast.Call))
    return {shown(path) for path, call in calls if getattr(call, "attr", getattr(call, "id", "")) in names}


def test_only_the_command_line_prints() -> None:
    printing = {path for path in callers({"print"}) if not path.startswith("cli/")}
    assert printing == {"show/terminal/tables.py"}, "which prints into a text"


READS = {"read_text", "read_bytes", "open", "fromfile", "memmap", "safe_open"}
OPEN_OWN_FILES = {"cli/init.py", "show/page/page.py", "engine/sweeps/work.py", "studies/bench/study.py"}
OPEN_BY_NAME = {  # as a library wants it, once it is a regular file
    *("models/loading.py", "catalogue/fitted.py", "sources/captured.py", "core/files.py", "engine/runs/loading.py"),
}
OPEN_WHAT_THEY_WRITE = {"engine/runs/saving.py", "engine/sweeps/journal.py", "cli/streams.py"}


def test_one_function_opens_the_files_that_users_name() -> None:
    """Opening a file elsewhere may wait forever or take all memory: see tests/core/test_opening.py."""
    others = {*OPEN_OWN_FILES, *OPEN_BY_NAME, *OPEN_WHAT_THEY_WRITE}
    assert callers(READS) == {"core/opening.py", *others}


def test_only_runs_write_files() -> None:
    assert {path for path in callers(WRITES) if not path.startswith("engine/runs/")} <= {"cli/init.py"}


def test_folders_can_be_taken_in() -> None:
    for folder in (each for top in (PACKAGE, TESTS) for each in (top, *top.rglob("*/"))):
        names = [path.stem for path in folder.glob("*.py")]
        assert len(names) <= MOST_FILES, folder
        families = Counter(name.removeprefix("test_").lstrip("_").partition("_")[0] for name in names)
        assert [prefix for prefix, count in families.items() if prefix and count >= FAMILY] == [], folder


def test_no_two_classes_share_a_name() -> None:
    names = Counter(node.name for _, node in nodes() if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []
