"""The scorers and normalisers that a config may name: built in, listed by installed packages, or of the user.

A user's class is named `my_package.my_module:MyClass`; an installed package lists its classes under short names.
"""

import functools
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field, JsonValue, create_model

from attncli import errors
from attncli.catalogue.installed import installed_listing, listed_names, listings
from attncli.config.strict import Model
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
    names = names_in_catalogue("scorer")
    return {
        short: {"scorer": scorer, **keys}
        for scorer, cls in built_in("scorer").items()
        for short, keys in getattr(cls, "short_names", {}).items()
        if short not in names
    }


def names_in_catalogue(kind: str) -> list[str]:
    """Return the names of all scorers or normalisers: built-in ones first, then the lists of installed packages."""
    return list(dict.fromkeys([*built_in(kind), *listed_names(kind)]))


def loaded_class(name: object, kind: str) -> type:
    """Return the scorer or normaliser of this name: built in, of an installed package, or `module:Class`.

    Raises:
        InputError: the name is unknown, several packages list it, or the class cannot be loaded.
    """
    if isinstance(name, str):
        if ":" in name:
            return _users_class(name, kind)
        is_built_in = any(name in built_in(any_kind) for any_kind in KINDS)
        if listing := installed_listing(name, kind, is_built_in=is_built_in):
            from attncli.scorers._custom import load_class  # loads torch

            return load_class(listing.target, kind, str(listing), f"update or uninstall {listing.package}")
        if name in built_in(kind):
            return built_in(kind)[name]
    names = [*names_in_catalogue(kind), *(short_names() if kind == "scorer" else ())]
    if kind == "scorer":
        normalizers = names_in_catalogue("normaliser")
        if name in normalizers:
            cure = f"expected a scorer, which may have it: `dot:normalizer={name}`"
            raise InputError.of(f'got "{name}", a normaliser; {cure}')
        names += normalizers if errors.nearest(name, normalizers) else []
    raise InputError.of(errors.got(name, f"unknown {kind}", errors.did_you_mean(name, names)))


def _users_class(name: str, kind: str) -> type:
    from attncli.scorers._custom import load_class  # loads torch

    module, _, option = name.partition(":")
    if not is_custom(name):
        expected = f"expected module:Class, for instance my_package.my_module:My{kind.capitalize()}"
        raise InputError.of(errors.got(name, expected))
    if module in names_in_catalogue(kind):
        cure = f"if {option} is an option, give it a value"
        raise InputError.of(errors.got(name, f"{module} is a {kind}, not a module", cure))
    return load_class(name, kind)


def class_formula(cls: type) -> str:
    """Return the first line of the class's docstring, the formula; the class's name if it has no docstring."""
    return inspect.cleandoc(cls.__doc__ or cls.__name__).partition("\n")[0]  # getdoc would return a base class's


def options_of(cls: type) -> dict[str, tuple[Any, Any]]:
    """Return (type, default) of the class's keyword-only parameters by name; `...` is the default if required."""
    hints = typing.get_type_hints(cls.__init__, include_extras=True)  # type: ignore[misc]
    parameters = inspect.signature(cls).parameters.values()
    keyword = [p for p in parameters if p.kind is p.KEYWORD_ONLY and not p.name.startswith("_")]
    return {p.name: (hints.get(p.name, JsonValue), ... if p.default is p.empty else p.default) for p in keyword}


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


@dataclass(frozen=True)
class Catalogue(Generic[M]):
    """The pydantic models of the entries of all scorers, or of all normalisers.

    `kind` is the word in messages, `key` the key of the name in an entry, and `base` the model with the keys that all
    entries have. `adapted` may change an option with the name of one of these keys, so that both share it.
    """

    kind: str
    key: str
    base: type[M]
    adapted: Callable[[dict[str, Any]], dict[str, Any]] = dict

    @functools.lru_cache(CACHED)  # noqa: B019  # of two catalogues that are never thrown away
    def model(self, name: str, cls: type) -> type[M]:
        """Return the model for entries of this name, with the options of its class as fields.

        Raises:
            InputError: the parameters of the class cannot be options in YAML.
        """
        with reading_options(name):
            options: dict[str, Any] = options_of(cls)
            fields = self.adapted(options)
            common = [key for key in fields if key in self.base.model_fields and fields[key] is options[key]]
            taken = next((key for key in fields if key in common or hasattr(self.base, key)), None)
            if taken:
                raise TypeError(f"the option `{taken}` has the name of a common key; rename it")
            about = Field(description=f"name of the {self.kind}")
            fields[self.key] = (Annotated[Literal[name], about], ...)
            model = create_model(f"{cls.__name__}Entry", __base__=self.base, **fields)
        entry_class: Any = model
        entry_class.implementation = cls
        return entry_class  # type: ignore[no-any-return]

    def lookup(self, name: object) -> type[M]:
        """Return the model of a name: built in, of an installed package, or `module:Class`.

        Raises:
            InputError: there is no such name, or it cannot be loaded.
        """
        return self.model(str(name), loaded_class(name, self.kind))

    @property
    def built_in(self) -> dict[str, type[M]]:
        """The model of each built-in scorer or normaliser by name."""
        return {name: self.model(name, cls) for name, cls in built_in(self.kind).items()}

    def loadable(self) -> tuple[dict[str, type[M]], list[Problem]]:
        """Return all models by name, and the problems of packages that cannot be used.

        The built-in ones are returned even if a package lists one of their names, too.
        """
        classes, problems = self.built_in, list[Problem]()
        models = {**classes}
        for name in names_in_catalogue(self.kind):
            try:
                model = self.lookup(name)
                if name not in classes:
                    with reading_options(name):
                        model.model_json_schema()
                    models[name] = model
            except InputError as error:
                problems += error.problems
        return models, problems
