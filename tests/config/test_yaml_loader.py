"""YAML 1.2's scalars, and what a file must not contain."""

import math
from typing import Any

import pytest

from tests.config.documents import data_of, not_yaml

LARGE = "this integer does not fit into 64 bits; write a smaller one, or a float such as 1e20"
HALF = "this text has half of a character (a lone surrogate); write the character itself"
SCALARS: list[tuple[str, Any]] = [
    ("1e-3", 0.001),
    ("1E3", 1000.0),
    ("-1.5e+2", -150.0),
    ("1.", 1.0),
    (".5", 0.5),
    ("+7", 7),
    ("-0", 0),
    ("010", 10),
    ("0x1F", 31),
    ("0o17", 15),
    ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)),
    (".inf", math.inf),
    ("-.INF", -math.inf),
    ("true", True),
    ("FALSE", False),
    ("~", None),
    ("null", None),
    ("", None),
    ("# only a comment", None),
    ("!!str 5", "5"),
    ("!!float 5", 5.0),
    ("!!int '5'", 5),
]
TEXTS = [
    *("on", "off", "yes", "no", "y", "n", "On", "YES", "12:30", "1:2:3", "2024-01-01", "2024-01-01T10:00:00Z"),
    *("1_000", "0b101", "0X1F", "0o8", "1e", "e3", ".", "+", "1.2.3", "1e3.5", "nan", "inf", "None", "=", "tRUE"),
    *("1/sqrt(d)", "cuda:1", "a/b.npy", "~x", "<<x"),
]


@pytest.mark.parametrize(("text", "value"), SCALARS, ids=[text for text, _ in SCALARS])
def test_scalars(text: str, value: Any) -> None:
    read = data_of(f"a: {text}\n")["a"]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize("text", TEXTS)
def test_everything_else_is_text(text: str) -> None:
    assert data_of(f"a: {text}\n") == {"a": text}
    assert data_of(f"[{text}]\n") == [text]


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_nan(text: str) -> None:
    assert math.isnan(data_of(f"a: {text}")["a"])


@pytest.mark.parametrize("text", ["1", "null", "~", "true", "1.5", "on", "2024-01-01", "''", '"<<"'])
def test_keys_are_text(text: str) -> None:
    assert list(data_of(f"{text}: 1\n")) == [text.strip("'\"")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!bool maybe", "1:4: not valid YAML: this is not of the type bool"),
        ("a: !!int x", "1:4: not valid YAML: this is not of the type int"),
        ("a: !!float x", "1:4: not valid YAML: this is not of the type float"),
        ("a: -9223372036854775809", "1:4: not valid YAML: " + LARGE),
        ("a: " + "9" * 5000, "1:4: not valid YAML: this is not of the type int"),
        ("a: -1e400", "1:4: not valid YAML: this number is beyond float64; write .inf for infinity"),
        ('a: ["\\uDC00"]', "1:5: not valid YAML: " + HALF),
        ('"\\uDC00": 1', "1:1: not valid YAML: " + HALF),
    ],
    ids=lambda value: value[:20],
)
def test_scalars_that_cannot_be(text: str, message: str) -> None:
    assert not_yaml(text) == message


@pytest.mark.parametrize(
    "tag", ["!mine", "!!binary", "!!set", "!!omap", "!!pairs", "!!timestamp", "!!python/name:os.system", "!<tag:a,1:b>"]
)
def test_other_tags_are_refused(tag: str) -> None:
    shown = tag if tag.startswith("!<") is False else "tag:a,1:b"
    message = f"the tag `{shown}` is unknown; leave it out, or put text that begins with ! in quotes"
    assert not_yaml(f"a: {tag} x") == f"1:4: not valid YAML: {message}"
