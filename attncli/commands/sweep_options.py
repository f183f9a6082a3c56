"""Options of the commands that study scores against d; each is the key of the same name in YAML."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from attncli.commands.options import overrides_of_flags
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


SHOWN = ("out", "overwrite", "no_plots", "json", "quiet", "full")  # the options that are no keys of the YAML
KEYS = {"source": "from"}  # a word that Python keeps for itself


def run_sweep(study: str, given: Mapping[str, Any], config: Path | None = None) -> None:
    """Run a study with the arguments of its command, as `attncli run` would run a YAML file that says the same.

    They are changes to `config`, where there is one.
    """
    with quick_imports():
        from attncli.commands.experiments import check_out_for, check_places, load_experiment, load_flags
        from attncli.commands.showing import run_and_show

        if not given["no_plots"]:
            import matplotlib.figure  # noqa: F401 - which they need anyway

    out, overwrite, no_plots, json, quiet, full = (given[name] for name in SHOWN)
    overrides = overrides_of_flags({KEYS.get(name, name): given[name] for name in given if name not in SHOWN})
    check_out_for([Path(study)], out, overwrite)
    experiments = [load_flags(study, overrides) if config is None else load_experiment(config, overrides)]
    check_places(experiments, out)
    run_and_show(experiments, out, overwrite, pictures=not no_plots, json=json, quiet=quiet, full=full)
