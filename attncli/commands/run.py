"""`attncli run`: experiments of any study, from YAML files to tables, pictures and run folders."""

import json as stdjson
import sys

from attncli.commands.options import (
    Configs,
    Device,
    DType,
    Full,
    Json,
    NoPlots,
    Out,
    Overwrite,
    Quiet,
    Seed,
    Sets,
    overrides_of,
)
from attncli.commands.quick_imports import quick_imports


def run(
    configs: Configs,
    sets: Sets = None,
    out: Out = None,
    overwrite: Overwrite = False,
    seed: Seed = None,
    device: Device = None,
    dtype: DType = None,
    no_plots: NoPlots = False,
    json: Json = False,
    quiet: Quiet = False,
    full: Full = False,
) -> None:
    """Run experiments: print tables, draw pictures, and keep a run folder of each."""
    with quick_imports():
        from attncli.commands.experiments import check_out_for, check_places, load_experiments, run_experiment, show

        if not no_plots:
            import attncli.views.heatmaps  # noqa: F401 - matplotlib, which the pictures need anyway

    overrides = overrides_of(sets, seed=seed, device=device, dtype=dtype)
    check_out_for(configs, out, overwrite)
    experiments = load_experiments(configs, overrides)
    check_places(experiments, out)
    contents = []
    for experiment in experiments:
        finished = run_experiment(experiment, out, overwrite, pictures=not no_plots, quiet=quiet or json)
        contents.append(finished.content)
        if not (quiet or json):
            show(finished, full, titled=len(experiments) > 1)
    if json:
        from attncli.results.saving import to_json

        text = to_json(contents[0] if len(contents) == 1 else contents)
        if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
            text = "".join(c if c.isascii() else stdjson.dumps(c)[1:-1] for c in text)  # JSON's own way to say them
        print(text, end="")  # noqa: T201 - what --json is for
