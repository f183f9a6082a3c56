"""The catalogue of scoring functions: one name, one file, one `nn.Module`.

A scorer is made with the sizes of one query and one key and its own options, and gives raw scores:

    SCORERS["additive"](query_size, key_size, num_hiddens=8)(queries, keys)   # (..., n, q), (..., m, k) -> (..., n, m)

To add one, write its file, list it here after all others, and give its oracle in `tests/reference.py`.

A class may say more of itself, and what it does not say is not assumed:

- `scale`: the factor that it multiplies its scores by.
- `scales_dot_product = True`: its scores are q . k times a factor.
- `as_dot(queries, keys)`: queries, keys and a factor whose dot product is the scores; outputs then need no weights.
- `sizes_may_differ = True`: queries and keys may have different sizes.
- `operations(n, m, query_size, key_size)`: how many floating-point operations its formula takes.
- `as_in_textbooks`: a function of queries and keys with the scores as a textbook computes them, or None.
- `has_fused_kernel = True`: torch's `scaled_dot_product_attention` gives its outputs.
- `stacks_over_seeds = True`: it scores each batch element for itself, and all its parameters are weights of `nn.Linear`
  without bias.
- `worth_compiling = False`: a compiler could fuse nothing.
"""

from torch import nn

from attncli.modes import outside_autocast
from attncli.scorers.additive import Additive
from attncli.scorers.cosine import Cosine
from attncli.scorers.dot import Dot
from attncli.scorers.gaussian import Gaussian
from attncli.scorers.general import General
from attncli.scorers.scaled_dot import ScaledDot
from attncli.scorers.vector_sum import VectorSum

SCORERS: dict[str, type[nn.Module]] = {
    "additive": Additive,
    "scaled_dot": ScaledDot,
    "dot": Dot,
    "general": General,
    "cosine": Cosine,
    "gaussian": Gaussian,
    "vector_sum": VectorSum,
}
for _scorer in SCORERS.values():  # here, so that none can forget it: scores are at least float32 in autocast, too
    _scorer.forward = outside_autocast(_scorer.forward)
