"""The two layers of watching: calls of torch's function alone, and beside it all that needs private names of torch."""

import ast
import importlib
import re
from collections.abc import Iterator
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
OF_OBJECTS = {"_schema": "torch.ops.aten.mm.default", "_cdata": "torch.UntypedStorage"}  # and an object that has each
OF_FRAMES = {"f_back", "f_code", "f_locals"}
OVERRIDDEN = "torch.utils._python_dispatch.TorchDispatchMode._should_skip_dynamo"


def dotted(node: ast.expr) -> str:
    """Return `torch._C.name` for such an expression; `.name` if its owner has no name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def private_names(file: str) -> Iterator[str]:
    """Yield the private names of torch, and those of Python's frames, that a file of the package uses."""
    for node in ast.walk(ast.parse((PACKAGE / file).read_text(encoding="utf-8"))):
        names = [f"{node.module}.{each.name}" for each in node.names] if isinstance(node, ast.ImportFrom) else []
        names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
        names += [dotted(node)] if isinstance(node, ast.Attribute) else []
        names += [f".{node.value}"] if isinstance(node, ast.Constant) and node.value in OF_OBJECTS else []
        for name in names:
            name = re.sub(r"^dispatch\.", "torch.utils._python_dispatch.", name)  # as it is imported
            words = name.split(".")
            first, last = words[0], words[-1]
            is_private = any(word.startswith("_") and not word.startswith("__") for word in words)
            if (first in ("torch", "sys") and is_private) or last in {*OF_OBJECTS, *OF_FRAMES}:
                yield f"{OF_OBJECTS[last]}.{last}" if last in OF_OBJECTS else name


def test_private_names_stand_in_one_file() -> None:
    files = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")]
    found = {(file, name) for file in files if file != INTERNALS for name in private_names(file)}
    assert {file for file, name in found if not name.startswith("torch._dynamo")} == set()
    assert {file for file, _ in found} == {"scorers/_additive.py"}, "which compiles a function"


NEEDED = {name for name in private_names(INTERNALS) if name.rpartition(".")[2] not in OF_FRAMES} | {OVERRIDDEN}


@pytest.mark.parametrize("name", sorted(NEEDED))
def test_torch_has_the_private_names(name: str) -> None:
    words = name.split(".")
    for length in range(len(words) - 1, 0, -1):
        try:
            reduce(getattr, words[length:], importlib.import_module(".".join(words[:length])))
        except (ImportError, AttributeError):
            continue
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
