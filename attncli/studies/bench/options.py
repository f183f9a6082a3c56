"""Options of the study `bench`: scorers, implementations, measures and sizes."""

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from attncli.catalogue.entries import Scorers
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.config.models import STUDY, About, Experiment
from attncli.config.strict import Flag
from attncli.config.values import Sizes, as_list, each_once, powers

Measure = Literal["scores", "weights", "output"]
MEASURED: tuple[Measure, ...] = ("scores", "output")  # by default
Implementation = Literal["attncli", "compiled", "textbook", "fused", "linear"]
IMPLEMENTATIONS: tuple[Implementation, ...] = get_args(Implementation)  # in the order of display
SIZE, WHAT = Flag(panel="Sizes"), Flag(panel="What is measured")
GONE = ("only", "skip", "baseline")  # keys of earlier versions
CHOICE = Flag(panel=WHAT.panel, option="--implementation", replaced=dict.fromkeys(GONE, "--scorer, --implementation"))
HIDDEN = "num_hiddens"  # the option of `additive` that --num-hiddens gives

Several = Annotated[list[Measure], Field(min_length=1)]
Measures = Annotated[
    Several, AfterValidator(each_once), BeforeValidator(as_list, json_schema_input_type=Several | Measure)
]
Chosen = Annotated[list[Implementation], Field(min_length=1)]
Implementations = Annotated[
    Chosen, AfterValidator(each_once), BeforeValidator(as_list, json_schema_input_type=Chosen | Implementation)
]


def _all_scorers() -> list[Any]:
    from attncli.scorers import SCORERS  # loads torch

    return [{"scorer": name} for name in SCORERS]


class BenchOptions(Experiment):
    """Scorers and their implementations against the clock."""

    refused: ClassVar = {
        "dropout": "measures attention without dropout",
        "softcap": "measures scores without a bound",
        "qk_norm": "measures scores of the queries and keys as they are",
        "rope": "measures scores of the queries and keys as they are",
        "window": "measures all pairs of queries and keys",
        "dtype": "measures all scorers in one dtype, the experiment's",
        "fitted": "measures scorers without a model",
    }
    measures_time: ClassVar = True

    study: Annotated[Literal["bench"], STUDY] = "bench"
    about: About = "How much time and memory does each scorer take?"
    scorers: Scorers = Field(default_factory=_all_scorers)

    n: Annotated[Sizes, Field(description="number of queries"), SIZE] = Field(default_factory=lambda: powers(128, 1024))
    m: Annotated[Sizes | None, Field(description="number of keys and values; default: n"), SIZE] = None
    d: Annotated[Sizes, Field(description="size of queries, keys and values"), SIZE] = Field(
        default_factory=lambda: [64]
    )
    num_hiddens: Annotated[Sizes | None, Field(description="hidden units of additive scorers; default: d"), SIZE] = None
    batch: Annotated[Sizes, Field(description="batch size"), SIZE] = Field(default_factory=lambda: [1])
    heads: Annotated[Sizes | None, Field(description="number of heads; default: 1"), SIZE] = None
    backward: Annotated[bool, Field(description="measure the gradients, too"), WHAT] = False
    compile: Annotated[bool, Field(description="measure torch.compile, too"), WHAT] = False
    threads: Annotated[int | None, Field(ge=1, le=1024, description="CPU threads; default: torch's choice"), WHAT] = (
        None
    )
    measure: Annotated[Measures, Field(description="stages to compute"), WHAT] = Field(
        default_factory=lambda: [*MEASURED]
    )
    implementations: Annotated[
        Implementations | None, Field(description="whose code to measure; default: all but compiled"), CHOICE
    ] = None

    @classmethod
    def cure_of_key(cls, key: str) -> str:
        """Return the cure for a key that chose rows by patterns, or another baseline; empty for other keys."""
        if key == "baseline":
            return "ratios are to scaled_dot/textbook, or to the first row if it is not among `scorers`"
        return f"choose rows by `scorers` and `implementations` ({', '.join(IMPLEMENTATIONS)})" if key in GONE else ""

    def ignores_num_hiddens(self, entry: ScorerEntry) -> bool:
        """Whether the study's `num_hiddens` does not apply to an entry: it has its own, none, or is a user's scorer."""
        return ":" in entry.scorer or HIDDEN not in entry.options or HIDDEN in entry.model_fields_set

    def unused(self) -> dict[str, Any]:
        """Return the entries' `num_hiddens` to omit from the stored config, where they would override the study's."""
        open_entries = [index for index, entry in enumerate(self.scorers) if not self.ignores_num_hiddens(entry)]
        return {"scorers": {index: {HIDDEN} for index in open_entries}} if open_entries else {}


OPTIONS = BenchOptions
