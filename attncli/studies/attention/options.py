"""What an attention experiment may say."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from attncli.config.models import Experiment
from attncli.config.scorer_entries import Scorers
from attncli.config.strict import checked_by, problem
from attncli.config.tensors import Data, Mask, TokenNames
from attncli.config.values import Indices, each_once
from attncli.errors import did_you_mean, got
from attncli.studies.study import STAGES, Stage


def _listed(value: Any) -> Any:
    """`none`, or one stage alone, as a list."""
    return [] if value in ("none", ["none"]) else [value] if isinstance(value, str) else value


def _known(stage: Any) -> Any:
    if stage not in STAGES:
        raise problem(got(stage, "expected a stage, or none alone", did_you_mean(stage, STAGES)))
    return stage


SavedStage = Annotated[Stage, checked_by(_known)]
SavedStages = Annotated[
    list[SavedStage],
    AfterValidator(each_once),
    BeforeValidator(_listed, json_schema_input_type=list[SavedStage] | SavedStage | Literal["none"]),
]


class AttentionOptions(Experiment):
    """`study: attention`."""

    study: Literal["attention"] = "attention"
    data: Data
    mask: Mask = Mask()
    scorers: Scorers
    tokens: TokenNames = TokenNames()
    heads: Annotated[Indices | None, Field(description="heads that are listed and drawn; default: all")] = None
    batch: Annotated[Indices | None, Field(description="batch elements that are listed and drawn; default: all")] = None
    train: bool = False
    weights: Annotated[bool, Field(description="false: outputs and figures alone, in bounded memory")] = True
    save: Annotated[
        SavedStages | None, Field(description="stages that the run folder keeps: a list, one, or none; default: all")
    ] = None
    compile: Annotated[bool, Field(description="compile with torch.compile where possible")] = False

    @model_validator(mode="after")
    def _dropout_needs_weights(self) -> "AttentionOptions":
        active = [entry.label for entry in self.scorers if self.train and entry.dropout > 0]
        if active and not self.weights:
            message = f"got false, but {active[0]} drops weights with `train: true`; leave out one of the three"
            raise problem(message, under=["weights"])
        return self

    @model_validator(mode="after")
    def _saves_what_there_is(self) -> "AttentionOptions":
        unknown = [stage for stage in self.save or [] if stage != "output"]
        if unknown and not self.weights:
            message = f'got "{unknown[0]}", which is not computed with `weights: false`; expected output, or none'
            raise problem(message, under=["save"])
        return self


OPTIONS = AttentionOptions
