"""YAML 1.2's scalars and aliases, and forbidden content."""

import math
from typing import Any

import pytest

from attncli.config import yaml_loader
from attncli.config.yaml_loader import DEEPEST
from tests.config.documents import data_of, not_yaml

SCALARS: list[tuple[str, Any]] = [
    *[("1e-3", 0.001), ("1E3", 1000.0), ("-1.5e+2", -150.0), ("1.", 1.0), (".5", 0.5), ("!!float 5", 5.0)],
    *[("+7", 7), ("-0", 0), ("010", 10), ("0x1F", 31), ("0o17", 15), ("!!int '5'", 5)],
    *[("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)), (".inf", math.inf), ("-.INF", -math.inf)],
    *[("true", True), ("FALSE", False), ("~", None), ("null", None), ("", None), ("# a comment", None)],
    ("!!str 5", "5"),
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


def test_everything_else_and_every_key_is_text() -> None:
    assert data_of("\n".join(f"- {text}" for text in TEXTS)) == TEXTS
    assert data_of(f"[{', '.join(TEXTS)}]") == TEXTS
    keys = ["1", "null", "~", "true", "1.5", "on", "2024-01-01", "''", '"<<"']
    assert list(data_of("\n".join(f"{key}: 1" for key in keys))) == [key.strip("'\"") for key in keys]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!bool maybe", "1:4: not valid YAML: this is not of the type bool"),
        ("a: " + "9" * 5000, "1:4: not valid YAML: this is not of the type int"),
        ("a: !!timestamp x", "1:4: not valid YAML: the tag `!!timestamp` is unknown; leave it out, or put text that "
         "begins with ! in quotes"),
        ("a: \udcff", "1:4: not valid YAML: the character U+DCFF is not allowed in YAML; remove it"),
    ],
    ids=lambda value: ascii(value[:20]),
)  # fmt: skip
def test_scalars_that_cannot_be(text: str, message: str) -> None:
    assert not_yaml(text) == message


def test_aliases() -> None:
    assert data_of("a: &x {k: 1}\nb: *x") == {"a": {"k": 1}, "b": {"k": 1}}
    assert data_of('{"<<": {k: 1}}') == {"<<": {"k": 1}}
    message = "merge keys are no part of YAML 1.2; write the keys out"
    assert not_yaml("a: &x {k: 1}\nb: {<<: *x}") == f"2:5: not valid YAML: {message}"


def nested(levels: int, inside: str) -> str:
    return "[" * levels + inside + "]" * levels


def test_nesting_has_a_bound_that_is_no_matter_of_python() -> None:
    """Aliases count as what they stand for, of which there is no end if that contains the alias."""
    half = f"a: &a {nested(DEEPEST // 2, '1')}\nb: {nested(DEEPEST // 2 - 1, '%s')}"
    for text in (nested(DEEPEST, "1"), half % "*a"):
        assert data_of(text)
    for text in (nested(DEEPEST + 1, "1"), nested(2_000, ""), half % "[*a]", "&x [*x]", "a: &x {b: [{c: *x}]}"):
        expected = "1:1: nested too deeply, or an alias contains itself; an experiment needs few levels"
        assert not_yaml(text) == expected


def test_few_aliases_cannot_stand_for_billions_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_loader, "MOST_VALUES", 10_000)
    lines = ["a0: &a0 {k: 1}", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 15))]
    message = "more than 10000 values with aliases expanded; put large tensors into a file"
    assert message in not_yaml("\n".join(lines))
