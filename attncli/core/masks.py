"""Which keys each query may attend to: lengths, causal masks, masks of any shape, and windows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from attncli.errors import InputError, below, got

Corner = Literal["top_left", "bottom_right"]  # of the (n, m) matrix, where the diagonal begins or ends
ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Valid:
    """The keys each query may attend to: valid lengths, a causal mask, documents, a window and any other mask, joined.

    For scores of `shape` = (..., n, m). Masks are made tile by tile, so all but `mask` take hardly any memory. With a
    `window`, query i at position `first` + i attends only to keys less than `window` positions away, and to the first
    `first_keys` keys that its text `sees`. Where texts are packed one after another (n = m), `documents` has the
    position at which the document of each position begins, and each is a text of its own. The constructor checks
    nothing; use `of` for lengths and masks from users.
    """

    shape: tuple[int, ...]
    lengths: Tensor | None = None  # int64 (b,) or (b, n)
    causal: Corner | None = None
    mask: Tensor | None = None  # boolean, broadcastable to `shape`, on `device`
    device: torch.device | None = None
    window: int | None = None
    first_keys: int = 0
    first: int = 0
    documents: Tensor | None = None  # int64 (b or 1, m), on `device`

    @classmethod
    def of(
        cls, shape: Sequence[int], valid_lens: object = None, mask: object = None, device: torch.device | None = None
    ) -> "Valid":
        """Return the valid keys for lengths and a mask as `masked_softmax` takes them.

        Raises:
            InputError: if lengths or mask do not fit the shape.
        """
        full = tuple(shape)
        if len(full) < 2:
            raise InputError.of(f"got scores of shape {list(full)}; expected (..., n, m)")
        with below("valid_lens"):
            lengths = None if valid_lens is None else checked_lengths(valid_lens, full)
        with below("mask"):
            return cls(full, lengths, None, None if mask is None else checked_mask(mask, full).to(device), device)

    def tile(self, elements: slice = ALL, rows: slice = ALL, keys: slice = ALL) -> Tensor | None:
        """Return the mask for some batch elements, queries and keys, broadcastable to these, or None without a mask."""
        limits, mask = (cut(tensor, self.shape, elements, rows) for tensor in (self._limits, self.mask))
        mask = mask[..., keys] if mask is not None and mask.shape[-1] > 1 else mask
        if limits is None:
            return mask
        below = below_limits(limits, self.shape[-1], keys)
        if self._window is not None:
            key = torch.arange(self.shape[-1], device=self.device)[keys]
            start, end = (limit[rows] for limit in self._window)  # rows 1
            firsts = cut(self._firsts, self.shape, elements, rows)
            assert firsts is not None, "of a window"
            below = below & (((key >= start) & (key < end)) | firsts[..., keys])
        if self.documents is not None:
            begin = cut(self._per_query(self.documents), self.shape, elements, rows)
            assert begin is not None, "of documents"
            below = below & (torch.arange(self.shape[-1], device=self.device)[keys] >= begin)
        return below if mask is None else below & mask

    def reach(self, elements: slice = ALL, rows: slice = ALL) -> tuple[int, int]:
        """Return two key positions for some queries: all of them see every key before the first position.

        None of them sees a key from the second position on.
        """
        limits, m = cut(self._limits, self.shape, elements, rows), self.shape[-1]
        least, most = (m, m) if limits is None or not limits.numel() else map(int, limits.aminmax())
        least = least if self._window is None else min(least, self.first_keys)
        return (least if self.mask is None and self.documents is None else 0), most

    @property
    def counts(self) -> Tensor | None:
        """The number of keys (..., n or 1, 1) of each query that sees the first keys alone; None of other masks."""
        if not self._is_plain:
            return None
        return torch.full((1, 1), self.shape[-1], device=self.device) if self._limits is None else self._limits

    @cached_property
    def joined(self) -> Tensor | None:
        """The mask, broadcastable to `shape`, or None if nothing is masked."""
        return self.tile()

    @property
    def whole(self) -> Tensor:
        """The mask, expanded to (..., n, m); expanded axes take no memory."""
        joined = self.joined
        every = torch.ones((), dtype=torch.bool, device=self.device)
        return (every if joined is None else joined).expand(self.shape)

    @property
    def empty_rows(self) -> Tensor:
        """Whether each query (..., n) has no valid key."""
        if self._limits is not None and self._is_plain:  # known without the mask
            return (self._limits[..., 0] == 0).expand(self.shape[:-1])
        joined = self.joined
        empty = torch.zeros((), dtype=torch.bool, device=self.device) if joined is None else ~joined.any(-1)
        return empty.expand(self.shape[:-1])

    @property
    def _is_plain(self) -> bool:
        """Whether each query sees the first keys alone: there are at most lengths and a causal mask."""
        return self.mask is None and self.window is None and self.documents is None

    @property
    def is_full(self) -> bool:
        """Whether there are neither lengths nor masks."""
        return self._limits is None and self.mask is None

    @property
    def is_causal(self) -> bool:
        """Whether only a causal mask from the top left applies, which fused kernels support."""
        n, m = self.shape[-2:]
        shortens = self.lengths is not None and bool((self.lengths < m).any())
        return self._is_plain and not shortens and (self.causal == "top_left" or bool(self.causal and n == m))

    def first_query(self, align: Corner | None = None) -> int | None:
        """Return the position of the first query among the keys; None if the ends that agree are unknown.

        `align` is the corner of the matrix of scores where the diagonal begins or ends. A causal mask has its own.
        """
        n, m = self.shape[-2:]
        positions = {"top_left": 0, "bottom_right": m - n}
        return 0 if n == m else positions.get(self.causal or align or "")

    @property
    def is_causal_at_end(self) -> bool:
        """Whether the mask is causal with the last query at the last key, as with a cache of earlier keys.

        No query sees a later key, and each sees the key at its own position in some batch element or head.
        """
        n, m = self.shape[-2:]
        seen = self.whole.flatten(0, -3).any(0) if len(self.shape) > 2 else self.whole  # n m
        return bool(seen.diagonal(m - n).all()) and not bool(seen.triu(m - n + 1).any())

    @property
    def lengths_alone(self) -> bool:
        """Whether only a length for each batch element applies, with or without a causal mask from the top left."""
        is_at_start = self.causal != "bottom_right" or self.shape[-2] == self.shape[-1]
        return self._is_plain and is_at_start and self.lengths is not None and self.lengths.ndim == 1

    def before_length(self, elements: slice) -> "Valid":
        """Return the valid keys of some batch elements, with the keys beyond the greatest of their lengths cut off.

        Only for `lengths_alone`. If an element has no valid key, none is cut off, since it may have weights at any key.
        """
        assert self.lengths is not None
        lengths = self.lengths[elements]
        distinct = set(lengths.tolist())
        m = self.shape[-1] if 0 in distinct else max(distinct, default=0)
        shape = (*lengths.shape[: len(self.shape) - 2], *self.shape[1:-2], self.shape[-2], m)
        remaining = None if distinct == {m} else lengths
        return replace(self, shape=shape, lengths=remaining, causal=self.causal and "top_left")

    @cached_property
    def _limits(self) -> Tensor | None:
        """Limits (..., n or 1, 1), or None: query i may attend only to keys below limits[..., i, 0]."""
        (*_, n, m), limits = self.shape, None
        if self.lengths is not None:
            limits = self._per_query(self.lengths.to(self.device))  # b 1 n|1 1
        if self.causal is not None:
            shift = m - n if self.causal == "bottom_right" else 0
            diagonal = (torch.arange(1, n + 1, device=self.device) + shift).clamp(0, m)[:, None]  # n 1
            limits = diagonal if limits is None else torch.minimum(limits, diagonal)
        if self.documents is not None:
            following = self.documents.diff(append=self.documents.new_full((len(self.documents), 1), m)) != 0
            last = torch.arange(1, m + 1, device=self.device).where(following, m)  # of documents that end here
            ends = self._per_query(last.flip(-1).cummin(-1).values.flip(-1))  # b|1 1 n 1
            limits = ends if limits is None else torch.minimum(limits, ends)
        if self._window is not None:
            firsts = (torch.arange(1, m + 1, device=self.device) * self._firsts).amax(-1, keepdim=True)  # ... 1 1
            ends = torch.maximum(self._window[1], firsts).clamp(max=m)
            limits = ends if limits is None else torch.minimum(limits, ends)
        return limits

    @cached_property
    def _firsts(self) -> Tensor:
        """The mask of the `first_keys` first keys that each text or document sees, (..., 1, m)."""
        return self._first(self.sees(), self.first_keys)

    def _first(self, seen: Tensor, count: int) -> Tensor:
        """Return the mask of the first `count` keys of each text or document, of all that it sees (..., 1, m)."""
        rank = seen.cumsum(-1)
        if self.documents is not None:  # without the keys of earlier documents
            begin = self._per_query(self.documents).mT.expand(*seen.shape[:-1], -1)
            rank = rank - (rank - seen.long()).gather(-1, begin)
        return seen & (rank <= count)

    def _per_query(self, numbers: Tensor) -> Tensor:
        """Return numbers (b or 1, n), or (b,), with the axes of the scores: (b or 1, 1, ..., n or 1, 1)."""
        heads = [1] * max(len(self.shape) - 3, 0)
        numbers = numbers.reshape(-1, *heads, *(numbers.shape[1:] or (1,)), 1)
        return numbers[0] if len(self.shape) == 2 else numbers

    def first_key(self, padding: Tensor | None = None) -> Tensor:
        """Return the first key (..., n or 1, 1) that the text or document of each query `sees`; 0 if there is none."""
        firsts = self._first(self.sees(padding), 1)
        if self.documents is not None:
            begin = self._per_query(self.documents)
            firsts = firsts & (begin == begin.mT)  # ... n m
        return firsts.int().argmax(-1, keepdim=True)

    def sees(self, padding: Tensor | None = None) -> Tensor:
        """Return the mask (..., 1, m) of the keys that any query of a text may attend to, without the window.

        Queries at padding do not count, where there are as many queries as keys: those whose own key no query sees,
        unless the others see no key, and those at `padding` (b, m), if it is known.
        """
        (*leading, n, m), whole = self.shape, replace(self, window=None)
        if padding is not None and n == m:
            mask = ~padding.to(self.device).reshape(-1, *[1] * len(leading[1:]), n, 1)
            whole = replace(whole, mask=mask if whole.mask is None else whole.mask & mask)
        if whole.mask is None and self.documents is None:  # the keys before the greatest limit
            most = torch.full((1, 1), m) if whole._limits is None else whole._limits.amax(-2, keepdim=True)
            return below_limits(most.to(self.device), m)
        valid = whole.joined
        assert valid is not None, "a mask"
        valid = valid.expand(*valid.shape[:-1], m)
        seen = valid.any(-2, keepdim=True)  # ... 1 m
        if valid.shape[-2] != n or n != m:
            return seen
        own = (valid & seen.mT).any(-2, keepdim=True)
        return torch.where(own.any(-1, keepdim=True), own, seen)

    @cached_property
    def _window(self) -> tuple[Tensor, Tensor] | None:
        """The first position in the window of each query and the first after it, (n, 1) each; None without a window."""
        if self.window is None:
            return None
        positions = torch.arange(self.first, self.first + self.shape[-2], device=self.device)[:, None]
        return positions - (self.window - 1), positions + self.window


def cut(tensor: Tensor | None, shape: tuple[int, ...], elements: slice, rows: slice) -> Tensor | None:
    """Return some batch elements and queries of a tensor that broadcasts to `shape` = (..., n, m)."""
    if tensor is None:
        return None
    if 2 < tensor.ndim == len(shape) and tensor.shape[0] > 1:
        tensor = tensor[elements]
    return tensor[..., rows, :] if tensor.shape[-2] > 1 else tensor


def checked_lengths(valid_lens: object, shape: tuple[int, ...]) -> Tensor:
    """Return valid lengths as an int64 tensor (b,) or (b, n); raise InputError at the first wrong length."""
    b, n, m = shape[0] if len(shape) > 2 else 1, shape[-2], shape[-1]
    numbers = _as_tensor(valid_lens, "expected integers, (b,) or (b, n)")
    if tuple(numbers.shape) not in ((b,), (b, n)):
        expected = f"expected ({b},), one per example, or ({b}, {n}), one per query"
        raise InputError.of(f"got shape {tuple(numbers.shape)}; {expected}")
    if numbers.dtype.is_floating_point or numbers.dtype.is_complex or numbers.dtype == torch.bool:
        raise InputError.of(f"got {numbers.dtype} values; expected integers")
    lengths = numbers.to("cpu", torch.int64)
    wrong = ((lengths < 0) | (lengths > m)).nonzero().tolist()
    if wrong:
        value = numbers[tuple(wrong[0])].item()
        raise InputError.of(got(value, f"expected an integer in 0..{m}, the number of keys"), wrong[0])
    return lengths


def checked_mask(values: object, shape: tuple[int, ...]) -> Tensor:
    """Return a mask as a boolean tensor, or raise InputError if it cannot be broadcast to `shape` = (..., n, m)."""
    expected = "expected booleans, True = may attend"
    mask = _as_tensor(values, expected)
    if mask.dtype != torch.bool:
        raise InputError.of(f"got {mask.dtype} values; {expected}")
    fits = mask.ndim == len(shape) and all(size in (1, full) for size, full in zip(mask.shape, shape, strict=True))
    if tuple(mask.shape) != shape[-2:] and not fits:
        expected = f"expected {shape[-2:]} or {shape}, an axis of size 1 is repeated"
        raise InputError.of(f"got shape {tuple(mask.shape)}; {expected}")
    return mask


def _as_tensor(numbers: object, expected: str) -> Tensor:
    if isinstance(numbers, Tensor):
        return numbers
    try:
        array = np.asarray(numbers)
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))  # a copy, which torch can always read
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError.of(got(numbers, expected)) from error


def below_limits(limits: Tensor, m: int, keys: slice = ALL) -> Tensor:
    """Return the mask (..., n or 1, m) of keys below the limits (..., n or 1, 1), for a slice of the keys."""
    return torch.arange(m, device=limits.device)[keys] < limits


def without_infinities(
    bias: Tensor, valid: Valid, shape: tuple[int, ...], note: Callable[[str], None]
) -> tuple[Tensor, Valid]:
    """Return the bias with -inf replaced by 0, and `valid` without the pairs of query and key that -inf masks.

    `bias` has all axes of the scores; `shape` is the shape of the bias in the user's file or list. NaN and +inf are
    also replaced by 0, if the pair is not valid. `note` is called with the number of -inf, if any.

    Raises:
        InputError: a valid pair has NaN or +inf; the path in the error is the index of the first in the user's tensor.
    """
    hidden, wrong = bias.isneginf(), bias.isnan() | bias.isposinf()
    count = int(hidden.sum())
    if count:
        note(f"data.bias: {count} of {bias.numel()} numbers are -inf, which masks these keys")
        valid = replace(valid, mask=~hidden if valid.mask is None else valid.mask & ~hidden)
    if bool(wrong.any()) and len(seen := (wrong & valid.whole).nonzero()):
        index = [at if size > 1 else 0 for at, size in zip(seen[0].tolist(), bias.shape, strict=True)]
        dtype = str(bias.dtype).removeprefix("torch.")
        expected = f"expected a finite number that {dtype} holds, or -inf, which masks the key"
        raise InputError.of(got(bias[tuple(index)].item(), expected), index[bias.ndim - len(shape) :])
    return bias.masked_fill(hidden | wrong, 0.0), valid
