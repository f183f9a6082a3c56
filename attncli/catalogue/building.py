"""Build the scorers and normalisers of a config, compile scorers, and compute raw scores."""

import copy
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.attention import Bias, EmptyRow, Rules, at_least_float32, computing_dtype
from attncli.catalogue.catalogue import class_formula
from attncli.catalogue.guarding import OwnNormalizer, calling
from attncli.catalogue.normalizer_entries import DEFAULT_NORMALIZER
from attncli.catalogue.plans import PlanEntry
from attncli.catalogue.scorer_entries import ParameterFile, ScorerEntry
from attncli.core.files import read_tensors
from attncli.core.masks import Valid
from attncli.core.numbers import several
from attncli.core.rotary import rotated
from attncli.core.rounding import DTYPES, Rounding
from attncli.core.seeding import seeded
from attncli.errors import Collector, InputError, Problem, below, did_you_mean, got, in_ranges, listed
from attncli.normalizers import NORMALIZERS, Normalizer
from attncli.results import NORMALIZER, Row
from attncli.scorers import SCORERS, Scorer, is_built_in
from attncli.scorers._base import with_facts
from attncli.scorers._custom import ModuleScorer, raised
from attncli.scorers._heads import HeadScorer, by_head, put_options
from attncli.scorers.additive import Additive

Made = TypeVar("Made")
Learnt = Mapping[str, Tensor] | None  # numbers by name, with a first axis of heads
EPSILON = 1e-6  # added to the variance in `qk_norm`
SIGNATURE = "`def __init__(self, query_size, key_size, *, option=default)`, which begins with `super().__init__()`"
NAMED_KEYS = ("phi", "qk_norm", "rope", "window", "first_keys", "dtype", "rounding")  # of an entry, after its formula


def entry_columns(entry: ScorerEntry) -> Row:
    """Return the columns that name the entry in each of its rows: scorer, label and normaliser."""
    names = {each.normalizer.normalizer for each in entry.entries}
    return {"scorer": entry.scorer, "label": entry.label, "normalizer": names.pop() if len(names) == 1 else "several"}


def map_entries(entries: Sequence[ScorerEntry], make: Callable[[ScorerEntry], Made]) -> list[Made]:
    """Return `make(entry)` for every entry.

    Raises:
        InputError: the problems of all entries, each located at its key under `scorers`.
    """
    collector, built = Collector(), list[Made]()
    for index, entry in enumerate(entries):
        with collector.under("scorers", index):
            built.append(make(entry))
    collector.check()
    return built


def build_scorer(
    entry: ScorerEntry, query_size: int, key_size: int, seed: int, dtype: torch.dtype, learnt: Learnt = None
) -> Scorer:
    """Return the scorer of an entry, on the CPU and in evaluation mode, with the numbers that it learnt, if any.

    Parameters are drawn in float32 from a generator that depends on the seed and the label only, then rounded to
    `dtype`, the dtype of the queries and keys; computations use float32 at least.

    Raises:
        InputError: the scorer or `rope` refuses the sizes, the parameter file does not fit, or a user's class fails.
    """
    turned = 2.0 if entry.rope is None else entry.rope.share * key_size  # features
    if entry.rope is not None and (query_size != key_size or turned < 1 or abs(turned - 2 * round(turned / 2)) > 1e-6):
        sizes = f"queries of size {query_size} and keys of size {key_size}"
        expected = "equal sizes" if query_size != key_size else "an even number of features to turn: size times `share`"
        raise InputError.of(f"got {entry.rope} for {sizes}; expected {expected}", ["rope"])
    with seeded(seed, f"scorers.{entry.seed_name}"):
        before = torch.default_generator.get_state()
        scorer = _make(entry, query_size, key_size)
        is_drawn = not torch.equal(before, torch.default_generator.get_state())
    largest = torch.finfo(computing_dtype(dtype)).max
    if "scale" in entry.options and scorer_scale(scorer) > largest:  # a score of 0 times infinity is NaN
        expected = f"expected a number that float32 holds, at most {largest:.3g}, or dtype float64"
        raise InputError.of(got(entry.options["scale"], expected), ["scale"])
    for name, tensor in scorer.state_dict().items():
        if tensor.is_complex():  # torch would keep the real part only
            raise InputError.of(f"{entry.scorer} has complex numbers in {name}; expected real ones")
    scorer = scorer.to(dtype).eval()
    if entry.parameters is not None:
        _load_parameters(scorer, entry.parameters)
    scorer.has_random_parameters = is_drawn and entry.parameters is None
    scorer = scorer.to(computing_dtype(dtype))
    if learnt is not None:
        return HeadScorer(scorer, learnt).to(computing_dtype(dtype))
    if entry.fitted is not None:
        cure = "expected a captured model, or the study swap"
        raise InputError.of(f"got {entry.label}, which was fitted to the layers of a model; {cure}", ["fitted"])
    return scorer


def parameter_notes(entries: Sequence[ScorerEntry]) -> Iterator[str]:
    """Yield a sentence for each entry whose file of parameters seems to have its matrices as (in, out)."""
    for entry in (each for whole in entries for each in whole.entries):
        if entry.parameters is not None and (kernels := entry.parameters.untransposed_kernels):
            stored = f"{entry.label}: parameters: {listed(kernels)}: Keras stores a kernel as (in, out)"
            yield f"{stored}, read here as (out, in); `transpose: true` transposes matrices"


def random_labels(entries: Sequence[ScorerEntry], scorers: Sequence[Scorer]) -> list[str]:
    """Return the labels of entries with random parameters, drawn when built and not read from a file.

    The weights of the normaliser `uniform` do not depend on any parameters.
    """
    pairs = zip(entries, scorers, strict=False)
    return [e.label for e, scorer in pairs if scorer.has_random_parameters and e.normalizer.normalizer != "uniform"]


def stored_parameters(entry: ScorerEntry, scorer: Scorer) -> dict[str, Tensor]:
    """Return the parameters that an entry reads from a file, as `label/name` on the CPU; empty if it reads none."""
    if entry.parameters is None:
        return {}
    return {f"{entry.label}/{name}": tensor.cpu() for name, tensor in scorer.state_dict().items()}


def build_normalizer(entry: ScorerEntry, learnt: Mapping[str, Any] | None = None, heads: int = 0) -> Normalizer:
    """Return the normaliser of an entry, with learnt options, which broadcast to scores of so many heads (0: no axis).

    Raises:
        InputError: a user's own class fails, or a list does not have a number for each head.
    """
    name, options = entry.normalizer.normalizer, entry.normalizer.options
    with below("normalizer"):
        for option in {*getattr(entry.normalizer.implementation, "learnable", ())} & options.keys():
            if isinstance(numbers := options[option], list) and len(numbers) != heads:
                expected = f"one, or {heads}, one for each head" if heads else "one, for there are no heads"
                raise InputError.of(f"got {several(len(numbers), 'number')}; expected {expected}", [option])
        if name in NORMALIZERS:
            normalizer: Normalizer = entry.normalizer.implementation(**options)
        else:
            with calling(f"making {name}"):
                normalizer = OwnNormalizer(entry.normalizer.implementation(**options))
    put_options(normalizer.formula, learnt or {})
    normalizer.label = entry.label
    return normalizer


def is_own(entry: ScorerEntry) -> bool:
    """Whether the scorer or the normaliser of an entry is a class of the user, not a built-in one."""
    return entry.scorer not in SCORERS or entry.normalizer.normalizer not in NORMALIZERS


def entry_rules(
    entry: ScorerEntry,
    valid: Valid,
    bias: Tensor | None = None,
    *,
    empty_row: EmptyRow = "zero",
    sinks: Tensor | None = None,
    first: int = 0,
    slopes: Sequence[float] | None = None,
    learnt: Learnt = None,
) -> Rules:
    """Return the rules that turn an entry's scores into weights.

    Args:
        entry: its softcap, window, ALiBi and normaliser apply.
        valid: the valid keys, before the entry's window.
        bias: added to the scores, beside ALiBi.
        empty_row: weights of a query with no valid key.
        sinks: scores of an additional key.
        first: the position of the first query among the keys.
        slopes: the slope of ALiBi for each head; by default `alibi_slopes` of their number.
        learnt: the numbers that the entry learnt for each head, if any.

    Raises:
        InputError: as in `build_normalizer`.
    """
    has_bias = bias is not None or entry.position_bias is not None
    added = Bias(valid.shape, bias, entry.position_bias == "alibi", first, slopes) if has_bias else None
    if entry.window is not None:
        valid = replace(valid, window=entry.window, first_keys=entry.first_keys or 0, first=first)
    normalizer = build_normalizer(entry, by_head(learnt or {}), valid.shape[1] if len(valid.shape) == 4 else 0)
    return Rules(valid, entry.softcap, empty_row, added, normalizer, sinks, entry_rounding(entry))


def entry_rounding(entry: ScorerEntry) -> Rounding:
    """Return the stages of an entry's computation that are rounded, and their dtype."""
    return Rounding() if entry.dtype is None else Rounding(DTYPES[entry.dtype], entry.rounding or "inputs")


def entry_inputs(
    entry: ScorerEntry, queries: Tensor, keys: Tensor, pre_scale: float = 1.0, first: int | Tensor = 0
) -> tuple[Tensor, Tensor]:
    """Return queries (..., n, q) and keys (..., m, k) as the entry's scorer sees them: normalised, rotated, rounded.

    `qk_norm` is over the features, and without a gain. Query i has position `first` + i, for `rope`; a tensor (..., 1)
    has a `first` for each n queries. A user's scorer sees the queries of a model with the model's own factor
    `pre_scale`; built-in scorers see them without.
    """
    if pre_scale != 1 and entry.scorer not in SCORERS:
        queries = queries * pre_scale
    if entry.qk_norm is None and entry.rope is None and entry.dtype is None:
        return queries, keys
    queries, keys = at_least_float32(queries, keys)
    if entry.qk_norm is not None:
        norm: Callable[..., Tensor] = F.layer_norm if entry.qk_norm == "layer" else F.rms_norm
        queries, keys = (norm(tensor, tensor.shape[-1:], eps=EPSILON) for tensor in (queries, keys))
    if entry.rope is not None:
        theta, interleaved = entry.rope.theta, entry.rope.pairs == "interleaved"
        count = round(entry.rope.share * queries.shape[-1])
        places = torch.arange(queries.shape[-2]) + first, torch.arange(keys.shape[-2])
        queries = rotated(queries, places[0], theta, count, interleaved=interleaved)
        keys = rotated(keys, places[1], theta, count, interleaved=interleaved)
    rounding = entry_rounding(entry)
    return rounding.vectors(queries), rounding.vectors(keys)


def scoring_function(entry: ScorerEntry, scorer: Scorer) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function that computes the scorer's raw scores, rounded step by step if the entry asks for this."""
    rounding = entry_rounding(entry)
    return scorer if rounding.way != "steps" else functools.partial(_stepwise, scorer, rounding)


def _stepwise(scorer: Scorer, rounding: Rounding, queries: Tensor, keys: Tensor) -> Tensor:
    if is_built_in(scorer) and (product := scorer.as_dot(queries, keys)) is not None:
        queries, keys, scale = product
        return rounding.step(rounding.step(rounding.vectors(queries) @ rounding.vectors(keys).mT) * scale)
    return rounding.step(scorer(queries, keys))


def scorer_of_module(module: nn.Module) -> Scorer:
    """Return a user's module as a scorer that shares its parameters."""
    return module if isinstance(module, Scorer) else ModuleScorer(module)


def outline(entry: ScorerEntry, query_size: int, key_size: int) -> Scorer:
    """Return the scorer of an entry on the meta device, without memory for parameters; without facts for a user's."""
    if entry.scorer not in SCORERS:
        return Scorer()
    with torch.device("meta"):
        return _make(entry, query_size, key_size)


def _make(entry: ScorerEntry, query_size: int, key_size: int) -> Scorer:
    if entry.module is not None:
        return scorer_of_module(copy.deepcopy(entry.module))
    try:
        scorer = with_facts(entry.implementation)(query_size, key_size, **entry.options)
        scorer.state_dict()  # fails if a user's class lacks `super().__init__()`
        return scorer
    except (InputError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a user's own class may raise anything
        message = f"making {entry.scorer} with query_size={query_size} and key_size={key_size} gave {raised(error)}"
        if entry.scorer in SCORERS:  # it can be too large only
            message = f"got options that make {entry.scorer} too large for torch; use smaller ones"
        elif isinstance(error, TypeError | AttributeError):
            message += f"; expected {SIGNATURE}"
        raise InputError.of(message) from error


def _load_parameters(scorer: Scorer, source: ParameterFile) -> None:
    with below("parameters"):
        stored, state = read_tensors(Path(source.file)), dict[str, Tensor]()
        collector, parameters = Collector(), scorer.state_dict()
        for name, parameter in parameters.items():
            with collector.under():
                stored_name = source.names.get(name, name)
                if stored_name not in stored:
                    cure = f"{did_you_mean(stored_name, stored)}; map names with `names: {{{name}: ...}}`"
                    message = f'got "{source.file}", which has no "{stored_name}"; {cure}'
                    raise InputError.of(message, ["names", name] if name in source.names else ["file"])
                tensor = stored[stored_name]
                tensor = tensor.mT if source.transpose and tensor.ndim == 2 else tensor
                if tensor.shape != parameter.shape:
                    shapes = f"{list(stored[stored_name].shape)}; expected {list(parameter.shape)} for {name}"
                    if tensor.ndim == 2 and tensor.mT.shape == parameter.shape:
                        option = "leave out `transpose`" if source.transpose else "add `transpose: true`"
                        shapes += f"; it fits transposed: {option}"
                    elif source.transpose and tensor.ndim == 2:
                        shapes += ", transposed"
                    raise InputError.of(f'got "{stored_name}" of shape {shapes}', ["file"])
                state[name] = tensor.to(parameter.dtype)
        for name in sorted(set(source.names) - set(parameters)):
            message = f'got "{name}"; unknown parameter; {did_you_mean(name, list(parameters) or ["none"])}'
            collector.problems.append(Problem(message, ("names", name)))
        if not parameters:
            collector.problems.append(Problem("this scorer has no parameters; leave out `parameters`"))
        collector.check()
    scorer.load_state_dict(state)


def compile_scorer(scorer: Scorer) -> str | None:
    """Compile the scorer in place with `torch.compile`, for all sizes; return the reason if torch cannot, else None."""
    parameter = next(scorer.parameters(), torch.empty(0))
    reason = why_not(parameter.device, computing_dtype(parameter.dtype))
    if reason is None:
        scorer.compile(dynamic=True)
    return reason


@functools.cache
def why_not(device: torch.device, dtype: torch.dtype) -> str | None:
    """Return why torch cannot compile for this device and dtype, by compiling a small scorer; None if it can."""
    probe = Additive(1, 1).to(device, dtype)
    probe.compile()
    rows = torch.zeros(1, 16, 1, device=device, dtype=dtype)  # enough of them for the form that is used for more
    try:
        with torch.no_grad():
            probe(rows, rows)
    except InputError as error:
        return error.problems[0].message
    return None


def entry_formulas(entries: Iterable[ScorerEntry]) -> dict[str, str]:
    """Return the formula of each entry's scorer by label, then its keys such as `window`, and its normaliser's formula.

    Softmax has no formula here.
    """
    return {entry.label: "; ".join(_formulas(entry)) for entry in entries}


def _formulas(entry: ScorerEntry) -> Iterator[str]:
    if isinstance(entry, PlanEntry):
        for layers, heads, planned in entry.assignments():
            of_heads = "" if heads is None else f", heads {in_ranges(heads)}"
            yield f"{layers}{of_heads}: {planned.label if isinstance(planned, ScorerEntry) else planned}"
    else:
        words = f"; {class_formula(entry.implementation)}" if entry.normalizer.normalizer != "uniform" else ""
        yield (words + _key_words(entry) + _normalizer_words(entry)).removeprefix("; ")


def _key_words(entry: ScorerEntry) -> str:
    return "".join(f"; {key}: {value}" for key in NAMED_KEYS if (value := getattr(entry, key, None)) is not None)


def _normalizer_words(entry: ScorerEntry) -> str:
    name, options = entry.normalizer.normalizer, entry.normalizer.options
    if name == DEFAULT_NORMALIZER:
        return ""
    arguments = "".join(f", {key} = {value}" for key, value in options.items())
    return f"; {name}{arguments}: {class_formula(entry.normalizer.implementation)}"


def all_softmax(records: Iterable[Row]) -> bool:
    """Whether the normaliser of all rows is softmax."""
    return {record.get(NORMALIZER.key, DEFAULT_NORMALIZER) for record in records} == {DEFAULT_NORMALIZER}


def scorer_scale(scorer: Scorer) -> float:
    """Return the scorer's `scale` as one number: 1 without this attribute, NaN if it is no number."""
    try:
        return float(getattr(scorer, "scale", 1.0))
    except (TypeError, ValueError, RuntimeError):  # a user's own scorer may have anything
        return math.nan
