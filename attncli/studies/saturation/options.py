"""Options of the study `saturation`."""

from typing import Annotated, Any, Literal

from pydantic import Field

from attncli.catalogue.entries import Scorers
from attncli.config.models import STUDY, About
from attncli.studies.pairs.options import DOTS, PairsOptions

DEFAULT_SCORERS: list[Any] = [*DOTS, {"scorer": "additive"}, {"scorer": "cosine"}]


class SaturationOptions(PairsOptions):
    """`study: saturation`."""

    study: Annotated[Literal["saturation"], STUDY] = "saturation"
    about: About = "How much gradient passes the softmax as d grows?"
    scorers: Scorers = DEFAULT_SCORERS
    keys: Annotated[int, Field(ge=2, le=2**20, description="keys per query")] = 64
    rows: Annotated[int, Field(ge=1, le=10**6, description="queries per d, each with its own keys")] = 2000


OPTIONS = SaturationOptions
