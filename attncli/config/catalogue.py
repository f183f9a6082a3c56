"""Find the scorers and normalisers that a config names: built in, listed by installed packages, or of the user.

A user's class is named `my_package.my_module:MyClass`; an installed package lists its classes under short names.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from attncli import errors
from attncli.config.installed import listed_names, listing_of, listings
from attncli.config.strict import Model, problem
from attncli.errors import InputError, Problem

M = TypeVar("M", bound=Model)
KINDS = ("scorer", "normaliser")
CACHED = 256  # models of entries, which take milliseconds to make
CUSTOM = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"


def is_custom(name: object) -> bool:
    """Whether a name has the form `module:Class` of a user's class."""
    return isinstance(name, str) and re.fullmatch(CUSTOM, name) is not None


def class_name(name: str) -> str:
    """Return the name of a user's class without its module, and other names as they are."""
    return name.rpartition(":")[2]


def built_in(kind: str) -> dict[str, type]:
    """Return the built-in scorers or normalisers by name; `kind` is one of KINDS."""
    from attncli.normalizers import NORMALIZERS  # load torch
    from attncli.scorers import SCORERS

    return dict[str, type](SCORERS if kind == "scorer" else NORMALIZERS)


def short_names() -> dict[str, dict[str, Any]]:
    """Return the entries of scorers for which a name alone stands, by name, such as `hedgehog`.

    A scorer of an installed package goes before the short name of a built-in one.
    """
    known = names_of("scorer")
    return {
        short: {"scorer": scorer, **keys}
        for scorer, cls in built_in("scorer").items()
        for short, keys in getattr(cls, "short_names", {}).items()
        if short not in known
    }


def names_of(kind: str) -> list[str]:
    """Return the names of all scorers or normalisers: built-in ones first, then the lists of installed packages."""
    return list(dict.fromkeys([*built_in(kind), *listed_names(kind)]))


def loadable(
    kind: str, model_named: Callable[[str], type[M]], known: Mapping[str, type[M]]
) -> tuple[dict[str, type[M]], list[Problem]]:
    """Return the models of all scorers or normalisers by name, and the problems of packages that cannot be used.

    `known` has the models of the built-in ones. They are returned even if a package lists one of their names, too.
    """
    models, problems = {**known}, list[Problem]()
    for name in names_of(kind):
        try:
            model = model_named(name)
            if name not in known:
                with reading_options(name):
                    model.model_json_schema()
                models[name] = model
        except InputError as error:
            problems += error.problems
    return models, problems


def class_of(name: object, kind: str) -> type:
    """Return the scorer or normaliser of this name: built in, of an installed package, or `module:Class`.

    Raises:
        InputError: the name is unknown, several packages list it, or the class cannot be loaded.
    """
    if isinstance(name, str):
        if ":" in name:
            return _users_class(name, kind)
        is_built_in = any(name in built_in(any_kind) for any_kind in KINDS)
        if listing := listing_of(name, kind, is_built_in=is_built_in):
            from attncli.scorers._custom import load_listed  # loads torch

            return load_listed(str(listing), listing.target, listing.package)
        if name in built_in(kind):
            return built_in(kind)[name]
    names = [*names_of(kind), *(short_names() if kind == "scorer" else ())]
    raise InputError.of(errors.got(name, f"unknown {kind}", errors.did_you_mean(name, names)))


def _users_class(name: str, kind: str) -> type:
    from attncli.scorers._custom import load_class  # loads torch

    module, _, option = name.partition(":")
    if not is_custom(name):
        expected = f"expected module:Class, for instance my_package.my_module:My{kind.capitalize()}"
        raise InputError.of(errors.got(name, expected))
    if module in names_of(kind):
        cure = f"if {option} is an option, give it a value"
        raise InputError.of(errors.got(name, f"{module} is a {kind}, not a module", cure))
    return load_class(name, kind)


@contextmanager
def as_problem(*under: str) -> Iterator[None]:
    """Turn an InputError in the `with` block into a `problem`; `under` is its path inside the validated value."""
    try:
        yield
    except InputError as error:
        raise problem(error.problems[0].message, under=[*under, *error.problems[0].path]) from error


@contextmanager
def reading_options(name: str) -> Iterator[None]:
    """Turn any exception in the `with` block into an InputError about the options of the class `name`.

    The block reads the annotations of the class, which runs its author's code. KeyboardInterrupt is not caught.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        reason = " ".join(str(error).split())
        listing = next((str(entry) for entry in listings() if entry.name == name), f'"{name}"')
        raise InputError.of(f"got {listing}, whose options cannot be written in YAML: {reason}") from error
