"""config.yaml: all values are read back as they were written."""

import math
from typing import Any

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from attncli.engine.runs.resolved import dump_yaml
from tests.config.documents import data_of

WORDS = [
    *("1e-3", "1.0", "010", "0x1F", "0o17", "12:30", "1_000", ".5", "+1", "-", ".inf", ".nan", "2024-01-01", "0b1"),
    *("on", "off", "yes", "no", "y", "true", "True", "null", "Null", "~", "", " ", "=", "<<", "?", ":", "#", "- a"),
    *("a: b", "[", "]", "{", "}", "*a", "&a", "!a", "|", ">", "%a", "@", "`", "'", '"', "a #b", "a\nb", "\ta", " a "),
    *("\\", "---", "...", "é", "日本語", "\u200d", "\u202e", "\x1b[31m", "\u2028", "\ufeff", "\x07", "\x7f"),
    *("a" * 300, "a b " * 100),
]
# PyYAML writes U+0085 as a line break, which is read back as a space.
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\x85")
texts = st.one_of(st.sampled_from(WORDS), st.text(characters, max_size=20))
numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats())
leaves = st.one_of(texts, numbers, st.booleans(), st.none())
SHARED = [1, 2]
trees = st.recursive(leaves, lambda inner: st.one_of(st.lists(inner), st.dictionaries(texts, inner)), max_leaves=8)


@given(st.dictionaries(texts, trees, max_size=4))
@example({word: word for word in WORDS})
@example({"deep": [[[[{"a": [1, 1.0, True, "1"]}]]]], "floats": [0.1, 5e-324, 1.7976931348623157e308, -0.0, 1e16]})
@example({"a": SHARED, "b": {"c": SHARED}, "nan": math.nan})
def test_round_trip(config: dict[str, Any]) -> None:
    """Keys are in the same order, and 1, 1.0 and True stay apart, as in their texts."""
    assert repr(data_of(dump_yaml(config)) or {}) == repr(config)
    assert repr(yaml.safe_load(dump_yaml(config)) or {}) == repr(config), "everybody's YAML 1.1 reads the same"
