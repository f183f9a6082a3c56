"""The columns of the study `variance`."""

from functools import partial

from attncli.show.numbers import counted, figure, interval, margin, score, short
from attncli.studies.pairs.result import PLACE
from attncli.studies.study import Column

COLUMNS = (
    *PLACE,
    Column("samples", "samples", "Query-key pairs that were measured.", format=counted),
    Column("mean", "mean", "Mean of the scores.", format=short),
    Column("mean_ci", "±", "95 % interval of the mean; none for real pairs, which are no sample.", format=margin),
    Column("variance", "variance", "Variance of the scores.", format=figure),
    Column(
        "variance_ci",
        "95 %\ninterval",
        "95 % interval of the variance (Bonett 2006).",
        format=partial(interval, digits=4),
    ),
    Column("theory_mean", "theory\nmean", "Mean in closed form, where one is known.", format=short),
    Column("theory_variance", "theory\nvariance", "Variance in closed form, where one is known.", format=figure),
    Column("z", "z", "Standard errors that the variance lies above an exact theory.", format=score),
    Column("z_mean", "z of\nmean", "Standard errors that the mean lies above its theory.", format=score),
    Column("theory", "kind", "Whether the theory of the variance is exact, or a limit for large sizes.", text=True),
    Column("row_variance", "within\nrows", "Mean over the queries of the variance over their own keys.", format=figure),
    Column("scale", "scale", "The factor that the scorer used.", format=figure),
    Column("unit_scale", "needed\nscale", "The factor that would give the scores variance 1.", format=figure),
)
