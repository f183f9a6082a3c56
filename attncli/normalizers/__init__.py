"""The catalogue of normalisers, which turn scores into weights: one name, one file, one `Normalizer`.

A normaliser is made with its options, and returns weights that are exactly 0 at invalid keys:

    NORMALIZERS["entmax"](alpha=1.3)(scores, valid)   # (..., n, m), boolean (..., n, m) or None -> (..., n, m)

`valid` is broadcast to the scores; None means that every key is valid. Scores are float32 or float64 and never written
to. Scores at invalid keys, even NaN and infinity, change nothing. Weights of a query without a valid key are all 0.

To add one, write its file, list it here, and give its oracle in `tests/reference.py`. Its class states the facts of
`Normalizer` that differ from the defaults.

It may hold a few tensors of the size of the scores at once. If it needs more, to sort for instance, it computes a few
rows at a time.
"""

from attncli.normalizers._base import Normalizer
from attncli.normalizers.entmax import Entmax
from attncli.normalizers.relu import Relu
from attncli.normalizers.sigmoid import Sigmoid
from attncli.normalizers.softmax import Softmax
from attncli.normalizers.softmax_plus_one import SoftmaxPlusOne
from attncli.normalizers.softpick import Softpick
from attncli.normalizers.sparsemax import Sparsemax
from attncli.normalizers.ssmax import Ssmax
from attncli.normalizers.stick_breaking import StickBreaking
from attncli.normalizers.sum import Sum
from attncli.normalizers.uniform import Uniform

__all__ = ["NORMALIZERS", "Normalizer"]

NORMALIZERS: dict[str, type[Normalizer]] = {
    "softmax": Softmax,
    "softmax_plus_one": SoftmaxPlusOne,
    "sigmoid": Sigmoid,
    "ssmax": Ssmax,
    "sparsemax": Sparsemax,
    "entmax": Entmax,
    "relu": Relu,
    "softpick": Softpick,
    "stick_breaking": StickBreaking,
    "sum": Sum,
    "uniform": Uniform,
}
