"""The parameters of fitted scorers, from a run of the study `fit`."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attncli.catalogue.fitted import FittedFacts, read_facts, text_hashes
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.core.files import read_tensors
from attncli.core.numbers import several
from attncli.errors import InputError, below, listed
from attncli.models.call import AttentionCall
from attncli.models.loading import Request


@dataclass(frozen=True)
class FittedScorers:
    """Parameters by `<label>/<layer>/<parameter>`, with a first axis of heads, and the facts about them."""

    facts: FittedFacts
    tensors: Mapping[str, Tensor]

    def of_call(self, label: str, call: AttentionCall) -> dict[str, Tensor]:
        """Return the parameters of a label for the heads of an attention call by name.

        Raises:
            InputError: they were fitted to other layers, heads or sizes.
        """
        sizes = (call.queries.shape[-1], call.keys.shape[-1])
        index = torch.tensor(self.facts.index_of_heads(call.name, call.head_numbers, sizes))
        start = f"{label}/{self.facts.name_of(call.name)}/"
        return {
            name.removeprefix(start): tensor[index].to(call.queries.device)
            for name, tensor in self.tensors.items()
            if name.startswith(start)
        }


def read_fitted(path: str) -> FittedScorers:
    """Return the fitted scorers in a run folder or a file.

    Raises:
        InputError: there are none, or the file is damaged.
    """
    file, facts = read_facts(path)
    stat = file.stat()
    return FittedScorers(facts, _tensors(file, stat.st_mtime_ns, stat.st_size))


def check_for_model(
    entries: Sequence[ScorerEntry], model: str | None, texts: Sequence[str], note: Callable[[str], None]
) -> None:
    """Warn of texts that entries were fitted to, and of rotary positions beside the model's own.

    Raises:
        InputError: an entry was fitted to another model than `model`, a name or a folder, if it is known.
    """
    name = None if model is None else Request(str(model)).name
    if rotated := [each.label for entry in entries for each in entry.entries if each.rope is not None]:
        turns = "turns queries and keys as the model's attention saw them, once more if it has rotary positions itself"
        note(f"{listed(rotated)}: rope {turns}")
    indexed = [(index, each) for index, entry in enumerate(entries) for each in entry.entries]  # of plans, too
    for (label, path), index in {(each.label, each.fitted): index for index, each in indexed if each.fitted}.items():
        with below("scorers", index):
            _, facts = read_facts(path)
            if None not in (facts.model, name) and facts.model != name:
                message = f"got {label}, fitted to the model {facts.model}, not to {name}"
                raise InputError.of(message, ["plan" if entries[index].is_plan else "fitted"])
        if both := sum(text_hash in facts.trained_on for text_hash in text_hashes(texts)):
            of = f"{both} of {several(len(texts), 'text')}"
            note(f"warning: {label} was fitted to {of}; its figures would be worse for other texts")


@functools.lru_cache(maxsize=8)
def _tensors(path: Path, changed: int, size: int) -> Mapping[str, Tensor]:
    """Return the tensors of a file; it is read again after it has changed."""
    try:
        return read_tensors(path)
    except InputError as error:
        raise InputError.of(error.problems[0].message, ["fitted"]) from error
