"""`attncli saturation`: how far the softmax saturates as d grows."""

from typing import Annotated

import typer

from attncli.commands.options import Device, DType, Full, Json, NoPlots, Out, Overwrite, Quiet, Seed
from attncli.commands.sweep_options import (
    Df,
    Distribution,
    KeyMean,
    KeyStd,
    Mean,
    QueryMean,
    QueryStd,
    Rho,
    Scorers,
    Sizes,
    Source,
    Std,
    run_sweep,
)

Keys = Annotated[str | None, typer.Option(metavar="N", help="Keys per row; 64 by default.")]
Rows = Annotated[str | None, typer.Option(metavar="N", help="Rows of weights per d; 2000 by default.")]


def saturation(
    d: Sizes = None,
    scorers: Scorers = None,
    keys: Keys = None,
    rows: Rows = None,
    source: Source = None,
    distribution: Distribution = None,
    df: Df = None,
    mean: Mean = None,
    std: Std = None,
    query_mean: QueryMean = None,
    query_std: QueryStd = None,
    key_mean: KeyMean = None,
    key_std: KeyStd = None,
    rho: Rho = None,
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
    """Measure entropy, largest weight and softmax gradient against d."""
    run_sweep("saturation", locals())
