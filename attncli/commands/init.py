"""`attncli init`: the built-in experiments, to start from."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from attncli.config.builtin import builtin_names, builtin_names_below, builtin_path, nearest_builtin
from attncli.errors import InputError

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", help="The experiment to copy; without it they are listed.", autocompletion=builtin_names
    ),
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to copy into.")]


def init(name: Name = None, out: Out = Path()) -> None:
    """List the built-in experiments, or copy one, with the files it needs, to start from."""
    listed = builtin_names() if name is None else builtin_names_below(name)
    if name is None or (listed and name not in listed):
        _list(listed)
    else:
        _copy(_known(name), out)


def _list(names: Sequence[str]) -> None:
    width = max(map(len, names))
    for name in names:
        typer.echo(f"{name:{width}}  {title(builtin_path(name))}")
    typer.echo("\nattncli init NAME copies one into this folder.")


def _known(name: str) -> str:
    if name in builtin_names():
        return name
    near = nearest_builtin(name)
    cure = f"did you mean `{near}`?" if near else "`attncli init` lists them"
    raise InputError.of(f'got "{name}"; unknown experiment; {cure}', where="attncli init")


def _copy(name: str, out: Path) -> None:
    """Copy an experiment and its files, never over something.

    Raises:
        InputError: the place is taken, or cannot be written.
    """
    _check_folder(out)
    copies = {source: out / source.name for source in files_of(name)}
    try:
        taken = [copy for copy in copies.values() if copy.exists()]
        if taken:
            message = "the file is there already and is not replaced; move it or use --out"
            raise InputError.of(message, where=str(taken[0]))
        out.mkdir(parents=True, exist_ok=True)
        for source, copy in copies.items():
            shutil.copyfile(source, copy)
    except OSError as error:
        raise InputError.of(f"cannot write: {error.strerror}", where=str(out)) from error
    config, *beside = copies.values()
    also = f", with {' and '.join(copy.name for copy in beside)}" if beside else ""
    typer.echo(f"{config} is yours{also}; next: attncli run {config}")


def _check_folder(out: Path) -> None:
    above = next((folder for folder in (out, *out.parents) if os.path.lexists(folder)), out)
    if above.is_file():
        file = "a file" if above == out else f'below the file "{above}"'
        raise InputError.of(f'got "{out}", {file}; expected a folder', where="--out")


def title(path: Path) -> str:
    """The first comment line of an experiment says what it shows."""
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def files_of(name: str) -> list[Path]:
    """The YAML file and the tensor files it names, which lie beside it."""
    path = builtin_path(name)
    text = path.read_text(encoding="utf-8")
    beside = [other for other in sorted(path.parent.iterdir()) if other.suffix != ".yaml" and other.name in text]
    return [path, *beside]
