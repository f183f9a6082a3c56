"""Names of tokens: in every form that users and tokenizers give, in the file, and at the calls they belong to."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import ByteLevel, Whitespace
from torch.nn import functional as F

import attncli
from attncli.config.tensors import CapturedData
from attncli.errors import InputError
from attncli.models.tokens import decoded
from attncli.sources.captured import read_calls
from tests.models.test_file import metadata
from tests.models.written import KEYS, QUERIES, VALUES, B

WORDS = ["the", "cat", "the", "dog", "."]
OTHERS = ["a", "b", "c", "d", "e"]
LONGER = [*"abcdefg"]


def numbered(names: list[str]) -> list[str]:
    return [f"{place} {name}" for place, name in enumerate(names)]


def tokenizer() -> Any:
    """Return a tokenizer of three words."""
    words = Tokenizer(WordLevel({"<pad>": 0, "<unk>": 1, "the": 2, "cat": 3, "sat": 4}, unk_token="<unk>"))
    words.pre_tokenizer = Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", unk_token="<unk>")


def tokenized(*texts: str) -> Any:
    return tokenizer()([*texts] if len(texts) > 1 else texts[0], padding=True, return_tensors="pt")


def written(tokens: list[str]) -> str:
    """Return the text that visible tokens stand for."""
    text = "".join(tokens).replace("␣", " ").replace("⏎", "\n").encode()
    return re.sub(rb"<0x(..)>", lambda match: bytes.fromhex(match[1].decode()), text).decode()


@pytest.mark.parametrize("text", ["The quick café ☕\n naïve  ", "é", "你好", "plain"])
def test_tokens_of_bytes_are_read_as_text(text: str) -> None:
    words = [word for word, _ in ByteLevel(add_prefix_space=False).pre_tokenize_str(text)]
    for tokens in (words, list("".join(words))):  # pieces of words, and single bytes
        assert written(decoded(["<s>", *tokens, "<|im_end|>"])) == f"<s>{text}<|im_end|>"
    assert decoded([*list("".join(words)), "Ġ"])[-1] == "␣"


@pytest.mark.parametrize(
    ("tokens", "visible"),
    [
        (["ĠThe", "ĠâĺķĊ", "Ã", "©", "</s>"], ["␣The", "␣☕⏎", "<0xC3>", "<0xA9>", "</s>"]),
        (["<s>", "▁The", "▁caf", "é", "<0xE2>", "<0x0A>"], ["<s>", "␣The", "␣caf", "é", "<0xE2>", "⏎"]),
        (["[CLS]", "caf", "##é", "[SEP]"], ["[CLS]", "caf", "##é", "[SEP]"]),
    ],
)
def test_blanks_are_visible(tokens: list[str], visible: list[str]) -> None:
    assert decoded(tokens) == visible


def itself() -> None:
    F.scaled_dot_product_attention(QUERIES, QUERIES, QUERIES)


def across() -> None:
    F.scaled_dot_product_attention(QUERIES, KEYS, VALUES)


def writing() -> None:
    """Process three tokens at once, then two tokens one by one, each with all earlier tokens as keys."""
    for start, end in ((0, 3), (3, 4), (4, 5)):
        F.scaled_dot_product_attention(QUERIES[:, :, start:end], KEYS[:, :, :end], VALUES[:, :, :end])


def names(attention: Any, tokens: Any) -> list[dict[str, Any]]:
    """Return the names of each call that are read from a file with these tokens."""
    attncli.save(attncli.capture(attention), "seen.safetensors", tokens=tokens, overwrite=True)
    _, calls = read_calls(CapturedData(capture="seen.safetensors"), torch.float32, torch.device("cpu"))
    return [dict(inputs.tokens) for inputs in calls]


FORMS: dict[str, tuple[Any, Any]] = {
    "a list": (WORDS, numbered(WORDS)),
    "a list for each batch element": ([WORDS, OTHERS], [numbered(WORDS), numbered(OTHERS)]),
    "what a tokenizer gave": (tokenized("the cat sat the dog"), numbered(["the", "cat", "sat", "the", "<unk>"])),
    "of two texts": (
        tokenized("the cat sat the cat", "the cat"),
        [numbered(["the", "cat", "sat", "the", "cat"]), numbered(["the", "cat", "<pad>", "<pad>", "<pad>"])],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form(form: str, here: Path) -> None:
    tokens, expected = FORMS[form]
    assert names(itself, tokens) == [{"queries": expected, "keys": expected}]
    of_run = attncli.run("seen.safetensors", scorers=["dot"]).tokens
    rows = expected if isinstance(expected[0], list) else [expected] * B
    assert of_run == {"function/queries": rows, "function/keys": rows}
    assert set(metadata(Path("seen.safetensors"))["tokens"]) == {"queries", "keys"}


def test_sides_of_different_sizes(here: Path) -> None:
    both = {"queries": numbered(WORDS), "keys": numbered(LONGER)}
    assert names(across, {"queries": WORDS, "keys": LONGER}) == [both]
    assert names(across, {"keys": LONGER}) == [{"keys": numbered(LONGER)}]
    assert names(across, {"queries": None, "keys": None}) == [{}]


@pytest.mark.parametrize("texts", [[WORDS], [WORDS, OTHERS]], ids=["one text", "two"])
def test_a_model_that_writes(texts: list[list[str]], here: Path) -> None:
    """The keys of each call are the first of all tokens, and its queries are the last of these keys."""
    steps: list[dict[str, Any]] = [
        {"queries": [numbered(row)[start:end] for row in texts], "keys": [numbered(row)[:end] for row in texts]}
        for start, end in ((0, 3), (3, 4), (4, 5))
    ]
    if len(texts) == 1:
        steps = [{side: rows[0] for side, rows in step.items()} for step in steps]
    assert names(writing, texts if len(texts) > 1 else texts[0]) == steps


WRONG: dict[str, tuple[Any, Any, str]] = {
    "too few": (itself, WORDS[:3], "got 3 names for queries and 3 for keys; expected 5 and 5, in one list or in 2"),
    "lists for other texts": (itself, [WORDS] * 3, r"got \[5, 5, 5\] names for queries and .*; expected 5 and 5, in"),
    "of calls of many sizes": (writing, WORDS[:2], "expected 3 and 3 or 1 and 4 or 1 and 5"),
    "two lists for one size": (
        itself,
        {"queries": WORDS, "keys": OTHERS},
        "got 5 names for queries and 5 for keys; expected 5 and 5, in one list or in 2 with the same names",
    ),
    "a text": (itself, "the cat", 'got "the cat"; expected a list of names, one list for each text, {queries: '),
    "other sides": (itself, {"values": WORDS}, r'got \["values"\]; expected a list of names'),
    "no text": (itself, [*WORDS[:4], "\ud800"], "expected text without lone surrogates"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused_and_nothing_written(case: str, here: Path) -> None:
    attention, tokens, reason = WRONG[case]
    with pytest.raises(InputError, match=f"^attncli.save: tokens: .*{reason}"):
        attncli.save(attncli.capture(attention), "seen.safetensors", tokens=tokens)
    assert [*here.iterdir()] == []
