"""`attncli run`: experiments of any study, from YAML files to tables, pictures and run folders."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attncli.commands.options import (
    Compiled,
    Configs,
    Device,
    DType,
    Full,
    Json,
    NoPlots,
    Open,
    Out,
    Overwrite,
    Quiet,
    Report,
    Seed,
    Sets,
    import_quickly,
    overrides_of,
)

if TYPE_CHECKING:
    from attncli.commands.study_flags import StudyFlag


def run(
    given: Mapping["StudyFlag", Any],
    configs: Configs,
    sets: Sets = None,
    out: Out = None,
    overwrite: Overwrite = False,
    seed: Seed = None,
    device: Device = None,
    dtype: DType = None,
    compiled: Compiled = False,
    no_plots: NoPlots = False,
    report: Report = False,
    open_: Open = False,
    json: Json = False,
    quiet: Quiet = False,
    full: Full = False,
) -> None:
    """Run experiments; what flags of looks say wins over their `figure`."""
    import_quickly(pictures=not no_plots)
    from attncli.commands.experiments import load_experiments, run_and_show
    from attncli.commands.study_flags import look_overrides

    compile_ = "true" if compiled else None
    overrides = overrides_of(sets, seed=seed, device=device, dtype=dtype, compile=compile_)
    overrides += look_overrides(given)
    run_and_show(
        load_experiments(configs, overrides),
        out=out,
        overwrite=overwrite,
        no_plots=no_plots,
        report=report,
        open_=open_,
        json=json,
        quiet=quiet,
        full=full,
    )
