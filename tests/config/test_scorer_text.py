"""Scorers on one line: their options, their labels, and what is left as it is to be refused."""

from typing import Any

import pytest

from attncli.config.scorer_entries import scorer_of


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("dot", {"scorer": "dot"}),
        (" dot ", {"scorer": "dot"}),
        ("", {"scorer": ""}),
        ("additiv", {"scorer": "additiv"}),
        ("additive:num_hiddens=64", {"scorer": "additive", "num_hiddens": 64, "label": "additive_64"}),
        ("additive : num_hiddens = 64 ", {"scorer": "additive", "num_hiddens": 64, "label": "additive_64"}),
        ("scaled_dot:scale=1/d", {"scorer": "scaled_dot", "scale": "1/d", "label": "scaled_dot_1_over_d"}),
        ("scaled_dot:scale=0.5", {"scorer": "scaled_dot", "scale": 0.5, "label": "scaled_dot_0.5"}),
        ("scaled_dot:scale=1e-1", {"scorer": "scaled_dot", "scale": 0.1, "label": "scaled_dot_0.1"}),
        ("dot:softcap=3,label=b", {"scorer": "dot", "softcap": 3, "label": "b"}),
        ("dot:label=3", {"scorer": "dot", "label": "3"}),
        ("dot:label=a:b", {"scorer": "dot", "label": "a:b"}),
        ("mine:Mine", {"scorer": "mine:Mine"}),
        ("my.mine:Mine:power=2", {"scorer": "my.mine:Mine", "power": 2, "label": "Mine_2"}),
        ("mine:Mine:a=[1, 2],b=x", {"scorer": "mine:Mine", "a": [1, 2], "b": "x", "label": "Mine_x"}),
        ("general:parameters={file: a:b.pt, names: {W: x}}",
         {"scorer": "general", "parameters": {"file": "a:b.pt", "names": {"W": "x"}}, "label": "general"}),
        ("scaled_dot:scale=a\\b|c?", {"scorer": "scaled_dot", "scale": "a\\b|c?", "label": "scaled_dot_a_b_c_"}),
        ("dot:softcap=[1", {"scorer": "dot", "softcap": "[1", "label": "dot_[1"}),
        ("dot:softcap=3,", {"scorer": "dot", "softcap": "3,", "label": "dot_3,"}),
        ("dot:softcap=a=b", {"scorer": "dot", "softcap": "a=b", "label": "dot_a=b"}),
    ],
)  # fmt: skip
def test_entries(text: str, entry: dict[str, Any]) -> None:
    assert scorer_of(text) == entry


@pytest.mark.parametrize(
    "text",
    [
        "dot:",
        ":x",
        ":",
        "scaled_dot:1/d",
        "a:b:c",
        "a b:C",
        "dot:softcap=",
        "dot:=3",
        "dot:a=1,=3",
        "dot:a=1,a=2",
        "dot:a=1,scorer=cosine",
        "a:b:c:d=1",
    ],
)
def test_another_form(text: str) -> None:
    assert scorer_of(text) == text
