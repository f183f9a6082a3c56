"""`attncli init`: the built-in experiments, to start from."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from attncli.config.builtin import builtin_names, builtin_path
from attncli.errors import InputError, did_you_mean

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", help="The experiment to copy; without it they are listed.", autocompletion=builtin_names
    ),
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to copy into.")]


def init(name: Name = None, out: Out = Path()) -> None:
    """List the built-in experiments, or copy one, with the files it needs, to start from."""
    if name is None:
        width = max(len(each) for each in builtin_names())
        for each in builtin_names():
            typer.echo(f"{each:{width}}  {title(builtin_path(each))}")
        typer.echo("\nattncli init NAME copies one into this folder.")
        return
    if name not in builtin_names():
        cure = did_you_mean(name, builtin_names())
        raise InputError.of(f'got "{name}"; unknown experiment; {cure}', where="attncli init")
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
    typer.echo(f"{copies[builtin_path(name)]} is yours; next: attncli run {copies[builtin_path(name)]}")


def title(path: Path) -> str:
    """The first comment line of an experiment says what it shows."""
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def files_of(name: str) -> list[Path]:
    """The YAML file and the tensor files it names, which lie beside it."""
    path = builtin_path(name)
    text = path.read_text(encoding="utf-8")
    beside = [other for other in sorted(path.parent.iterdir()) if other.suffix != ".yaml" and other.name in text]
    return [path, *beside]
