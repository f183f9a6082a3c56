"""Files of what a model's attention calls saw, as `attncli capture` writes them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from safetensors import safe_open
from torch import Tensor

from attncli.attention import EmptyRow
from attncli.capturing.record import METADATA, SHARED, TENSORS, VERSION, Record
from attncli.errors import InputError, did_you_mean, got
from attncli.inputs.files import broken, problem, read_tensor, tensor_names

CURE = "expected a file of `attncli capture`"


@dataclass(frozen=True)
class Captured:
    """A file that `read_captured` has read; its tensors are read when they are asked for."""

    path: Path
    about: Mapping[str, Any]  # model, text, tokens and so on
    layers: Mapping[str, Mapping[str, Any]]  # what the file says of each call, by its name

    @property
    def usable(self) -> list[str]:
        """The calls that can be re-scored."""
        return [name for name, entry in self.layers.items() if entry["problem"] is None]

    def record(self, name: str) -> Record:
        """What entered one call.

        Raises:
            InputError: no such call, or one that cannot be re-scored; or its tensors are damaged.
        """
        if name not in self.layers:
            raise InputError.of(got(name, "expected the name of a layer", did_you_mean(name, self.layers)), ["layer"])
        entry = self.layers[name]
        if entry["problem"] is not None:
            raise InputError.of(f'got "{name}", which cannot be re-scored: {entry["problem"]}', ["layer"])
        there = tensor_names(self.path)
        named = {part: entry[part] if part in SHARED else f"{name}.{part}" for part in TENSORS}
        if named["sinks"] not in there:
            del named["sinks"]
        given: dict[str, Any] = {part: read_tensor(self.path, each) for part, each in named.items() if each is not None}
        given |= {key: entry[key] for key in NUMBERS}
        layer, _, call = name.rpartition("#") if name.rpartition("#")[2].isdigit() else (name, "", "0")
        record = Record(
            layer=layer or name,
            call=int(call),
            kind=entry["class"],
            heads=None if entry["heads"] is None else tuple(entry["heads"]),
            **given,
        )
        self._check(name, record)
        return record

    def _check(self, name: str, record: Record) -> None:
        try:
            b, h, n, d = record.queries.shape
            m, v = record.values.shape[-2:]
            expected = {
                "keys": (b, h // record.groups, m, d),
                "values": (b, h // record.groups, m, v),
                "output": (b, h, n, v),
            }
            fits = all(getattr(record, part).shape == shape for part, shape in expected.items())
            for part, width in (("valid", m), ("bias", m), ("sinks", 1)):
                tensor: Tensor | None = getattr(record, part)
                fits = fits and (tensor is None or tensor.expand(b, h, n, width).ndim == 4)
        except (RuntimeError, ValueError, ZeroDivisionError):
            fits = False
        if not fits:
            raise broken(self.path, f"the tensors of {name} do not fit each other")


NUMBERS = ("how", "scale", "pre_scale", "groups", "softcap", "empty_row", "error", "problem")


def is_captured(path: Path) -> bool:
    """Whether this is such a file, by its metadata."""
    if path.suffix != ".safetensors" or not path.is_file():
        return False
    try:
        with safe_open(path, framework="pt") as file:
            return METADATA in (file.metadata() or {})
    except Exception:  # of a broken file, which another reader says
        return False


def read_captured(path: Path) -> Captured:
    """What a file holds; of its tensors nothing is read yet.

    Raises:
        InputError: a file that is missing, damaged or of another kind.
    """
    tensor_names(path)  # all that can be wrong with such a file
    with safe_open(path, framework="pt") as file:
        text = (file.metadata() or {}).get(METADATA)
    if text is None:
        raise problem(path, "holds no calls of a model's attention", CURE)
    try:
        content = json.loads(text)
        version, layers = content.pop("version"), content.pop("layers")
        is_good = isinstance(layers, dict) and all(_is_entry(entry) for entry in layers.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        version, is_good = VERSION, False
    if version != VERSION:
        raise problem(path, f"its format is {version!r}; this version of attncli reads {VERSION}")
    if not is_good:
        raise broken(path, "what it says of its layers cannot be read")
    return Captured(path, content, layers)


def _is_entry(entry: dict[str, Any]) -> bool:
    if entry["problem"] is not None:
        return isinstance(entry["problem"], str)
    heads, cap = entry["heads"], entry["softcap"]
    return (
        all(isinstance(entry[key], int | float) and not isinstance(entry[key], bool) for key in ("scale", "pre_scale"))
        and isinstance(entry["groups"], int)
        and entry["groups"] > 0
        and (cap is None or (isinstance(cap, int | float) and cap > 0))
        and entry["empty_row"] in get_args(EmptyRow)
        and (heads is None or all(isinstance(head, int) for head in heads))
        and all(entry[part] is None or isinstance(entry[part], str) for part in SHARED)
        and all(isinstance(entry[key], str) for key in ("class", "how"))
        and isinstance(entry["error"], int | float)
    )
