"""Load the scorers and normalisers of users, named `my_package.my_module:MyClass` in YAML."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from attncli import errors
from attncli.config.strict import problem
from attncli.errors import InputError

CUSTOM = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$"


def is_custom(name: object) -> bool:
    """Whether a name has the form `module:Class` of a user's class."""
    return isinstance(name, str) and re.fullmatch(CUSTOM, name) is not None


def class_name(name: str) -> str:
    """Return the name of a user's class without its module, and other names as they are."""
    return name.rpartition(":")[2]


def custom_class(name: str, known: Collection[str], kind: str, *under: str) -> type:
    """Return the user's class named `module:Class`; raise a `problem` if it cannot be loaded.

    Args:
        name: the name in the YAML.
        known: the names of the built-in classes of this kind; none of them can be the module.
        kind: `scorer` or `normaliser`.
        under: the path of the name inside the validated value, for the `problem`.
    """
    from attncli.scorers._custom import load_class

    if not is_custom(name):
        expected = f"expected module:Class, for instance my_package.my_module:My{kind.capitalize()}"
        raise problem(errors.got(name, expected), under=under)
    module, _, option = name.partition(":")
    if module in known:
        cure = f"if {option} is an option, give it a value"
        raise problem(errors.got(name, f"{module} is a {kind}, not a module", cure), under=under)
    try:
        return load_class(name)
    except InputError as error:
        raise problem(error.problems[0].message, under=under) from error


@contextmanager
def reading_options(name: str) -> Iterator[None]:
    """Turn any exception in the `with` block into an InputError about the options of the class `name`.

    The block reads the annotations of a user's class, which runs the user's code. KeyboardInterrupt is not caught.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        reason = " ".join(str(error).split())
        raise InputError.of(f'got "{name}", whose options cannot be written in YAML: {reason}') from error
