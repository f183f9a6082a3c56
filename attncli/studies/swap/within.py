"""The cheapest plan: how many layers can take an entry while the loss, or the output, changes by at most a limit."""

import math
import time
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
from attncli.results import Row

FEWEST = 5  # texts
Measure = Callable[[Sequence[str]], Row]  # the changes with an entry in these layers


def split(loaded: LoadedModel, held_out: float, seed: int) -> tuple[LoadedModel, LoadedModel]:
    """Return the model with the texts that choose a plan, and with the others, which judge it.

    Raises:
        InputError: there are fewer than FEWEST texts.
    """
    counts = [text_count(batch) for batch in loaded.batches]
    if sum(counts) < FEWEST:
        cure = f"expected at least {FEWEST}, some of which are held out"
        raise InputError.of(f"got {several(sum(counts), 'text')}; {cure}", ["within"])
    numbers = torch.split(torch.tensor(loaded.order or range(sum(counts))), counts)  # of the texts in each batch
    models = list[LoadedModel]()
    for texts in drawn(sum(counts), held_out, seed):
        batches, order = list[Any](), list[int]()
        for batch, in_batch in zip(loaded.batches, numbers, strict=True):
            rows = torch.isin(in_batch, texts).nonzero()[:, 0]
            if len(rows):
                batches.append(with_texts(batch, rows, len(in_batch)))
                order += in_batch[rows].tolist()
        models.append(replace(loaded, batches=batches, order=order))
    return models[0], models[1]


def cheapest_plan(
    rows: Sequence[Row], limit: float, keys: tuple[str, str], measure: Measure, judge: Measure
) -> tuple[Row, list[str]]:
    """Return the columns of the plan with as many layers as were found within a limit, and these layers.

    `rows` has the changes by each layer alone. `measure` gives the changes with several layers, on the same texts, and
    `judge` on the texts held out. `keys` are the columns of the limited quantity: on the texts held out, and on the
    others.

    Bisection finds a number of layers that keeps the limit, while one more does not. It is the largest such number if
    each more layer makes it worse.
    """
    started, (key, chosen_key) = time.perf_counter(), keys
    rows = sorted(rows, key=lambda row: math.inf if row[key] is None or math.isnan(row[key]) else row[key])
    order = [row["layer"] for row in rows]
    measured = dict(enumerate([Row(), *rows[:1]]))  # by number of layers

    def holds(count: int) -> bool:
        """Whether the first layers keep the limit together."""
        if count not in measured:
            measured[count] = measure(order[:count])
        value = measured[count][key]
        return value is not None and value <= limit

    count, high, middle = 0, len(order) + 1, len(order)
    while high - count > 1:
        count, high = (middle, high) if holds(middle) else (count, middle)
        middle = (count + high) // 2
    judged = judge(order[:count]) if count else Row()
    plan: Row = {"layers": count}
    for name, changes in ((key, judged), (chosen_key, measured[count])):
        plan[name] = changes.get(key, 0.0)
        if key == "loss_change":
            plan[f"{name}_se"] = changes.get(f"{key}_se")
    plan |= {"passes": len(order) + sum(count > 1 for count in measured), "seconds": time.perf_counter() - started}
    return plan, order[:count]


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

    def ranges(layers: Collection[str]) -> str:
        """Return the numbers of layers as the key of a plan, such as `0-1,3`."""
        return ",".join(text.replace(" to ", "-") for text in number_ranges(sorted(numbers[call] for call in layers)))

    if not isinstance(entry, PlanEntry):
        return {"label": label, PLAN: {ranges(layers): written}}
    chosen = {name: {*matching_calls(layer_choice(name), numbers, prefix)} & {*layers} for name in entry.plan}
    return {"label": label, PLAN: {ranges(each): written[PLAN][name] for name, each in chosen.items() if each}}
