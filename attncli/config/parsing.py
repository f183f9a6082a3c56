"""Text to plain data, which keeps the nodes it came from, and syntax errors in words for people new to YAML."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from attncli.config.nodes import Where, check_nodes, expand_merges
from attncli.config.yaml_loader import Loader
from attncli.errors import InputError, Problem


@dataclass(frozen=True)
class Parsed:
    """`problems` are those that still leave data to look at, such as repeated keys."""

    data: Any
    root: yaml.Node | None
    problems: list[Problem] = field(default_factory=list)


def parse_yaml(text: str, where: Where) -> Parsed:
    """One YAML document as plain data.

    Raises:
        InputError: text that is not YAML, or nests without end.
    """
    try:
        loader = Loader(text)
        root = loader.get_single_node()
        if root is None:
            return Parsed(None, None)
        problems = check_nodes(root, where)
        expand_merges(root)
        return Parsed(loader.construct_document(root), root, problems)
    except yaml.reader.ReaderError as error:
        raise _forbidden_character(text, error, where) from error
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, where) from error
    except RecursionError as error:
        raise InputError.of("nested too deeply; an experiment needs a few levels", where=where(1, 1)) from error


def _forbidden_character(text: str, error: yaml.reader.ReaderError, where: Where) -> InputError:
    before = text[: error.position]
    line, column = before.count("\n") + 1, error.position - before.rfind("\n")
    message = f"not valid YAML: the character U+{error.character:04X} may not stand in YAML; remove it"
    return InputError.of(message, where=where(line, column))


def _syntax_error(error: yaml.MarkedYAMLError, where: Where) -> InputError:
    reason = " ".join(part for part in (error.context, error.problem) if part)
    begun, stopped = _in_words(reason, BEGUN), _in_words(reason, STOPPED)
    mark = error.context_mark if begun and error.context_mark else error.problem_mark
    place = where(mark.line + 1, mark.column + 1) if mark else where(1, 1)
    return InputError.of(f"not valid YAML: {begun or stopped or reason}", where=place)


def _in_words(reason: str, words: Mapping[str, str]) -> str:
    found = ((re.search(pattern, reason), text) for pattern, text in words.items())
    return next((text.format(*match.groups()) for match, text in found if match), "")


# What PyYAML says (its reasons as patterns), in other words: reported where the thing in question begins,
BEGUN = {
    "flow sequence.*stream end": "this list is never closed; expected `]` at its end",
    "flow mapping.*stream end": "this mapping is never closed; expected `}}` at its end",
    "quoted scalar.*(?:end of stream|document separator)": "these quotes are never closed",
    "scanning an (?:alias|anchor)": "got text that begins with `*` or `&`; put it in quotes",
    "simple key.*':'": "got a line without `: `; expected `key: value`",
}
# and reported where reading stopped.
STOPPED = {
    "flow (?:sequence|mapping) expected (.*), but got": "expected {0} here; is a bracket before it not closed?",
    "escape character '(.*)'": r"got `\{0}` in double quotes; write `\\{0}` for a backslash, or use single quotes",
    "mapping values are not allowed": "got a key where none may stand; indent it like its neighbours; "
    "in text put quotes around `: `",
    "sequence entries are not allowed": "a list may not begin here; put it on the next line",
    r"character '\\t'": "got a tab; indent with spaces",
    "character '(.*)' that cannot start": "got text that begins with `{0}`; put it in quotes",
    "scanning a directive": "got text that begins with `%`; put it in quotes",
    "undefined alias '(.*)'": "got `*{0}`, but there is no `&{0}` above; put it in quotes if it is text",
    "duplicate anchor '(.*)'": "the anchor `&{0}` stands twice; rename one",
    "expected (?:<block end>|'<document start>')": "this fits nothing above; look at the indentation and the quotes",
    "node content, but found '(.*)'": "got `{0}`; expected a value",
    "scanning a block scalar": "nothing may follow `|` or `>` on its line; put text that begins with them in quotes",
    "single document": "a second document begins here; expected one",
}
