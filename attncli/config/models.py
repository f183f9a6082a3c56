"""What every experiment may say: the keys that all studies share, and how names and files are written."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, ValidationInfo

from attncli import errors
from attncli.config.expectations import Expectation
from attncli.config.strict import Model, problem, worded

if TYPE_CHECKING:
    from attncli.config.scorer_entries import ScorerEntry

PLAIN = r"""^[^\s./\\:*?"<>|][^/\\:*?"<>|]*$"""
LONGEST_NAME = 200  # bytes


def _relative_to_file(file: str, info: ValidationInfo) -> str:
    folder = (info.context or {}).get("folder")
    return str(Path(folder) / file) if folder else file


def _plain_name(name: str) -> str:
    if not re.match(PLAIN, name) or not name.isprintable():
        raise problem('expected a name without / \\ : * ? " < > | that does not begin with a dot or a space')
    if len(name.encode()) > LONGEST_NAME:
        raise problem(f"expected at most {LONGEST_NAME} bytes in UTF-8, since it becomes a file's name")
    return name


Name = Annotated[
    str, AfterValidator(_plain_name), Field(json_schema_extra={"pattern": PLAIN, "maxLength": LONGEST_NAME})
]
FileName = Annotated[str, StringConstraints(min_length=1), AfterValidator(_relative_to_file)]
Device = Annotated[
    str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?|mps)$"), worded("expected auto, cpu, cuda, cuda:N or mps")
]
DType = Literal["float16", "bfloat16", "float32", "float64"]


@dataclass(frozen=True)
class Flag:
    """How a study's command shows the flag of a key: metadata of the field, beside its description."""

    metavar: str = ""
    panel: str | None = None
    is_path: bool = False


def default_label(scorer: str) -> str:
    """The scorer's name; of one of the user's own, the name of its class."""
    return scorer.rpartition(":")[2]


def mappings_in(entries: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Those entries of what should be a list that are mappings."""
    yield from (
        (i, entry) for i, entry in enumerate(entries if isinstance(entries, list) else ()) if isinstance(entry, dict)
    )


class Experiment(Model):
    """The keys that experiments of every study have, beside `study` itself."""

    model_config = ConfigDict(defer_build=True)  # so that nothing loads torch before something is validated

    if TYPE_CHECKING:  # every study says what its own are
        study: str
        scorers: "Sequence[ScorerEntry]"

    name: Annotated[Name, Field(description="the run goes to outputs/<name>/; default: the file's name")]
    seed: Annotated[int, Field(ge=0, lt=2**63, description="decides everything that is drawn")] = 0
    device: Annotated[Device, Field(description="where it computes: auto, cpu, cuda, cuda:N or mps")] = "auto"
    dtype: Annotated[DType, Field(description="in which queries, keys and values are kept")] = "float32"
    expect: Annotated[
        list[Expectation],
        Field(default_factory=list, exclude_if=lambda entries: not entries, description="what the result must be"),
    ]

    @classmethod
    def normalised(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """The YAML with its short forms written out."""
        return dict(data)

    @classmethod
    def across(cls, data: Mapping[str, Any]) -> list[errors.Problem]:
        """Problems that lie between several entries of the YAML, found whatever else is wrong with it.

        Of all studies: labels that are alike, case aside, since they name tensors and files.
        """
        problems, first = [], dict[str, int]()
        for index, entry in mappings_in(data.get("scorers")):
            scorer = entry.get("scorer")
            label = entry.get("label") or (default_label(scorer) if isinstance(scorer, str) else None)
            other = first.setdefault(label.casefold(), index) if isinstance(label, str) else index
            if other != index:
                message = f'got "{label}", the label of scorers[{other}] too; labels must differ, also without case'
                path = ("scorers", index, "label")
                problems.append(errors.Problem(f"{message}; give this entry a `label`", path))
        return problems

    def unused(self) -> set[str] | dict[str, Any]:
        """Keys that another key makes meaningless, and that a resolved config leaves out; nested ones by their way."""
        return set()
