"""The package `entmax`, which sparsemax and entmax come from; the extra `normalizers` installs it."""

from types import ModuleType

from attncli.errors import InputError


def entmax_package(normalizer: str) -> ModuleType:
    """The package.

    Raises:
        InputError: it is not installed.
    """
    try:
        import entmax
    except ImportError as error:
        message = f'got "{normalizer}", which needs the package entmax'
        raise InputError.of(f"{message}; install it with `pip install entmax`") from error
    package: ModuleType = entmax
    return package
