"""Generate the reference pages of the site from the code."""

import functools
import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import typer
from typer.testing import CliRunner

from attncli.catalogue import normalizer_entries, scorer_entries
from attncli.catalogue.normalizer_entries import KEY
from attncli.catalogue.scorer_entries import ENTRY_KEYS
from attncli.cli import app
from attncli.config.builtin import builtin_names, builtin_path
from attncli.errors import plain
from attncli.normalizers import NORMALIZERS
from attncli.scorers import SCORERS
from attncli.studies import STUDIES, load_study, options_model

TYPES = {  # of the values of options, by their placeholders in the help
    "N": "an integer",
    **dict.fromkeys(("X", "SECONDS", "POINTS"), "a number"),
    **dict.fromkeys(("DIR", "FOLDER", "RUN"), "a folder"),
    **dict.fromkeys(("CONFIG", "SOURCE"), "a file, folder or name"),
    "FILE": "a file",
    "NAME": "a name",
    "LABEL": "a label",
    "MODEL": "a model",
    "KEY=VALUE": "a key and its value",
    "KEY=VALUES": "a key and its values",
    "NAME[:KEY=VALUE,...]": "a scorer",
    "A:B": "a range",
    "WxH": "two numbers",
}
DEFAULT = re.compile(r"[;,] default: (.*)$")  # at the end of a description
OF_FLAG = re.compile(r" \((?:default: ([^;)]*))?(?:; )?(?:repeatable)?\)$")  # at the end of a study flag's help
LONGEST_LIST = 4  # longer defaults are abbreviated
IN_PYTHON = ("GivenMask",)  # definitions that YAML has no words for
DIFFERENT = {"study", "scorers", "dtype"}  # keys of all studies with different values or defaults
GROUPS: dict[str, Callable[[str], bool]] = {  # the sections of the page of YAML keys, by the names in the schema
    "Normalisers": lambda name: name in {f"{cls.__name__}Entry" for cls in NORMALIZERS.values()},
    "Scorers": lambda name: name.endswith("Entry"),
    "Tensors": lambda name: name.endswith("Fill") or name in ("FileTensor", "Rows"),
    "Other mappings": lambda name: True,
}


@functools.cache  # once for all the time that pages are served
def pages() -> dict[str, str]:
    """Return the generated pages by their paths in the site."""
    return {
        **commands(),
        "reference/yaml.md": yaml_keys(),
        "reference/metrics.md": metrics(),
        "reference/scorers.md": catalogue("Scorers", "scoring functions", "score", SCORERS),
        "reference/normalizers.md": catalogue("Normalisers", "normalisers", "weights", NORMALIZERS),
        "reference/experiments.md": experiments(),
    }


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, ["---"] * len(header), *rows])


def page(title: str, about: str, parts: Iterable[str]) -> str:
    """Return a page in Markdown."""
    return "\n\n".join([f"# {title}", about, *parts]) + "\n"


def one_line(text: str) -> str:
    """Return the text on one line, for a cell of a table, with `<name>` escaped."""
    return re.sub(r"<(?=\w+>)", "&lt;", " ".join(text.split()))


def commands() -> dict[str, str]:
    """Return the page with the list of commands, and a page for each command with its arguments and options."""
    root: Any = typer.main.get_command(app)
    helps = {name: one_line(each.help or "") for name, each in root.commands.items()}
    overview = [(f"[`attncli {name}`](commands/{name}.md)", text) for name, text in helps.items()]
    about = "Every command and option, generated from the code, as in `attncli COMMAND --help`."
    pages = {
        "reference/commands.md": page(
            "Commands", about, [table(["command", "does"], overview), options_table(root.params)]
        )
    }
    for name, command in root.commands.items():
        pages[f"reference/commands/{name}.md"] = page(f"attncli {name}", helps[name], option_panels(command.params))
    return pages


def option_panels(params: Sequence[Any]) -> Iterator[str]:
    """Return a table for each panel of the help."""
    panels: dict[str | None, list[Any]] = {}
    for param in params:
        panels.setdefault(getattr(param, "rich_help_panel", None), []).append(param)
    for title, members in panels.items():
        if title is not None:
            yield f"**{title}**"
        yield options_table(members)


def options_table(params: Sequence[Any]) -> str:
    """Return a table of the arguments and options."""
    return table(
        ["option", "type", "default", "description"], [option_row(param) for param in params if not param.hidden]
    )


def option_row(param: Any) -> tuple[str, str, str, str]:
    """Return spelling, type, default and description of an option or argument."""
    text, *stated = parts_of(getattr(param, "help", None) or "")
    if isinstance(param.default, str):
        stated.append(f"`{param.default}`")
    default = "required" if param.required else (*stated, "off" if is_switch(param) else "none")[0]
    kind = type_of(param) + (", repeatable" if param.multiple or param.nargs == -1 else "")
    return f"`{spelling(param)}`", kind, default, text


def parts_of(description: str) -> tuple[str, ...]:
    """Return a description as a sentence, and the default at its end, if it has one."""
    text = one_line(description).rstrip(".")
    found = OF_FLAG.search(text)
    text, defaults = (text[: found.start()], [f"`{found[1]}`"] * bool(found[1])) if found else (text, [])
    found = DEFAULT.search(text)
    text, defaults = (text[: found.start()], [found[1]]) if found else (text, defaults)
    return f"{text[:1].upper()}{text[1:]}.", *defaults


def is_switch(param: Any) -> bool:
    """Whether an option takes no value."""
    return bool(getattr(param, "is_flag", False))


def type_of(param: Any) -> str:
    """Return the type of an option's value in words."""
    if is_switch(param):
        return "switch"
    if choices := choices_of(param):
        return ", ".join(f"`{each}`" for each in choices)
    return TYPES.get(param.metavar, TYPES.get(str(param.metavar).strip("[]."), "text"))


def choices_of(param: Any) -> tuple[str, ...]:
    """Return the allowed values of an option, if they are few."""
    annotation = param.type_descriptor.annotation
    return typing.get_args(annotation) if typing.get_origin(annotation) is typing.Literal else ()


def spelling(param: Any) -> str:
    """Return an option or argument as it is written, such as `--out DIR` or `CONFIG...`."""
    if param.param_type_name == "argument":
        return str(param.metavar)
    names = ", ".join(param.opts)
    if is_switch(param):
        return names
    default = "N" if param.type_descriptor.annotation == list[int] else "NAME"
    return f"{names} {param.metavar or '|'.join(choices_of(param)) or default}"


def yaml_keys() -> str:
    """Return the page of all YAML keys, from the JSON Schema."""
    definitions: dict[str, Any] = json.loads(CliRunner().invoke(app, ["schema"]).stdout)["$defs"]
    studies = {options_model(study).__name__: study for study in STUDIES}
    shared = set.intersection(*(set(definitions[name]["properties"]) for name in studies)) - DIFFERENT
    first = definitions[next(iter(studies))]["properties"]
    about = (
        "Every key, generated from the models that check a YAML file. `attncli schema` prints them as a JSON Schema. "
        "Unknown keys, repeated keys and wrong types are errors."
    )
    parts = ["## Keys of every study", keys_table({key: first[key] for key in first if key in shared}, [])]
    for name, study in studies.items():
        definition = definitions[name]
        own = {key: each for key, each in definition["properties"].items() if key not in shared}
        parts += [f"## `study: {study}` {{ #{name.lower()} }}", STUDIES[study]]
        parts += [keys_table(own, definition.get("required", []))]
    for title in GROUPS:
        parts.append(f"## {title}")
        for name, definition in definitions.items():
            if name not in studies and name not in IN_PYTHON and group_of(name) == title:
                parts += section_of(name, definition)
    return page("YAML keys", about, parts)


def section_of(name: str, definition: Mapping[str, Any]) -> Iterator[str]:
    """Return a section of the page of YAML keys: one scorer, normaliser, tensor or other mapping."""
    properties = definition.get("properties", {})
    key = next((key for key in ("scorer", "normalizer") if key in properties), None)
    title = f"`{key}: {properties[key].get('const', 'module:Class')}`" if key else name_in_words(name)
    yield f"### {title} {{ #{name.lower()} }}"
    if definition.get("description"):
        yield one_line(definition["description"])
    yield keys_table(properties, definition.get("required", [])) if properties else kind_of(definition)


def group_of(name: str) -> str:
    """Return the section that a definition of the schema belongs to."""
    return next(title for title, is_member in GROUPS.items() if is_member(name))


def name_in_words(name: str) -> str:
    """Return a class name in words: `Size range` for `SizeRange`."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).capitalize()


def keys_table(keys: Mapping[str, Any], required: Sequence[str]) -> str:
    """Return a table with one row for each key."""
    rows = [key_row(key, schema, key in required) for key, schema in keys.items()]
    return table(["key", "type", "default", "description"], rows)


def key_row(key: str, schema: Mapping[str, Any], is_required: bool) -> tuple[str, str, str, str]:
    """Return name, type, default and description of a key."""
    text, *stated = parts_of(schema.get("description", ""))
    default = "required" if is_required else (*stated, default_of(schema.get("default")))[0]
    return f"`{key}`", kind_of(schema), default, text


def default_of(default: Any) -> str:
    """Return the default of a key as YAML, abbreviated if it is long."""
    if default is None or default == []:
        return "none"
    if isinstance(default, Mapping):
        return "see its keys" if default else "none"
    if isinstance(default, list) and isinstance(default[0], Mapping):
        return ", ".join(f"`{each.get('label', each['scorer'])}`" for each in default)
    if isinstance(default, list) and len(default) > LONGEST_LIST:
        return f"`{compact(default[0])}` to `{compact(default[-1])}`"
    return f"`{compact(default)}`"


def compact(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {compact(each)}' for key, each in value.items())}}}"
    return f"[{', '.join(map(compact, value))}]" if isinstance(value, list) else plain(value)


def kind_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        whole = {
            "Scorers": "[a scorer](#scorers)",
            "Normalisers": "[with options](#normalisers)",
            "Tensors": "[a tensor](#tensors)",
        }
        return whole.get(group_of(name)) or f"[{name_in_words(name)}](#{name.lower()})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "anyOf" in schema:
        return ", or ".join(kinds_of(schema))
    if schema.get("type") == "array":
        return f"a list of: {kind_of(schema.get('items', {}))}"
    names = {"integer": "an integer", "number": "a number", "string": "text", "boolean": "`true`, `false`"}
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None and high < 1e9:
        return f"{names[schema['type']]} from {low:,} to {high:,}"
    bounds = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    limits = [f"{text} {schema[key]:,}" for key, text in bounds.items() if key in schema and abs(schema[key]) < 1e9]
    return " ".join([names.get(schema.get("type", ""), "a mapping"), " and ".join(limits)]).strip()


def kinds_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the types of a union in words, each once; a list of the others is `a list of these`."""
    if "anyOf" not in schema:
        return [kind_of(schema)]
    branches = [each for each in schema["anyOf"] if each.get("type") != "null"]
    kinds = dict.fromkeys(kind for each in branches if each.get("type") != "array" for kind in kinds_of(each))
    for each in branches:
        if each.get("type") == "array":
            items = kinds_of(each.get("items", {}))
            kinds["a list of these" if kinds and items == [*kinds][: len(items)] else kind_of(each)] = None
    return [*kinds]


def metrics() -> str:
    """Return the page of the columns of every study."""
    about = (
        "The columns of `records`, `comparisons`, `heads` and `head_comparisons`: in `results.json`, in `records.csv` "
        "and `heads.csv`, in the tables, and in `expect:` as `metric`. An interval `X_ci` becomes `X_low` and `X_high` "
        "in `records.csv`. Generated from the code."
    )
    parts = []
    for study in STUDIES:
        parts += [f"## {study.capitalize()}"]
        for name, columns in load_study(study).columns.items():
            parts += [f"{name.replace('_', ' ').capitalize()}:", columns_table(columns)]
        if of_calls := load_study(study).call_columns:
            parts += ["Additional columns for heads of a captured model; rows of several layers also have `layer`:"]
            parts += [columns_table(of_calls)]
    return page("Metrics", about, parts)


def columns_table(columns: Sequence[Any]) -> str:
    """Return a table with one row for each column."""
    return table(["metric", "unit", "description"], [(f"`{each.key}`", each.unit, each.about) for each in columns])


def catalogue(title: str, plural: str, gives: str, classes: Mapping[str, Any]) -> str:
    """Return the page of all scorers, or of all normalisers."""
    entries: Any = scorer_entries if classes is SCORERS else normalizer_entries
    models: Mapping[str, Any] = entries.CATALOGUE.built_in
    about = f"The {plural}, generated from their classes, as in `attncli scorers NAME`."
    parts = [table(["name", gives, "source"], [overview_of(name, cls) for name, cls in classes.items()])]
    for name, cls in classes.items():
        formula, _, more = (inspect.getdoc(cls) or "").partition("\n")
        parts += [f"## {name}", f"`{formula.rpartition(' (')[0]}`", more.strip()]
        schema = models[name].model_json_schema()
        own = {key: each for key, each in schema["properties"].items() if key not in (*ENTRY_KEYS, KEY)}
        parts += [keys_table(own, schema["required"])] if own else []
        if classes is SCORERS:
            shapes = [(f"`{key}`", f"`({shape})`") for key, shape in parameters_of(cls)]
            parts += [table(["parameter", "shape"], shapes)] if shapes else ["No parameters."]
    return page(title, about, parts)


def overview_of(name: str, cls: Any) -> tuple[str, str, str]:
    """Return name, formula and source of a class of the catalogue."""
    formula, _, source = (cls.__doc__ or "").partition("\n")[0].rpartition(" (")
    return f"[`{name}`](#{name})", f"`{formula or source}`", source.rstrip(")") if formula else ""


def parameters_of(scorer: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and the shape, in letters, of each parameter of a scorer."""
    q, k = (20, 30) if getattr(scorer, "sizes_may_differ", False) else (4, 4)
    letters = {20: "q", 30: "k", 8: "h", 1: "1", 4: "d"}
    for name, tensor in scorer(q, k).state_dict().items():
        yield name, ", ".join(letters.get(size, str(size)) for size in tensor.shape)


def experiments() -> str:
    """Return the page of the built-in experiments: the question of each, the comment below it, and its YAML."""
    about = "Every built-in experiment. `attncli init NAME` copies one, with the files it needs, to start from."
    parts = []
    for name in builtin_names():
        text = builtin_path(name).read_text(encoding="utf-8")
        found = re.match(r"about: (?P<about>[^\n]*)\n(?P<comment>(?:#[^\n]*\n)*)(?P<yaml>.*)", text, flags=re.S)
        if found is None:
            raise ValueError(f"{name}.yaml: expected `about` on its first line")
        lines = [line.removeprefix("#").removeprefix(" ") for line in found["comment"].splitlines()]
        parts += [f"## {name}", f"**{found['about']}**", as_text(lines)]
        parts.append(f'```yaml title="{name}.yaml"\nabout: {found["about"]}\n{found["yaml"]}```')
    return page("Experiments", about, parts)


def as_text(lines: Sequence[str]) -> str:
    """Return comments as Markdown: indented lines are code, and stars and bars are escaped."""
    paragraph = "\n".join(line if not line.startswith("  ") else f"\n    {line}\n" for line in lines)
    return re.sub(r"(?<!`)([*|_<])", r"\\\1", paragraph) if "    " not in paragraph else paragraph
