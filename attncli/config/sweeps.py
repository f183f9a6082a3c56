"""What studies of scores against the size d may say: how queries and keys are drawn, or where they are read."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, ConfigDict, Field, field_validator, model_validator

from attncli.config.models import Experiment, FileName, problem
from attncli.config.scorer_entries import ScorerEntry, clashing_labels
from attncli.config.scorer_text import explain_text, scorer_of
from attncli.config.sizes import Sizes, powers
from attncli.errors import Problem

SCORER_KEYS = ("scorers", "scorer")  # in YAML as for every study, or as the flag is called
LARGEST_DEFAULT = 1024
DEFAULT_DF = 10.0  # heavy tails, with the eight moments that the variance of a squared entry needs
LARGEST_ENTRY = 1e9  # so that the fourth power of any score, summed, stays far from the end of float64
Location = Annotated[float, Field(ge=-LARGEST_ENTRY, le=LARGEST_ENTRY)]
Spread = Annotated[float, Field(ge=0, le=LARGEST_ENTRY)]
DIFFERENT = "give one of them a label of its own, as in `dot:label=second`"
Distribution = Literal["normal", "uniform", "rademacher", "laplace", "student_t"]


def _dropout(key: str, entries: Any) -> list[Problem]:
    """Problems of entries with dropout; what is no number is refused elsewhere."""
    problems = []
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        dropout = entry.get("dropout") if isinstance(entry, dict) else None
        if isinstance(dropout, int | float) and 0 < dropout < 1 and not isinstance(dropout, bool):
            message = f"got {dropout:g}; this study looks at weights before dropout; leave it out"
            problems.append(Problem(message, (key, index, "dropout")))
    return problems


def _also_singular(schema: dict[str, Any]) -> None:
    """The JSON Schema knows both names of the list of scorers, that one may stand alone, and that each may be text."""
    properties = schema.get("properties", {})
    if "scorers" in properties:
        entries = properties["scorers"]
        entries["items"] = {"anyOf": [entries["items"], {"type": "string"}]}
        properties |= {key: {"anyOf": [entries, entries["items"]]} for key in SCORER_KEYS}
        schema["not"] = {"required": list(SCORER_KEYS)}


class Sweep(Experiment):
    """Independent random queries and keys of every size d, or real ones."""

    model_config = ConfigDict(json_schema_extra=_also_singular)

    scorers: Annotated[list[ScorerEntry], Field(min_length=1, validation_alias=AliasChoices(*SCORER_KEYS))]
    d: Annotated[Sizes, Field(description="sizes of queries and keys")] = Field(
        default_factory=lambda: powers(1, LARGEST_DEFAULT)
    )
    distribution: Annotated[Distribution, Field(description="of the entries, before mean and std")] = "normal"
    df: Annotated[float | None, Field(ge=0.1, description="degrees of freedom of student_t; 10 if left out")] = None
    mean: Location = 0.0
    std: Spread = 1.0
    query_mean: Annotated[Location | None, Field(description="of queries, where it differs from `mean`")] = None
    query_std: Spread | None = None
    key_mean: Location | None = None
    key_std: Spread | None = None
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
        if written.get("distribution") == "student_t" and written.get("from") is None:
            written.setdefault("df", DEFAULT_DF)
        return written

    @classmethod
    def across(cls, data: Mapping[str, Any]) -> list[Problem]:
        """Labels that clash, dropout, and keys that say how to draw what is read."""
        key = next((key for key in SCORER_KEYS if key in data), "scorers")
        problems = [replace(each, path=(key, *each.path[1:])) for each in clashing_labels(data.get(key), DIFFERENT)]
        problems += _dropout(key, data.get(key))
        return problems if data.get("from") is None else problems + cls._drawn_beside(data)

    @classmethod
    def _drawn_beside(cls, data: Mapping[str, Any]) -> list[Problem]:
        """Problems with the keys that say how queries and keys are drawn, where they are read."""
        message = "got {0} beside `from`, whose tensors decide it; expected one of the two; leave out {0}, or `from`"
        return [Problem(message.format(key), (key,)) for key in data if key in cls.drawn_keys()]

    @field_validator("scorers", mode="before")
    @classmethod
    def _on_one_line(cls, entries: Any) -> Any:
        """What is still text was no scorer on one line."""
        for index, entry in enumerate(entries if isinstance(entries, list) else []):
            if isinstance(entry, str):
                raise problem(explain_text(entry), under=[index])
        return entries

    @model_validator(mode="before")
    @classmethod
    def _one_name_only(cls, data: Any) -> Any:
        if isinstance(data, dict) and all(key in data for key in SCORER_KEYS):
            message = "got `scorer` beside `scorers`, which are the same key; expected one of the two"
            raise problem(message, under=["scorer"])
        return data

    @model_validator(mode="after")
    def _degrees_of_freedom(self) -> "Sweep":
        if self.source is None and self.df is not None and self.distribution != "student_t":
            message = f"got df {self.df:g} for {self.distribution} entries; only student_t has degrees of freedom"
            raise problem(f"{message}; leave it out, or choose student_t", under=["df"])
        return self

    def unused(self) -> set[str]:
        """How entries are drawn, where none are."""
        return set() if self.source is None else self.drawn_keys()

    @classmethod
    def drawn_keys(cls) -> set[str]:
        """The keys that say how queries and keys are drawn, and make no sense where they are read."""
        ours = set(Sweep.model_fields) - set(Experiment.model_fields) - {"source", "scorers"}
        return ours | {"samples", "rows", "keys"} & set(cls.model_fields)
