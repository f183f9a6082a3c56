"""The options of the study `attention`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from attncli.catalogue.entries import Scorers
from attncli.config.looks import HeatmapLook, is_default
from attncli.config.models import STUDY, Experiment
from attncli.config.strict import checked_by, problem
from attncli.config.tensors import BESIDE, CapturedData, DataSource, Mask, TokenNames, Tokens
from attncli.config.values import Indices, as_list, each_once
from attncli.errors import did_you_mean, got
from attncli.results import STAGES, Stage


def _listed(value: object) -> Any:
    """Return the value of `save` as a list: empty for `none`, with one item for a single stage."""
    return [] if value in ("none", ["none"]) else as_list(value)


def _known(stage: object) -> Any:
    if stage not in STAGES:
        raise problem(got(stage, "expected a stage, or none alone", did_you_mean(stage, STAGES)))
    return stage


SavedStage = Annotated[Stage, checked_by(_known)]
SavedStages = Annotated[
    list[SavedStage],
    AfterValidator(each_once),
    BeforeValidator(_listed, json_schema_input_type=list[SavedStage] | SavedStage | Literal["none"]),
]

DEFAULT_CAPTURE_SCORERS: list[Any] = [
    {"scorer": "scaled_dot", "scale": "model"},
    {"scorer": "scaled_dot", "scale": "1/d", "label": "one_over_d"},
    {"scorer": "cosine"},
    {"scorer": "dot"},
]


class AttentionOptions(Experiment):
    """`study: attention`."""

    study: Annotated[Literal["attention"], STUDY] = "attention"
    data: Annotated[DataSource, Field(description="queries, keys and values, or a captured model")]
    mask: Annotated[Mask, Field(description="which keys a query may attend to, beside the valid lengths")] = Mask()
    scorers: Scorers
    tokens: Annotated[Tokens, Field(description="names of queries and keys in tables and pictures")] = TokenNames()
    heads: Annotated[Indices | None, Field(description="heads that are listed and drawn; default: all")] = None
    batch: Annotated[Indices | None, Field(description="batch elements that are listed and drawn; default: all")] = None
    train: Annotated[bool, Field(description="training mode: weights are dropped")] = False
    weights: Annotated[
        bool, Field(description="whether to compute weights; `false`: outputs and metrics alone, in bounded memory")
    ] = True
    save: Annotated[SavedStages | None, Field(description="stages to keep in the run folder; default: all")] = None
    compile: Annotated[bool, Field(description="compile with torch.compile where possible")] = False
    figure: Annotated[HeatmapLook, Field(exclude_if=is_default, description="how pictures look")] = HeatmapLook()

    @model_validator(mode="after")
    def _without_weights(self) -> "AttentionOptions":
        if self.weights:
            return self
        if active := [entry.label for entry in self.scorers if self.train and entry.dropout > 0]:
            message = f"got false, but {active[0]} drops weights with `train: true`; leave out one of the three"
            raise problem(message, under=["weights"])
        if unknown := [stage for stage in self.save or [] if stage != "output"]:
            message = f'got "{unknown[0]}", which is not computed with `weights: false`; expected output, or none'
            raise problem(message, under=["save"])
        return self

    @model_validator(mode="after")
    def _captured_is_whole(self) -> "AttentionOptions":
        """Refuse `mask` beside a captured file, and heads chosen both for the file and for the study."""
        if not isinstance(self.data, CapturedData):
            return self
        if "mask" in self.model_fields_set:
            raise problem(f"got mask together with `capture`, {BESIDE}", under=["mask"])
        if self.heads is not None and self.data.heads is not None:
            raise problem("got heads here and under data; expected one of the two", under=["heads"])
        return self

    @model_validator(mode="after")
    def _subtracts_a_scorer(self) -> "AttentionOptions":
        label, labels = self.figure.minus, [entry.label for entry in self.scorers]
        if label is not None and label not in labels:
            raise problem(got(label, "unknown label", did_you_mean(label, labels)), under=["figure", "minus"])
        if label is not None and len(labels) == 1:
            expected = "the only scorer; expected one beside it, to subtract from"
            raise problem(got(label, expected), under=["figure", "minus"])
        return self

    @classmethod
    def normalised(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data with short forms expanded, and with default scorers for a captured file."""
        is_captured = isinstance(data.get("data"), dict) and "capture" in data["data"]
        return super().normalised({"scorers": DEFAULT_CAPTURE_SCORERS, **data} if is_captured else data)

    def unused(self) -> set[str]:
        """Return the keys without effect: `mask` beside a captured file."""
        return {"mask"} if isinstance(self.data, CapturedData) else set()


OPTIONS = AttentionOptions
