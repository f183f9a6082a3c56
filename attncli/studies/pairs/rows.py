"""The rows of the studies against d, as far as they are known before the work."""

from attncli.studies.pairs.sweep import Prepared
from attncli.studies.study import Column, Rows

TEXTS = ("scorer", "label", "theory")
PLACE = ("scorer", "label", "head", "d")
COLUMNS = {
    "variance": (
        *PLACE, "samples", "mean", "mean_ci", "variance", "variance_ci", "theory_mean", "theory_variance", "z",
        "z_mean", "theory", "row_variance", "scale", "unit_scale",
    ),
    "saturation": (
        *PLACE, "keys", "rows", "entropy", "max_weight", "effective_keys",
        *(f"{name}_{part}" for name in ("jacobian", "query_gradient", "entropy", "max_weight")
          for part in ("median", "q25", "q75")),
        "jacobian_mean",
    ),
}  # fmt: skip


def expected_rows(prepared: Prepared) -> Rows:
    """One row per scorer and size; of real tensors one per scorer and head."""
    real, options = prepared.real, prepared.options
    heads = range(real.queries.shape[1]) if real is not None and real.heads else [None]
    rows = [
        {"scorer": entry.scorer, "label": entry.label, "head": head, "d": point.d}
        for entry in options.scorers
        for head in heads
        for point in prepared.points
        if point.asked
    ]
    return Rows([Column(key, key, "", text=key in TEXTS) for key in COLUMNS[options.study]], rows)
