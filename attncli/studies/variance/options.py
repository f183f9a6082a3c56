"""Options of the study `variance`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from attncli.catalogue.entries import Scorers
from attncli.config.models import STUDY, About
from attncli.config.strict import problem
from attncli.studies.pairs.options import DOTS, PairsOptions


class VarianceOptions(PairsOptions):
    """`study: variance`."""

    refused: ClassVar = {**PairsOptions.refused, "normalizer": "looks at scores, which a normaliser does not change"}

    study: Annotated[Literal["variance"], STUDY] = "variance"
    about: About = "How does the variance of the scores depend on d?"
    scorers: Scorers = DOTS
    samples: Annotated[
        int | None,
        Field(ge=10, le=10**12, description="query-key pairs per d; default: enough for 0.5 % error of the variance"),
    ] = None

    @model_validator(mode="after")
    def _fourth_moment(self) -> "VarianceOptions":
        """Refuse a student_t for which the fourth moment of scores, needed for the variance's interval, is infinite."""
        from attncli.scorers import SCORERS  # loads torch

        scorers = [SCORERS[entry.scorer] for entry in self.scorers if entry.scorer in SCORERS]
        squared = self.rho != 0 or any(scorer.squares_entries for scorer in scorers)
        if self.distribution == "student_t" and self.df is not None and self.df <= (8 if squared else 4):
            why = "8, since rho and gaussian square the entries" if squared else "4"
            message = f"got df {self.df:g}; the interval of the variance needs df above {why}"
            raise problem(f"{message}; `attncli saturation` takes any df", under=["df"])
        return self


OPTIONS = VarianceOptions
