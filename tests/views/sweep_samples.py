"""Results of `variance` and `saturation` to show, made by closed formulas so that every figure is known."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from attncli.runs.records import Histogram, SweepResult
from attncli.studies.study import Record

POWERS = [2**power for power in range(11)]
NORMAL: Record = {
    "distribution": "normal",
    "df": None,
    "query_mean": 0.0,
    "query_std": 1.0,
    "key_mean": 0.0,
    "key_std": 1.0,
    "rho": 0.0,
}
FROM: Record = {"from": "tensors/qkv.safetensors"}
DOTS = {"dot": "dot", "scaled_dot": "scaled_dot", "scaled_dot_1_over_d": "scaled_dot"}
FIVE = DOTS | {"additive": "additive", "cosine": "cosine"}
FORMULA = "the formula of {} (somebody 2020)"
SAMPLES, ROWS, KEYS = 160_000, 10_000, 64


def scale_of(label: str, d: int) -> float:
    """The factor of the scorers in DOTS; 1 for every other."""
    scales: dict[str, float] = {"scaled_dot": d**-0.5, "scaled_dot_1_over_d": 1.0 / d}
    return scales.get(label, 1.0)


def product_moments(settings: Record) -> tuple[float, float]:
    """Mean and variance of one product of normal entries (Isserlis 1918)."""
    m, s, n, t, rho = (settings[key] for key in ("query_mean", "query_std", "key_mean", "key_std", "rho"))
    mean = m * n + rho * s * t
    return mean, m**2 * t**2 + n**2 * s**2 + s**2 * t**2 * (1 + rho**2) + 2 * m * n * rho * s * t


def variance_record(label: str, scorer: str, d: int, settings: Record, off: float = 0.4) -> Record:
    """A record of normal entries, whose variance is `off` standard errors from the theory."""
    mean, variance = (d * moment for moment in product_moments(settings))
    scale = scale_of(label, d)
    theory, theory_mean = variance * scale**2, mean * scale
    kind = "exact"
    if scorer == "additive":
        theory, theory_mean, kind = 0.1, 0.0, "limit"
    error = 0.005 * theory
    found, spread = theory + off * error, math.sqrt(theory / SAMPLES)
    return {
        "scorer": scorer,
        "label": label,
        "head": None,
        "d": d,
        "samples": SAMPLES,
        "mean": theory_mean + 0.3 * spread,
        "mean_ci": [theory_mean - 1.66 * spread, theory_mean + 2.26 * spread],
        "variance": found,
        "variance_ci": [found - 1.96 * error, found + 1.96 * error],
        "theory_mean": theory_mean,
        "theory_variance": theory,
        "z": None if kind == "limit" else off,
        "z_mean": 0.3,
        "theory": kind,
        "row_variance": None,
        "scale": scale,
        "unit_scale": scale / math.sqrt(found),
    }


def histogram(d: int, scale: float = 1.0, shape: str = "normal") -> Histogram:
    """Counts as the density of a standard normal or of a uniform variable would have them, times `scale`."""
    edges = torch.linspace(-5, 5, 101, dtype=torch.float64)
    middles = (edges[1:] + edges[:-1]) / 2
    density = {"normal": torch.exp(-(middles**2) / 2), "uniform": (middles.abs() < math.sqrt(3)).double()}[shape]
    return Histogram(d, SAMPLES, 0.0, scale, edges * scale, (density / density.sum() * SAMPLES).round())


def variance_result(
    sizes: Sequence[int] = POWERS,
    scorers: Mapping[str, str] = DOTS,
    curve: Sequence[int] | None = None,
    off: float = 0.4,
    **settings: Any,
) -> SweepResult:
    """Normal entries; `settings` beside the standard ones."""
    chosen = NORMAL | settings

    def rows(sizes: Iterable[int]) -> list[Record]:
        return [variance_record(label, scorer, d, chosen, off) for label, scorer in scorers.items() for d in sizes]

    return SweepResult(
        "variance",
        rows(sizes),
        rows(curve or sizes),
        chosen,
        {label: FORMULA.format(scorer) for label, scorer in scorers.items()},
        histograms={label: histogram(max(sizes), scale_of(label, max(sizes))) for label in scorers},
    )


def real_variance(heads: int | None = 4, scorers: Mapping[str, str] = DOTS, d: int = 64) -> SweepResult:
    """Scores of tensors from a file: head i has raw variance d (1 + i / 4)."""
    unknown = ("mean_ci", "variance_ci", "theory_mean", "theory_variance", "z", "z_mean", "theory")
    records = []
    for label, scorer in scorers.items():
        for head in [None] if heads is None else range(heads):
            raw, scale = d * (1 + (head or 0) / 4), scale_of(label, d)
            figures = {"mean": 0.5 * scale, "variance": raw * scale**2, "scale": scale, "unit_scale": raw**-0.5}
            figures |= {"row_variance": raw * scale**2}
            record: Record = {"scorer": scorer, "label": label, "head": head, "d": d, "samples": 4096}
            records.append(record | dict.fromkeys(unknown) | figures)
    formulas = {label: FORMULA.format(scorer) for label, scorer in scorers.items()}
    histograms = {label: histogram(d, scale_of(label, d)) for label in scorers}
    return SweepResult("variance", records, records, FROM, formulas, histograms=histograms)


def saturation_record(label: str, scorer: str, d: int, head: int | None = None) -> Record:
    """Figures that run as measured ones do: unscaled scores saturate, scores over d become uniform."""
    spread = math.sqrt(d) * scale_of(label, d) if scorer in ("dot", "scaled_dot") else 0.3 / math.sqrt(d)
    entropy = 1 / (1 + spread**2 / 8)
    weight = 1 - (1 - 1 / KEYS) * entropy
    uniform = math.sqrt(KEYS - 1) / KEYS
    jacobian = uniform * (1 + spread) * math.exp(-spread / 5)
    record: Record = {
        "scorer": scorer,
        "label": label,
        "head": head,
        "d": d,
        "keys": KEYS,
        "rows": ROWS,
        "entropy": entropy,
        "max_weight": weight,
        "effective_keys": KEYS**entropy,
        "jacobian_median": jacobian,
        "jacobian_q25": jacobian / (1 + spread),
        "jacobian_q75": min(0.7, jacobian * (1 + spread / 2)),
        "query_gradient_median": jacobian * 2,
        "jacobian_mean": jacobian * (1 + spread / 4),
    }
    for name, middle in (("entropy", entropy), ("max_weight", weight)):
        record |= {f"{name}_median": middle, f"{name}_q25": 0.9 * middle, f"{name}_q75": min(1.0, 1.1 * middle)}
    return record | {"query_gradient_q25": jacobian, "query_gradient_q75": 3 * jacobian}


def saturation_result(
    sizes: Sequence[int] = POWERS[3:], scorers: Mapping[str, str] = FIVE, curve: Sequence[int] | None = None
) -> SweepResult:
    """Random entries."""

    def rows(sizes: Iterable[int]) -> list[Record]:
        return [saturation_record(label, scorer, d) for label, scorer in scorers.items() for d in sizes]

    formulas = {label: FORMULA.format(scorer) for label, scorer in scorers.items()}
    return SweepResult("saturation", rows(sizes), rows(curve or sizes), NORMAL, formulas)


def real_saturation(heads: int | None = 4, scorers: Mapping[str, str] = DOTS, d: int = 64) -> SweepResult:
    """Rows of tensors from a file."""
    records = [
        saturation_record(label, scorer, d, head)
        for label, scorer in scorers.items()
        for head in ([None] if heads is None else range(heads))
    ]
    return SweepResult("saturation", records, records, FROM, {label: FORMULA.format(label) for label in scorers})


def changed(result: SweepResult, label: str, **figures: Any) -> SweepResult:
    """The result with other figures in every record of one label."""

    def rows(records: Sequence[Record]) -> list[Record]:
        return [record | figures if record["label"] == label else record for record in records]

    return replace(result, records=rows(result.records), curve=rows(result.curve))


def many_scorers(count: int) -> dict[str, str]:
    """Labels of scorers with scale 1, one of them long and one in Chinese."""
    names = ["dot", "注意力机制 点积", "a rather long label that says everything that there is to say about the scorer"]
    names += ["_hidden $x_1$", "[bold]"]
    return {names[index] if index < len(names) else f"dot_{index}": "dot" for index in range(count)}
