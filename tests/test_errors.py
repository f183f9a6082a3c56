"""Bytes in words."""

import pytest

from attncli.errors import in_bytes


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1.25 * 2**30, "1.2 GiB"),
        (200 * 2**20, "200.0 MiB"),
        (8 * 2**40, "8.0 TiB"),
        (2**70, "1e+06 PiB"),
    ],
)
def test_in_bytes(size: float, text: str) -> None:
    assert in_bytes(size) == text
