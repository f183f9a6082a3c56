"""The command of a study: its flags are the keys of the study's options, by the same names."""

import functools
import inspect
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

import typer

from attncli.commands.options import (
    Command,
    Full,
    Json,
    NoPlots,
    Open,
    Out,
    Overwrite,
    Quiet,
    Sets,
    import_quickly,
    naming_options,
    overrides_of,
)
from attncli.commands.scorers import scorer_names
from attncli.errors import Collector, InputError, show

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from attncli.config.overrides import Override

NO_FLAGS = ("study", "name", "expect")
LONGEST_LIST = 4  # of a default that is written out
METAVARS = {int: "N", float: "X"}


class StudyCommand(Command):
    """A study's command, whose flags are made when they are needed, since they load pydantic."""

    @functools.cached_property
    def _command(self) -> Any:
        return command_of(str(self.name))

    @property
    def params(self) -> Any:
        """The flags."""
        return self._command.params

    @params.setter
    def params(self, value: Any) -> None:
        """Typer sets those of a function, which has none here."""

    def invoke(self, ctx: Any) -> Any:
        """Run the study."""
        return self._command.invoke(ctx)


class StudyFlag:
    """One key of a study's options on the command line.

    `name` is that of the field, `key` that in YAML. `kind` is the type of one value: of text the flag takes the words
    as they are, of everything else it reads them as YAML.
    """

    def __init__(self, name: str, field: "FieldInfo") -> None:
        from attncli.config.strict import Flag

        self.name, self.key, self.field = name, field.alias or name, field
        self.is_scorers = self.key == "scorers"
        self.option = "--scorer" if self.is_scorers else f"--{self.key.replace('_', '-')}"
        self.kind, metadata = _unwrapped(field.annotation)
        self.is_list = typing.get_origin(self.kind) is list
        if self.is_list:
            self.kind, _ = _unwrapped(typing.get_args(self.kind)[0])
        self.mark = next((each for each in [*field.metadata, *metadata] if isinstance(each, Flag)), Flag())

    @property
    def help(self) -> str:
        """The key's description, what it may be, and its default."""
        words = self.field.description or self.name.replace("_", " ")
        if typing.get_origin(self.kind) is Literal:
            words += f": {_listed(typing.get_args(self.kind), 'or')}"
        default = None if self.is_scorers else self.field.get_default(call_default_factory=True)
        more = ["repeatable"] * self.is_list
        if isinstance(default, list) and len(default) > LONGEST_LIST:
            more.insert(0, f"default: {default[0]} to {default[-1]}")
        elif default is not None and default is not False and default != []:
            listed = default if isinstance(default, list) else [default]
            texts = [f"{each:g}" if isinstance(each, float) else str(each) for each in listed]
            more.insert(0, f"default: {_listed(texts, 'and')}")
        return f"{words[0].upper()}{words[1:]}{' (' + '; '.join(more) + ')' if more else ''}."

    def parameter(self) -> inspect.Parameter:
        """The argument of the command's function, for typer."""
        is_switch = self.kind is bool
        option = typer.Option(
            self.option,
            help=self.help,
            metavar=None if is_switch else self.mark.metavar or METAVARS.get(self.kind, "NAME"),
            rich_help_panel=self.mark.panel,
            autocompletion=scorer_names if self.is_scorers else None,
        )
        value: Any = Path if self.mark.is_path else str
        kind: Any = bool if is_switch else list[value] | None if self.is_list else value | None
        default = False if is_switch else None
        keyword = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(self.name, keyword, default=default, annotation=Annotated[kind, option])

    def override(self, value: Any) -> "Override":
        """What the flag says, for the config.

        Raises:
            InputError: a value that is not YAML.
        """
        from attncli.config.overrides import Override, override, typed

        if value is True:
            return Override((self.key,), True, self.option)
        given = [str(each) for each in (value if isinstance(value, list) else [value])]
        texts = tuple(typed(self.option, each) for each in given)
        whole = " ".join(texts)
        is_text = self.is_scorers or (self.kind is str and self.name != "device")
        read = given if is_text else [override((self.key,), each, whole).value for each in given]
        return Override((self.key,), read[0] if len(read) == 1 and not self.is_scorers else read, whole, texts)


def command_of(study: str) -> Any:
    """The command `attncli <study>`."""
    flags = flags_of(study)

    def command(**given: Any) -> None:
        _run(study, flags, {flag.name: given.pop(flag.name) for flag in flags}, **given)

    of_all_studies = list(inspect.signature(_run).parameters.values())[3:]
    parameters = [*(flag.parameter() for flag in flags), *of_all_studies]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False)
    app.command(study)(command)
    return typer.main.get_command(app)


def flags_of(study: str) -> list[StudyFlag]:
    """The flags of a study's own keys, then of those that all studies have."""
    from attncli.config.models import Experiment
    from attncli.studies import options_model

    fields = options_model(study).model_fields
    ordered = sorted(fields, key=lambda name: name in Experiment.model_fields)  # stable
    return [StudyFlag(name, fields[name]) for name in ordered if name not in NO_FLAGS]


def _unwrapped(annotation: Any) -> tuple[Any, list[Any]]:
    """The type of a value that is not None, without what `Annotated` adds to it, and that."""
    if typing.get_origin(annotation) is Annotated:
        inner, *metadata = typing.get_args(annotation)
        kind, more = _unwrapped(inner)
        return kind, [*metadata, *more]
    if typing.get_origin(annotation) in (Union, UnionType):
        (inner,) = (each for each in typing.get_args(annotation) if each is not NoneType)
        return _unwrapped(inner)
    return annotation, []


def _listed(words: Sequence[Any], last: str) -> str:
    """`a, b and c`."""
    *first, end = map(str, words)
    return f"{', '.join(first)} {last} {end}" if first else end


def _run(
    study: str,
    flags: Sequence[StudyFlag],
    given: Mapping[str, Any],
    *,
    configs: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    sets: Sets = None,
    out: Out = None,
    overwrite: Overwrite = False,
    no_plots: NoPlots = False,
    open_: Open = False,
    json: Json = False,
    quiet: Quiet = False,
    full: Full = False,
) -> None:
    """Run a study with the arguments of its command, as `attncli run` would run a YAML file that says the same."""
    if configs:
        message = f"got {show(configs[0])}; expected flags alone; type `attncli run {' '.join(configs)}`"
        raise InputError.of(message, where=f"attncli {study}")
    import_quickly(pictures=not no_plots)
    from attncli.api import Keep, load_experiment
    from attncli.commands.experiments import run_and_show
    from attncli.config.document import document_of_data, read_document
    from attncli.studies import part_of

    resume = given.get("resume")
    config = None
    if resume is not None:  # the flags change the config of that run
        with naming_options():
            config = part_of(study, "resume").config_of_run(resume)
        given = {**given, "resume": Path(resume).absolute()}
    collector, overrides = Collector(), overrides_of(sets)
    for flag in flags:
        with collector.under():
            if given[flag.name] not in (None, False, []):
                overrides.append(flag.override(given[flag.name]))
    collector.check()
    if config is None:
        document = document_of_data(f"attncli {study}", {"study": study}, overrides)
    else:
        document = read_document(config, overrides)
    keep = Keep(out, overwrite, not no_plots)
    run_and_show([load_experiment(document)], keep, json=json, quiet=quiet, full=full, open_=open_)
