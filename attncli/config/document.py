"""One YAML file: its data, where in the file every value stands, and the validated options of its study."""

import difflib
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from attncli import errors
from attncli.config.builtin import builtin_names
from attncli.config.models import DEFAULT_STUDY, Experiment
from attncli.config.opening import LARGEST_CONFIG, STDIN, TooLargeError, UnfitFileError, read_config
from attncli.config.overrides import Override, apply_overrides, as_yaml, from_the_top
from attncli.config.strict import validated
from attncli.config.sweep import Axis, Sweep, axes_of
from attncli.config.values import LONGEST_NAME
from attncli.config.yaml_loader import parse_yaml, position
from attncli.errors import InputError, Problem, below, in_bytes, not_too_many, refusal

YAML = (".yaml", ".yml")  # endings of configs
TENSORS = "tensors.safetensors"  # of a run folder, which stands for a config too
PARAMETERS = "parameters.safetensors"  # beside it
TENSOR_FILES = (".npy", ".npz", ".pt", ".pth")  # endings that a beginner may give for a config's
STYLE = "style.mplstyle"  # beside them, how pictures look
CAPTURED = "capture.safetensors"  # beside both, what was captured of a real model
REPORT = "report.html"  # of a run folder, a page to explore the run
Options = TypeVar("Options", bound=Experiment)


@dataclass(frozen=True)
class Document:
    """The data of a file with the command line's overrides applied, and where everything in it stands."""

    path: Path
    data: Any
    root: yaml.Node | None
    overrides: Sequence[Override] = ()
    flags_only: bool = False  # there is no file; `path` is the command, for messages

    def _in_flag(self, problem: Problem, override: Override) -> Problem:
        """The problem without the key that the flag names already; of a repeated flag the one that is meant."""
        depth = len(override.path) if override.texts else 1
        index = problem.path[depth] if len(problem.path) > depth else None
        if isinstance(index, int) and index < len(override.texts):
            return replace(problem, where=f"{self.path}: {override.texts[index]}", path=problem.path[depth + 1 :])
        return replace(problem, path=problem.path[depth:])

    def located(self, error: InputError) -> InputError:
        """The error with all its problems located, in the order of the file and then of the overrides."""
        found = sorted((self._located(problem) for problem in error.problems), key=lambda each: each[0])
        problems = [problem for _, problem in found]
        is_new = any(not problem.where for problem in error.problems)  # else they have been counted
        return InputError(not_too_many(problems, str(self.path)) if is_new else problems)

    def _located(self, problem: Problem) -> tuple[tuple[int, int], Problem]:
        """The problem with `file:line:column`, or with the override that caused it; and its rank among others."""
        if problem.where:
            return (sys.maxsize, -1), problem
        if problem.path[:1] == ("scorers",) and "scorers" not in self.data and "scorer" in self.data:
            problem = replace(problem, path=("scorer", *problem.path[1:]))  # its other name
        line, column, depth = position(self.root, problem.path, problem.at_key)
        there = problem.path[:depth]  # a missing key is not, but what it is missing from
        where = f"{self.path}:{line}:{column}" if not self.flags_only else str(self.path)
        for index, override in reversed([*enumerate(self.overrides)]):
            made = depth < len(problem.path) and override.path[: len(problem.path)] == problem.path
            if override.decides(problem.path) or made:
                found = replace(problem, where=override.place(self.path))
                return (sys.maxsize, index), self._in_flag(found, override) if self.flags_only else found
            if there and override.path[:depth] == there:
                where = f"{self.path}:{line}:{column}, with {override.text}"
        return (line, column), replace(problem, where=where)

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Locate the problems of an InputError raised inside."""
        try:
            yield
        except InputError as error:
            raise self.located(error) from error.__cause__  # what the user's own code raised

    def study(self, known: Collection[str]) -> str:
        """The name of the study that it asks for.

        Raises:
            InputError: a document that is no mapping, or an unknown study.
        """
        if not isinstance(self.data, dict):
            expected = "expected an experiment: a mapping with `data` and `scorers`"
            cure = "`attncli init` lists experiments to start from"
            raise self.located(InputError.of(errors.got(self.data, expected, cure)))
        study = self.data.get("study", DEFAULT_STUDY)
        if not isinstance(study, str) or study not in known:
            message = errors.got(study, "unknown study", errors.did_you_mean(study, known))
            raise self.located(InputError.of(message, ["study"]))
        return study

    def validate(self, model: type[Options], *, absolute: bool = False) -> Options:
        """The options of its study; file paths become relative to the working directory, or absolute.

        Raises:
            InputError: every problem of the document at once, located.
        """
        data = model.normalised({"study": DEFAULT_STUDY, "name": default_name(self.path), **self.data})
        with self.locating():
            return validated(model, data, {"folder": self.path.absolute().parent if absolute else self.path.parent})

    def sweep(self) -> tuple[list[Axis], str | None]:
        """The axes and the metric of the key `sweep`; none where it is not there.

        Raises:
            InputError: all that is wrong with it.
        """
        written = self.data.get("sweep") if isinstance(self.data, dict) else None
        if written is None:
            return [], None
        with self.locating(), below("sweep"):
            sweep = validated(Sweep, written, {})
            return axes_of(sweep, str(self.path), self.root), sweep.metric

    def changed(self, overrides: Sequence[Override]) -> "Document":
        """The document with more overrides.

        Raises:
            InputError: all overrides that do not fit.
        """
        changed = _document(self.path, self.data, self.root, overrides, self.flags_only)
        return replace(changed, overrides=[*self.overrides, *changed.overrides])


def read_document(path: Path, overrides: Sequence[Override] = ()) -> Document:
    """Read one YAML file and apply the overrides to it; a .safetensors file stands for a config that captures it.

    Raises:
        InputError: an unreadable file, text that is not YAML, or an override that does not fit it.
    """
    if path.suffix.lower() == Path(CAPTURED).suffix:
        return _document(path, {"data": {"capture": path.name}}, None, overrides, flags_only=True)
    data, root = parse_yaml(_text(path), lambda line, column: f"{path}:{line}:{column}")
    return _document(path, data, root, overrides)


def document_of_data(where: str, data: Mapping[str, Any], overrides: Sequence[Override]) -> Document:
    """The experiment that stands in no file: in a mapping, or in the options of a command; `where` names it in errors.

    Tensors and arrays in the mapping become nested lists, but for those that are a GivenTensor already.
    """
    named = {"name": data.get("study", DEFAULT_STUDY), **as_yaml(data)}
    return _document(Path(where), named, None, overrides, flags_only=True)


def _document(
    path: Path, data: Any, root: yaml.Node | None, overrides: Sequence[Override], flags_only: bool = False
) -> Document:
    overrides = [each if each.path[0] in Experiment.model_fields else from_the_top(each, data) for each in overrides]
    return Document(path, apply_overrides(data, overrides, path), root, overrides, flags_only)


def default_name(path: Path) -> str:
    """The file's name without its ending, what a folder's name must not have replaced by `_`."""
    stem = "stdin" if path == STDIN else path.stem
    name = "".join(c if c.isprintable() and c not in '/\\:*?"<>|' else "_" for c in stem)
    return name.lstrip(". ").encode()[:LONGEST_NAME].decode(errors="ignore").strip() or "experiment"


def _text(path: Path) -> str:
    try:
        return read_config(path).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        cures = {Path(name).name: f"`attncli init {name}` copies a built-in experiment" for name in builtin_names()}
        cures |= {other.stem: f"did you mean `{other}`?" for other in path.parent.glob("*.y*ml")}
        near = difflib.get_close_matches(path.stem, cures, n=1, cutoff=0.65)  # by stem: all endings look alike
        message = f"no such file; {cures[near[0]] if near else '`attncli init` lists experiments to start from'}"
    except UnfitFileError as error:
        config = path / "config.yaml"
        cure = f"; did you mean `{config}`?" if config.is_file() else ""
        message = f"got {error.kind}; expected a YAML file{cure}"
    except TooLargeError:
        cure = "put large tensors into files of their own, such as .npz"
        message = f"got more than {in_bytes(LARGEST_CONFIG)}; expected a smaller YAML file; {cure}"
    except UnicodeDecodeError as error:
        message = f"got bytes that are not UTF-8 text, the first at byte {error.start}; expected a YAML file in UTF-8"
        if path.suffix.lower() in TENSOR_FILES:
            message += f", with `data: {{queries: {{file: {path.name}, tensor: NAME}}, ...}}` for tensors of this file"
    except (OSError, ValueError) as error:
        message = f"cannot be read: {refusal(error)}; expected a YAML file"
    raise InputError.of(message, where=str(path))
