"""Read or generate the tensors of an experiment from its config."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from attncli.attention import computing_dtype
from attncli.config.tensors import (
    CorrelatedFill,
    Data,
    FileTensor,
    Fill,
    GivenMask,
    GivenTensor,
    Layout,
    LengthSource,
    Mask,
    NormalFill,
    RandomLens,
    TokenNames,
)
from attncli.core.device import too_large
from attncli.core.files import read_tensor
from attncli.core.masks import Corner, Valid, checked_lengths, without_infinities
from attncli.core.numbers import several
from attncli.core.seeding import generator
from attncli.errors import Collector, InputError, Problem, below
from attncli.models.inputs import Inputs
from attncli.sources.fills import fill
from attncli.sources.masks import bias_shape, broadcasts, read_mask

ROLES = ("queries", "keys", "values")
Shapes = Mapping[str, tuple[int, ...]]
Note = Callable[[str], None]


def build_inputs(
    data: Data,
    mask: Mask,
    tokens: TokenNames,
    *,
    seed: int,
    dtype: torch.dtype,
    device: torch.device,
    matrices: int = 0,
    note: Note = lambda message: None,
) -> Inputs:
    """Read the tensors of a config from files and lists, and generate the others.

    `matrices` is the number of (..., n, m) tensors that the study keeps, which must fit into memory together with the
    generated tensors. `note` is called with a sentence on every ambiguous input, and on numbers that are not
    finite.

    Raises:
        InputError: inputs cannot be read, do not fit together or do not fit into memory; the error has full paths in
            the YAML.
    """
    tensors, fills = _sources(data)
    shapes, leading = _shapes(data, tensors, fills)
    full = {role: (*leading, *shapes[role][-2:]) for role in ROLES}
    scores = (*full["queries"][:-1], full["keys"][-2])
    collector = Collector()
    if "bias" in shapes:
        with collector.under("data", "bias"):
            full["bias"] = bias_shape(shapes["bias"], scores, note)
    numbers = matrices * math.prod(scores) + sum(math.prod(shapes[role]) for role in fills)
    if reason := too_large(numbers * computing_dtype(dtype).itemsize, device):
        raise InputError.of(f"{reason}; use fewer queries, keys or batch elements", ["data"])
    valid = Valid(scores, device=device)
    with collector.under("data", "valid_lens"):
        valid = replace(valid, lengths=_lengths(data.valid_lens, scores, seed))
    with collector.under("mask"):
        valid = replace(valid, causal=_causal(mask, scores), mask=_mask(mask, scores, note, device))
        valid = replace(valid, documents=_documents(mask, scores, device))
    with collector.under("tokens"):
        check_tokens(tokens, full["queries"], full["keys"])
    collector.check()
    tensors = _generated(tensors, fills, seed, dtype)
    queries, keys, values = (
        _repeated(tensors[role], shapes[role], leading, data).expand(full[role]).to(device) for role in ROLES
    )
    shared = shapes["keys"][-3] if len(shapes["keys"]) > 3 else 1
    key_heads = shared if len(leading) > 1 and shared < leading[-1] else None
    bias = None
    if "bias" in tensors:
        with below("data", "bias"):
            bias = tensors["bias"].reshape(full["bias"]).to(device)
            bias, valid = without_infinities(bias, valid, shapes["bias"], note)
    inputs = Inputs(queries, keys, values, valid, bias, align=mask.align, key_heads=key_heads)
    for fault in inputs.faults.values():
        note(f"warning: {fault}")
    return inputs


def _shapes(
    data: Data, tensors: Mapping[str, Tensor], fills: Mapping[str, Fill]
) -> tuple[dict[str, tuple[int, ...]], tuple[int, ...]]:
    """Return the shapes of all tensors, with heads before tokens, and the leading axes of queries, keys and values."""
    shapes = {role: tuple(tensor.shape) for role, tensor in tensors.items()}
    for role, source in fills.items():
        with below("data", role):
            shapes[role] = _shape(source, shapes)
    with below("data"):
        shapes |= heads_first({role: shapes[role] for role in ROLES}, data.layout)
        cure = "`grouped: true` lets several heads of queries share one of keys and values"
        return shapes, common_leading({role: shapes[role] for role in ROLES}, data.grouped, cure)


def _generated(
    tensors: Mapping[str, Tensor], fills: Mapping[str, Fill], seed: int, dtype: torch.dtype
) -> dict[str, Tensor]:
    """Return the tensors and the fills, rounded to `dtype`, the bias to the dtype of the scores.

    `correlated` depends on the other tensor after rounding.
    """
    dtypes = {**dict.fromkeys(ROLES, dtype), "bias": computing_dtype(dtype)}
    typed = {role: tensor.to(dtypes[role]) for role, tensor in tensors.items()}
    for role, source in fills.items():
        typed[role] = fill(source, generator(seed, f"data.{role}"), typed).to(dtypes[role])
    return typed


def _repeated(tensor: Tensor, shape: tuple[int, ...], leading: tuple[int, ...], data: Data) -> Tensor:
    """Return a tensor with its heads before its tokens, and each repeated for the heads of queries that share it.

    `shape` is its own with heads first. A single head is not repeated here: it can be expanded without a copy.
    """
    if data.layout == "bshd" and tensor.ndim == 4:
        tensor = tensor.transpose(1, 2)
    if data.grouped and len(shape) > 3 and shape[-3] > 1:
        tensor = tensor.repeat_interleave(leading[-1] // shape[-3], dim=-3)
    return tensor


def saved_inputs(data: object, inputs: Inputs, with_valid: bool = True) -> dict[str, Tensor]:
    """Return the inputs to store in the run folder, by name and on the CPU.

    `data` is the config of the tensors. If `with_valid`, `valid` is the logical and of all masks and lengths.
    """
    saved = {"queries": inputs.queries, "keys": inputs.keys, "values": inputs.values}
    if inputs.bias is not None:
        saved["bias"] = inputs.bias
    if with_valid:
        saved["valid"] = inputs.valid.whole
    if isinstance(getattr(data, "valid_lens", None), FileTensor) and inputs.valid.lengths is not None:
        saved["valid_lens"] = inputs.valid.lengths
    if inputs.valid.mask is not None:
        saved["mask"] = inputs.valid.mask
    return {name: tensor.cpu() for name, tensor in saved.items()}


def _sources(data: Data) -> tuple[dict[str, Tensor], dict[str, Fill]]:
    """Return the tensors from files and lists, and the fills that generate the other tensors, dependencies first."""
    collector, tensors, fills = Collector(), dict[str, Tensor](), dict[str, Fill]()
    for role in (*ROLES, "bias"):
        source = getattr(data, role)
        with collector.under("data", role):
            if isinstance(source, GivenTensor):
                tensors[role] = source.numbers
            elif isinstance(source, FileTensor):
                tensors[role] = (_read_bias if role == "bias" else _read_rows)(source)
            elif isinstance(source, list):
                tensors[role] = torch.tensor(source, dtype=torch.float64)
            elif source is not None:
                fills[role] = source
    collector.check()
    if data.values is None:  # generated like the keys, or normal if the keys are given
        fills["values"] = fills["keys"] if "keys" in fills else NormalFill(shape=list(tensors["keys"].shape))
    correlated = {role: source for role, source in fills.items() if isinstance(source, CorrelatedFill)}
    for role, source in correlated.items():
        if source.source in correlated:
            message = f"got {source.source}, which is correlated itself; expected an independent tensor"
            raise InputError.of(message, ["data", role, "with"])
    return tensors, {**{role: fills[role] for role in fills if role not in correlated}, **correlated}


def _read_bias(source: FileTensor) -> Tensor:
    tensor = read_tensor(Path(source.file), source.tensor)
    if tensor.dtype == torch.bool:
        raise InputError.of("got True and False; expected numbers; a mask goes under `mask: {file: ...}`", ["file"])
    return tensor


def _read_rows(source: FileTensor) -> Tensor:
    tensor = read_tensor(Path(source.file), source.tensor)
    if tensor.ndim < 2 or 0 in tensor.shape:
        expected = "expected at least two axes, rows and features, none of size 0"
        raise InputError.of(f"got a tensor of shape {list(tensor.shape)}; {expected}", ["file"])
    return tensor


def heads_first(shapes: Shapes, layout: Layout) -> dict[str, tuple[int, ...]]:
    """Return the shapes as (batch, heads, tokens, features), if they have four axes; others as they are.

    Raises:
        InputError: no shape has four axes, so the layout `bshd` means nothing.
    """
    if layout == "bshd" and not any(len(shape) == 4 for shape in shapes.values()):
        listed = ", ".join(f"{role} {list(shape)}" for role, shape in shapes.items())
        message = f"got bshd for {listed}; expected a tensor with four axes, (batch, tokens, heads, features)"
        raise InputError.of(message, ["layout"])
    is_swapped = layout == "bshd"
    return {
        role: (shape[0], shape[2], shape[1], shape[3]) if is_swapped and len(shape) == 4 else tuple(shape)
        for role, shape in shapes.items()
    }


def common_leading(shapes: Shapes, grouped: bool = False, cure: str = "") -> tuple[int, ...]:
    """Return the leading axes (b, ...) to which `queries`, `keys` and (if given) `values` broadcast.

    A tensor of shape (rows, features) or (1, rows, features) is broadcast over all leading axes. If `grouped`,
    consecutive heads of queries share heads of keys and values, as in torch's SDPA with `enable_gqa`. `cure` is a hint
    that is appended to the error message if the heads would fit with `grouped`.

    Raises:
        InputError: shapes do not fit together; the path of each problem is the name of the tensor.
    """
    heads = {role: shape[-3] for role, shape in shapes.items() if len(shape) > 3}  # others are used for all heads
    shared = _with_shared_heads(shapes, heads) if grouped else shapes
    rank = max(3, *(len(shape) for shape in shared.values()))
    full = {
        role: (1,) * (rank - 2) + shape[-2:] if shape[:-2] in ((), (1,)) else shape for role, shape in shared.items()
    }
    leading = tuple(max(sizes) for sizes in zip(*(shape[:-2] for shape in full.values()), strict=False))
    problems = []
    for role, shape in full.items():
        if len(shape) != rank or any(size not in (1, most) for size, most in zip(shape, leading, strict=False)):
            others = ", ".join(f"{other} {list(sizes)}" for other, sizes in shapes.items() if other != role)
            expected = "expected equal leading axes; an axis of size 1 is repeated"
            fits = {"queries", "keys"} <= heads.keys() and not any(heads["queries"] % count for count in heads.values())
            if cure and fits and not grouped:
                expected += f"; {cure}"
            problems.append(Problem(f"got shape {list(shapes[role])} beside {others}; {expected}", (role,)))
    if full["keys"][-2] != full.get("values", full["keys"])[-2]:
        count = full["values"][-2]
        message = f"got {several(count, 'value')}; expected {full['keys'][-2]}, one for each key"
        problems.append(Problem(message, ("values",)))
    if problems:
        raise InputError(problems)
    return leading


def _with_shared_heads(shapes: Shapes, heads: Mapping[str, int]) -> Shapes:
    """Return the shapes after repeating the heads of keys and values to match the number of heads of the queries.

    `heads` has the number of heads of each tensor with more than three axes.
    """
    if "queries" not in heads:
        message = f"got true for queries of shape {list(shapes['queries'])}; expected (batch, heads, rows, features)"
        raise InputError.of(message, ["grouped"])
    if wrong := [role for role, count in heads.items() if heads["queries"] % count]:
        expected = f"expected a number of heads that divides the {heads['queries']} of the queries"
        raise InputError(Problem(f"got shape {list(shapes[role])}; {expected}", (role,)) for role in wrong)
    return {**shapes, **{role: (*shapes[role][:-3], heads["queries"], *shapes[role][-2:]) for role in heads}}


def _shape(source: Fill, shapes: Shapes) -> tuple[int, ...]:
    if not isinstance(source, CorrelatedFill):
        return tuple(source.shape)
    shape, other = tuple(source.shape or ()), shapes[source.source]
    if shape and (len(shape) < len(other) or not broadcasts(other, shape)):
        message = f"got {source.shape}, correlated with {source.source} of shape {list(other)}; expected the same shape"
        raise InputError.of(f"{message}; leave out `shape` to use the same", ["shape"])
    return shape or other


def _lengths(source: LengthSource | None, shape: tuple[int, ...], seed: int) -> Tensor | None:
    """Return valid lengths (b,) or (b, n) for scores of `shape` = (b, ..., n, m)."""
    if source is None:
        return None
    if isinstance(source, RandomLens):
        low, high = source.random
        if high > shape[-1]:
            message = f"got {source.random}; expected at most {shape[-1]}, the number of keys"
            raise InputError.of(message, ["random"])
        return torch.randint(low, high + 1, shape[:1], generator=generator(seed, "data.valid_lens"))
    if isinstance(source, FileTensor):
        lengths = read_tensor(Path(source.file), source.tensor)
        if 1 in lengths.shape and tuple(lengths.shape) != (shape[0], shape[-2]):
            lengths = lengths.flatten()  # one row or one column of a CSV file
        return checked_lengths(lengths, shape)
    return checked_lengths(source, shape)


def _causal(mask: Mask, shape: tuple[int, ...]) -> Corner | None:
    n, m = shape[-2:]
    if mask.causal is True and n != m:
        expected = "expected top_left or bottom_right, since the numbers differ"
        raise InputError.of(f"got true for {n} queries and {m} keys; {expected}", ["causal"])
    return "top_left" if mask.causal is True else mask.causal or None


def _documents(mask: Mask, shape: tuple[int, ...], device: torch.device) -> Tensor | None:
    """Return where the document of each position begins, (b or 1, m), for scores of `shape` = (b, ..., n, m)."""
    if mask.documents is None:
        return None
    b, (n, m) = shape[0], shape[-2:]
    lists = mask.documents if isinstance(mask.documents[0], list) else [mask.documents]
    sizes = [torch.tensor(lengths) for lengths in lists]
    if n != m or len(lists) not in (1, b) or any(int(each.sum()) != m for each in sizes):
        given = f"got {mask.documents} for {several(b, 'text')} of {several(n, 'query')} and {several(m, 'key')}"
        expected = "expected lengths that sum to both numbers, in one list or in one for each batch element"
        raise InputError.of(f"{given}; {expected}", ["documents"])
    return torch.stack([(each.cumsum(0) - each).repeat_interleave(each) for each in sizes]).to(device)


def _mask(mask: Mask, shape: tuple[int, ...], note: Note, device: torch.device) -> Tensor | None:
    """Return the mask that was given in a file or in Python, or None if there is none."""
    if mask.file is None:
        return None
    if isinstance(mask.file, GivenMask):
        return read_mask(mask.file.numbers, shape, "mask", note, invert=mask.invert).to(device)
    path, called = Path(mask.file), mask.tensor
    stored = read_tensor(path, called)
    with below("file"):
        name = f"{path.name}: {called}" if called else path.name
        return read_mask(stored, shape, name, note, invert=mask.invert).to(device)


def check_tokens(tokens: TokenNames, queries: tuple[int, ...], keys: tuple[int, ...]) -> None:
    """Raise an InputError if `tokens` names queries or keys, tensors of the given shapes, but not each row."""
    is_one_list = tokens.queries is not None and tokens.queries == tokens.keys and queries[-2] != keys[-2]
    cure = "; name them apart: {queries: [...], keys: [...]}" if is_one_list else ""
    problems = list[Problem]()
    for side, names, (b, *_, rows, _) in (("queries", tokens.queries, queries), ("keys", tokens.keys, keys)):
        nested = any(isinstance(name, list) for name in names or ())
        if nested and len(names or ()) != b:
            expected = f"expected {b}, one per batch element, or a single list"
            problems.append(Problem(f"got {several(len(names or ()), 'list')}; {expected}", (side,)))
            continue
        for index, row in enumerate([] if names is None else names if nested else [names]):
            if len(row) != rows:
                message = f"got {several(len(row), 'name')}; expected {rows}, one per row{cure}"
                problems.append(Problem(message, (side, index) if nested else (side,)))
                break
    if problems:
        raise InputError(problems)
