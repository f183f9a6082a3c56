"""The check of scorers that need queries and keys of the same size."""

from attncli.errors import InputError


def require_equal_sizes(query_size: int, key_size: int) -> None:
    """Raise an InputError unless queries and keys have the same feature size."""
    if query_size != key_size:
        from attncli.scorers import SCORERS  # which imports this module

        others = " and ".join(name for name, cls in SCORERS.items() if cls.sizes_may_differ)
        raise InputError.of(
            f"got queries of size {query_size} and keys of size {key_size}; expected equal sizes; "
            f"{others} accept different sizes"
        )
