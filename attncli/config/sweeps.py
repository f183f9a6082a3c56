"""What studies of scores against the size d may say: how queries and keys are drawn, or where they are read."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, ConfigDict, Field, NonNegativeFloat, model_validator

from attncli.config.models import Experiment, FileName, problem
from attncli.config.scorer_entries import ScorerEntry, clashing_labels
from attncli.config.scorer_text import scorer_of
from attncli.config.sizes import Sizes, powers
from attncli.errors import Problem

SCORER_KEYS = ("scorers", "scorer")  # in YAML as for every study, or as the flag is called
LARGEST_DEFAULT = 1024
DEFAULT_DF = 10.0  # heavy tails, with the eight moments that the variance of a squared entry needs
Distribution = Literal["normal", "uniform", "rademacher", "laplace", "student_t"]


def _also_singular(schema: dict[str, Any]) -> None:
    """The JSON Schema knows both names of the list of scorers, and that its entries may be text."""
    properties = schema.get("properties", {})
    if "scorers" in properties:
        entries = properties["scorers"]
        entries["items"] = {"anyOf": [entries["items"], {"type": "string"}]}
        properties["scorer"] = {"anyOf": [entries, entries["items"]]}


class Sweep(Experiment):
    """Independent random queries and keys of every size d, or real ones."""

    model_config = ConfigDict(json_schema_extra=_also_singular)

    scorers: Annotated[list[ScorerEntry], Field(min_length=1, validation_alias=AliasChoices(*SCORER_KEYS))]
    d: Annotated[Sizes, Field(description="sizes of queries and keys")] = Field(
        default_factory=lambda: powers(1, LARGEST_DEFAULT)
    )
    distribution: Annotated[Distribution, Field(description="of the entries, before mean and std")] = "normal"
    df: Annotated[float | None, Field(ge=0.1, description="degrees of freedom of student_t; 10 if left out")] = None
    mean: float = 0.0
    std: NonNegativeFloat = 1.0
    query_mean: Annotated[float | None, Field(description="of queries, where it differs from `mean`")] = None
    query_std: NonNegativeFloat | None = None
    key_mean: float | None = None
    key_std: NonNegativeFloat | None = None
    rho: Annotated[float, Field(ge=-1, le=1, description="correlation of the entries q_i and k_i")] = 0.0
    source: Annotated[
        FileName | None, Field(alias="from", description="a tensor file, run folder or config with queries and keys")
    ] = None

    @classmethod
    def normalised(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """Scorers on one line, and one alone, become a list of mappings; degrees of freedom are written down."""
        written = dict(data)
        for key in SCORER_KEYS:
            entries = written.get(key)
            if isinstance(entries, str | dict):
                entries = [entries]
            if isinstance(entries, list):
                written[key] = [scorer_of(entry) if isinstance(entry, str) else entry for entry in entries]
        if written.get("distribution") == "student_t":
            written.setdefault("df", DEFAULT_DF)
        return written

    @classmethod
    def across(cls, data: Mapping[str, Any]) -> list[Problem]:
        """Labels that clash, and both names of the list of scorers."""
        if all(key in data for key in SCORER_KEYS):
            return []  # the second one is refused as an unknown key
        return clashing_labels(data.get("scorers", data.get("scorer")))

    @model_validator(mode="after")
    def _without_dropout(self) -> "Sweep":
        for index, entry in enumerate(self.scorers):
            if entry.dropout:
                message = f"got {entry.dropout:g}; this study looks at weights before dropout; leave it out"
                raise problem(message, under=["scorers", index, "dropout"])
        return self

    @model_validator(mode="after")
    def _degrees_of_freedom(self) -> "Sweep":
        if self.df is not None and self.distribution != "student_t":
            message = f"got df {self.df:g} for {self.distribution} entries; only student_t has degrees of freedom"
            raise problem(f"{message}; leave it out, or choose student_t", under=["df"])
        return self

    @model_validator(mode="after")
    def _nothing_drawn_where_tensors_are_read(self) -> "Sweep":
        drawn = sorted(self.model_fields_set & self.drawn_keys(), key=list(type(self).model_fields).index)
        if self.source is not None and drawn:
            message = f"got {drawn[0]} beside tensors that are read, which decide it; expected one of the two"
            raise problem(f"{message}; leave out {drawn[0]}, or `from`", under=[drawn[0]])
        return self

    def unused(self) -> set[str]:
        """How entries are drawn, where none are."""
        return set() if self.source is None else self.drawn_keys()

    @classmethod
    def drawn_keys(cls) -> set[str]:
        """The keys that say how queries and keys are drawn, and make no sense where they are read."""
        ours = set(Sweep.model_fields) - set(Experiment.model_fields) - {"source", "scorers"}
        return ours | {"samples", "rows", "keys"} & set(cls.model_fields)
