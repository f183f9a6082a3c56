"""What many rows of weights come to: means and quartiles of their figures, which come in parts."""

from attncli.studies.saturation.quantiles import Quantiles
from attncli.studies.saturation.rows import Figures
from attncli.studies.study import Record

QUARTILES = (0.25, 0.5, 0.75)


class Summary:
    """Means and quartiles of every figure of one scorer, part by part."""

    def __init__(self) -> None:
        self.rows = 0
        self._sums: dict[str, float] = {}
        self._quantiles: dict[str, Quantiles] = {}

    def add(self, figures: Figures) -> None:
        """The rows of one part."""
        self.rows += len(figures["entropy"])
        for name, numbers in figures.items():
            array = numbers.numpy()
            self._sums[name] = self._sums.get(name, 0.0) + float(array.sum())
            self._quantiles.setdefault(name, Quantiles()).add(array)

    def mean(self, name: str) -> float | None:
        """Over all rows."""
        return self._sums[name] / self.rows if self.rows else None

    def quartiles(self, name: str) -> list[float | None]:
        """The three of them."""
        return list(self._quantiles[name].at(QUARTILES)) if name in self._quantiles and self.rows else [None] * 3

    def row(self) -> Record:
        """The columns of a record."""
        row: Record = {"rows": self.rows}
        row |= {name: self.mean(name) for name in ("entropy", "max_weight", "effective_keys")}
        for name in ("jacobian", "query_gradient", "entropy", "max_weight"):
            lower, median, upper = self.quartiles(name)
            row |= {f"{name}_median": median, f"{name}_q25": lower, f"{name}_q75": upper}
        return row | {"jacobian_mean": self.mean("jacobian")}
