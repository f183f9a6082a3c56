"""What needs no tensors starts without torch; and which part of the package may import which."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import attncli

PACKAGE = Path(attncli.__file__).parent
HEAVY = {"torch", "matplotlib", "numpy", "safetensors", "psutil"}

# Runs the command line as the entry point does, then tells what was loaded.
SCRIPT = """
import json, sys
import attncli
alone = sorted({name.partition(".")[0] for name in sys.modules})
from attncli.cli import app
try:
    app(sys.argv[1:], prog_name="attncli")
except SystemExit as end:
    code = end.code
modules = sorted({name.partition(".")[0] for name in sys.modules})
print("\\n" + json.dumps([code, alone, modules]))
"""
COMPLETE = {"_ATTNCLI_COMPLETE": "complete_bash", "COMP_WORDS": "attncli scorers ", "COMP_CWORD": "2"}


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (["--help"], {}, "Usage: attncli"),
        (["--version"], {}, f"attncli {attncli.__version__}"),
        (["init"], {}, "attncli init NAME"),
        ([], COMPLETE, "scaled_dot"),
        (["variance", "--help"], {}, "--query-mean"),
    ],
    ids=["help", "version", "init", "completion", "help of a study"],
)
def test_starts_without_anything_heavy(arguments: list[str], environment: dict[str, str], said: str) -> None:
    command = [sys.executable, "-c", SCRIPT, *arguments]
    process = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True, timeout=300
    )
    stdout, _, last = process.stdout.rstrip("\n").rpartition("\n")
    code, alone, modules = json.loads(last)
    assert code == 0
    assert said in stdout
    assert "typer" in modules, "the list of modules is that of the whole command"
    assert HEAVY & set(modules) == set()
    assert "pydantic" not in modules or arguments not in (["--help"], ["--version"])
    assert {"typer", "rich", "yaml", *HEAVY} & set(alone) == set(), "`import attncli` loads nothing at all"


# What each part may import of the package, besides itself; `commands.*` only inside functions, see below.


def part_of(path: Path) -> str:
    """`studies` for attncli/studies/attention.py, `errors` for attncli/errors.py."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Every module that a file imports, and whether that is when it is loaded itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    later = {id(inner) for function in functions for inner in ast.walk(function)}
    later |= {id(inner) for node in ast.walk(tree) if is_for_types(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) not in later) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((name, id(node) not in later) for name in names)


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


SOURCES = sorted(PACKAGE.rglob("*.py"))
IMPORTS = [(path, name, at_once) for path in SOURCES for name, at_once in imports(path)]


def own_imports() -> Iterator[tuple[Path, str, str, bool]]:
    """File, its part, the module of the package that it imports as `part.module...`, and whether at once."""
    for path, name, at_once in IMPORTS:
        if name.partition(".")[0] == "attncli":
            inner = name.removeprefix("attncli").removeprefix(".")
            known = (PACKAGE / inner.partition(".")[0]).is_dir() or (PACKAGE / f"{inner.partition('.')[0]}.py").exists()
            yield path, part_of(path), inner if known else "__init__", at_once


def listed_in(folder: str) -> set[str]:
    return {path.stem for path in (PACKAGE / folder).glob("*.py")}


def test_scorers_do_not_import_each_other() -> None:
    public = {name for name in listed_in("scorers") if not name.startswith("_")}
    wrong = [
        (path.name, inner)
        for path, part, inner, _ in own_imports()
        if part == "scorers" and path.name != "__init__.py" and inner.split(".")[1:2] and inner.split(".")[1] in public
    ]
    assert wrong == []
    assert public >= {"additive", "dot"}


def test_config_is_free_of_torch() -> None:
    users = {part_of(path) for path, name, _ in IMPORTS if name.partition(".")[0] == "torch"}
    assert users & {"config", "errors", "cli"} == set()


def test_commands_load_their_parts_inside_functions() -> None:
    late = {"studies", "runs", "views", "inputs", "scorers"}
    listed = {
        inner.split(".")[1] for _, part, inner, _ in own_imports() if part == "cli" and inner.startswith("commands")
    }
    wrong = [
        f"{path.name} imports {inner}"
        for path, part, inner, at_once in own_imports()
        if part == "commands" and path.stem in listed and at_once and inner.partition(".")[0] in late
    ]
    assert wrong == []


def test_nobody_imports_pyplot_or_click() -> None:
    names = {name for _, name, _ in IMPORTS}
    assert not [name for name in names if name.startswith(("matplotlib.pyplot", "click"))]


def test_only_the_command_line_knows_typer_and_prints() -> None:
    users = {part_of(path) for path, name, _ in IMPORTS if name.partition(".")[0] == "typer"}
    assert users == {"cli", "commands"}
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        printing = any(isinstance(call, ast.Name) and call.id == "print" for call in calls)
        assert not printing or part_of(path) in ("cli", "commands"), path


WRITES = {"write_text", "write_bytes", "mkdir", "rename", "replace_with", "rmtree", "unlink", "symlink_to", "touch"}


def test_only_results_write_files() -> None:
    writers = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES:
                writers.add(str(path.relative_to(PACKAGE)))
    assert {writer for writer in writers if not writer.startswith("runs/")} <= {"commands/init.py"}
