"""The base model of all experiments, with the keys that studies share, and the JSON Schema of experiments."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, field_validator
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from attncli import errors
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.catalogue.short_forms import expand_short_forms
from attncli.config.expectations import Expectation
from attncli.config.looks import Look, is_default
from attncli.config.strict import Model, problem, worded
from attncli.config.sweep import Sweep
from attncli.config.values import Name, Sentence

DEFAULT_STUDY = "attention"
STUDY = Field(description="name of the study")
About = Annotated[
    Sentence | None, Field(description="the question of the experiment, one sentence, shown with its results")
]
Device = Annotated[
    str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?|mps)$"), worded("expected auto, cpu, cuda, cuda:N or mps")
]
DType = Literal["float16", "bfloat16", "float32", "float64"]


def _also_singular(schema: dict[str, Any]) -> None:
    """Let the JSON Schema accept the key `scorer` for `scorers`, a single entry for a list, and text for an entry."""
    properties = schema.get("properties", {})
    if "scorers" in properties:
        entries = properties["scorers"]
        entries["items"] = {"anyOf": [entries["items"], {"type": "string"}]}
        kinds = [entries["items"], {key: entries[key] for key in entries if key not in ("default", "description")}]
        about = "names, text such as `additive:num_hiddens=64`, or mappings; a single one needs no list"
        if "default" not in entries:
            about += "; default: four for a captured model"
        properties["scorers"] = {**entries, "anyOf": kinds, "description": about}
        for key in ("items", "minItems", "type"):
            del properties["scorers"][key]
        properties["scorer"] = {"anyOf": kinds, "description": "another name of `scorers`; default: as for `scorers`"}
        schema["required"] = [key for key in schema.get("required", []) if key != "scorers"]


class Experiment(Model):
    """The base model of all experiments: the keys that every study has, beside `study`."""

    # With defer_build, torch is not loaded before something is validated.
    model_config = ConfigDict(defer_build=True, json_schema_extra=_also_singular)
    refused: ClassVar[Mapping[str, str]] = {}  # keys not allowed in entries of scorers, with the reason
    takes_plans: ClassVar[bool] = False  # whether an entry may have other entries in other layers
    learns: ClassVar[bool] = False  # whether entries may have `project`
    measures_time: ClassVar[bool] = False  # if so, a sweep runs one point at a time, on all threads

    if TYPE_CHECKING:  # every study declares them with its own types
        study: str
        scorers: Sequence[ScorerEntry]

    name: Annotated[Name, Field(description="name of the folder outputs/<name>/; default: the file's name")]
    about: About = None
    seed: Annotated[int, Field(ge=0, lt=2**63, description="seed of all random numbers")] = 0
    device: Annotated[Device, Field(description="device: auto, cpu, cuda, cuda:N or mps")] = "auto"
    dtype: Annotated[DType, Field(description="dtype of queries, keys and values")] = "float32"
    expect: Annotated[
        list[Expectation],
        Field(default_factory=list, exclude_if=lambda entries: not entries, description="checks of the result"),
    ]
    figure: Annotated[Look, Field(exclude_if=is_default, description="how pictures look")] = Look()
    sweep: Annotated[Sweep | None, Field(exclude=True, description="values of keys for `attncli sweep`")] = None

    @staticmethod
    def entry_of(entry: Any) -> Any:
        """Return the long form of an entry of `scorers`, if this study has short forms that other studies lack."""
        return entry

    @classmethod
    def normalised(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of the YAML data with `scorers` as a list of mappings, without short forms."""
        written = dict(data)
        entries = written.get("scorers")
        if isinstance(entries, str | dict) or callable(entries):
            entries = [entries]
        if isinstance(entries, list):
            written["scorers"] = [expand_short_forms(cls.entry_of(entry)) for entry in entries]
        return written

    @field_validator("scorers", check_fields=False)
    @classmethod
    def _fit_together(cls, entries: list[ScorerEntry]) -> list[ScorerEntry]:
        """Check that labels differ by more than case, and that no entry has a key that the study refuses.

        Labels name files, and some file systems ignore case.
        """
        first = dict[str, int]()
        for index, entry in enumerate(entries):
            other = first.setdefault(entry.label.casefold(), index)
            if other != index:
                message = f'got "{entry.label}", the label of scorers[{other}] too'
                cure = "labels must differ by more than case; give this entry a `label`"
                raise problem(f"{message}; {cure}", under=[index, "label"])
            if entry.is_plan and not cls.takes_plans:
                raise problem("got a plan, which is for the layers of a whole model: study swap", under=[index, "plan"])
            if any(planned.project and planned.fitted is None for planned in entry.entries) and not cls.learns:
                message = errors.got(True, "only the study fit learns matrices for queries and keys", "leave it out")
                raise problem(message, under=[index, "plan" if entry.is_plan else "project"])
            for planned, (key, why) in product(entry.entries, cls.refused.items()):
                written = planned.model_dump(include={key})[key]
                if written != type(planned).model_fields[key].default and key not in planned.options:
                    where = "plan" if entry.is_plan else key
                    text = planned.label if key == "fitted" else written  # not the path of its file
                    raise problem(errors.got(text, f"this study {why}", "leave it out"), under=[index, where])
        return entries

    def unused(self) -> set[str] | dict[str, Any]:
        """Return the keys that have no effect because of another key; config.yaml of a run leaves them out.

        The keys are in the form of pydantic's `exclude`. Studies with such keys override this.
        """
        return set()


class _Schema(GenerateJsonSchema):
    """Generate a JSON Schema with all defaults, and without titles, which would only repeat the keys."""

    def field_title_should_be_set(self, schema: object) -> bool:
        """Return False."""
        return False

    def get_default_value(self, schema: Any) -> Any:
        """Return the default of a field; if a function makes it, call the function unless it needs other fields."""
        if "default_factory" in schema and not schema.get("default_factory_takes_data"):
            return schema["default_factory"]()
        return super().get_default_value(schema)


def json_schema(studies: Sequence[type[Experiment]]) -> dict[str, Any]:
    """Return the JSON Schema of all experiments, for editors and validators.

    `name` is optional, since it defaults to the file's name. `study` is required except for the study attention.
    """
    refs, schema = models_json_schema([(study, "validation") for study in studies], schema_generator=_Schema)
    for definition in schema["$defs"].values():
        study = definition.get("properties", {}).get("study")
        if study is not None:
            required = [key for key in definition.get("required", []) if key != "name"]
            definition["required"] = required if study["const"] == DEFAULT_STUDY else [*required, "study"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "attncli experiment",
        "anyOf": list(refs.values()),
        "$defs": schema["$defs"],
    }
