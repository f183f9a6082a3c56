"""The options of the study `swap`: the model, its texts, the scorers, and where they are put."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo, field_validator

from attncli.config.models import STUDY, DType, Experiment
from attncli.config.opening import read_config
from attncli.config.scorer_entries import MODEL, ScorerEntry, Scorers, model_entry
from attncli.config.strict import Flag, Model, problem
from attncli.config.tensors import Layer
from attncli.config.values import FileName, Indices, each_once
from attncli.errors import got, refusal

By = Literal["all", "layer", "head", "up_to", "from"]
REFERENCES = (MODEL, "uniform", "zero")  # labels of the entries that always run
DEFAULT_SCORERS: list[Any] = [
    {"scorer": "scaled_dot", "scale": "1/d", "label": "one_over_d"},
    {"scorer": "scaled_dot", "scale": MODEL, "normalizer": "sparsemax", "label": "sparsemax"},
    {"scorer": "cosine", "scale": 16.0, "label": "cosine_16"},
]
DEFAULT_PLACES: list[By] = ["all", "layer"]
PLACES, RUN = Flag(panel="Where"), Flag(panel="The model")
Count = Annotated[int, Field(ge=1, le=10**6)]


class TextFile(Model):
    """A file with a text on each line; empty lines are skipped."""

    file: Annotated[FileName, Field(description="file with a text on each line; relative to the YAML file")]


def _lines_of(given: Any, info: ValidationInfo) -> Any:
    """Return the texts of `{file: ...}` as a list, and a single text as a list of it."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, dict):
        return given
    path = Path(TextFile.model_validate(given, context=info.context, strict=True).file)
    try:
        lines = [line.strip() for line in read_config(path).decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise problem(f'got "{path}", which is not UTF-8 text', under=["file"]) from None
    except (OSError, ValueError) as error:
        raise problem(f'got "{path}"; {refusal(error)}', under=["file"]) from None
    return [line for line in lines if line]


def _in_folder(model: str, info: ValidationInfo) -> str:
    """Return the path of a model in a folder beside the config; other names stay as they are."""
    folder = (info.context or {}).get("folder")
    return str(Path(folder) / model) if folder and (Path(folder) / model).is_dir() else model


def _as_list(given: Any) -> Any:
    """Return a single value, as a flag gives it, as a list."""
    return [given] if isinstance(given, str | int) and not isinstance(given, bool) else given


def _numbers(given: Any) -> Any:
    """Return layers as a list, with numbers that a flag gives as text as numbers."""
    given = _as_list(given)
    if not isinstance(given, list):
        return given
    return [int(each) if isinstance(each, str) and each.isdecimal() else each for each in given]


Text = Annotated[str, StringConstraints(min_length=1)]
Texts = Annotated[list[Text], BeforeValidator(_lines_of, json_schema_input_type=list[Text] | Text | TextFile)]
Places = Annotated[
    list[By],
    Field(min_length=1),
    BeforeValidator(_as_list, json_schema_input_type=list[By] | By),
    AfterValidator(each_once),
]
Layers = Annotated[
    list[Layer],
    Field(min_length=1),
    BeforeValidator(_numbers, json_schema_input_type=list[Layer]),
    AfterValidator(each_once),
]


Heads = Annotated[Indices, BeforeValidator(_as_list, json_schema_input_type=Indices)]


class SwapOptions(Experiment):
    """Other scorers inside a real model."""

    refused: ClassVar = {"dropout": "runs the model without dropout"}

    study: Annotated[Literal["swap"], STUDY] = "swap"
    scorers: Scorers = DEFAULT_SCORERS

    model: Annotated[
        str,
        StringConstraints(min_length=1),
        AfterValidator(_in_folder),
        Field(
            description="a folder or a name of the Hugging Face hub; or module:function, which gives (model, inputs)"
        ),
    ]
    texts: Annotated[Texts, Field(default_factory=list, description="texts for the model, a list or {file: texts.txt}")]
    by: Annotated[
        Places,
        Field(description="where scorers are put at a time: all layers, each layer, each head, all up to or from each"),
        PLACES,
    ] = DEFAULT_PLACES
    layers: Annotated[Layers | None, Field(description="of these layers alone: numbers, or names"), PLACES] = None
    heads: Annotated[Heads | None, Field(description="heads that `by: head` goes through; default: all"), PLACES] = None
    batch_size: Annotated[Count, Field(description="texts in one run of the model"), RUN] = 16
    attn: Annotated[
        Literal["auto", "eager", "sdpa"], Field(description="how the model computes attention by itself"), RUN
    ] = "auto"
    revision: Annotated[str | None, Field(description="branch, tag or commit of a model of the hub"), RUN] = None
    dtype: Annotated[DType | None, Field(description="dtype of the model; default: the file's")] = None  # type: ignore[assignment]

    @classmethod
    def normalised(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data with short forms written out; the name of a normaliser applies it to the model's scores."""
        written = dict(data)
        for key in ("scorers", "scorer"):
            entries = written.get(key)
            if isinstance(entries, list | str | dict):
                written[key] = [model_entry(each) for each in (entries if isinstance(entries, list) else [entries])]
        return super().normalised(written)

    @field_validator("scorers")
    @classmethod
    def _beside_references(cls, entries: list[ScorerEntry]) -> list[ScorerEntry]:
        """Refuse the labels of the references, which always run."""
        for index, entry in enumerate(entries):
            if entry.label in REFERENCES:
                message = got(
                    entry.label, "a reference that always runs; give this entry another `label`, or leave it out"
                )
                raise problem(message, under=[index, "label"])
        return entries


OPTIONS = SwapOptions
