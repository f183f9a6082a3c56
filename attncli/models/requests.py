"""The model that the options of a study describe, and the layers and heads that they choose."""

from collections.abc import Mapping, Sequence

from attncli.config.models import Experiment
from attncli.config.texts import NO_TEXTS
from attncli.core.device import resolve_device
from attncli.core.numbers import several
from attncli.errors import Collector, InputError, below, got
from attncli.models.loading import LoadedModel, Request, load
from attncli.models.selection import matching_calls, picks


def load_model(
    options: Experiment,
    model: str,
    texts: Sequence[str],
    attn: str,
    revision: str | None,
    batch_size: int | None,
    *,
    has_head: bool = False,
) -> LoadedModel:
    """Load a model on the device and with the dtype of a study's options, at most `batch_size` texts in a batch.

    Raises:
        InputError: a function, which brings its own inputs, has texts; another model has none; it is a file; or it
            cannot be loaded.
    """
    request = Request(
        model,
        tuple(texts),
        dtype=options.dtype,
        revision=revision,
        attention=None if attn == "auto" else attn,
        device=resolve_device(options.device),
        has_head=has_head,
    )
    if request.is_function and texts:
        message = f"{several(len(texts), 'text')} for a function, which brings its own inputs; leave them out"
        raise InputError.of(f"got {message}", ["texts"])
    with below("model"):
        request.refuse_file()
    if not request.is_function and not texts:
        raise InputError.of(NO_TEXTS, ["texts"])
    with below("model"):
        return load(request, batch_size)


def chosen_calls(
    layers: Sequence[int | str] | None,
    heads: Sequence[int] | None,
    counts: Mapping[str, int],
    problems: Mapping[str, str],
    prefix: str,
) -> list[str]:
    """Return the names of the attention calls that layers choose (None: all), in the order of the calls.

    `counts` has the number of heads of each call by name, and `problems` why other attention is not recognised.
    `prefix` is the prefix of the model's names of layers.

    Raises:
        InputError: layers choose no call, or a chosen call lacks one of the heads.
    """
    names, collector, chosen = list(counts), Collector(), set[str]()
    for index, layer in enumerate(layers or ()):
        with collector.under("layers", index):
            chosen |= {*calls_in(layer, names, problems, prefix)}
    in_order = [name for name in names if layers is None or name in chosen]
    for index, head in enumerate(heads or ()):
        with collector.under("heads", index):
            for name in in_order:
                if head >= counts[name]:
                    raise InputError.of(got(head, f"expected 0 to {counts[name] - 1}, of the heads of {name}"))
    collector.check()
    return in_order


def calls_in(layer: int | str, names: Sequence[str], problems: Mapping[str, str], prefix: str) -> list[str]:
    """Return the names of the calls that a number, ranges of numbers, a name or a pattern chooses.

    Raises:
        InputError: it chooses none, or one whose attention is not recognised.
    """
    for name, problem in problems.items():
        if picks(layer, name, -1, prefix):
            raise InputError.of(f"got {name}, whose attention is not recognised: {problem}")
    return matching_calls(layer, {name: number for number, name in enumerate(names)}, prefix)
