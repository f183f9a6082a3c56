"""The catalogue of scorers and normalisers, as a list and one by one."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from pydantic import TypeAdapter
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from torch import nn

from attncli.config.signatures import formula_of, options_of
from attncli.errors import InputError


def catalogue(parts: Mapping[str, Mapping[str, type[nn.Module]]]) -> RenderableType:
    """Return a list of the scorers and normalisers in `parts`, by title, with formula, source, options, parameters."""
    shown: list[RenderableType] = []
    for title, classes in parts.items():
        table = Table.grid(padding=(0, 2, 0, 0))
        for name, cls in classes.items():
            options = ", ".join(f"{option} = {_default(default)}" for option, (_, default) in options_of(cls).items())
            facts = "; ".join([f"options {options}" if options else "no options", *_parameters(cls)])
            table.add_row(Text(name, style="bold"), Text(formula_of(cls)))
            table.add_row("", Text(facts, style="dim"))
        shown += [Text(f"\n{title}" if shown else title, style="bold"), Text(), table]
    return Group(*shown)


def details(name: str, cls: type[nn.Module]) -> RenderableType:
    """Return the docstring of a scorer or normaliser, its options with types and defaults, and its parameters."""
    paragraphs = (inspect.getdoc(cls) or "").split("\n\n")[1:]
    lines = [Text.assemble((name, "bold"), f"  {formula_of(cls)}"), Text()]
    lines += [Text(" ".join(paragraph.split()) + "\n") for paragraph in paragraphs]
    lines += [
        Text(f"option {option}: {_type(kind)}; default {_default(default)}{_about(kind)}")
        for option, (kind, default) in options_of(cls).items()
    ]
    return Group(*lines, *map(Text, _parameters(cls)))


def _default(default: Any) -> str:
    return "needed" if default is ... else str(default)


def _about(kind: Any) -> str:
    """Return the description of an option after a semicolon, or an empty string if it has none."""
    text = TypeAdapter(kind).json_schema().get("description")
    return f"; {text}" if text else ""


def _type(kind: Any) -> str:
    """Return a type in words, from its JSON Schema."""
    schema = TypeAdapter(kind).json_schema()
    return " or ".join(_branch(branch) for branch in schema.get("anyOf", [schema]))


def _branch(schema: Mapping[str, Any]) -> str:
    if "enum" in schema or "const" in schema:
        return " or ".join(map(str, schema.get("enum", [schema.get("const")])))
    words = {"exclusiveMinimum": "above", "minimum": "at least", "maximum": "at most", "exclusiveMaximum": "below"}
    bounds = [f"{word} {schema[key]:g}" for key, word in words.items() if key in schema]
    return " ".join([str(schema.get("type", "any")), " and ".join(bounds)]).strip()


def _parameters(cls: type[nn.Module]) -> list[str]:
    """Return a list with a phrase on a scorer's parameters and their shapes, as (h, q); empty for a normaliser."""
    if "query_size" not in inspect.signature(cls).parameters:
        return []
    letters = {101: "q", 103: "k", 107: "h", 1: "1"}
    options = {"num_hiddens": 107} if "num_hiddens" in options_of(cls) else {}
    try:
        with torch.device("meta"):
            made = cls(101, 103, **options)
    except InputError:  # the scorer requires q = k
        with torch.device("meta"):
            made = cls(101, 101, **options)
    parameters = []
    for name, tensor in made.state_dict().items():
        parameters.append(f"{name} ({', '.join(letters.get(size, str(size)) for size in tensor.shape)})")
    return [f"parameters {', '.join(parameters)}" if parameters else "no parameters"]
