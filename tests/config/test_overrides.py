"""`--set`: changed keys, new keys, and messages on mistakes."""

from pathlib import Path
from typing import Any

import pytest

from attncli.config.overrides import Override, changed, parse_override
from attncli.errors import InputError


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("scorers[0].num_hiddens=16", ("scorers", 0, "num_hiddens"), 16),
        (" a.b = on", ("a", "b"), "on"),
        ("a=", ("a",), None),
        ("a.b-c d=[1, {k: 'x.y'}]", ("a", "b-c d"), [1, {"k": "x.y"}]),
    ],
)
def test_reading(text: str, path: tuple[str | int, ...], value: Any) -> None:
    assert parse_override(text) == Override(path, value, f"--set {' '.join(text.split())}", may_be_short=True)


def applied(data: Any, *texts: str) -> Any:
    for text in texts:
        data = changed(data, parse_override(text), Path("x.yaml"))
    return data


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["m.n.o=2"], {"a": 1, "l": [1, {"k": 2}], "m": {"n": {"o": 2}}}),
        (["l[0]=3", "l[1].k=4", "l[1].j=5"], {"a": 1, "l": [3, {"k": 4, "j": 5}]}),
        (["a=", "a.b=1"], {"a": {"b": 1}, "l": [1, {"k": 2}]}),
        (["l.0=3", "m.0=4", "m[0]=5"], {"a": 1, "l": [3, {"k": 2}], "m": {"0": 5}}),  # either form of a place
    ],
)
def test_application_in_order_and_on_a_copy(texts: list[str], expected: Any) -> None:
    data = {"a": 1, "l": [1, {"k": 2}]}
    assert applied(data, *texts) == expected
    assert data == {"a": 1, "l": [1, {"k": 2}]}


def test_changes_one_use_of_what_stands_at_two_places() -> None:
    shared = {"shape": [2, 3, 4]}
    found = applied({"queries": shared, "keys": shared}, "keys.shape[1]=7")
    assert found == {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 7, 4]}}


@pytest.mark.parametrize("target", ["", "a.", "a..b", "a[", "a]", "a[]", "a[-1]", "[0]", "a[0]b", "a\x1b"])
def test_paths_that_make_no_sense(target: str) -> None:
    with pytest.raises(InputError, match=r"expected names and indices such as scorers\[0\].num_hiddens$"):
        parse_override(f"{target}=1")
