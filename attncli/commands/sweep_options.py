"""Options of the commands that study scores against d; each is the key of the same name in YAML."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from attncli.commands.options import Flag, overrides_of_flags
from attncli.commands.quick_imports import quick_imports
from attncli.commands.scorers import scorer_names

DRAWN = "Random entries"
Sizes = Annotated[
    list[str] | None,
    typer.Option("--d", metavar="N", help="Size of queries and keys; repeatable. 1 to 1024 by default."),
]
Scorers = Annotated[
    list[str] | None,
    typer.Option(
        "--scorer",
        metavar="NAME[:KEY=VALUE,...]",
        help="A scorer, such as additive:num_hiddens=64; repeatable.",
        autocompletion=scorer_names,
    ),
]
Distribution = Annotated[
    str | None,
    typer.Option(help="normal, uniform, rademacher, laplace or student_t.", rich_help_panel=DRAWN),
]
Df = Annotated[
    str | None,
    typer.Option("--df", metavar="X", help="Degrees of freedom of student_t; 10 by default.", rich_help_panel=DRAWN),
]
Mean = Annotated[str | None, typer.Option(metavar="X", help="Of all entries; 0 by default.", rich_help_panel=DRAWN)]
Std = Annotated[str | None, typer.Option(metavar="X", help="Of all entries; 1 by default.", rich_help_panel=DRAWN)]
QueryMean = Annotated[str | None, typer.Option(metavar="X", help="Of queries only.", rich_help_panel=DRAWN)]
QueryStd = Annotated[str | None, typer.Option(metavar="X", help="Of queries only.", rich_help_panel=DRAWN)]
KeyMean = Annotated[str | None, typer.Option(metavar="X", help="Of keys only.", rich_help_panel=DRAWN)]
KeyStd = Annotated[str | None, typer.Option(metavar="X", help="Of keys only.", rich_help_panel=DRAWN)]
Rho = Annotated[
    str | None, typer.Option(metavar="X", help="Correlation of q_i and k_i; 0 by default.", rich_help_panel=DRAWN)
]
Source = Annotated[
    Path | None,
    typer.Option("--from", metavar="SOURCE", help="Real tensors: a tensor file, a run folder or a config."),
]


def run_sweep(
    study: str,
    flags: Mapping[str, Flag],
    out: Path | None,
    overwrite: bool,
    *,
    pictures: bool,
    json: bool,
    quiet: bool,
    full: bool,
) -> None:
    """Run a study with its options, as `attncli run` would run a YAML file that says the same."""
    with quick_imports():
        from attncli.commands.experiments import check_out_for, check_places, load_flags
        from attncli.commands.showing import run_and_show

        if pictures:
            import matplotlib.figure  # noqa: F401 - which they need anyway

    overrides = overrides_of_flags(flags)
    check_out_for([Path(study)], out, overwrite)
    experiments = [load_flags(study, overrides)]
    check_places(experiments, out)
    run_and_show(experiments, out, overwrite, pictures=pictures, json=json, quiet=quiet, full=full)
