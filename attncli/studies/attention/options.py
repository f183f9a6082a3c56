"""What an attention experiment may say."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from attncli.config.models import Experiment
from attncli.config.scorer_entries import Scorers
from attncli.config.strict import problem
from attncli.config.tensors import Data, Mask, TokenNames


class AttentionOptions(Experiment):
    """`study: attention`."""

    study: Literal["attention"] = "attention"
    data: Data
    mask: Mask = Mask()
    scorers: Scorers
    tokens: TokenNames = TokenNames()
    train: bool = False
    weights: Annotated[bool, Field(description="false: compute outputs only, in bounded memory")] = True
    compile: Annotated[bool, Field(description="compile with torch.compile where possible")] = False

    @model_validator(mode="after")
    def _dropout_needs_weights(self) -> "AttentionOptions":
        active = [entry.label for entry in self.scorers if self.train and entry.dropout > 0]
        if active and not self.weights:
            message = f"got false, but {active[0]} drops weights with `train: true`; leave out one of the three"
            raise problem(message, under=["weights"])
        return self


OPTIONS = AttentionOptions
