"""One YAML file as plain data, which remembers for every value the line and column it came from."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from attncli.config.nodes import check_nodes, mark_text, position
from attncli.config.overrides import Override, apply_overrides
from attncli.config.yaml_loader import Loader
from attncli.errors import InputError, Problem


@dataclass(frozen=True)
class Document:
    """The data of a file with the command line's overrides applied, and where everything in it stands."""

    path: Path
    data: Any
    root: yaml.Node | None
    overrides: Sequence[Override] = ()
    problems: Sequence[Problem] = ()  # found while reading; reported together with those of the content

    def locate(self, problem: Problem) -> Problem:
        """The problem with `file:line:column`, or with the override that caused it."""
        for override in reversed(self.overrides):
            if (
                override.path[: len(problem.path)] == problem.path
                or override.path == problem.path[: len(override.path)]
            ):
                return replace(problem, where=f"{self.path}: {override.text}")
        line, column = position(self.root, problem.path, problem.at_key)
        return replace(problem, where=f"{self.path}:{line}:{column}")

    def located(self, error: InputError) -> InputError:
        """The error with all its problems located, in the order of the file."""
        problems = [problem if problem.where else self.locate(problem) for problem in error.problems]
        return InputError(sorted(problems, key=_order))


def read_document(path: Path, overrides: Sequence[Override] = ()) -> Document:
    """Read one YAML file and apply the overrides to it.

    Raises:
        InputError: an unreadable file, or text that is not YAML. Repeated keys are kept as `problems` of the document.
    """
    text = _text(path)
    try:
        loader = Loader(text)
        root = loader.get_single_node()
        problems = check_nodes(loader, root, path) if root is not None else []
        data = loader.construct_document(root) if root is not None else None
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(path, error) from error
    except yaml.YAMLError as error:  # a character that YAML forbids: the reader gives a position only
        raise InputError.of(f"not YAML: {_one_line(error)}", where=str(path)) from error
    except RecursionError as error:
        raise InputError.of("the YAML is nested too deeply", where=str(path)) from error
    data, refused = apply_overrides(data, overrides)
    problems += [replace(problem, where=f"{path}: {problem.where}") for problem in refused]
    return Document(path, data, root, overrides, problems)


def _order(problem: Problem) -> tuple[int, int]:
    """Line and column; overrides, which have none, come last."""
    numbers = problem.where.rsplit(":", 2)[1:]
    return (int(numbers[0]), int(numbers[1])) if all(n.isdigit() for n in numbers) and len(numbers) == 2 else (10**9, 0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise InputError.of(_not_found(path), where=str(path)) from error
    except UnicodeDecodeError as error:
        raise InputError.of(f"not UTF-8 text (byte {error.start}); expected a YAML file", where=str(path)) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError.of(f"cannot be read: {reason}; expected a YAML file", where=str(path)) from error


def _not_found(path: Path) -> str:
    from attncli.config.builtin import builtin_names

    name = path.stem
    if name in builtin_names():
        return f"no such file; `attncli init {name}` copies the built-in experiment of this name"
    near = difflib.get_close_matches(path.name, [other.name for other in path.parent.glob("*.y*ml")], n=1)
    cure = f"did you mean `{path.parent / near[0]}`?" if near else "`attncli init` lists experiments to start from"
    return f"no such file; {cure}"


def _syntax_error(path: Path, error: yaml.MarkedYAMLError) -> InputError:
    mark = error.problem_mark or error.context_mark
    reason = " ".join(part for part in (error.context, error.problem) if part)
    message = f"not valid YAML: {reason}"
    if "cannot start any token" in message and "\\t" in message:
        message += "; indent with spaces, not tabs"
    return InputError.of(message, where=mark_text(path, mark) if mark else str(path))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
