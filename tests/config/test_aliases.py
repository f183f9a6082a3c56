"""Aliases and merge keys."""

import pytest

from attncli.config.yaml_loader import MOST_VALUES, parse_yaml
from tests.config.documents import data_of, not_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: &x {k: 1}\nb: *x", {"a": {"k": 1}, "b": {"k": 1}}),
        ("a: &x {k: 1, l: 2}\nb: {<<: *x, k: 3}", {"a": {"k": 1, "l": 2}, "b": {"k": 3, "l": 2}}),
        ("b: {k: 3, <<: {k: 1, l: 2}}", {"b": {"k": 3, "l": 2}}),
        ("<<: [{k: 1}, {k: 2, l: 2}]", {"k": 1, "l": 2}),
        ("<<: {<<: {k: 1, m: 1}, k: 2}\nl: 3", {"k": 2, "m": 1, "l": 3}),
        ("- &x {k: 1}\n- <<: *x\n- <<: *x\n  k: 2", [{"k": 1}, {"k": 1}, {"k": 2}]),
        ('{"<<": {k: 1}}', {"<<": {"k": 1}}),
    ],
)
def test_meaning(text: str, value: object) -> None:
    assert data_of(text) == value


@pytest.mark.parametrize(
    "text", ["&x [*x]", "a: &x {b: *x}", "a: &x {b: [{c: *x}]}", "a: &x {<<: *x}", "a: &x {<<: [{b: *x}]}"]
)
def test_aliases_in_a_circle(text: str) -> None:
    place = text.index("&") + 1
    assert not_yaml(text) == f"1:{place}: not valid YAML: this contains itself, through an alias; write it out"


def test_few_aliases_cannot_stand_for_billions_of_values() -> None:
    lists = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lists += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    message = f"more than {MOST_VALUES} values with aliases expanded; put large tensors into a file"
    assert not_yaml("\n".join(lists)) == f"7:5: not valid YAML: {message}"


def test_few_merges_cannot_stand_for_billions_of_keys() -> None:
    merges = ["a0: &a0 {k: 1}"]
    merges += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 4)}], k{i}: 1}}" for i in range(1, 15)]
    assert data_of("\n".join(merges[:6]))["a5"] == {"k": 1} | {f"k{i}": 1 for i in range(1, 6)}
    assert f"more than {MOST_VALUES} values with aliases expanded" in not_yaml("\n".join(merges))


def test_repeated_keys_beside_merges() -> None:
    parsed = parse_yaml("a: &x {k: 1}\nb: {<<: *x, <<: *x, k: 1, k: 2}", lambda line, column: f"{line}:{column}")
    assert [str(problem) for problem in parsed.problems] == [
        "2:27: b.k: the key stands twice, first in line 2; leave out one"
    ]
