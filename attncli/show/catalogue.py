"""The catalogue of scoring functions, as a table and one by one."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from pydantic import TypeAdapter
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text
from torch import nn

from attncli.config.signatures import formula_of, options_of
from attncli.errors import InputError


def catalogue(scorers: Mapping[str, type[nn.Module]]) -> RenderableType:
    """Formula with its source, options and parameters of every scorer."""
    return Group(*(line for name, scorer in scorers.items() for line in _entry(name, scorer)))


def _entry(name: str, scorer: type[nn.Module]) -> list[RenderableType]:
    options = ", ".join(f"{option} = {_default(default)}" for option, (_, default) in options_of(scorer).items())
    facts = f"{f'options {options}' if options else 'no options'}; {_parameters(scorer)}"
    below = Padding(Text(facts, style="dim"), (0, 0, 0, 12), expand=False)
    return [Text.assemble((f"{name:10}", "bold"), f"  {formula_of(scorer)}"), below]


def details(name: str, scorer: type[nn.Module]) -> RenderableType:
    """Everything about one scorer: its docstring, its options with types and defaults, its parameters."""
    paragraphs = (inspect.getdoc(scorer) or "").split("\n\n")[1:]
    lines = [Text.assemble((name, "bold"), f"  {formula_of(scorer)}"), Text()]
    lines += [Text(" ".join(paragraph.split()) + "\n") for paragraph in paragraphs]
    lines += [
        Text(f"option {option}: {_type(kind)}; default {_default(default)}")
        for option, (kind, default) in options_of(scorer).items()
    ]
    return Group(*lines, Text(_parameters(scorer)))


def _default(default: Any) -> str:
    return "needed" if default is ... else str(default)


def _type(kind: Any) -> str:
    """A type in words, from its JSON Schema."""
    schema = TypeAdapter(kind).json_schema()
    return " or ".join(_branch(branch) for branch in schema.get("anyOf", [schema]))


def _branch(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    words = {"exclusiveMinimum": "above", "minimum": "at least", "maximum": "at most", "exclusiveMaximum": "below"}
    bounds = [f"{word} {schema[key]:g}" for key, word in words.items() if key in schema]
    return " ".join([str(schema.get("type", "any")), " and ".join(bounds)]).strip()


def _parameters(scorer: type[nn.Module]) -> str:
    """State_dict names with shapes in letters, found by making the scorer with sizes that tell the letters apart."""
    letters = {101: "q", 103: "k", 107: "h", 1: "1"}
    options = {"num_hiddens": 107} if "num_hiddens" in options_of(scorer) else {}
    try:
        with torch.device("meta"):
            made = scorer(101, 103, **options)
    except InputError:  # it needs q = k, and no such scorer has parameters of its own
        with torch.device("meta"):
            made = scorer(101, 101, **options)
    parameters = []
    for name, tensor in made.state_dict().items():
        parameters.append(f"{name} ({', '.join(letters.get(size, str(size)) for size in tensor.shape)})")
    return f"parameters {', '.join(parameters)}" if parameters else "no parameters"
