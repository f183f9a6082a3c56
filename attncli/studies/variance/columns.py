"""The columns of the study `variance`: one row for each label and d, or head of real tensors; and its charts."""

from functools import partial

from attncli.show.numbers import counted, figure, interval, margin, short
from attncli.studies.pairs.study import PLACE
from attncli.studies.study import LABEL, SCORER, Chart, Column

signed = partial(Column, signed=True)

COLUMNS = (
    SCORER,
    LABEL,
    *PLACE,
    Column("samples", "samples", "Query-key pairs that were measured.", format=counted),
    signed("mean", "mean", "Mean of the scores.", format=short, least=0.1),
    Column("mean_ci", "±", "95 % interval of the mean; none for real tensors.", format=margin, least=0.1),
    Column("variance", "variance", "Variance of the scores.", format=figure),
    Column(
        "variance_ci",
        "95 %\ninterval",
        "95 % interval of the variance (Bonett 2006).",
        format=partial(interval, digits=4),
    ),
    signed("theory_mean", "theory\nmean", "Mean in closed form, where one is known.", format=short),
    Column("theory_variance", "theory\nvariance", "Variance in closed form, where one is known.", format=figure),
    signed("z", "z", "Difference of the variance from an exact theory, in standard errors.", format=short, least=10),
    signed("z_mean", "z of\nmean", "Difference of the mean from theory, in standard errors.", format=short, least=10),
    Column("theory", "kind", "Whether the theory of the variance is exact, or a limit for large sizes.", text=True),
    Column("row_variance", "within\nrows", "Variance over the keys of a query, mean over queries.", format=figure),
    Column("scale", "scale", "Scale of the scorer.", format=figure),
    Column("unit_scale", "needed\nscale", "Scale that would give variance 1.", format=figure),
)
AXES = ("head", "d")
CHARTS = (
    Chart("variance of the scores", "variance", AXES, ("variance_low", "variance_high"), "theory_variance", log=True),
    Chart("mean of the scores", "mean", AXES, ("mean_low", "mean_high"), "theory_mean"),
    Chart("distance of the variance from theory, in standard errors", "z", AXES),
)
