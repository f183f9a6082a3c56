"""One attention call of a model: its inputs, its output, and the check that our own code gives the same output."""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from attncli.attention import Bias, EmptyRow, Rules, at_least_float32, weighted_sum
from attncli.core.masks import ALL, Valid
from attncli.core.modes import outside_autocast
from attncli.pooling import TILE_SHARE, WORKSPACE_BYTES, pool_by_rules, tiles

LOW = -1e4  # a number added to a score masks if it is at most this: models write -1e4, -1e9, the dtype's least or -inf
OUTPUT_ROUNDINGS, SCORE_ROUNDINGS = 8, 2  # the allowed difference of a correct reading, in eps: see `_allowed`
SAMPLED = 64  # queries
FURTHEST = 1 / 16  # largest allowed difference of a row, as a share of its size: 8 eps of bfloat16
TENSORS = ("queries", "keys", "values", "output", "valid", "bias", "sinks")
SHARED = ("valid", "bias")  # stored once if equal
FACTS = ("how", "scale", "pre_scale", "groups", "heads", "softcap", "empty_row", "error", "problem")  # a file's JSON
BIAS_FIRST = "the bias is added before the softcap; experiments add it after"
METADATA, VERSION = "attncli", 1  # key of a file's JSON, and version of its format
MaybeTensor = TypeVar("MaybeTensor", Tensor, Tensor | None)


class Site(NamedTuple):
    """An attention call: the name and the class of its layer, and its number among the calls of the layer."""

    layer: str
    kind: str
    call: int

    @property
    def name(self) -> str:
        """The layer's name, from its second call on with the number of the call: `layer#1`."""
        return f"{self.layer}#{self.call}" if self.call else self.layer


class UnreadableError(Exception):
    """Raised if an AttentionCall cannot describe a call; the message is the reason."""


@dataclass(frozen=True, eq=False, repr=False)
class AttentionCall:
    """Inputs and output of an attention call, split into heads, after position embeddings are applied.

    The weights are the softmax over valid keys of softcap(scale * queries . keys) + bias. The model multiplied queries
    or keys by `pre_scale` before the call, so its total scale is `scale * pre_scale`.
    """

    queries: Tensor  # b h n d
    keys: Tensor  # b h/groups m d
    values: Tensor  # b h/groups m v
    output: Tensor  # b h n v, the model's own
    scale: float
    layer: str = ""
    call: int = 0  # its number among the layer's calls
    kind: str = ""  # class of the module
    how: Literal["function", "kernel", "steps"] = "function"  # torch's function, its kernel, or single operations
    is_repeatable: bool = False  # the reading of a function's arguments, (b, h, n, d), holds for others like them
    scale_gradient: Tensor | None = None  # 1, through which gradients reach a scale that is a parameter
    pre_scale: float = 1.0
    groups: int = 1  # query heads for each head of keys
    softcap: float | None = None
    valid: Tensor | None = None  # b|1 h|1 n|1 m|1, boolean
    is_causal: bool = False  # the mask is causal from the top left, with `lengths`; `valid` may be left out
    lengths: Tensor | None = None  # b, with a causal mask: the keys before the padding at the end of each text
    bias: Tensor | None = None  # b|1 h|1 n|1 m|1
    bias_is_first: bool = False  # the bias was added before the softcap
    sinks: Tensor | None = None  # b|1 h|1 n|1 1: the score of one more key without a value
    empty_row: EmptyRow = "zero"
    heads: tuple[int, ...] | None = None  # their numbers in the model, if only some are kept
    num_heads: int | None = None  # of the model, if only some are kept
    number: int | None = None  # position in the captured file
    candidate: int = 0  # number of the candidate and variant that reproduces the model's output
    error: float = 0.0  # largest difference between `output` and `rescored()`
    problem: str | None = None  # why it cannot be re-scored

    def __repr__(self) -> str:
        """Return the call with its sizes in one line, without its numbers."""
        b, h, n, d = self.queries.shape
        sizes = f"{b} x {h} heads, {n} queries, {self.keys.shape[-2]} keys, d = {d}, scale {self.scale:.4g}"
        return f"<AttentionCall {self.name or 'function'}: {sizes}{f', {self.problem}' if self.problem else ''}>"

    @property
    def name(self) -> str:
        """The name of its site."""
        return Site(self.layer, self.kind, self.call).name

    @property
    def head_numbers(self) -> Sequence[int]:
        """The number of each head in the model, in the order of the tensors."""
        return self.heads or range(self.queries.shape[1])

    def of_heads(self, numbers: Collection[int]) -> "AttentionCall":
        """Return the call with the heads of these numbers in the model only, each with keys and values of its own."""
        indices = [index for index, number in enumerate(self.head_numbers) if number in numbers]
        groups = [index // self.groups for index in indices]
        per_head = {
            name: tensor if tensor.shape[1] == 1 else tensor[:, indices]
            for name in ("queries", "output", "valid", "bias", "sinks")
            if (tensor := getattr(self, name)) is not None
        }
        return replace(
            self,
            **per_head,
            keys=self.keys[:, groups],
            values=self.values[:, groups],
            groups=1,
            heads=tuple(self.head_numbers[index] for index in indices),
            num_heads=self.num_heads if self.heads else self.queries.shape[1],
        )

    @property
    def valid_keys(self) -> Valid:
        """The keys that each query may attend to."""
        shape, device = (*self.queries.shape[:-1], self.keys.shape[-2]), self.queries.device
        if self.is_causal:
            return Valid(shape, self.lengths, "top_left", device=device)
        return Valid(shape, mask=self.valid, device=device)

    @property
    def rules(self) -> Rules:
        """The rules by which the model turns scores into weights."""
        valid = self.valid_keys
        bias = None if self.bias is None else Bias(valid.shape, self.bias)
        return Rules(valid, self.softcap, self.empty_row, bias, sinks=self.sinks)

    @outside_autocast
    def weights(self, elements: slice = ALL, rows: slice = ALL) -> Tensor:
        """Return the attention weights (b, h, n, m), computed from the captured tensors as experiments compute them.

        For some batch elements and queries, or for all.
        """
        return self.rules.stages(self.products(elements, rows).mul_(self.scale), elements, rows)["weights"]

    @outside_autocast
    def products(self, elements: slice = ALL, rows: slice = ALL) -> Tensor:
        """Return queries . keys (b, h, n, m), in at least float32, for some batch elements and queries, or for all."""
        queries, keys = at_least_float32(self.queries[elements, :, rows], self.keys[elements])
        return queries @ _repeated(keys, self.groups).mT

    @outside_autocast
    def rescored(self) -> Tensor:
        """Return the attention output (b, h, n, v), recomputed from the captured tensors without all weights."""
        keys, values = (_repeated(tensor, self.groups) for tensor in (self.keys, self.values))
        # A function as scorer keeps torch's kernel out, which may have made the model's output.
        return pool_by_rules(lambda q, k: (q @ k.mT).mul_(self.scale), self.queries, keys, values, self.rules)

    def with_mask(self) -> "AttentionCall":
        """Return the call with its causal mask as a tensor."""
        if not self.is_causal or self.valid is not None:
            return self
        valid = self.valid_keys.tile()  # n m, with lengths b 1 n m
        assert valid is not None, "a causal mask"
        return replace(self, valid=valid if valid.ndim == 4 else valid[None, None])

    @property
    def reading(self) -> "AttentionCall":
        """The call with sizes in place of its numbers, by which `refilled` reads a later call without verification."""
        meta = {name: getattr(self, name).to("meta") for name in ("queries", "keys", "values", "output")}
        is_repeatable = self.is_repeatable and self.bias is None
        valid = self.valid if is_repeatable and not self.is_causal else None
        return replace(self, **meta, valid=valid, bias=None, sinks=None, is_repeatable=is_repeatable)

    def refilled(self, arguments: Mapping[str, Any], output: Tensor) -> "AttentionCall":
        """Return the call of torch's function with these arguments, read as in this repeatable reading."""
        call = fused(arguments, output)
        step = call.keys.shape[1] // self.keys.shape[1]  # of heads that the model repeated
        keys, values = call.keys[:, ::step], call.values[:, ::step]
        return replace(self, queries=call.queries, keys=keys, values=values, output=output)

    def sample(self) -> "AttentionCall":
        """Return the call with at most `SAMPLED` of its queries, if it has no bias and no mask but a causal one."""
        n, m = self.queries.shape[-2], self.keys.shape[-2]
        has_mask = self.lengths is not None or (self.valid is not None and not self.is_causal)
        if n <= SAMPLED or self.bias is not None or has_mask:
            return self
        rows = torch.linspace(0, n - 1, SAMPLED, device=self.queries.device).long()
        valid = (torch.arange(m, device=rows.device) <= rows[:, None])[None, None] if self.is_causal else None
        queries, output = self.queries[..., rows, :], self.output[..., rows, :]
        return replace(self, queries=queries, output=output, valid=valid, is_causal=False)

    def difference(self, output: Tensor) -> float:
        """Return the largest difference of `output` from the model's output; inf if a NaN is in only one of them."""
        if bool((output.isnan() != self.output.isnan()).any()):
            return math.inf
        return float((output - self.output).nan_to_num().abs().max()) if output.numel() else 0.0


def scorable(call: AttentionCall) -> AttentionCall:
    """Return the call, or raise an UnreadableError if it is empty, or its scale or softcap is not finite."""
    if not (call.queries.numel() and call.keys.numel() and call.values.numel()):
        raise UnreadableError("it has no queries, no keys or no values")
    if not all(math.isfinite(number) for number in (call.scale, call.softcap or 0.0)):
        raise UnreadableError("its scale or its softcap is not finite")
    return call


def fused(arguments: Mapping[str, Any], output: Tensor) -> AttentionCall:
    """Return the attention call of `scaled_dot_product_attention`, with its arguments by name."""
    lead, dtype = output.shape[:-2], output.dtype  # in autocast the kernel casts its arguments
    queries, keys, values = (arguments[name].to(dtype) for name in ("query", "key", "value"))
    scale, mask = arguments.get("scale"), arguments.get("attn_mask")
    queries, keys, values = (
        four_axes(tensor.expand(*lead[:-1], *tensor.shape[-3:]) if tensor.ndim > 2 else tensor)
        for tensor in (queries, keys, values)
    )
    valid = bias = None
    if mask is not None and not arguments.get("is_causal"):
        mask = four_axes(mask.expand(*lead, *mask.shape[-2:]))
        valid, bias = (mask, None) if mask.dtype == torch.bool else (None, mask)
    output = four_axes(output)
    return AttentionCall(
        queries=queries,
        keys=keys,
        values=values,
        output=output,
        scale=queries.shape[-1] ** -0.5 if scale is None else float(scale),
        groups=output.shape[1] // keys.shape[1],
        valid=valid,
        is_causal=bool(arguments.get("is_causal")),
        bias=bias,
    )


def best_candidate(
    candidates: Iterable[AttentionCall],
    through: Sequence[torch.dtype] = (),
    reading: AttentionCall | None = None,
    *,
    is_kernels: bool = False,
) -> AttentionCall:
    """Return the first of several candidates of a call that reproduces the model's output, else the nearest.

    The nearest has `problem` set. Each row of the output is judged by itself: if few queries have no valid key,
    or lie in padding, only their rows show how the model treats such queries. `through` has the dtypes to which the
    model rounded scores and weights. The candidate of an earlier `reading`, if given, is returned without verification.

    All rows are verified, but for calls of torch's kernel (`is_kernels`) without mask and bias: they treat all queries
    alike, so that `SAMPLED` queries of each head, from the first to the last, are.
    """
    nearest, least = None, math.inf
    variants = (variant for candidate in candidates for variant in _variants(_grouped(candidate)))
    if reading is not None:
        variant = next(itertools.islice(variants, reading.candidate, None))
        return replace(variant, candidate=reading.candidate, pre_scale=reading.pre_scale)
    for number, variant in enumerate(variants):
        checked, distance = _checked(variant.sample() if is_kernels else variant, through)
        checked = replace(variant, candidate=number, error=checked.error, problem=checked.problem)
        if checked.problem is None:
            return checked
        if nearest is None or distance < least:
            nearest, least = checked, distance
    assert nearest is not None, "a call has a reading"
    return nearest


def _variants(call: AttentionCall) -> Iterator[AttentionCall]:
    """Yield the call with very negative biases as a boolean mask, as models mean them, then with the biases kept.

    If a query has no valid key, the boolean mask is combined with each `empty_row` in turn.
    """
    apart = _mask_apart(call)
    if apart.valid is not None and bool((~apart.valid).all(-1).any()) and apart.sinks is None:
        ways: tuple[EmptyRow, ...] = ("zero", "uniform", "nan")  # kernels differ
        yield from (replace(apart, empty_row=empty_row) for empty_row in ways)
    else:
        yield apart
    if call.bias is not None:
        yield call


def _mask_apart(call: AttentionCall) -> AttentionCall:
    valid, bias = call.valid, call.bias
    if call.is_causal and bias is None:
        return call
    if bias is not None:
        blocked = bias <= LOW
        bias = collapsed(bias.masked_fill(blocked, 0.0))
        bias = bias if bias.requires_grad or bool(bias.any()) else None
        valid = ~blocked if valid is None else valid & ~blocked
    valid = collapsed(valid)
    valid = None if valid is None or bool(valid.all()) else valid
    call = replace(call, valid=valid, is_causal=False, bias=bias)
    (b, _, n, _), m = call.queries.shape, call.keys.shape[-2]
    if valid is None or valid.shape[1:] != (1, n, m):
        return call
    lengths = valid[:, 0, -1].sum(-1).expand(b)  # if the mask is causal, the last query sees all keys but padding
    is_padded = bool((lengths < min(n, m)).any())
    causal = replace(call, is_causal=True, lengths=lengths if is_padded else None)
    return causal if torch.equal(causal.valid_keys.whole[: len(valid), :1], valid) else call


def _grouped(call: AttentionCall) -> AttentionCall:
    """Return the call with one head of keys and values for each group of heads, if the model repeated them."""
    call = replace(call, bias=collapsed(call.bias), sinks=collapsed(call.sinks))
    if call.groups > 1 or call.keys.requires_grad or call.values.requires_grad:
        return call
    same = (call.keys[:, 1:] == call.keys[:, :-1]).all((0, 2, 3))
    same &= (call.values[:, 1:] == call.values[:, :-1]).all((0, 2, 3))  # whether each head equals its predecessor
    starts = [0, *((~same).nonzero().flatten() + 1).tolist()]
    heads = call.keys.shape[1]
    size = heads // len(starts)
    if size <= 1 or starts != list(range(0, heads, size)):
        return call
    return replace(call, groups=size, keys=call.keys[:, ::size], values=call.values[:, ::size])


@torch.no_grad()
def _checked(call: AttentionCall, through: Sequence[torch.dtype]) -> tuple[AttentionCall, float]:
    """Compare the call with the model's output; return it with `error` and `problem`, and its largest row distance.

    A row distance is relative to the size of the row. It is 0 if all rows are equal up to rounding of the output alone.
    """
    # First what costs little: a row that is off by rounding of the output alone is right. Only for the other rows, tile
    # by tile, follows how far rounding of their scores may have moved them. Rows are judged one by one, since a wrong
    # mask may show in a single query, and relative to their own size, since rows differ in it by orders of magnitude.
    # A bias before the softcap, which `Rules` cannot describe, is known from a wrong reading by one more computation.
    rescored = call.rescored()
    error, (output,) = call.difference(rescored), at_least_float32(call.output)
    if error == math.inf:
        problem = "its output has NaN at other places than the re-scored one"
        return replace(call, error=error, problem=problem), math.inf
    if output.numel() and not bool(output.isfinite().any()):
        problem = "its output has no finite number to compare the re-scored one with"
        return replace(call, error=error, problem=problem), math.inf
    distances = (rescored - output).nan_to_num(posinf=math.inf, neginf=math.inf).norm(dim=-1)  # b h n
    lengths = output.where(output.isfinite(), 0.0).norm(dim=-1)
    near = distances <= OUTPUT_ROUNDINGS * torch.finfo(call.output.dtype).eps * lengths
    if bool(near.all()):
        return replace(call, error=error, problem=None), 0.0
    furthest, is_right = 0.0, True
    for elements, rows in tiles((*near.shape, call.keys.shape[-2]), WORKSPACE_BYTES // (TILE_SHARE * 4)):
        tile = (elements, slice(None), rows)
        if not bool(near[tile].all()):
            sizes, allowed = _allowed(call, elements, rows, lengths[tile], through)
            furthest = max(furthest, float((distances[tile] / sizes).nan_to_num(0.0, posinf=math.inf).max()))
            is_right = is_right and bool((distances[tile] <= allowed).all())
    problem = f"re-scored, its output differs by {error:.2g}, a row of it by {furthest:.2g} of its size"
    if not is_right and call.bias_is_first and call.bias is not None and call.softcap is not None:
        moved = (_with_bias_first(call) - output).nan_to_num(posinf=math.inf, neginf=math.inf).norm(dim=-1)
        if bool((moved <= max(1e-4, OUTPUT_ROUNDINGS * torch.finfo(call.output.dtype).eps) * lengths).all()):
            return replace(call, error=error, problem=BIAS_FIRST), 0.0
    return replace(call, error=error, problem=None if is_right else problem), furthest


def _with_bias_first(call: AttentionCall) -> Tensor:
    """Return the output (b, h, n, v) with the bias added before the softcap."""
    assert call.bias is not None
    queries, keys, bias = at_least_float32(call.queries, call.keys, call.bias)
    scores = (queries @ _repeated(keys, call.groups).mT) * call.scale + bias
    rules = call.rules
    weights = replace(rules, bias=None).stages(scores)["weights"]
    return rules.pooled(weights, _repeated(call.values, call.groups))


def _allowed(
    call: AttentionCall, elements: slice, rows: slice, lengths: Tensor, through: Sequence[torch.dtype]
) -> tuple[Tensor, Tensor]:
    """Return the size of each row of the output (b, h, n), and the distance by which rounding may move recomputed rows.

    The rows are of some batch elements and queries.

    A row is the sum of w_j v_j over keys j. Its size is its norm, or sqrt(sum of |w_j v_j|^2) if that is more: terms
    that cancel leave their rounding behind. There is rounding in two places; eps is the machine epsilon of a dtype.

    - Weights and output, to the dtype of the output: `OUTPUT_ROUNDINGS` eps of the size. Small random models of twelve
      families have up to 2 eps in float16 and bfloat16, and up to 3 in float32.
    - Scores, to float32 (float64 for float64), or to the coarsest dtype in `through`. If a score is off by e_j, the row
      moves by sum_j w_j (e_j - sum_i w_i e_i) v_j, at most sum_j w_j |e_j| |v_j| + (sum_j w_j |e_j|) (sum_j w_j |v_j|).
      Dot products round in proportion to the norms of their factors, so that |e_j| is taken as `SCORE_ROUNDINGS` eps
      (1 + |scale| |q| |k_j| + |bias_j|). The same models, and a trained one, need a quarter of that.

    Biases such as -1e9 swallow the scores, so a row that is off by more than `FURTHEST` of its size is never right.
    """
    weights, values = call.weights(elements, rows), _repeated(call.values[elements], call.groups)
    queries, keys = at_least_float32(call.queries[elements, :, rows], call.keys[elements])
    queries, keys = (vectors.norm(dim=-1) for vectors in (queries, keys))
    products = queries[..., None] * _repeated(keys[..., None], call.groups).mT  # b h n m
    magnitudes = 1 + abs(call.scale) * products
    if call.bias is not None:
        magnitudes = Bias(call.rules.valid.shape, call.bias.abs()).added_to(magnitudes, elements, rows)
    (of_values,) = at_least_float32(values.norm(dim=-1, keepdim=True))  # b h m 1
    errors = torch.where(weights > 0, weights * magnitudes, 0.0)  # masked keys may have NaN
    lost = weighted_sum(errors, of_values)[..., 0] + errors.sum(-1) * weighted_sum(weights, of_values)[..., 0]
    sizes = torch.maximum(lengths, weighted_sum(weights.square(), of_values.square())[..., 0].sqrt().nan_to_num())
    of_output, *of_scores = (torch.finfo(dtype).eps for dtype in (call.output.dtype, weights.dtype, *through))
    allowed = OUTPUT_ROUNDINGS * of_output * sizes + SCORE_ROUNDINGS * max(of_scores) * lost.nan_to_num()
    return sizes, torch.minimum(allowed, FURTHEST * sizes)


def collapsed(tensor: MaybeTensor) -> MaybeTensor:
    """Return the tensor with size 1 in every axis along which its values are constant.

    With gradients, equal values may be different parameters; then only axes that were expanded count.
    """
    if tensor is None:
        return tensor
    for axis in range(tensor.ndim):
        first = tensor.narrow(axis, 0, min(1, tensor.shape[axis]))
        is_equal = tensor.stride(axis) == 0 or (not tensor.requires_grad and bool((tensor == first).all()))
        if tensor.shape[axis] > 1 and is_equal:
            tensor = first
    return tensor


def _repeated(tensor: Tensor, groups: int) -> Tensor:
    return tensor if groups == 1 else tensor.repeat_interleave(groups, -3)


def four_axes(tensor: Tensor) -> Tensor:
    """Reshape a tensor (..., n, d) to (b, h, n, d); its first axis is the batch if it has at least three axes."""
    while tensor.ndim < 3:
        tensor = tensor.unsqueeze(0)
    return tensor.unsqueeze(1) if tensor.ndim == 3 else tensor.flatten(1, -3)
