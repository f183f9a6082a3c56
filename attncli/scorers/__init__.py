"""The catalogue of scoring functions: one name, one file, one `nn.Module`.

A scorer is made with the sizes of a query and a key and with its options, and returns raw scores:

    SCORERS["additive"](query_size, key_size, num_hiddens=8)(queries, keys)   # (..., n, q), (..., m, k) -> (..., n, m)

To add one, write its file, list it here after all others, and give its oracle in `tests/reference.py`.

A class may have more attributes. Each is optional:

- `scale`: the factor of its scores; if it depends on the number of keys, `scale_of(m)` returns it for m keys.
- `depends_on_m = True`: its scores depend on the number of keys, so keys that no query may attend to count, too.
- `scales_dot_product = True`: its scores are q . k times a factor.
- `as_dot(queries, keys)`: returns queries, keys and a factor; the scores are their dot product times the factor.
- `sizes_may_differ = True`: queries and keys may have different sizes.
- `operations(n, m, query_size, key_size)`: returns the number of floating-point operations of its formula.
- `as_in_textbooks`: a function of queries and keys that computes scores as a textbook does, or None.
- `linear_with`: the name of a normaliser with which outputs need no n x m matrix, since sums over keys can come first.
- `has_fused_kernel = True`: torch's `scaled_dot_product_attention` computes its outputs.
- `stacks_over_seeds = True`: batch elements are scored independently, and all parameters are weights of `nn.Linear`
  without bias.
- `steps(queries, keys)`: returns the steps of its formula by name, in their order, for `attncli explain`. The last is
  the score. For queries (n, q) and keys (m, k), numbers broadcast to (n, m), vectors to (n, m, size): a query's steps
  have 1 in place of m, a key's have 1 in place of n, and a constant number has no axes.
- `worth_compiling = False`: `torch.compile` brings nothing.
"""

from torch import nn

from attncli.modes import outside_autocast
from attncli.scorers.additive import Additive
from attncli.scorers.cosine import Cosine
from attncli.scorers.dot import Dot
from attncli.scorers.gaussian import Gaussian
from attncli.scorers.general import General
from attncli.scorers.kernel import Kernel
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
    "kernel": Kernel,
}
for _scorer in SCORERS.values():  # scores are at least float32 in autocast, too
    _scorer.forward = outside_autocast(_scorer.forward)
