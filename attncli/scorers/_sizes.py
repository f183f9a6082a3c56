"""The check shared by scorers that compare a query and a key entry by entry."""

from attncli.errors import InputError


def require_equal_sizes(query_size: int, key_size: int) -> None:
    """Raise an InputError unless queries and keys have the same feature size."""
    if query_size != key_size:
        raise InputError.of(
            f"got queries of size {query_size} and keys of size {key_size}; expected equal sizes; "
            "additive and general accept different sizes"
        )
