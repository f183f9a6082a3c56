"""The outputs of a whole model, and the columns that tell how far a change inside of the model changes them.

    runner = Runner(loaded)
    before = [runner.run(batch) for batch in loaded.batches]
    changes = Changes(loaded.pooling)  # of attncli.models.changes
    for batch, own in zip(loaded.batches, before, strict=True):
        with attncli.Swap("sparsemax"):
            changes.add(own, runner.run(batch))
    row = changes.record(reference)  # the columns `output_columns(runner.kind)`

`reference` has the changes by the model's own scorer, put into the model in the same way.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attncli.attention import at_least_float32
from attncli.core.numbers import short
from attncli.errors import InputError
from attncli.models.loading import DECODERS, LoadedModel, failing, forward_arguments
from attncli.results import Column

OutputKind = Literal["language", "logits", "states", "other"]
Metric = Callable[[nn.Module, Any], Any]  # of a model and a batch; returns a number
TASK = re.compile(r"(For[A-Z]\w*|LMHeadModel)$")  # the end of the name of a class that states the model's task
LANGUAGE = (*DECODERS, "ForConditionalGeneration")
NEEDED: Mapping[OutputKind, str] = {
    "language": "logits (b, n, vocabulary), and the tokens (b, n) as `input_ids` or `labels`",
    "logits": "logits (..., classes)",
    "states": "states (..., d) as `last_hidden_state`, or with `output_hidden_states=True`",
    "other": "floating-point numbers",
}
IGNORED = -100  # target that does not count, as in transformers

LAYER = Column("layer", "layer", "Layer of the model, by its name; empty for all.", text=True, kind="place")
HEAD = Column("head", "head", "Number of the head, from 0; empty for all.", kind="place")
amount = partial(Column, format=short, least=1e-5)
change = partial(Column, format=short, signed=True)
similarity = partial(Column, format=short, signed=True, most=1)
ANY = (
    amount("relative_l2", "relative\nL2", "L2 norm of the change of the main output, over the norm of the original."),
    amount("largest", "largest\nchange", "Largest absolute change of the main output."),
)
METRIC = (
    Column("metric", "metric", "Number of the function `metric`, mean over batches.", signed=True),
    change("metric_change", "metric\nchange", "Metric less the metric with the model's own scorer."),
    Column("metric_change_se", "±", "Standard error of the change of the metric, over the batches.", "", short),
)
PREDICTIONS = (
    amount("kl", "KL", "Mean KL divergence of the new prediction from the original one.", "nats"),
    Column(
        "top1_agreement",
        "top-1\nagreement",
        "Share of predictions with the same most probable token or class.",
        "",
        short,
        most=1,
    ),
)
LANGUAGE_COLUMNS = (
    Column("loss", "loss", "Mean cross-entropy of the next token.", "nats"),
    change("loss_change", "loss\nchange", "Loss less the loss of the model's own scorer.", "nats"),
    Column("loss_change_se", "±", "Standard error of the change of the loss, over the texts.", "nats", short),
    Column("perplexity", "perplexity", "exp(loss)."),
    *PREDICTIONS,
)
STATES = (
    similarity("token_cosine", "token\ncosine", "Mean cosine similarity of new and original states of tokens."),
    similarity("pooled_cosine", "pooled\ncosine", "Mean cosine similarity of new and original pooled states."),
    similarity(
        "rank_correlation",
        "rank\ncorrelation",
        "Spearman correlation of new and original similarities of pairs of texts.",
    ),
)
OF_KIND: Mapping[OutputKind, tuple[Column, ...]] = {
    "language": LANGUAGE_COLUMNS,
    "logits": PREDICTIONS,
    "states": STATES,
    "other": (),
}
ALL = (*ANY, *METRIC, *LANGUAGE_COLUMNS, *STATES)  # of all kinds of outputs


def output_columns(kind: OutputKind, has_metric: bool = False) -> tuple[Column, ...]:
    """Return the columns of `Changes.record` for a kind of output, and for a metric of the user's."""
    return (*ANY, *(METRIC if has_metric else ()), *OF_KIND[kind])


@dataclass(frozen=True)
class Outputs:
    """The main output of a model for one batch, on the CPU: logits (b, n, classes), states (b, n, d) or any numbers.

    `valid` (b, n), or (b) for any numbers, is False at padding. `targets` (b, n) of a language model are the tokens to
    predict, IGNORED where a prediction does not count. `metric` is the number of the user's function for the batch.
    `main` is None if this function never called the model as a whole. With `head`, the output layer of a language
    model, `main` has the states (b, n, d) before it, on the model's device: its logits would take much more memory.
    """

    kind: OutputKind
    main: Tensor | None
    valid: Tensor
    targets: Tensor | None = None
    metric: float | None = None
    head: nn.Linear | None = None

    def rows(self, tokens: Tensor) -> Tensor:
        """Return rows (tokens, features) of the main output, given their indices among all tokens of the batch.

        They are new tensors of predictions in at least float32, and in float64 of other kinds.
        """
        assert self.main is not None
        rows = self.main.flatten(0, self.valid.ndim - 1)[tokens.to(self.main.device)].reshape(len(tokens), -1)
        rows = rows if self.head is None else self.head(rows)
        return at_least_float32(rows)[0] if self.kind in ("language", "logits") else rows.double()

    @property
    def nans(self) -> int:
        """The number of NaN that are not at padding."""
        if self.main is None or not self.main.sum().isnan():
            return 0
        return int(self.main[self.valid.to(self.main.device)].isnan().sum())


class Runner:
    """Runs a model on batches and reads its outputs.

    `kind` is the kind of its outputs; None finds it for the first batch, and it is kept for the others. With `metric`,
    a batch is run by `metric(model, batch)`, and its outputs come from the first call of the model in it.
    """

    def __init__(self, loaded: LoadedModel, kind: OutputKind | None = None, metric: Metric | None = None) -> None:
        self.loaded, self.kind, self.metric = loaded, kind, metric

    @property
    def metric_name(self) -> str | None:
        """The name of the metric; a function without a name is called `metric`."""
        name = getattr(self.metric, "__name__", "metric")
        return None if self.metric is None else name if name.isidentifier() else "metric"

    @torch.no_grad()
    def run(self, batch: object, own: Outputs | None = None) -> Outputs:
        """Run the model on a batch, without gradients.

        `own` are outputs of an earlier run on this batch. If they have a head, it does not run again.

        Raises:
            InputError: the model or the metric fails, or the output is not of this kind.
        """
        if self.metric is None and own is not None and own.head is not None:
            return replace(own, main=self._states(batch, own.head))
        if self.metric is None:
            outputs = self._with_head(batch)
        else:
            calls = list[tuple[Any, Any, Any]]()  # the first one alone: later ones may be many
            hook = self.loaded.model.register_forward_hook(
                lambda _, *call: None if calls else calls.append(call), with_kwargs=True
            )
            try:
                value = _metric_number(self.metric, self.loaded.model, batch)
            finally:
                hook.remove()
            nothing = Outputs(self.kind or "other", None, torch.ones(1, 1, dtype=torch.bool))
            outputs = replace(self._read(*calls[0]) if calls else nothing, metric=value)
        self.kind = outputs.kind
        return outputs

    def _with_head(self, batch: object) -> Outputs:
        """Return the outputs for a batch: states and the output layer if the logits are all that this layer does."""
        find = getattr(self.loaded.model, "get_output_embeddings", None)
        head, calls = None if find is None else find(), list[tuple[Tensor, Tensor, int]]()
        if not isinstance(head, nn.Linear):
            return self._read(*forward_arguments(batch), self.loaded.outputs(batch))
        hook = head.register_forward_hook(lambda _, args, logits: calls.append((*args, logits, logits._version)))
        try:
            output = self.loaded.outputs(batch)
        finally:
            hook.remove()
        outputs = self._read(*forward_arguments(batch), output)
        if outputs.kind != "language" or len(calls) != 1:
            return outputs
        states, logits, version = calls[0]
        is_last = _field(output, "logits") is logits and logits._version == version
        fits = outputs.main is not None and states.shape[:2] == outputs.valid.shape
        return replace(outputs, main=states, head=head) if is_last and fits else outputs

    def _states(self, batch: object, head: nn.Linear) -> Tensor:
        """Return the states before the output layer, in place of which the model gets zeros without memory."""
        states = list[Tensor]()

        def forward(inputs: Tensor) -> Tensor:
            states.append(inputs)
            return inputs.new_zeros(()).expand(*inputs.shape[:-1], head.out_features)

        with replaced_forward({head: forward}):
            self.loaded.outputs(batch)
        return states[-1]

    def _read(self, args: Any, kwargs: Any, output: Any) -> Outputs:
        return outputs_of(self.loaded.model, args, kwargs, output, self.kind)


@contextmanager
def replaced_forward(functions: Mapping[nn.Module, Callable[..., Any]]) -> Iterator[None]:
    """Let modules compute something else inside the `with` block."""
    before = {module: vars(module).get("forward") for module in functions}
    try:
        for module, function in functions.items():
            vars(module)["forward"] = function
        yield
    finally:
        for module, earlier in before.items():
            vars(module).pop("forward", None) if earlier is None else vars(module).update(forward=earlier)


def _metric_number(metric: Metric, model: nn.Module, batch: object) -> float:
    """Return the number that a user's function returns; raise an InputError if it fails or returns something else."""
    with failing("the metric gave", "check the function and the batches"):
        value = metric(model, batch)
    if (isinstance(value, Tensor) and value.numel() == 1 and not value.is_complex()) or isinstance(value, Real):
        return float(value)
    shape = f" of shape {list(value.shape)}" if isinstance(value, Tensor) else ""
    raise InputError.of(f"the metric gave {type(value).__name__}{shape}; expected a number")


def is_language_model(model: nn.Module) -> bool:
    """Whether a model predicts the next token.

    The outermost module whose class states a task decides, so a wrapper does not matter: `LlamaForCausalLM` does,
    `BertForMaskedLM` does not. If there is none, the config decides, by `architectures` or `is_decoder`.
    """
    for module in model.modules():
        heads = [cls.__name__ for cls in type(module).__mro__ if TASK.search(cls.__name__)]
        if heads:
            return any(name.endswith(LANGUAGE) for name in heads)
    config = getattr(model, "config", None)
    architectures = getattr(config, "architectures", None) or ()
    return any(name.endswith(LANGUAGE) for name in architectures) or bool(getattr(config, "is_decoder", False))


def outputs_of(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: object, kind: OutputKind | None = None
) -> Outputs:
    """Return the main output of a model's call: logits, the last hidden state, or its first tensor.

    Logits count as a language model's if the model is one, and if the call has tokens or labels to predict. In an
    output without names, such as a tensor or a tuple, the first tensor is taken.

    Raises:
        InputError: the output has no numbers, or is not of the requested kind.
    """
    call = _Call(model, _arguments_by_name(model, args, kwargs), args, output)
    kinds: tuple[OutputKind, ...] = (kind,) if kind else ("language", "logits", "states", "other")
    for candidate in kinds:
        outputs = call.read(candidate, is_requested=kind is not None)
        if outputs is not None:
            return outputs
    names = f" ({', '.join(map(str, output))})" if isinstance(output, Mapping) else ""
    dtypes = sorted({str(tensor.dtype).removeprefix("torch.") for tensor in tensors_in(output) if tensor.numel()})
    of = f"of {', '.join(dtypes)}" if dtypes else "without numbers"
    expected = "expected floating-point logits or states" if kind is None else f"`outputs: {kind}` needs {NEEDED[kind]}"
    raise InputError.of(f"the model gives {type(output).__name__}{names} {of}; {expected}")


@dataclass(frozen=True)
class _Call:
    """A call of a model: its arguments by name and its positional arguments, and the output."""

    model: nn.Module
    arguments: Mapping[str, Any]
    args: tuple[Any, ...]
    output: Any

    def read(self, kind: OutputKind, is_requested: bool) -> Outputs | None:
        """Return the outputs if they are of this kind."""
        if kind == "other":
            numbers = self._first()
            return None if numbers is None else Outputs(kind, numbers, torch.ones(len(numbers), dtype=torch.bool))
        is_language = kind == "language" and (is_requested or is_language_model(self.model))
        if kind == "language" and not is_language:
            return None
        main = self._of_kind(kind, may_be_unnamed=is_requested or is_language)
        if main is None or main.ndim < 2 or main.numel() == 0:
            return None
        if kind != "states" and main.shape[-1] == 1:
            return None  # one class has probability 1
        if not is_requested and (main.ndim > 3 or (is_language and main.shape[-1] < self._config("vocab_size", 0))):
            return None  # the axis of the classes is unknown, or these are states of a model without its head
        # A decoder has tokens of its own beside those of the encoder.
        is_pair = is_language and bool(self._config("is_encoder_decoder", False))
        shape, decodes = main.shape[:-1], is_pair or self.arguments.get("decoder_input_ids") is not None
        labels = self._integers("labels", shape) if is_language else None
        mask = self._integers("decoder_attention_mask" if decodes else "attention_mask", shape)
        valid = torch.ones(shape, dtype=torch.bool) if mask is None else mask.bool()
        if mask is None and decodes and labels is not None:
            valid = labels != IGNORED  # transformers makes the decoder's tokens from the labels
        targets = self._targets(labels, valid, decodes, main.shape[-1]) if is_language and main.ndim == 3 else None
        if is_language and targets is None:
            return None
        b = len(main)
        return Outputs(kind, main.reshape(b, -1, main.shape[-1]), valid.reshape(b, -1), targets)

    def _of_kind(self, kind: OutputKind, may_be_unnamed: bool) -> Tensor | None:
        main = _field(self.output, "last_hidden_state" if kind == "states" else "logits")
        if main is None and kind == "states" and (states := _field(self.output, "hidden_states")):
            main = states[-1]
        if isinstance(main, Tensor):
            return _dense(main) if main.is_floating_point() and not main.is_nested else None
        is_unnamed = isinstance(self.output, Tensor | tuple | list)
        return self._first() if is_unnamed and may_be_unnamed else None

    def _first(self) -> Tensor | None:
        """Return the first floating-point tensor; a single number, such as a loss, only if there is nothing else."""
        floats = (tensor for tensor in tensors_in(self.output) if tensor.is_floating_point() and not tensor.is_nested)
        tensors = [tensor for tensor in floats if tensor.numel()]
        first = next((tensor for tensor in tensors if tensor.ndim), tensors[0] if tensors else None)
        return None if first is None else _dense(first)

    def _config(self, key: str, default: int) -> int:
        value = getattr(getattr(self.model, "config", None), key, default)
        return value if isinstance(value, int) else default

    def _integers(self, name: str, shape: tuple[int, ...]) -> Tensor | None:
        """Return an argument of this shape on the CPU; None if there is none."""
        tensor = self.arguments.get(name)
        return tensor.cpu() if isinstance(tensor, Tensor) and tensor.shape == shape else None

    def _targets(self, labels: Tensor | None, valid: Tensor, decodes: bool, vocabulary: int) -> Tensor | None:
        """Return the token (b, n) that each position should predict, IGNORED where it does not count.

        Labels count as in transformers. Of tokens, the next one counts if neither is padding.
        """
        if labels is not None:
            targets = labels if decodes else _next(labels)
        else:
            tokens = self._integers("decoder_input_ids" if decodes else "input_ids", valid.shape)
            if tokens is None and not decodes and self.args and isinstance(self.args[0], Tensor):
                tokens = self.args[0].cpu() if self.args[0].shape == valid.shape else None
            if tokens is None or tokens.is_floating_point():
                return None
            targets = _next(tokens.long().masked_fill(~valid, IGNORED)).masked_fill(~valid, IGNORED)
        is_token = (targets >= 0) & (targets < vocabulary)
        return targets.long() if bool((is_token | (targets == IGNORED)).all()) else None


def _next(tokens: Tensor) -> Tensor:
    """Return the tokens (b, n), each at the position before its own; IGNORED at the last one."""
    return torch.nn.functional.pad(tokens[:, 1:], (0, 1), value=IGNORED)


def _arguments_by_name(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model's call by the names of its parameters, as far as they have names."""
    try:
        bound = inspect.signature(model.forward).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):  # no signature, or arguments that only a wrapper takes
        bound = {}
    return {**bound, **kwargs}


def _field(output: object, name: str) -> Any:
    return output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)


def _dense(tensor: Tensor) -> Tensor:
    """Return a tensor on the CPU without gradients, with an axis at least, and not sparse."""
    dense = tensor.detach().to_dense().cpu()
    return dense if dense.ndim else dense[None]


def tensors_in(output: object) -> Iterator[Tensor]:
    """Yield the tensors of an output in their order; a number in Python is one, too."""
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, Real) and not isinstance(output, bool):
        yield torch.tensor(float(output), dtype=torch.float64)
    for value in output.values() if isinstance(output, Mapping) else output if isinstance(output, tuple | list) else ():
        yield from tensors_in(value)
