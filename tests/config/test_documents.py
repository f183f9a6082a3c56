"""Lines and columns of problems, and the default name."""

from pathlib import Path

import pytest

from attncli.config.document import default_name
from tests.config.documents import GOOD, options_of, problems_of


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("data:\n  keys:\n    shape: 7\n", "3:12"),
        ("\ufeffdata: {keys: {shape: 7}}", "1:22"),
        ('data: {keys: {"shape": &s 7}}', "1:24"),
        ("x: &x {shape: 7}\ndata: {keys: *x}", "1:15"),
        ("日本: ü\ndata: {ü: '日本', keys: {shape: 7}}", "2:31"),
    ],
)
def test_places_of_values(text: str, place: str, tmp_path: Path) -> None:
    found = [problem for problem in problems_of(tmp_path, text) if "data.keys.shape: got" in problem]
    assert found == [f"{place}: data.keys.shape: got 7; expected a list such as [2, 10, 4]"]


def test_places_of_keys_and_of_entries_in_lists(tmp_path: Path) -> None:
    text = GOOD + 'tokens:\n  keys: [[a], [b, 3]]\n"a\\nb": 1\n'
    entry, key = problems_of(tmp_path, text)
    assert entry == "7:19: tokens.keys[1][1]: got 3; expected text; put it in quotes"
    assert key.startswith("8:1: a\\nb: unknown key; known: name, about, ")


def test_all_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = """\
scorers:
  - {scorer: additive, num_hiddens: 0, dropout: 1}
  - scorer: dott
train: yes
data:
  keys: {shape: [2, -5, 4], fill: normal, sdt: 1}
  queries: 3
  valid_lens: [2, 5.5]
mask: {causal: maybe, file: ''}
dtype: int
"""
    assert problems_of(tmp_path, text) == [
        "2:37: scorers[0].num_hiddens: got 0; expected an integer above 0",
        "2:49: scorers[0].dropout: got 1; expected a number below 1",
        '3:13: scorers[1].scorer: got "dott"; unknown scorer; did you mean `dot`?',
        '4:8: train: got "yes"; expected true or false; write true',
        "6:17: data.keys.shape: got [2, -5, 4]; sizes must be at least 1",
        "6:43: data.keys.sdt: unknown key; did you mean `std`?",
        "7:12: data.queries: got 3; expected {shape: [...], fill: ...}, {file: ...} or nested lists of numbers",
        "8:19: data.valid_lens[1]: got 5.5; expected an integer of at least 0",
        '9:16: mask.causal: got "maybe"; expected top_left, bottom_right, true or false',
        '9:29: mask.file: got ""; expected text that is not empty',
        '10:8: dtype: got "int"; expected float16, bfloat16, float32 or float64',
    ]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("my run.v2.yml", "my run.v2"),
        ("a:b*c?.yaml", "a_b_c_"),
        ("....yaml", "experiment"),
        ("実" * 80 + ".yaml", "実" * 66),
    ],
)
def test_the_default_name_is_good_for_a_folder(file: str, name: str, tmp_path: Path) -> None:
    assert default_name(tmp_path / file) == name
    assert options_of(tmp_path, GOOD + f'name: "{name}"\n').name == name
