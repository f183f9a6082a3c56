"""The request for a model that the options of a study describe."""

from collections.abc import Sequence
from typing import Any

from attncli.config.texts import NO_TEXTS
from attncli.errors import InputError, below
from attncli.models.loading import Request
from attncli.numbers import several


def request_of(model: str, texts: Sequence[str], attn: str, **others: Any) -> Request:
    """Return the request for a model; `others` are fields of the Request.

    Raises:
        InputError: a function, which brings its own inputs, has texts; another model has none; or it is a file.
    """
    request = Request(model, tuple(texts), attention=None if attn == "auto" else attn, **others)
    if request.is_function and texts:
        message = f"{several(len(texts), 'text')} for a function, which brings its own inputs; leave them out"
        raise InputError.of(f"got {message}", ["texts"])
    with below("model"):
        request.refuse_file()
    if not request.is_function and not texts:
        raise InputError.of(NO_TEXTS, ["texts"])
    return request
