"""Generate the reference pages from the code when the site is built, and add the pages outside `docs/`."""

import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.testing import CliRunner

from attncli.cli import app
from attncli.config.builtin import builtin_names, builtin_path
from attncli.normalizers import NORMALIZERS
from attncli.scorers import SCORERS
from attncli.studies import STUDIES, options_model, part_of

ROOT = Path(__file__).resolve().parents[2]
PROJECT = {"changelog": "CHANGELOG.md", "contributing": "CONTRIBUTING.md", "security": "SECURITY.md"}
INSTALL = "The project's README says how to install it."
DIFFERENT = {"study", "scorers", "dtype"}  # keys of all studies with different values or defaults
GROUPS: dict[str, Callable[[str], bool]] = {  # the sections of the page of YAML keys, by the names in the schema
    "Normalisers": lambda name: name in {f"{cls.__name__}Entry" for cls in NORMALIZERS.values()},
    "Scorers": lambda name: name.endswith("Entry"),
    "Tensors": lambda name: name.endswith("Fill") or name in ("FileTensor", "Rows"),
    "Other mappings": lambda name: True,
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site."""
    pages = {
        "reference/commands.md": commands(),
        "reference/yaml.md": yaml_keys(),
        "reference/metrics.md": metrics(),
        "reference/scorers.md": catalogue("Scorers", "scoring functions", "score", SCORERS),
        "reference/normalizers.md": catalogue("Normalisers", "normalisers", "weights", NORMALIZERS),
        "reference/experiments.md": experiments(),
        **{f"project/{name}.md": without_links_to_code(file) for name, file in PROJECT.items()},
    }
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def without_links_to_code(file: str) -> str:
    """Return a page of the project without its links to source files, which are not part of the site."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return re.sub(r"\[(`[^`]+`)\]\((?:attncli|experiments|tests)/[^)]*\)", r"\1", text)


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Insert the README's section on installing into the start page."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## Install and run\n")[2].partition("\n## ")[0]
    return markdown.replace(INSTALL, section) if page.file.src_uri == "index.md" else markdown


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, ["---"] * len(header), *rows])


def page(title: str, about: str, parts: Iterable[str]) -> str:
    """Return a page in Markdown."""
    return "\n\n".join([f"# {title}", about, *parts]) + "\n"


def one_line(text: str) -> str:
    """Return the text on one line, for a cell of a table, with `<name>` escaped."""
    return re.sub(r"<(?=\w+>)", "&lt;", " ".join(text.split()))


def commands() -> str:
    """Return the page of all commands with their arguments and options."""
    root: Any = typer.main.get_command(app)
    about = "Every command and option, generated from the code, as in `attncli COMMAND --help`."
    named = root.commands.items()
    overview = [(f"[`attncli {name}`](#attncli-{name})", one_line(each.help or "")) for name, each in named]
    parts = [table(["command", "does"], overview), "## attncli", options_table(root.params)]
    for name, command in named:
        parts += [f"## attncli {name}", one_line(command.help or ""), *option_panels(command.params)]
    return page("Commands", about, parts)


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
    return table(["option", "does"], [(f"`{spelling(param)}`", help_of(param)) for param in params])


def spelling(param: Any) -> str:
    """Return an option or argument as it is written, such as `--out DIR` or `CONFIG...`."""
    if param.param_type_name == "argument":
        return str(param.metavar)
    names = ", ".join(param.opts)
    annotation = param.type_descriptor.annotation
    is_choice = typing.get_origin(annotation) is typing.Literal
    choices = "|".join(typing.get_args(annotation)) if is_choice else "N" if annotation == list[int] else "NAME"
    return names if param.is_flag else f"{names} {param.metavar or choices}"


def help_of(param: Any) -> str:
    """Return the help of an option, with its default if there is one."""
    text = one_line(getattr(param, "help", None) or "")
    return f"{text} Default: `{param.default}`." if isinstance(param.default, str) else text


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
            if name not in studies and group_of(name) == title:
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
    rows = []
    for key, schema in keys.items():
        default = schema.get("default")
        is_shown = default not in (None, []) and not isinstance(default, dict | list)
        shown = "required" if key in required else f"`{json.dumps(default)}`" if is_shown else ""
        rows.append([f"`{key}`", kind_of(schema), shown, one_line(schema.get("description", ""))])
    return table(["key", "type", "default", "description"], rows)


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
        kinds = [kind_of(each) for each in schema["anyOf"] if each.get("type") != "null"]
        return ", or ".join(dict.fromkeys(", or ".join(kinds).split(", or ")))
    if schema.get("type") == "array":
        return f"a list of: {kind_of(schema.get('items', {}))}"
    names = {"integer": "an integer", "number": "a number", "string": "text", "boolean": "`true`, `false`"}
    bounds = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    limits = [f"{text} {schema[key]:,}" for key, text in bounds.items() if key in schema and abs(schema[key]) < 1e9]
    return " ".join([names.get(schema.get("type", ""), "a mapping"), " and ".join(limits)]).strip()


def metrics() -> str:
    """Return the page of the columns of every study."""
    about = (
        "The columns of `records`, `comparisons`, `heads` and `head_comparisons`: in `results.json`, in `records.csv` "
        "and `heads.csv`, in the tables, and in `expect:` as `metric`. An interval `X_ci` becomes `X_low` and `X_high` "
        "in `records.csv`. Generated from the code."
    )
    parts = []
    for study in STUDIES:
        columns = part_of(study, "columns")
        parts += [f"## {study.capitalize()}", "Records:", columns_table(columns.COLUMNS)]
        for name in ("comparisons", "heads", "head_comparisons"):
            further = getattr(columns, name.upper(), ())
            parts += [f"{name.replace('_', ' ').capitalize()}:", columns_table(further)] if further else []
        if of_calls := getattr(columns, "OF_CALLS", ()):
            parts += ["Additional columns for heads of a captured model; rows of several layers also have `layer`:"]
            parts += [columns_table(of_calls)]
    return page("Metrics", about, parts)


def columns_table(columns: Sequence[Any]) -> str:
    """Return a table with one row for each column."""
    return table(["metric", "unit", "description"], [(f"`{each.key}`", each.unit, each.about) for each in columns])


def catalogue(title: str, plural: str, gives: str, classes: Mapping[str, Any]) -> str:
    """Return the page of all scorers, or of all normalisers."""
    about = f"The {plural}, generated from their classes, as in `attncli scorers NAME`."
    parts = [table(["name", gives, "source"], [overview_of(name, cls) for name, cls in classes.items()])]
    for name, cls in classes.items():
        formula, _, more = (inspect.getdoc(cls) or "").partition("\n")
        parts += [f"## {name}", f"`{formula.rpartition(' (')[0]}`", more.strip()]
        options = inspect.signature(cls).parameters.values()
        rows = [(f"`{each.name}`", f"`{each.default}`") for each in options if each.kind is each.KEYWORD_ONLY]
        parts += [table(["option", "default"], rows)] if rows else []
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
    """Return the page of the built-in experiments: the comment at the top of each file, and its YAML."""
    about = "Every built-in experiment. `attncli init NAME` copies one, with the files it needs, to start from."
    parts = []
    for name in builtin_names():
        text = builtin_path(name).read_text(encoding="utf-8")
        comment, yaml = re.match(r"((?:#[^\n]*\n)*)(.*)", text, flags=re.S).groups()  # type: ignore[union-attr]
        title, *lines = [line.removeprefix("#").removeprefix(" ") for line in comment.splitlines()]
        parts += [f"## {name}", f"**{title}**", as_text(lines), f'```yaml title="{name}.yaml"\n{yaml}```']
    return page("Experiments", about, parts)


def as_text(lines: Sequence[str]) -> str:
    """Return comments as Markdown: indented lines are code, and stars and bars are escaped."""
    paragraph = "\n".join(line if not line.startswith("  ") else f"\n    {line}\n" for line in lines)
    return re.sub(r"(?<!`)([*|_<])", r"\\\1", paragraph) if "    " not in paragraph else paragraph
