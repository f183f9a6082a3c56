"""The options of the study `swap`: the model, its texts, the scorers, and the places to replace."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from attncli.catalogue.entries import Scorers
from attncli.catalogue.scorer_entries import MODEL
from attncli.catalogue.short_forms import model_entry
from attncli.config.files import StoredAs
from attncli.config.models import STUDY, About, Experiment
from attncli.config.strict import Flag, problem
from attncli.config.texts import (
    MODEL_NAME,
    RUN,
    BatchSize,
    ModelDType,
    ModelName,
    Revision,
    Texts,
    Way,
    beside,
)
from attncli.config.values import Indices, Layers, as_list, each_once
from attncli.errors import got

By = Literal["all", "layer", "head", "up_to", "from"]
REFERENCES = (MODEL, "uniform", "zero")  # labels of the entries that always run
DEFAULT_SCORERS: list[Any] = [
    {"scorer": "scaled_dot", "scale": "1/d", "label": "one_over_d"},
    {"scorer": "scaled_dot", "scale": MODEL, "normalizer": "sparsemax", "label": "sparsemax"},
    {"scorer": "cosine", "scale": 16.0, "label": "cosine_16"},
]
DEFAULT_PLACES: list[By] = ["all", "layer"]
PLACES = Flag(panel="Where")
Places = Annotated[
    list[By],
    Field(min_length=1),
    BeforeValidator(as_list, json_schema_input_type=list[By] | By),
    AfterValidator(each_once),
]


class SwapOptions(Experiment):
    """Other scorers inside a real model."""

    refused: ClassVar = {"dropout": "runs the model without dropout"}
    takes_plans: ClassVar = True
    entry_of: ClassVar = staticmethod(model_entry)

    study: Annotated[Literal["swap"], STUDY] = "swap"
    about: About = "What would a real model do with other scorers inside?"
    scorers: Annotated[Scorers, beside(REFERENCES)] = DEFAULT_SCORERS

    model: Annotated[ModelName, MODEL_NAME, StoredAs()]
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
    heads: Annotated[Indices | None, Field(description="heads that `by: head` goes through; default: all"), PLACES] = (
        None
    )
    within: Annotated[
        float | None,
        Field(
            gt=0,
            description="find how many layers can take an entry while the loss rises by at most this, in nats; "
            "without a loss, while the relative L2 is at most this",
        ),
        PLACES,
    ] = None
    held_out: Annotated[
        float, Field(gt=0, lt=1, description="share of the texts that judge the plan of `within` only"), PLACES
    ] = 0.2
    batch_size: BatchSize = None
    attn: Way = "auto"
    outputs: Annotated[
        Literal["language", "logits", "states"] | None,
        Field(description="what its outputs are: predictions of the next token, other logits, or states"),
        RUN,
    ] = None
    revision: Revision = None
    dtype: ModelDType = None  # type: ignore[assignment]

    @model_validator(mode="after")
    def _keys_with_their_places(self) -> Self:
        if self.within is None and "held_out" in self.model_fields_set:
            key, cure = "held_out", "it is for `within`; add it, or leave this out"
        elif self.within is not None and "layer" not in self.by:
            key, cure = "within", "layers are put in order by their own changes; add `by: layer`"
        elif self.heads is not None and "head" not in self.by:
            key, cure = "heads", "they are for `by: head`; add it, or leave them out"
        else:
            return self
        raise problem(got(getattr(self, key), cure), under=[key])

    def unused(self) -> set[str] | dict[str, Any]:
        """Return the key `held_out` without `within`."""
        return {"held_out"} if self.within is None else set()


OPTIONS = SwapOptions
