"""The options of the study `fit`: a model with its texts or a captured file, the scorers, and how they are fitted."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from attncli.catalogue.entries import Scorers
from attncli.catalogue.normalizer_entries import DEFAULT_NORMALIZER, KEY, NormalizerEntry
from attncli.catalogue.scorer_entries import MODEL, ScorerEntry
from attncli.catalogue.short_forms import model_entry
from attncli.config.files import StoredAs
from attncli.config.models import STUDY, About, Experiment
from attncli.config.strict import Flag, problem
from attncli.config.tensors import CapturedData
from attncli.config.texts import (
    MODEL_NAME,
    BatchSize,
    ModelDType,
    ModelName,
    Revision,
    Texts,
    Way,
    beside,
)
from attncli.config.values import Indices, Layers
from attncli.errors import got, show

Per = Literal["head", "layer", "all"]
Objective = Literal["auto", "kl", "output"]
KEYS_ALONE, UNIFORM = "keys_alone", "uniform"
REFERENCES = (MODEL, UNIFORM, KEYS_ALONE)  # labels of the entries that always run
DEFAULT_SCORERS: list[Any] = [{"scorer": "cosine"}]
FITTING, WHERE = Flag(panel="Fitting"), Flag(panel="Where")
SCORER_KEY = "scorer"
OF_MODEL = ("texts", "attn", "revision", "batch_size")  # keys without a use for captured files


def _fit_entry(entry: Any) -> Any:
    """Return an entry as for a captured model, but the name of a normaliser without the model's scale, to learn one."""
    long_form = model_entry(entry)
    is_mapping = isinstance(entry, str) and isinstance(long_form, dict)
    is_normalizer = is_mapping and long_form.get(KEY, DEFAULT_NORMALIZER) == entry
    return {"scorer": "scaled_dot", KEY: entry, "label": entry} if is_normalizer else long_form


class FitOptions(Experiment):
    """Scorers fitted to the attention of a trained model."""

    refused: ClassVar = {"dropout": "fits without dropout", "fitted": "fits scorers anew", "dtype": "fits in float32"}
    learns: ClassVar = True
    entry_of: ClassVar = staticmethod(_fit_entry)

    study: Annotated[Literal["fit"], STUDY] = "fit"
    about: About = "Could this model have used another scorer?"
    scorers: Annotated[Scorers, beside(REFERENCES)] = DEFAULT_SCORERS

    model: Annotated[ModelName | None, MODEL_NAME, StoredAs()] = None
    texts: Texts
    data: Annotated[CapturedData | None, Field(description="a captured file, in place of a model and its texts")] = None
    held_out: Annotated[
        float, Field(gt=0, lt=1, description="share of the texts that are for the reported figures only"), FITTING
    ] = 0.2
    per: Annotated[
        Per, Field(description="what has parameters of its own: each head, each layer, or all layers together"), FITTING
    ] = "head"
    objective: Annotated[
        Objective,
        Field(
            description="error to reduce: kl, the divergence of the model's weights from the scorer's; output, the "
            "squared error of the heads' outputs; auto, kl where no weight can be 0, else output"
        ),
        FITTING,
    ] = "auto"
    steps: Annotated[int, Field(ge=0, le=10**6, description="steps of gradient descent"), FITTING] = 300
    layers: Annotated[
        Layers | None,
        Field(description="layers to fit: numbers, ranges such as 5-7, names, or patterns such as decoder.*"),
        WHERE,
    ] = None
    heads: Annotated[Indices | None, Field(description="numbers of the heads to fit; default: all"), WHERE] = None
    batch_size: BatchSize = None
    attn: Way = "auto"
    revision: Revision = None
    dtype: ModelDType = None  # type: ignore[assignment]

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.model is None and self.data is None:
            raise problem(
                "the key `model` is missing; expected it with `texts`, or `data: {capture: FILE}`", under=["model"]
            )
        if self.model is not None and self.data is not None:
            raise problem("got data together with a model; expected one of the two", under=["data"])
        if self.data is not None:
            written = ("layers", "heads", *OF_MODEL)
            if extra := next((key for key in written if key in self.model_fields_set), None):
                cure = f"write `data: {{{extra}: ...}}`" if extra in ("layers", "heads") else "leave it out"
                raise problem(f"got {extra} together with `data`; {cure}", under=[extra])
        return self

    @model_validator(mode="after")
    def _can_be_kl(self) -> Self:
        for index, entry in enumerate(self.scorers):
            if self.objective == "kl" and may_drop_keys(entry):
                name = entry.normalizer.normalizer
                message = (
                    f"got objective kl; weights of {name} can be 0, and the divergence infinite; use auto or output"
                )
                raise problem(message, under=["scorers", index, KEY])
        return self

    @model_validator(mode="after")
    def _can_learn(self) -> Self:
        for index, entry in enumerate(self.scorers):
            for model, key in ((entry, SCORER_KEY), (entry.normalizer, KEY)):
                learnable = getattr(model.implementation, "learnable", {})
                if not _maps_options_to_ranges(learnable, model):
                    message = f"whose `learnable` is {show(learnable)}"
                    cure = 'expected ranges of its options, such as {"scale": (0.0, math.inf)}'
                    raise problem(got(getattr(model, key), message, cure), under=["scorers", index, key])
            if both := {*learnt_options(entry)} & {*learnt_options(entry.normalizer)}:
                message = f"got the option {min(both)}, which the scorer and the normaliser would both learn"
                raise problem(f"{message}; rename it in one of them", under=["scorers", index])
        return self

    def unused(self) -> dict[str, Any]:
        """Return the keys without effect: the keys of a model, for a captured file; and options that are learnt."""
        keys = {*OF_MODEL, "layers", "heads"} if self.data is not None else {"data"}
        learnt = dict[int, dict[str, Any]]()
        for index, entry in enumerate(self.scorers):
            learnt[index] = {**dict.fromkeys(learnt_options(entry), True)}
            learnt[index][KEY] = dict.fromkeys(learnt_options(entry.normalizer), True)
        return {**dict.fromkeys(keys, True), "scorers": learnt}


def may_drop_keys(entry: ScorerEntry) -> bool:
    """Whether weights of an entry can be 0, and the divergence infinite."""
    return bool(getattr(entry.normalizer.implementation, "may_drop_keys", False))


def learnt_options(entry: ScorerEntry | NormalizerEntry) -> list[str]:
    """Return the options of a scorer or normaliser that are learnt: learnable ones that the entry does not write."""
    if getattr(entry, "module", None) is not None:  # made already, without options
        return []
    learnable = getattr(entry.implementation, "learnable", {})
    return [option for option in learnable if option not in entry.model_fields_set]


def _maps_options_to_ranges(learnable: object, entry: ScorerEntry | NormalizerEntry) -> bool:
    """Whether `learnable` maps options of the scorer or normaliser to pairs (low, high) of numbers."""
    try:
        TypeAdapter(dict[str, tuple[float, float]]).validate_python(learnable, strict=True)
    except ValidationError:
        return False
    return {*learnt_options(entry)} <= {*entry.options}


OPTIONS = FitOptions
