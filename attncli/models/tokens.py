"""Names of a model's tokens, from a tokenizer or a user, and the names of the queries and keys of each call."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from attncli.errors import InputError, got, listed
from attncli.models.call import AttentionCall

SIDES = ("queries", "keys")
EXPECTED = "expected a list of names, one list for each text, {queries: [...], keys: [...]}, or the tokenizer's output"
MOST_SIZES = 5  # listed in a message
PADDING = ("[PAD]", "<pad>", "<|pad|>", "<|padding|>")
BRACKETS = re.compile(r"<.+>|\[.+\]", re.DOTALL)  # around the name of a special token
Names = list[str] | list[list[str]]  # for all batch elements, or a list for each
# Byte-level BPE writes each byte as a letter: printable ones of Latin-1 as they are, others from U+0100 on.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
BYTES = {chr(byte): byte for byte in PRINTABLE} | {chr(256 + index): byte for index, byte in enumerate(OTHERS)}
HEXADECIMAL = {chr(0xDC00 + byte): f"<0x{byte:02X}>" for byte in range(128, 256)}  # of bytes that are no text
VISIBLE = str.maketrans({" ": "␣", "▁": "␣", "\n": "⏎"} | HEXADECIMAL)


def tokenizer_names(output: Any) -> Names | None:
    """Return the tokens in a tokenizer's output, which may be in a tuple; None if there are none.

    Only the output of fast tokenizers has tokens. Several texts give a list for each, padding included.
    """
    if isinstance(output, tuple | list):
        return next((names for value in output if (names := tokenizer_names(value)) is not None), None)
    encodings = getattr(output, "encodings", None)
    if not encodings or not all(hasattr(encoding, "tokens") for encoding in encodings):
        return None
    texts = [decoded(encoding.tokens) for encoding in encodings]
    return texts[0] if len(texts) == 1 else texts


def decoded(tokens: Sequence[str]) -> list[str]:
    """Return the tokens of a text as people read them: `␣quick` for `Ġquick` or `▁quick`, a newline as `⏎`.

    Bytes that are no text are as in `<0xE2>`. Special tokens, and tokens of other kinds, stay as they are.
    """
    is_of_bytes = any(mark in token for token in tokens for mark in "ĠĊ")  # a blank and a newline
    with suppress(KeyError, UnicodeDecodeError):
        is_of_bytes = is_of_bytes or bool(bytes(BYTES[letter] for token in tokens for letter in token).decode())
    texts = [
        bytes(BYTES[letter] for letter in token).decode(errors="surrogateescape")
        if is_of_bytes and all(letter in BYTES for letter in token)
        else token.replace("<0x0A>", "\n")
        for token in tokens
    ]
    return [text.translate(VISIBLE) for text in texts]


def read_tokens(tokens: Any) -> dict[str, Names | None] | None:
    """Return the names of `queries` and `keys`, as a captured file stores them; a single list is used for both.

    Raises:
        InputError: `tokens` has none of the forms in EXPECTED.
    """
    if tokens is None:
        return None
    if not isinstance(tokens, Mapping) or tokenizer_names(tokens) is not None:
        return dict.fromkeys(SIDES, _names(tokens))
    if text_padding(tokens) is not None:  # inputs without names
        return None
    if set(tokens) - set(SIDES):
        raise InputError.of(got([*map(str, tokens)], EXPECTED))
    sides = {side: None if tokens.get(side) is None else _names(tokens[side]) for side in SIDES}
    return None if all(names is None for names in sides.values()) else sides


def _names(tokens: Any) -> Names:
    if (tokenized := tokenizer_names(tokens)) is not None:
        return tokenized
    rows = tokens if _is_list(tokens) and any(map(_is_list, tokens)) else [tokens]
    for row in rows:
        if not _is_list(row) or not row or not all(isinstance(name, str) for name in row):
            raise InputError.of(got(row, EXPECTED))
        for name in row:
            if any("\ud800" <= character <= "\udfff" for character in name):
                raise InputError.of(got(name, "expected text without lone surrogates, which no file can keep"))
    return [list(row) for row in rows] if rows is tokens else list(tokens)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def numbered(names: Names) -> Names:
    """Return the names with their positions before them, `0 the`, since words may repeat."""
    rows = [[f"{index} {name}" for index, name in enumerate(row)] for row in _rows(names, 1)]
    return rows if any(map(_is_list, names)) else rows[0]


def text_padding(inputs: Any) -> list[list[int]] | None:
    """Return the numbers of padding tokens at the left and right of each text, by an attention mask; None without one.

    `inputs` are a model's, or a tokenizer's output, which may be in a tuple.
    """
    if isinstance(inputs, tuple | list):
        return next((padding for value in inputs if (padding := text_padding(value)) is not None), None)
    encodings = getattr(inputs, "encodings", None) or ()
    of_texts = [encoding.attention_mask for encoding in encodings if hasattr(encoding, "attention_mask")]
    given = inputs.get("attention_mask") if isinstance(inputs, Mapping) else None
    try:
        mask = torch.as_tensor(of_texts or given)
    except (TypeError, ValueError, RuntimeError):  # such as a mapping with a mask for each kind of layer
        return None
    if mask.ndim != 2 or not mask.numel():
        return None
    texts = [[bool(number) for number in row] for row in mask.tolist()]
    return [[_run(row) * (not row[0]), _run(row[::-1]) * (not row[-1])] for row in texts]


def check_tokens(tokens: Mapping[str, Names | None] | None, calls: Sequence[AttentionCall]) -> None:
    """Raise an InputError unless the numbers of names fit the queries or keys of at least one call."""
    written = {call.layer for call in calls if call.call}
    if tokens is None or not calls:
        return
    if any(call_tokens(tokens, call, call.layer in written) for call in calls):
        return
    counts = dict.fromkeys(f"{call.queries.shape[-2]} and {call.keys.shape[-2]}" for call in calls)
    queries, keys = (_count(tokens.get(side)) for side in SIDES)
    b = calls[0].queries.shape[0]
    lists = f", in one list or in {b}" if b > 1 else ""
    others = " with the same names" if queries == keys and tokens["queries"] != tokens["keys"] else ""
    sizes = listed([*counts], MOST_SIZES, " or ")
    message = f"got {queries} names for queries and {keys} for keys; expected {sizes}{lists}{others}"
    raise InputError.of(message)


def _count(names: Names | None) -> str:
    if names is None:
        return "no"
    return str([len(row) for row in names]) if any(map(_is_list, names)) else f"{len(names)}"


def call_tokens(
    tokens: Mapping[str, Names | None], call: AttentionCall, is_writing: bool
) -> dict[str, list[list[str]]]:
    """Return the names of a call's `queries` and `keys`, a list for each batch element, if their numbers fit the call.

    `is_writing`: the layer has several calls, as in a model that generates tokens. Then `tokens` has the names of all
    tokens: the keys of a call are the first tokens, and its queries are the last of these keys.
    """
    b, n, m = call.queries.shape[0], call.queries.shape[-2], call.keys.shape[-2]
    rows = {side: _rows(names, b) for side, names in tokens.items() if names is not None}
    sizes = {side: len(texts[0]) for side, texts in rows.items() if len(texts) == b and len(set(map(len, texts))) == 1}
    if len(sizes) == 2 and rows["queries"] == rows["keys"]:
        if is_writing and n <= m <= sizes["keys"]:
            ends = {"queries": slice(m - n, m), "keys": slice(m)}
            return {side: [row[span] for row in rows[side]] for side, span in ends.items()}
        return rows if n == m == sizes["keys"] else {}
    if n != m or len(sizes) == 1:  # an encoder-decoder has different tokens for each side
        return {side: rows[side] for side, size in zip(SIDES, (n, m), strict=True) if sizes.get(side) == size}
    fitting = [side for side, size in sizes.items() if size == n]
    return dict.fromkeys(SIDES, rows[fitting[0]]) if len(fitting) == 1 else {}


def _rows(names: Names, b: int) -> list[list[str]]:
    """Return a list of names for each of b batch elements."""
    return [[*row] for row in names] if any(map(_is_list, names)) else [[str(name) for name in names]] * b


def padding_in(names: Sequence[Any] | None, b: int) -> tuple[Tensor | None, Tensor | None]:
    """Return two masks (b, m) of keys by their names, such as `[PAD]` or `3 [PAD]`: padding, and words that may be.

    Padding has a name in PADDING, or a name in brackets that stands twice or more in a row at an end of some texts, and
    not at this end of another; other names that do are words. None in place of a mask without keys.
    """
    texts = [
        [str(name).removeprefix(f"{index} ") for index, name in enumerate(row)]
        for row in ([] if names is None else _rows(list(names), b))
    ]
    padding = torch.tensor([[name in PADDING for name in text] for text in texts], dtype=torch.bool)
    words = torch.zeros_like(padding)
    for side in (0, -1):
        runs = [_run(text if side == 0 else text[::-1]) for text in texts]
        for index, (text, run) in enumerate(zip(texts, runs, strict=True)):
            name = text[side]
            if 1 < run < len(text) and any(other[side] != name for other in texts):
                mask = padding if BRACKETS.fullmatch(name) else words
                mask[index, slice(run) if side == 0 else slice(-run, None)] = True
    words &= ~padding
    return padding if bool(padding.any()) else None, words if bool(words.any()) else None


def _run(names: Sequence[Any]) -> int:
    """Return how often the first of the names stands in a row."""
    return next((index for index, name in enumerate(names) if name != names[0]), len(names))
