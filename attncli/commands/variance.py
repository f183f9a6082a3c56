"""`attncli variance`: mean and variance of scores against d, beside the theory."""

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

Samples = Annotated[
    str | None, typer.Option(metavar="N", help="Query-key pairs per d; by default for variances good to 0.5 %.")
]


def variance(
    d: Sizes = None,
    scorers: Scorers = None,
    samples: Samples = None,
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
    """Measure mean and variance of scores against d, with theory and confidence intervals."""
    run_sweep("variance", locals())
