"""The catalogue of scoring functions: one name, one file, one `nn.Module`.

A scorer is made with the sizes of one query and one key and its own options, and gives raw scores:

    SCORERS["additive"](query_size, key_size, num_hiddens=8)(queries, keys)   # (..., n, q), (..., m, k) -> (..., n, m)

To add one, write its file, list it here, and give its oracle in `tests/reference.py`.

A class may say more of itself, and what it does not say is not assumed: `as_dot` where its scores are a dot product of
something, `sizes_may_differ`, `operations` of its formula, `as_in_textbooks`, `has_fused_kernel`, `stacks_over_seeds`
where batch elements are scored each for itself and all parameters are weights of `nn.Linear` without bias, and
`worth_compiling = False` where a compiler could fuse nothing.
"""

from torch import nn

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
