"""Read a YAML file, locate errors in it by line and column, and validate the options of its study."""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml

from attncli import errors
from attncli.catalogue.entries import options_in
from attncli.config.builtin import similar_experiment
from attncli.config.files import CAPTURED
from attncli.config.models import DEFAULT_STUDY, Experiment
from attncli.config.overrides import Override, as_yaml
from attncli.config.short_paths import SCORER, SCORERS, applied
from attncli.config.strict import OPTIONS, validated
from attncli.config.sweep import Axis, Sweep, sweep_axes
from attncli.config.values import LONGEST_NAME
from attncli.config.yaml_loader import parse_yaml, position
from attncli.core.opening import UnfitFileError, read_config
from attncli.errors import InputError, Problem, below, dotted, refusal

YAML = (".yaml", ".yml")  # endings of configs
CONFIG, RESULTS = "config.yaml", "results.json"  # in a run folder
TENSOR_FILES = (".npy", ".npz", ".pt", ".pth")  # endings of tensor files, given by mistake
REPORT = "report.html"  # in a run folder: a page to explore the run
Options = TypeVar("Options", bound=Experiment)


@dataclass
class Document:
    """The data of a config with overrides, and the positions of the values in the file.

    `written` is the data without overrides. `root` is the root node of the YAML, which has the positions; it is None if
    there is no YAML. `model` has the options of the study, None if it is not known yet: then overrides such as `scale`
    have not found their scorers yet. `data` is the data with overrides, and `full_overrides` has the overrides with
    full paths by the index of the override, in the order of application.
    """

    path: Path
    written: Any
    root: yaml.Node | None
    overrides: Sequence[Override] = ()
    flags_only: bool = False  # there is no YAML; `path`, such as the command, is the place in messages
    model: type[Experiment] | None = None
    data: Any = field(init=False)
    full_overrides: dict[int, list[Override]] = field(init=False)

    def __post_init__(self) -> None:
        """Apply the overrides; raise InputError for those that do not fit."""
        self.data, self.full_overrides = applied(self.written, self.overrides, self.path, self.model)

    def _in_flag(self, problem: Problem, override: Override) -> Problem:
        """Return the problem with its path relative to the flag: without the keys that the flag stands for.

        The path stays whole if it would begin with the index of one of several values, or if the flag is shorter, as
        `scale` is for `scorers[0].scale`.
        """
        rest = problem.path[len(override.path) :]
        if rest[:1] == (0,) and not (isinstance(override.value, list) and len(override.value) > 1):
            rest = rest[1:]
        is_named = len(override.path) == 1 or dotted(override.path) in override.text
        return problem if not is_named or isinstance(next(iter(rest), None), int) else replace(problem, path=rest)

    def located(self, error: InputError) -> InputError:
        """Return the error with a place for every problem, sorted by position in the file, then in override order."""
        located = sorted((self._located(problem) for problem in error.problems), key=lambda entry: entry[0])
        return InputError(problem for _, problem in located)

    def _located(self, problem: Problem) -> tuple[tuple[int, int], Problem]:
        """Return a sort key, and the problem with its place: `file:line:column`, an override, or both."""
        # A value comes from the last override at its path or above, else from the file. If the file has no such path,
        # an override below it made the mapping in which a key is wrong. If a key is missing in a mapping of the file
        # into which an override wrote, both are named, since either may have to change.
        if problem.where:
            return (sys.maxsize, -1), problem
        line, column, depth = position(self.root, problem.path, problem.at_key)
        if not depth and problem.path[:1] == (SCORERS,):
            line, column, depth = position(self.root, (SCORER, *problem.path[1:]), problem.at_key)
        where = f"{self.path}:{line}:{column}" if not self.flags_only else str(self.path)
        path, in_order = problem.path, [(index, each) for index, full in self.full_overrides.items() for each in full]
        is_made = depth < len(path)  # there is no such key in the file: an override may have made it
        applied = [
            (index, override)
            for index, override in in_order
            if override.decides(path) or (is_made and override.path[: len(path)] == path)
        ]
        if applied:
            index, override = applied[-1]
            located = replace(problem, where=override.described(self.path))
            return (sys.maxsize, index), self._in_flag(located, override) if self.flags_only else located
        beside = [override for _, override in in_order if override.path[:depth] == path[:depth]]
        if depth and beside:  # in the mapping that lacks the key
            where = f"{self.path}:{line}:{column}, with {beside[0].text}"
        return (line, column), replace(problem, where=where)

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Add places in the file to the problems of an InputError raised in the `with` block."""
        try:
            yield
        except InputError as error:
            raise self.located(error) from error.__cause__  # keep an exception raised in the user's code as the cause

    def check_mapping(self) -> None:
        """Raise InputError if the document is not a mapping."""
        if not isinstance(self.data, dict):
            expected = "expected an experiment: a mapping with `data` and `scorers`"
            cure = "`attncli init` lists experiments to start from"
            raise self.located(InputError.of(errors.got(self.data, expected, cure)))

    def study(self, studies: Collection[str]) -> str:
        """Return the name of the document's study, one of `studies`; DEFAULT_STUDY if the key `study` is missing.

        Raises:
            InputError: the document is not a mapping, or the study is unknown.
        """
        self.check_mapping()
        study = self.data.get("study", DEFAULT_STUDY)
        if not isinstance(study, str) or study not in studies:
            message = errors.got(study, "unknown study", errors.did_you_mean(study, studies))
            raise self.located(InputError.of(message, ["study"]))
        return study

    def of_study(self, model: type[Experiment]) -> "Document":
        """Return the document for the options of its study, in which all overrides have full paths.

        Raises:
            InputError: all overrides that do not fit.
        """
        return self if self.model is model else replace(self, model=model)

    def validate(self, model: type[Options], *, absolute: bool = False) -> Options:
        """Return the data validated by `model`, the options of a study.

        File paths, which are relative to the document's folder, become relative to the working directory, or absolute
        if `absolute`.

        Raises:
            InputError: all problems of the document, each with its place.
        """
        document = self.of_study(model)
        data = model.normalised({"study": DEFAULT_STUDY, "name": default_name(self.path), **document.data})
        folder = self.path.absolute().parent if absolute else self.path.parent
        with document.locating():
            return validated(model, data, {"folder": folder, OPTIONS: partial(options_in, data.get("scorers"))})

    def sweep(self) -> tuple[list[Axis], str | None]:
        """Return the axes and the metric of the key `sweep`; ([], None) if the key is missing.

        Raises:
            InputError: all problems of the key.
        """
        written = self.data.get("sweep") if isinstance(self.data, dict) else None
        if written is None:
            return [], None
        with self.locating(), below("sweep"):
            sweep = validated(Sweep, written, {})
            is_in_file = not any(override.decides(("sweep", "over")) for override in self.overrides)
            return sweep_axes(sweep, str(self.path), self.root if is_in_file else None), sweep.metric

    def changed(self, overrides: Sequence[Override]) -> "Document":
        """Return a copy of the document with more overrides applied.

        Raises:
            InputError: all overrides that do not fit.
        """
        return replace(self, overrides=[*self.overrides, *overrides])


def read_document(path: Path, overrides: Sequence[Override] = ()) -> Document:
    """Read a YAML file and apply overrides. A .safetensors file is read as the config `data: {capture: FILE}`.

    Raises:
        InputError: the file cannot be read or is not YAML, or an override does not fit it.
    """
    if path.suffix.lower() == Path(CAPTURED).suffix:
        return Document(path, {"data": {"capture": path.name}}, None, overrides, flags_only=True)
    if path.name == RESULTS:
        message = f"got the results of a run; expected its config, `{path.with_name(CONFIG)}`"
        raise InputError.of(message, where=str(path))
    data, root = parse_yaml(_text(path), lambda line, column: f"{path}:{line}:{column}")
    if overrides and data is not None:  # which would be what an override does not fit
        Document(path, data, root).check_mapping()
    return Document(path, data, root, overrides)


def document_of_data(where: str, data: Mapping[str, Any], overrides: Sequence[Override]) -> Document:
    """Return the document for `data` in place of a file; errors name `where`, such as the command, as its place.

    Tensors and arrays in the mapping become nested lists; GivenTensor objects stay as they are.
    """
    content = {"name": data.get("study", DEFAULT_STUDY), **as_yaml(data)}
    return Document(Path(where), content, None, overrides, flags_only=True)


def default_name(path: Path) -> str:
    """Return the file's name as a folder name: without ending, shortened, with `_` for characters not allowed."""
    name = "".join(c if c.isprintable() and c not in '/\\:*?"<>|' else "_" for c in path.stem)
    return name.lstrip(". ").encode()[:LONGEST_NAME].decode(errors="ignore").strip() or "experiment"


def _missing(path: Path) -> str:
    """Return the message for a config that does not exist, with the file or built-in experiment that may be meant."""
    if path.is_symlink():
        return "a link to a file that is not there"
    near = similar_experiment(path, (*YAML, Path(CAPTURED).suffix))
    cure = f"did you mean `{near}`?" if near else "`attncli init` lists experiments to start from"
    return f"no such file or built-in experiment; {cure}"


def _text(path: Path) -> str:
    try:
        return read_config(path).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        message = _missing(path)
    except UnfitFileError as error:
        config = path / CONFIG
        cure = f"; did you mean `{config}`?" if config.is_file() else ""
        message = f"got {error.kind}; expected a YAML file{cure}"
    except UnicodeDecodeError as error:
        message = f"got bytes that are not UTF-8 text, the first at byte {error.start}; expected a YAML file in UTF-8"
        if path.suffix.lower() in TENSOR_FILES:
            form = f"`data: {{queries: {{file: {path.name}, tensor: NAME}}, keys: ...}}` and `scorers: [dot]`"
            message = f"got a tensor file; expected a YAML file that names its tensors, with {form}"
    except (OSError, ValueError) as error:
        message = f"cannot be read: {refusal(error)}; expected a YAML file"
    raise InputError.of(message, where=str(path))
