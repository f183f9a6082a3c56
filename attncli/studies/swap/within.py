"""The cheapest plan: how many layers can take an entry while the loss, or the output, changes by at most a limit."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attncli.catalogue.entry_files import located
from attncli.catalogue.plans import PLAN, PlanEntry
from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.config.values import layer_choice
from attncli.core.numbers import several
from attncli.errors import InputError, number_ranges
from attncli.models.loading import LoadedModel
from attncli.models.selection import matching_calls
from attncli.models.texts import drawn, text_count, with_texts

FEWEST = 5  # texts


def split(loaded: LoadedModel, held_out: float, seed: int) -> tuple[LoadedModel, LoadedModel]:
    """Return the model with the texts that choose a plan, and with the others, which judge it.

    Raises:
        InputError: there are fewer than FEWEST texts.
    """
    counts = [text_count(batch) for batch in loaded.batches]
    if sum(counts) < FEWEST:
        cure = f"expected at least {FEWEST}, some of which are held out"
        raise InputError.of(f"got {several(sum(counts), 'text')}; {cure}", ["within"])
    order = [*(loaded.order or range(sum(counts)))]
    models = list[LoadedModel]()
    for texts in drawn(sum(counts), held_out, seed):
        batches, numbers, first = list[Any](), list[int](), 0
        for batch, count in zip(loaded.batches, counts, strict=True):
            rows = torch.isin(torch.tensor(order[first : first + count]), texts).nonzero()[:, 0]
            if len(rows):
                batches.append(with_texts(batch, rows, count))
                numbers += [order[first + row] for row in rows.tolist()]
            first += count
        models.append(replace(loaded, batches=batches, order=numbers))
    return models[0], models[1]


def longest_prefix(count: int, holds: Callable[[int], bool]) -> int:
    """Return a number of layers that holds, while one more does not, or `count` if all hold; found by bisection.

    0 layers always hold. It is the largest such number if each more layer makes it worse.
    """
    low, high, middle = 0, count + 1, count  # `low` holds and `high` does not
    while high - low > 1:
        low, high = (middle, high) if holds(middle) else (low, middle)
        middle = (low + high) // 2
    return low


def candidates(entry: ScorerEntry, chosen: Sequence[str], numbers: Mapping[str, int], prefix: str) -> list[str]:
    """Return the names of the chosen calls that an entry can replace: of a plan, its layers."""
    if not isinstance(entry, PlanEntry):
        return [*chosen]
    planned = {call for layers in entry.plan for call in matching_calls(layer_choice(layers), numbers, prefix)}
    return [call for call in chosen if call in planned]


def written_plan(entry: ScorerEntry, layers: Sequence[str], numbers: Mapping[str, int], prefix: str) -> dict[str, Any]:
    """Return the plan, as YAML has it, with an entry in some of its layers alone; `numbers` has all calls."""
    written = entry.model_dump(mode="json", by_alias=True, exclude_none=True, serialize_as_any=True)
    written = located(written | entry.nulls, Path.cwd())
    label = f"{entry.label}_within"

    def key(of: Collection[str]) -> str:
        return ",".join(text.replace(" to ", "-") for text in number_ranges(sorted(numbers[call] for call in of)))

    if not isinstance(entry, PlanEntry):
        return {"label": label, PLAN: {key(layers): written}}
    chosen = {name: {*matching_calls(layer_choice(name), numbers, prefix)} & {*layers} for name in entry.plan}
    return {"label": label, PLAN: {key(of): written[PLAN][name] for name, of in chosen.items() if of}}
