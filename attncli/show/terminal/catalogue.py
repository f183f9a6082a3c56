"""The catalogue of scorers and normalisers, as a list and one by one."""

import inspect
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from pydantic import TypeAdapter
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attncli.catalogue.catalogue import class_formula, options_of
from attncli.catalogue.normalizer_entries import NormalizerEntry
from attncli.catalogue.scorer_entries import ScorerEntry


def catalogue(
    catalogues: Mapping[str, Mapping[str, type[ScorerEntry | NormalizerEntry]]], packages: Mapping[str, str]
) -> RenderableType:
    """Return a list of the scorers and normalisers by title, with formula, source, options and parameters.

    `catalogues` has the models of their entries; `packages` has the packages of entries that are not built in.
    """
    lists: list[RenderableType] = []
    for title, models in catalogues.items():
        table = Table.grid(padding=(0, 2, 0, 0))
        for name, model in models.items():
            cls = model.implementation
            options = ", ".join(f"{option} = {_default(default)}" for option, (_, default) in options_of(cls).items())
            package = [packages[name]] if name in packages else []
            shorts = [f"short names {', '.join(names)}"] if (names := getattr(cls, "short_names", {})) else []
            facts = "; ".join([f"options {options}" if options else "no options", *_parameters(cls), *shorts, *package])
            table.add_row(Text(name, style="bold"), Text(class_formula(cls)))
            table.add_row("", Text(facts, style="dim"))
        lists += [Text(f"\n{title}" if lists else title, style="bold"), Text(), table]
    return Group(*lists)


def details(name: str, cls: type, package: str | None) -> RenderableType:
    """Return the docstring of a scorer or normaliser, its options with types and defaults, parameters and package."""
    paragraphs = inspect.cleandoc(cls.__doc__ or "").split("\n\n")[1:]  # getdoc would return a base class's
    lines = [Text.assemble((name, "bold"), f"  {class_formula(cls)}"), Text()]
    lines += [Text(" ".join(paragraph.split()) + "\n") for paragraph in paragraphs]
    for option, (kind, default) in options_of(cls).items():
        schema = TypeAdapter(kind).json_schema()
        facts = [" or ".join(map(_branch, schema.get("anyOf", [schema]))), f"default {_default(default)}"]
        facts += [schema["description"]] if "description" in schema else []
        lines.append(Text(f"option {option}: {'; '.join(facts)}"))
    for short, keys in getattr(cls, "short_names", {}).items():
        options = ",".join(f"{key}={value}" for key, value in keys.items())
        lines.append(Text(f"short name {short}: {name}:{options}"))
    return Group(*lines, *map(Text, [*_parameters(cls), *([package] if package else [])]))


def _default(default: object) -> str:
    return "needed" if default is ... else str(default)


def _branch(schema: Mapping[str, Any]) -> str:
    """Return a type in words, from its JSON Schema."""
    if "enum" in schema or "const" in schema:
        return " or ".join(map(str, schema.get("enum", [schema.get("const")])))
    words = {"exclusiveMinimum": "above", "minimum": "at least", "maximum": "at most", "exclusiveMaximum": "below"}
    bounds = [f"{word} {schema[key]:g}" for key, word in words.items() if key in schema]
    return " ".join([str(schema.get("type", "any")), " and ".join(bounds)]).strip()


def _parameters(cls: type) -> list[str]:
    """Return a list with a phrase on a scorer's parameters and their shapes, as (h, q); empty for a normaliser."""
    if "query_size" not in inspect.signature(cls).parameters:
        return []
    letters = {101: "q", 103: "k", 107: "h", 1: "1"}
    options = {"num_hiddens": 107} if "num_hiddens" in options_of(cls) else {}
    for sizes in ((101, 103), (101, 101)):  # the second for a scorer that requires q = k
        with suppress(Exception), torch.device("meta"):  # an installed class may fail in any way
            state = cls(*sizes, **options).state_dict()
            shapes = (f"{name} ({', '.join(letters.get(n, str(n)) for n in t.shape)})" for name, t in state.items())
            return [f"parameters {', '.join(shapes)}" if state else "no parameters"]
    return []
