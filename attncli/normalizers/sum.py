from torch import Tensor

from attncli.errors import InputError
from attncli.normalizers._base import Normalizer, largest_score


class Sum(Normalizer):
    """s_j / sum_i s_i for scores of at least 0 (Katharopoulos et al. 2020, arXiv:2006.16236)

    For the scorer `kernel`. If all its scores are 0, a query attends to nothing. A negative score is an error.
    """

    lowest_score = 0.0
    label = "sum"  # of the entry, for messages

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        """Return the weights (..., n, m) of scores (..., n, m); raise an InputError if a valid score is negative."""
        visible = scores if valid is None else scores.masked_fill(~valid, 0.0)
        if bool((visible < 0).any()):
            self._refuse(visible)
        top = largest_score(visible, None)  # dividing by it keeps the sum finite
        shares = visible / top.where(top != 0, 1.0)
        total = shares.sum(-1, keepdim=True)
        weights = shares / total.where(total != 0, 1.0)  # ... n m
        return weights if valid is None else weights.masked_fill(~valid, 0.0)  # also beside NaN

    def steps(self, scores: Tensor, valid: Tensor | None = None) -> dict[str, Tensor]:
        """Return the sum of the scores, and the weights."""
        visible = scores if valid is None else scores.masked_fill(~valid, 0.0)
        return {"sum of s": visible.sum(-1, keepdim=True), "s / sum": self(scores, valid)}

    def _refuse(self, scores: Tensor) -> None:
        index = (scores < 0).nonzero()[0].tolist()
        wrong = f"{self.label}: got a score of {float(scores.detach()[*index]):.4g}"
        cure = "use the scorer kernel without a bias, or another normaliser"
        raise InputError.of(f"{wrong}; the normaliser sum needs scores of at least 0; {cure}", ["scores", *index])
