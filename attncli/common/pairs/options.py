"""Options of the studies of scores against d: how queries and keys are drawn, or the file to read them from."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from attncli.config.models import Experiment
from attncli.config.scorer_entries import Scorers
from attncli.config.strict import Flag, problem
from attncli.config.values import FileName, Sizes, powers

LARGEST_DEFAULT = 1024
DEFAULT_DF = 10.0  # heavy tails, with the eight moments that the variance of a squared entry needs
LARGEST_ENTRY = 1e9  # keeps sums of the fourth power of scores far below the largest float64
Location = Annotated[float, Field(ge=-LARGEST_ENTRY, le=LARGEST_ENTRY)]
Spread = Annotated[float, Field(ge=0, le=LARGEST_ENTRY)]
DRAWN = Flag(panel="Random entries")
Distribution = Literal["normal", "uniform", "rademacher", "laplace", "student_t"]
DOTS: list[Any] = [  # dot products without a scale, over sqrt(d), and over d
    {"scorer": "dot"},
    {"scorer": "scaled_dot"},
    {"scorer": "scaled_dot", "scale": "1/d", "label": "scaled_dot_1_over_d"},
]


class PairsOptions(Experiment):
    """Random queries and keys of several sizes d, or queries and keys from a file."""

    refused: ClassVar = {
        "dropout": "looks at weights before dropout",
        "bias": "looks at pairs without the positions of their query and key",
        "window": "looks at pairs without the positions of their query and key",
    }

    scorers: Scorers
    d: Annotated[Sizes, Field(description="size of queries and keys")] = Field(
        default_factory=lambda: powers(1, LARGEST_DEFAULT)
    )
    distribution: Annotated[Distribution, Field(description="distribution of the entries"), DRAWN] = "normal"
    df: Annotated[float | None, Field(ge=0.1, description="degrees of freedom of student_t"), DRAWN] = DEFAULT_DF
    mean: Annotated[Location, Field(description="mean of all entries"), DRAWN] = 0.0
    std: Annotated[Spread, Field(description="standard deviation of all entries"), DRAWN] = 1.0
    query_mean: Annotated[Location | None, Field(description="mean of the queries; default: `mean`"), DRAWN] = None
    query_std: Annotated[
        Spread | None, Field(description="standard deviation of the queries; default: `std`"), DRAWN
    ] = None
    key_mean: Annotated[Location | None, Field(description="mean of the keys; default: `mean`"), DRAWN] = None
    key_std: Annotated[Spread | None, Field(description="standard deviation of the keys; default: `std`"), DRAWN] = None
    rho: Annotated[float, Field(ge=-1, le=1, description="correlation of the entries q_i and k_i"), DRAWN] = 0.0
    source: Annotated[
        FileName | None,
        Field(alias="from", description="tensor file, run folder or config with queries and keys"),
        Flag("SOURCE", is_path=True),
    ] = None

    study: str

    @model_validator(mode="after")
    def _drawn_or_read(self) -> "PairsOptions":
        drawn = self.drawn_keys() & self.model_fields_set
        beside = [key for key in type(self).model_fields if key in drawn]
        if self.source is not None and beside:
            keys = " and ".join(beside)
            message = f"got {keys} together with `from`, which reads the tensors; expected one of the two"
            raise problem(f"{message}; leave out {keys}, or `from`", under=[beside[0]])
        return self

    @model_validator(mode="after")
    def _degrees_of_freedom(self) -> "PairsOptions":
        asked = self.df is not None and "df" in self.model_fields_set
        if self.source is None and asked and self.distribution != "student_t":
            message = f"got df {self.df:g} for {self.distribution} entries; only student_t has degrees of freedom"
            raise problem(f"{message}; leave it out, or choose student_t", under=["df"])
        return self

    def unused(self) -> set[str]:
        """Return the keys without effect: the keys for drawing entries beside `from`, and `df` without student_t."""
        if self.source is not None:
            return self.drawn_keys()
        return set() if self.distribution == "student_t" else {"df"}

    @classmethod
    def drawn_keys(cls) -> set[str]:
        """Return the keys for drawing queries and keys; they are refused beside `from`."""
        return set(cls.model_fields) - set(Experiment.model_fields) - {"study", "source", "scorers"}
