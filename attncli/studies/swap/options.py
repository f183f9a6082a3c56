"""The options of the study `swap`: the model, its texts, the scorers, and the places to replace."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from attncli.config.models import STUDY, About, DType, Experiment
from attncli.config.scorer_entries import MODEL, ScorerEntry, Scorers, model_entry
from attncli.config.strict import Flag, problem
from attncli.config.tensors import Layer
from attncli.config.texts import MODEL_NAME, ModelName, Texts
from attncli.config.values import Indices, as_list, each_once
from attncli.errors import got

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


def _numbers(given: Any) -> Any:
    """Return layers as a list, in which numbers that a flag gives as text are converted to integers."""
    given = as_list(given)
    if not isinstance(given, list):
        return given
    return [int(each) if isinstance(each, str) and each.isdecimal() else each for each in given]


Places = Annotated[
    list[By],
    Field(min_length=1),
    BeforeValidator(as_list, json_schema_input_type=list[By] | By),
    AfterValidator(each_once),
]
Layers = Annotated[
    list[Layer],
    Field(min_length=1),
    BeforeValidator(_numbers, json_schema_input_type=list[Layer] | Layer),
    AfterValidator(each_once),
]


Heads = Annotated[Indices, BeforeValidator(as_list, json_schema_input_type=Indices)]


class SwapOptions(Experiment):
    """Other scorers inside a real model."""

    refused: ClassVar = {"dropout": "runs the model without dropout"}

    takes_plans: ClassVar = True

    study: Annotated[Literal["swap"], STUDY] = "swap"
    about: About = "What would a real model do with other scorers inside?"
    scorers: Scorers = DEFAULT_SCORERS

    model: Annotated[ModelName, MODEL_NAME]
    texts: Texts
    by: Annotated[
        Places,
        Field(description="where scorers are put at a time: all layers, each layer, each head, all up to or from each"),
        PLACES,
    ] = DEFAULT_PLACES
    layers: Annotated[
        Layers | None,
        Field(description="of these layers alone: numbers, ranges such as 5-7, names, or patterns such as decoder.*"),
        PLACES,
    ] = None
    heads: Annotated[Heads | None, Field(description="heads that `by: head` goes through; default: all"), PLACES] = None
    batch_size: Annotated[Count, Field(description="texts in one run of the model"), RUN] = 16
    attn: Annotated[
        Literal["auto", "eager", "sdpa"], Field(description="how the model computes attention by itself"), RUN
    ] = "auto"
    outputs: Annotated[
        Literal["language", "logits", "states"] | None,
        Field(description="what its outputs are: predictions of the next token, other logits, or states"),
        RUN,
    ] = None
    revision: Annotated[str | None, Field(description="branch, tag or commit of a model of the hub"), RUN] = None
    dtype: Annotated[DType | None, Field(description="dtype of the model; default: the file's")] = None  # type: ignore[assignment]

    @classmethod
    def normalised(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data with short forms expanded; the name of a normaliser applies it to the model's scores."""
        written = dict(data)
        for key in ("scorers", "scorer"):
            entries = written.get(key)
            if isinstance(entries, list | str | dict):
                written[key] = [model_entry(each) for each in (entries if isinstance(entries, list) else [entries])]
        return super().normalised(written)

    @model_validator(mode="after")
    def _heads_by_head(self) -> Self:
        if self.heads is not None and "head" not in self.by:
            raise problem(got(self.heads, "they are for `by: head`; add it, or leave them out"), under=["heads"])
        return self

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
