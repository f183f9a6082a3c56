"""`attncli run`: run experiments of any study, given as YAML files."""

from collections.abc import Mapping
from typing import Any

from attncli.commands.options import (
    Compiled,
    Configs,
    Device,
    DType,
    Output,
    Seed,
    Sets,
    import_quickly,
    overrides_of,
)
from attncli.commands.study_flags import StudyFlag, look_flags, overrides_of_flags, with_flags


def run(
    given: Mapping[StudyFlag, Any],
    output: Output,
    configs: Configs,
    sets: Sets = None,
    seed: Seed = None,
    device: Device = None,
    dtype: DType = None,
    compiled: Compiled = False,
) -> None:
    """Run experiments; flags for pictures override their `figure`."""
    import_quickly(pictures=not output.no_plots)
    from attncli.commands.experiments import load_experiments, run_and_show

    compile_ = "true" if compiled else None
    overrides = overrides_of(sets, seed=seed, device=device, dtype=dtype, compile=compile_)
    run_and_show(load_experiments(configs, [*overrides, *overrides_of_flags(given)]), output)


COMMAND = with_flags("run", run, look_flags())
