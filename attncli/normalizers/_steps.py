"""The steps of softmax and related normalisers."""

import torch
from torch import Tensor

from attncli.normalizers._valid import largest_score


def steps_of_softmax(scores: Tensor, valid: Tensor | None, name: str = "s") -> dict[str, Tensor]:
    """Return the steps of softmax: the largest score, the exponentials of scores minus it, their sum, the weights.

    Keys that are not `valid` have a weight of 0. `name` stands for the scores in the names of the steps.
    """
    top = largest_score(scores, valid)  # ... n 1
    powers = exponentials(scores - top, valid)
    total = powers.sum(-1, keepdim=True)
    term = f"exp({name} - max)"
    weights = powers / total.where(total > 0, 1.0)
    return {f"max = largest {name}": top, term: powers, f"sum of {term}": total, f"{term} / sum": weights}


def exponentials(scores: Tensor, valid: Tensor | None) -> Tensor:
    """Return exp(scores), and 0 at invalid keys."""
    return scores.exp() if valid is None else scores.masked_fill(~valid, -torch.inf).exp()
