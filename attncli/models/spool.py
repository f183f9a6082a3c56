"""Attention calls of a model for many texts in a temporary file, from which they are read layer by layer."""

import pickle
import tempfile
import weakref
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attncli.catalogue.fitted import FittedLayer
from attncli.errors import InputError, refusal
from attncli.models.call import TENSORS, AttentionCall
from attncli.models.capture import Capture
from attncli.models.selection import picks

FEWEST_KEYS = 2  # of a query that counts: with one key there is nothing to choose


class Spool:
    """Calls of chosen layers and heads in a temporary file, each text by itself and without padding at its end.

    `layers` has the facts about them by name, and `sizes` the bytes of their queries, keys, values and weights in
    float32. `counts` has the number of heads of all layers.
    """

    def __init__(
        self, layers: Sequence[str | int] | None = None, heads: Sequence[int] | None = None, prefix: str = ""
    ) -> None:
        self.layers, self.counts = dict[str, FittedLayer](), dict[str, int]()
        self.sizes = dict[str, int]()
        self._chosen, self._heads, self._prefix = layers, heads, prefix
        self._places = dict[str, list[tuple[int, int]]]()  # the number of each text and where it begins, by layer
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # without a name on disk: nothing to remove at the end
        weakref.finalize(self, self._file.close)

    def add(self, call: AttentionCall, texts: Sequence[int]) -> None:
        """Write the call of a batch of texts, given their numbers, unless its layer is not chosen.

        Raises:
            InputError: the batch does not have equally many elements for each of its texts.
        """
        name, (b, h) = call.name, call.queries.shape[:2]
        self.counts.setdefault(name, h)
        number = [*self.counts].index(name)
        if self._chosen is not None and not any(picks(layer, name, number, self._prefix) for layer in self._chosen):
            return
        if b % len(texts):
            raise InputError.of(f"{name} has {b} batch elements for {len(texts)} texts; leave it out with `layers`")
        call = call.with_mask() if self._heads is None else call.with_mask().of_heads(self._heads)
        sizes = {"query_size": call.queries.shape[-1], "key_size": call.keys.shape[-1]}
        self.layers.setdefault(name, FittedLayer(number=number, heads=[*call.head_numbers], **sizes))
        for element in range(b):
            place = texts[element // (b // len(texts))], self._file.tell()
            self._places.setdefault(name, []).append(place)
            of_text = _element(call, element)
            (_, h, n, q), (m, k), v = of_text.queries.shape, of_text.keys.shape[-2:], of_text.values.shape[-1]
            self.sizes[name] = self.sizes.get(name, 0) + 4 * h * (n * q + m * (k + v) + n * m)
            try:
                pickle.dump(of_text, self._file, pickle.HIGHEST_PROTOCOL)
            except OSError as error:
                folder = f"attention calls are kept in {tempfile.gettempdir()}; {refusal(error)}"
                raise InputError.of(f"{folder}; give fewer texts, or name another folder in TMPDIR") from error

    def read(self, name: str, texts: Collection[int]) -> Iterator[AttentionCall]:
        """Yield the calls of a layer, each of one batch element, for texts with these numbers."""
        for _, place in (each for each in self._places[name] if each[0] in texts):
            self._file.seek(place)
            yield pickle.load(self._file)


class SpooledCapture(Capture):
    """Writes the attention calls of a batch of texts to a spool; its records have no tensors."""

    def __init__(self, spool: Spool, texts: Sequence[int]) -> None:
        super().__init__()
        self._spool, self._texts = spool, texts

    @torch.no_grad()
    def keep(self, call: AttentionCall, output: Tensor) -> None:
        """Write a call that can be re-scored, and keep a record of it."""
        if call.problem is None:
            self._spool.add(call, self._texts)
        empty: dict[str, Any] = dict.fromkeys(TENSORS, torch.empty(0))
        self.records.append(replace(call, **empty, scale_gradient=None))


def _element(call: AttentionCall, element: int) -> AttentionCall:
    """Return the call of one batch element on the CPU, without its output, and without padding at its end.

    Padding is cut in self-attention only: elsewhere positions may depend on the numbers of queries and keys.
    """
    valid = call.valid_keys.whole[element, None]  # 1 h n m
    valid = valid[:, :1] if bool((valid == valid[:, :1]).all()) else valid
    n, m = valid.shape[-2:]
    bias = None if call.bias is None else call.bias.expand(*call.bias.shape[:2], n, m)
    if n == m:
        used = counted_queries(valid)[0] | valid.any(1)[0].any(0)
        n = m = max(int((torch.arange(1, n + 1) * used.cpu()).amax()), 1)
    sizes = {"queries": (n,), "keys": (m,), "values": (m,), "valid": (n, m), "bias": (n, m), "sinks": ()}
    cut = dict[str, Any]()
    for name, size in sizes.items():
        tensor = {"valid": valid, "bias": bias}.get(name, getattr(call, name))
        if tensor is not None:
            tensor = tensor[element, None] if len(tensor) > 1 else tensor
            tensor = tensor[(slice(None), slice(None), *(slice(each) for each in size))].detach()
            cut[name] = tensor.to("cpu", copy=True, memory_format=torch.contiguous_format)
    return replace(call, **cut, output=torch.empty(0), is_causal=False, scale_gradient=None)


def counted_queries(valid: Tensor) -> Tensor:
    """Return which queries (b, n) count, given the keys (b, h, n, m) that they see."""
    counted = (valid.sum(-1) >= FEWEST_KEYS).any(1)
    if valid.shape[-1] == valid.shape[-2]:  # self-attention: a position that no query attends to is padding
        counted &= valid.any(1).any(-2)
    return counted
