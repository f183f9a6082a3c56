"""Build the commands of studies, with a flag for each key of the study."""

import inspect
import typing
from collections.abc import Collection, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

import typer
from pydantic.fields import FieldInfo
from typer.core import TyperCommand

from attncli.cli.command import typer_command
from attncli.cli.options import ModelName, Output, Sets, Text, Texts, import_quickly, set_overrides, text_overrides
from attncli.cli.scorers import scorer_names
from attncli.config.document import Document, document_of_data
from attncli.config.looks import Look
from attncli.config.models import Experiment
from attncli.config.overrides import Override, override, typed
from attncli.config.strict import Flag
from attncli.errors import Collector, InputError, shortened, show
from attncli.studies import options_model

if TYPE_CHECKING:
    from attncli.engine.runs.saving import FinishedRun

NO_FLAGS = ("study", "name", "about", "data", "expect", "figure", "sweep")
LONGEST_LIST = 4  # longer defaults are abbreviated
PICTURES = "Pictures"  # the heading of the flags for pictures in the help
METAVARS = {int: "N", float: "X"}
NoConfigs = Annotated[list[str] | None, typer.Argument(hidden=True)]


class StudyFlag:
    """The command-line flag for one key of a config.

    `name` is the name of the pydantic field, `key` its name in YAML, and `above` the path of the mapping with the key.
    `mark` is the `Flag` in the field's metadata. `kind` is the type of a single value of the flag; values are read as
    YAML unless `kind` is `str`.
    """

    def __init__(self, name: str, field: FieldInfo, above: tuple[str, ...] = ()) -> None:
        self.name, self.key, self.field, self.above = name, field.alias or name, field, above
        self.is_scorers = self.key == "scorers"
        self.kind = _plain_type(field.annotation)
        self.is_list = typing.get_origin(self.kind) is list
        if self.is_list:
            self.kind = _plain_type(typing.get_args(self.kind)[0])
        self.mark = next((mark for mark in field.metadata if isinstance(mark, Flag)), Flag())
        if self.mark.is_text:
            self.kind, self.is_list = str, False
        self.option = self.mark.option or f"--{'scorer' if self.is_scorers else self.key.replace('_', '-')}"

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that a single value of the flag may have; empty if they are not a few words."""
        return typing.get_args(self.kind) if typing.get_origin(self.kind) is Literal else ()

    @property
    def help(self) -> str:
        """The description of the key, its choices and its default."""
        words = self.field.description or self.name.replace("_", " ")
        if self.choices:
            words += f": {_listed(self.choices, 'or')}"
        default = None if self.is_scorers else self.field.get_default(call_default_factory=True)
        remarks = ["repeatable"] if self.is_list else []
        if isinstance(default, list) and len(default) > LONGEST_LIST:
            remarks.insert(0, f"default: {default[0]} to {default[-1]}")
        elif default is not None and default is not False and default not in ([], {}):
            remarks.insert(0, f"default: {_listed(default if isinstance(default, list) else [default], 'and')}")
        return f"{words[0].upper()}{words[1:]}{' (' + '; '.join(remarks) + ')' if remarks else ''}."

    def parameter(self) -> inspect.Parameter:
        """Return the flag as a parameter in the signature of the command's function, which typer reads."""
        is_switch = self.kind is bool
        option = typer.Option(
            self.option,
            help=self.help,
            metavar=None if is_switch else self.mark.metavar or METAVARS.get(self.kind, "NAME"),
            rich_help_panel=self.mark.panel or (PICTURES if self.above else None),
            autocompletion=scorer_names if self.is_scorers else None,
        )
        value: Any = Path if self.mark.is_path else str
        kind: Any = bool if is_switch else list[value] | None if self.is_list else value | None
        default, annotation = False if is_switch else None, Annotated[kind, option]
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

    def override(self, value: Any) -> Override:
        """Return the override of the key, given the value of the flag. `16,64` stands for two values of a list.

        Raises:
            InputError: the value is not YAML.
        """
        path = (*self.above, self.key)
        if value is True:
            return Override(path, True, self.option)
        texts = [str(item) for item in (value if isinstance(value, list) else [value])]
        whole = shortened(" ".join(typed(self.option, text) for text in texts))
        if self.is_list and not self.is_scorers:
            texts = [value_text for text in texts for value_text in _split(text)]
        is_text = self.is_scorers or (self.kind is str and self.name != "device")
        read = [text if is_text else override(path, text, typed(self.option, text)).value for text in texts]
        if self.above and self.mark.is_path:  # in a config, relative to it
            read = [str(Path(file).absolute()) for file in read]
        return Override(path, read[0] if len(read) == 1 and not self.is_scorers else read, whole)


def with_flags(name: str, function: Any, flags: list[StudyFlag], cls: type[TyperCommand] | None = None) -> Any:
    """Return a typer command, of the class `cls` if given, that calls a function; flags are added to its own options.

    The function gets the values of the flags as the mapping `values`. If it has a parameter `output`, the command also
    has the options of `Output`.
    """
    parameters = dict(inspect.signature(function).parameters)
    del parameters["values"]
    shared = inspect.signature(Output).parameters if parameters.pop("output", None) else {}

    def command(**options: Any) -> None:
        values = {flag: options.pop(flag.name) for flag in flags}
        output = {"output": Output(**{key: options.pop(key) for key in shared})} if shared else {}
        function(values=values, **output, **options)

    listed = [
        option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in (*parameters.values(), *shared.values())
    ]
    keys, looks = ([flag.parameter() for flag in flags if bool(flag.above) is of_looks] for of_looks in (False, True))
    command.__signature__ = inspect.Signature([*keys, *listed, *looks])  # type: ignore[attr-defined]
    result = typer_command(name, command, cls)
    result.choices = {value: f"{flag.option} {value}" for flag in reversed(flags) for value in flag.choices}
    for flag in flags:
        result.choices |= flag.mark.replaced
    return result


def look_flags(model: type[Look] = Look, without: Collection[str] = ()) -> list[StudyFlag]:
    """Return a flag for each field of `model` (`Look` or a subclass), the keys under `figure`, but `without` some."""
    return [StudyFlag(name, field, ("figure",)) for name, field in model.model_fields.items() if name not in without]


def overrides_of_flags(values: Mapping[StudyFlag, Any]) -> list[Override]:
    """Return an override for each flag that is given.

    Raises:
        InputError: values are not YAML.
    """
    collector, overrides = Collector(), []
    for flag, value in values.items():
        with collector.under():
            if value not in (None, False, []):
                overrides.append(flag.override(value))
    collector.check()
    return overrides


def flags_of(study: str) -> list[StudyFlag]:
    """Return the flags of a study: for its own keys, for keys of all studies, and for the look of pictures."""
    fields = options_model(study).model_fields
    ordered = sorted(fields, key=lambda name: name in Experiment.model_fields)  # keeps the order otherwise
    return [*(StudyFlag(name, fields[name]) for name in ordered if name not in NO_FLAGS), *look_flags()]


def command_of_study(study: str) -> Any:
    """Return the command `attncli <study>`, which runs an experiment given by flags instead of a YAML file."""

    def command(values: Mapping[StudyFlag, Any], output: Output, configs: NoConfigs = None, sets: Sets = None) -> None:
        """Run the study with the options that its flags give."""
        overrides = [*set_overrides(sets), *overrides_of_flags(values)]
        if configs:
            message = f"got {show(configs[0])}; expected flags only; type `attncli run {' '.join(configs)}`"
            raise InputError.of(message, where=f"attncli {study}")
        run_document(document_of_data(f"attncli {study}", {"study": study}, overrides), output)

    def command_on_model(
        values: Mapping[StudyFlag, Any],
        output: Output,
        model: ModelName,
        text: Text = None,
        texts: Texts = None,
        sets: Sets = None,
    ) -> None:
        """Run the study on a model and texts."""
        of_model = [Override(("model",), model, typed("MODEL", model)), *text_overrides(text, texts)]
        overrides = [*set_overrides(sets), *overrides_of_flags(values), *of_model]
        run_document(document_of_data(f"attncli {study}", {"study": study}, overrides), output)

    flags = flags_of(study)
    if "texts" in options_model(study).model_fields:
        return with_flags(study, command_on_model, [flag for flag in flags if flag.key not in ("model", "texts")])
    return with_flags(study, command, flags)


def run_document(document: Document, output: Output) -> "list[FinishedRun]":
    """Run the experiment of a document, and print its results."""
    import_quickly(pictures=not output.no_plots)
    from attncli.cli.experiments import run_and_show  # load torch
    from attncli.engine.experiment import load_experiment

    return run_and_show([load_experiment(document)], output)


def _split(text: str) -> list[str]:
    """Return the values in text such as `16,64`, and a list or mapping in YAML as it is."""
    values = [] if text.lstrip().startswith(("[", "{")) else [value.strip() for value in text.split(",")]
    return [value for value in values if value] or [text]


def _plain_type(annotation: Any) -> Any:
    """Return the type without `Annotated`; of a union with None, the first other type."""
    if typing.get_origin(annotation) is Annotated:
        return _plain_type(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (Union, UnionType):
        return _plain_type(next(kind for kind in typing.get_args(annotation) if kind is not NoneType))
    return annotation


def _listed(values: list[Any] | tuple[Any, ...], last: str) -> str:
    """Return the values as text: `a, b and c` if `last` is "and"."""
    *first, end = (f"{value:g}" if isinstance(value, float) else str(value) for value in values)
    return f"{', '.join(first)} {last} {end}" if first else end
