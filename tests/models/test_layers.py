"""The two layers of watching: calls of torch's function alone, and beside it all that needs private names of torch."""

import re
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
PRIVATE = re.compile(  # names of torch, of its objects, and of Python's frames
    r"(?<![\w\".])(?:torch|sys|dispatch)(?:\.\w+)*\._(?!_)\w+"
    r"|from torch[\w.]* import _\w+|[.\"]_(?:schema|cdata)\b|\.f_(?:back|code|locals)\b"
)


def test_private_names_stand_in_one_file() -> None:
    names = {
        path.relative_to(PACKAGE).as_posix(): PRIVATE.findall(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")
    }
    assert {file for file in names if names[file]} == {"models/internals.py", "scorers/_additive.py"}
    assert all(name.startswith("torch._dynamo") for name in names["scorers/_additive.py"]), "it compiles a function"


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
