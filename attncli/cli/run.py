"""`attncli run`: run experiments of any study, given as YAML files."""

from collections.abc import Mapping
from typing import Any

from attncli.cli.options import (
    Compiled,
    Configs,
    Device,
    DType,
    Layout,
    Output,
    Scorers,
    Seed,
    Sets,
    Stage,
    import_quickly,
    in_place_of_scorers,
    set_overrides,
)
from attncli.cli.streams import print_note
from attncli.cli.study_flags import StudyFlag, look_flags, overrides_of_flags, with_flags


def run(
    values: Mapping[StudyFlag, Any],
    output: Output,
    configs: Configs,
    sets: Sets = None,
    seed: Seed = None,
    device: Device = None,
    dtype: DType = None,
    layout: Layout = None,
    compiled: Compiled = False,
    scorers: Scorers = None,
    stage: Stage = None,
) -> None:
    """Run experiments; flags for pictures override their `figure`."""
    import_quickly(pictures=not output.no_plots)
    from attncli.cli.experiments import load_experiments, run_and_show  # loads torch

    compile_ = "true" if compiled else None
    overrides = set_overrides(sets, seed=seed, device=device, dtype=dtype, compile=compile_, layout=layout)
    overrides += overrides_of_flags(values)
    if scorers:
        overrides += in_place_of_scorers(scorers)
        if not output.silent:
            print_note("--scorer replaces the scorers of the config, whose expectations are not checked")
    run_and_show(load_experiments(configs, overrides), output, stage)


COMMAND = with_flags("run", run, look_flags())
