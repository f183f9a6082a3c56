"""A scorer that fails, for the tests of the Python functions; processes of a sweep import it by name."""

from torch import Tensor, nn


class Fails(nn.Module):
    """Zero scores (a test's own)."""

    def __init__(self, query_size: int, key_size: int, *, scale: float = -1.0) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return zeros, or fail if `scale` is negative."""
        if self.scale < 0:
            raise RuntimeError("no scores today")
        return 0 * (queries @ keys.mT)
