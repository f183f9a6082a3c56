"""The catalogue of normalisers, which turn scores into weights: one name, one file, one `nn.Module`.

A normaliser is made with its options, and returns weights that are exactly 0 at invalid keys:

    NORMALIZERS["entmax"](alpha=1.3)(scores, valid)   # (..., n, m), boolean (..., n, m) or None -> (..., n, m)

`valid` is broadcast to the scores; None means that every key is valid. Scores are float32 or float64 and never written
to. Scores at invalid keys, even NaN and infinity, change nothing. Weights of a query without a valid key are all 0.

To add one, write its file, list it here, and give its oracle in `tests/reference.py`.

A class may have more attributes. Each is optional:

- `jacobian_norm(weights, valid)`: returns the Frobenius norm (..., n) of the Jacobian of each query's weights with
  respect to its scores, from a closed form.
- `lowest_score`: the lowest score it accepts; a lower one at a valid key is an `InputError` with its place.
- `label`: experiments set it to the label of the entry, for messages.
- `steps(scores, valid)`: returns the steps of its formula by name, in their order, for `attncli explain`. The last
  are the weights. For scores (n, m) each broadcasts to (n, m); a number of a whole query is (n, 1) or (1, 1). `sum of
  X` is the sum of the step `X`. Each query has a valid key.

It may hold a few tensors of the size of the scores at once. If it needs more, to sort for instance, it computes a few
rows at a time.
"""

from torch import nn

from attncli.normalizers.entmax import Entmax
from attncli.normalizers.relu import Relu
from attncli.normalizers.sigmoid import Sigmoid
from attncli.normalizers.softmax import Softmax
from attncli.normalizers.softmax_plus_one import SoftmaxPlusOne
from attncli.normalizers.sparsemax import Sparsemax
from attncli.normalizers.ssmax import Ssmax
from attncli.normalizers.sum import Sum
from attncli.normalizers.uniform import Uniform

NORMALIZERS: dict[str, type[nn.Module]] = {
    "softmax": Softmax,
    "softmax_plus_one": SoftmaxPlusOne,
    "sigmoid": Sigmoid,
    "ssmax": Ssmax,
    "sparsemax": Sparsemax,
    "entmax": Entmax,
    "relu": Relu,
    "sum": Sum,
    "uniform": Uniform,
}
