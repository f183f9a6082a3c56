"""Options of the studies of scores against d: how queries and keys are drawn, or the file to read them from."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from attncli.catalogue.entries import Scorers
from attncli.config.files import TENSORS, StoredAs
from attncli.config.models import Experiment
from attncli.config.strict import Flag, problem
from attncli.config.tensors import LAYOUT, CapturedData, Layout
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
        StoredAs(TENSORS),
    ] = None
    layout: Annotated[Layout, LAYOUT] = "bhsd"
    data: Annotated[CapturedData | None, Field(description="layers and heads of a captured model")] = None

    study: str

    @property
    def file(self) -> str | None:
        """The file, run folder or config with queries and keys; None for random ones."""
        return self.source if self.data is None else self.data.capture

    @property
    def file_key(self) -> tuple[str, ...]:
        """The path of `file` in the config."""
        return ("from",) if self.data is None else ("data", "capture")

    @model_validator(mode="after")
    def _drawn_or_read(self) -> "PairsOptions":
        """Refuse two sources, keys for drawing entries beside a source, and `df` of another distribution."""
        if self.source is not None and self.data is not None:
            raise problem("got `from` together with data; expected one of the two", under=["from"])
        if self.layout != "bhsd" and self.source is None:
            raise problem(f"got {self.layout} without a tensor file; expected `from` beside it", under=["layout"])
        beside = [key for key in type(self).model_fields if key in self.drawn_keys() & self.model_fields_set]
        if self.file is not None and beside:
            keys, source = " and ".join(beside), f"`{self.file_key[0]}`"
            message = f"got {keys} together with {source}, which reads the tensors; expected one of the two"
            raise problem(f"{message}; leave out {keys}, or {source}", under=[beside[0]])
        if "df" in beside and self.df is not None and self.distribution != "student_t":
            message = f"got df {self.df:g} for {self.distribution} entries; only student_t has degrees of freedom"
            raise problem(f"{message}; leave it out, or choose student_t", under=["df"])
        return self

    def unused(self) -> set[str]:
        """Return the keys without effect: the keys for drawing entries beside a file, and `df` without student_t."""
        if self.file is not None:
            return self.drawn_keys()
        return set() if self.distribution == "student_t" else {"df"}

    @classmethod
    def drawn_keys(cls) -> set[str]:
        """Return the keys for drawing queries and keys; they are refused beside a file."""
        return set(cls.model_fields) - set(Experiment.model_fields) - {"study", "source", "layout", "data", "scorers"}
