"""The file `fitted.safetensors` of the study `fit`: which entries it has, and for which layers of which model."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from attncli.core.opening import check_regular
from attncli.errors import InputError, got, in_ranges, listed, refusal, show

FITTED, METADATA = "fitted.safetensors", "attncli_fitted"  # the file in a run folder, and the key of its JSON
KEYS = ("fitted", "label")  # of an entry that names such a file


class FittedLayer(BaseModel):
    """The number of a layer among the model's, the numbers of its fitted heads, and the sizes of queries and keys."""

    number: int
    heads: list[int]
    query_size: int
    key_size: int


class FittedFacts(BaseModel):
    """The metadata of a file of fitted scorers.

    `entries` has the entries of the config by label, and `layers` the layers by name. `model` is the model's name.
    `texts` is the hash of all texts, and `trained_on` has a hash of each text that is not held out.
    """

    model_config = ConfigDict(frozen=True)

    version: int = 1
    model: str | None
    texts: str | None
    trained_on: list[str]
    entries: dict[str, dict[str, Any]]
    layers: dict[str, FittedLayer]

    def name_of(self, layer: str) -> str:
        """Return the name of a layer in the file; files of 0.4.0 have a model's prefix before it, as `model.`."""
        longer = [name for name in self.layers if name.partition(".")[2] == layer]
        return longer[0] if layer not in self.layers and longer else layer

    def index_of_heads(self, layer: str, heads: Sequence[int], sizes: tuple[int, int]) -> list[int]:
        """Return the position of each head of a layer on the first axis of the layer's parameters.

        Raises:
            InputError: the layer or a head is not among the fitted ones, or sizes of queries and keys differ.
        """
        layer_heads = self.layers.get(self.name_of(layer))
        if layer_heads is None:
            expected = f"expected {listed([*self.layers])}"
            raise InputError.of(f"nothing was fitted to {layer}; {expected}; choose other `layers`", ["fitted"])
        if sizes != (layer_heads.query_size, layer_heads.key_size):
            fitted = f"{layer_heads.query_size} and {layer_heads.key_size}, to which it was fitted"
            message = f"{layer} has queries and keys of sizes {sizes[0]} and {sizes[1]}; expected {fitted}"
            raise InputError.of(message, ["fitted"])
        if missing := [head for head in heads if head not in layer_heads.heads]:
            heads_of_layer = f"{'heads' if len(missing) > 1 else 'head'} {in_ranges(missing)} of {layer}"
            message = f"nothing was fitted to {heads_of_layer}; expected {in_ranges(layer_heads.heads)}"
            raise InputError.of(message, ["fitted"])
        return [layer_heads.heads.index(head) for head in heads]


def text_hashes(texts: Iterable[str]) -> list[str]:
    """Return a short hash of each text."""
    return [hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16] for text in texts]


def read_facts(value: str) -> tuple[Path, FittedFacts]:
    """Return the path of the file of fitted scorers, given the run folder or the file, and its metadata.

    Raises:
        InputError: there is no such file, or it is damaged.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(value)
    cure = f"expected the folder of a run of the study fit, which has a {FITTED}"
    try:
        path = path / FITTED if path.is_dir() else path
        check_regular(path)
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(METADATA, "")
        return path, FittedFacts.model_validate_json(text)
    except OSError as error:
        raise InputError.of(f"got {show(value)}; {refusal(error)}; {cure}", ["fitted"]) from error
    except (SafetensorError, ValueError) as error:  # a ValidationError of pydantic is a ValueError
        raise InputError.of(f"got {show(value)}, which holds no fitted scorers; {cure}", ["fitted"]) from error


def entry_in(written: Mapping[str, Any], value: str) -> dict[str, Any]:
    """Return the entry for `{fitted: FOLDER, label: LABEL}`: as it was fitted, with the path of the file as `fitted`.

    `value` is FOLDER, or the file itself.

    Raises:
        InputError: as in `read_facts`, or there is no such label, or there are other keys.
    """
    path, facts = read_facts(value)
    label = written.get("label")
    if label is None and len(facts.entries) == 1:
        (label,) = facts.entries
    if not isinstance(label, str) or label not in facts.entries:
        message = f"no label of {show(value)}; expected {listed([*facts.entries])}"
        raise InputError.of(got(label, message), ["label"])
    for key in written.keys() - {*KEYS}:
        cure = "the entry stays as it was fitted; leave this key out"
        raise InputError.of(got(written[key], "which is beside `fitted`", cure), [key])
    return {**facts.entries[label], "label": label, "fitted": str(path.resolve())}
