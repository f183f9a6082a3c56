"""`attncli run`: experiments of any study, from YAML files to tables, pictures and run folders."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from attncli.commands.options import (
    Compiled,
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


@contextmanager
def quick_imports() -> Iterator[None]:
    """No garbage collection while torch and matplotlib load: they make objects that stay, by the hundred thousand."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def run(
    configs: Configs,
    sets: Sets = None,
    out: Out = None,
    overwrite: Overwrite = False,
    seed: Seed = None,
    device: Device = None,
    dtype: DType = None,
    compiled: Compiled = False,
    no_plots: NoPlots = False,
    json: Json = False,
    quiet: Quiet = False,
    full: Full = False,
) -> None:
    """Run experiments: print tables, draw pictures, and keep a run folder of each."""
    with quick_imports():
        from attncli.commands.experiments import load_experiments, run_and_show

        if not no_plots:
            import attncli.show.heatmaps  # noqa: F401 - matplotlib, which the pictures need anyway

    compile_ = "true" if compiled else None
    overrides = overrides_of(sets, seed=seed, device=device, dtype=dtype, compile=compile_)
    experiments = load_experiments(configs, overrides)
    run_and_show(experiments, out, overwrite, pictures=not no_plots, json=json, quiet=quiet, full=full)
