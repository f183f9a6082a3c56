"""The two layers of watching: calls of torch's function alone, and beside it all that needs private names of torch."""

import importlib
import re
from contextlib import suppress
from functools import reduce
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import attncli
from attncli.models.call import AttentionCall, Site
from attncli.models.watching import Watch
from tests.models.families import BOTH, of_transformers

PACKAGE = Path(attncli.__file__).parent
INTERNALS = "models/internals.py"
PRIVATE = re.compile(r"(?<![\w\".])(?:torch|sys|dispatch)(?:\.\w+)*\._(?!_)\w+(?:\.\w+)*")
IMPORTED = re.compile(r"from (torch[\w.]*) import (_\w+)")
OF_OBJECTS = {"_schema": "torch.ops.aten.mm.default", "_cdata": "torch.UntypedStorage"}  # and an object that has each
OF_FRAMES = re.compile(r"\.f_(?:back|code|locals)\b")
OVERRIDDEN = "torch.utils._python_dispatch.TorchDispatchMode._should_skip_dynamo"


def private_names(file: str) -> set[str]:
    """Return the private names of torch and of Python that a file of the package uses."""
    text = (PACKAGE / file).read_text(encoding="utf-8")
    names = {*PRIVATE.findall(text), *map(".".join, IMPORTED.findall(text))}
    names |= {f"{owner}.{name}" for name, owner in OF_OBJECTS.items() if re.search(rf'[."]{name}\b', text)}
    return {re.sub(r"^dispatch\.", "torch.utils._python_dispatch.", name) for name in names}  # as it is imported


def test_private_names_stand_in_one_file() -> None:
    files = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*.py")}
    names = {file: private_names(file) for file in files}
    assert {file for file in files if names[file]} == {INTERNALS, "scorers/_additive.py"}
    assert all(name.startswith("torch._dynamo") for name in names["scorers/_additive.py"]), "it compiles a function"
    assert [file for file, path in files.items() if OF_FRAMES.search(path.read_text("utf-8"))] == [INTERNALS]


@pytest.mark.parametrize("name", sorted({*private_names(INTERNALS), OVERRIDDEN}))
def test_torch_has_the_private_names(name: str) -> None:
    words = name.split(".")
    for length in range(len(words) - 1, 0, -1):
        with suppress(ImportError, AttributeError):
            reduce(getattr, words[length:], importlib.import_module(".".join(words[:length])))
            return
    pytest.fail(f"torch {torch.__version__} has no {name}, which attncli/{INTERNALS} needs")


class Doubled(Watch):
    """Watches calls of torch's function alone, and doubles their outputs."""

    replaces = True

    def chooses(self, site: Site) -> bool:
        return True

    def replaced(self, call: AttentionCall) -> Tensor:
        return 2 * call.output

    def keep(self, call: AttentionCall, output: Tensor) -> None:
        assert call.problem is None


@pytest.mark.parametrize("family", BOTH)
def test_the_first_layer_serves_models_by_itself(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubled outputs are those of doubled values; layers have the names that following them gives."""
    model, inputs = of_transformers(family, "sdpa")
    names = [record.layer for record in attncli.capture(model, **inputs).records]
    with torch.no_grad(), Doubled(model) as watch:
        output = model(**inputs)[0]
    assert {*watch._seen} == {*names} != set()
    original = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional,
        "scaled_dot_product_attention",
        lambda query, key, value, *args, **kwargs: original(query, key, 2 * value, *args, **kwargs),
    )
    with torch.no_grad():
        assert_close(output, model(**inputs)[0])
