"""Files beside x.yaml that mistakes refer to: broken files, files with wrong content, custom scorers."""

import json
from collections.abc import Mapping

import numpy as np
import torch
from safetensors.torch import save

from tests.sources.broken import NPY, SAFE, array, call, pickled, pt, zipped

MINE = """
from torch import complex64, nn
from attncli.errors import InputError


class Plain:
    pass


class Mine(nn.Module):
    def __init__(self, query_size, key_size, *, way: str = "shape"):
        super().__init__()
        self.way = way
        if way == "sizes":
            raise InputError.of(f"got queries of size {query_size}; expected 5")
        if way == "made":
            raise ValueError("not today\\nnor tomorrow")
        self.phase = nn.Linear(1, 1, bias=False, dtype=complex64 if way == "parameter" else None)

    def forward(self, queries, keys):
        return {
            "shape": lambda: keys @ queries.mT,
            "none": lambda: None,
            "complex": lambda: queries @ keys.mT * 1j,
            "writes": lambda: queries.mul_(2) @ keys.mT,
        }[self.way]()


class Taken(nn.Module):
    def __init__(self, query_size, key_size, *, label: str = "a"):
        super().__init__()


class Way(nn.Module):
    def __init__(self, *, way: str = "shape"):
        super().__init__()
        self.way = way

    def forward(self, scores, valid):
        weights = scores.masked_fill(~valid, float("-inf")).softmax(-1)
        return {
            "shape": lambda: weights[..., :2],
            "none": lambda: None,
            "complex": lambda: weights * 1j,
            "leak": lambda: scores.softmax(-1),
            "nan": lambda: weights / (weights < weights.amax(-1, keepdim=True)),
            "writes": lambda: scores.mul_(0.0),
        }[self.way]()


class Bare(nn.Module):
    def forward(self, queries, keys):
        return queries @ keys.mT


class Unprepared(nn.Module):
    def __init__(self, query_size, key_size):
        pass
"""

CALL = {
    **{"class": "Attention", "how": "function", "scale": 0.5, "pre_scale": 1.0, "groups": 1, "heads": None},
    **{"softcap": None, "empty_row": "zero", "error": 0.0, "problem": None, "valid": None, "bias": None},
}
LOST = {"class": "Relu", "how": None, "problem": "relu in place of a softmax"}
PARTS = ("queries", "keys", "values", "output")


def seen(*layers: str, said: Mapping[str, object] = CALL) -> bytes:
    """Write a file of `attncli capture` with these layers of 2 heads, and one call that cannot be followed."""
    entries = {**dict.fromkeys(layers, said), "relu": LOST}
    tensors = {f"{layer}.{part}": torch.zeros(1, 2, 3, 4) for layer in layers for part in PARTS}
    tensors["other"] = torch.zeros(1)
    return save(tensors, {"attncli": json.dumps({"version": 1, "layers": entries})})


def fitted(**changes: object) -> bytes:
    """Write a file of the study `fit` with two scorers, for one head of a layer, and for another size of queries."""
    layer = {"number": 0, "heads": [1], "query_size": 4, "key_size": 4}
    layers = {"encoder.0": layer, "encoder.1": {**layer, "query_size": 5}}
    entries = {"dot": {"scorer": "scaled_dot"}, "cosine": {"scorer": "cosine"}}
    facts = {"model": "other", "texts": None, "trained_on": [], "layers": layers, "entries": entries, **changes}
    scales = {f"{label}/{name}/scale": torch.ones(1) for label in entries for name in layers}
    return save(scales, {"attncli_fitted": json.dumps(facts)})


FILES: dict[str, bytes] = {
    "ran/fitted.safetensors": fitted(),
    "unlike/fitted.safetensors": SAFE,
    "seen.safetensors": seen("encoder.0", "encoder.1"),
    "lost.safetensors": seen(),
    "misgrouped.safetensors": seen("encoder.0", said={**CALL, "groups": 2}),
    "keys.npy": NPY,
    "table.txt": b"1 2\n",
    "cut.npy": NPY[:-1],
    "pickled.npy": array(np.array([{}, None], dtype=object)),
    "flat.npy": array(np.ones(3)),
    "two.npz": zipped({"a.npy": NPY, "b.npy": NPY}),
    "oversized.safetensors": b"\xff" * 8 + SAFE[8:],
    "code.pt": pickled(call("os", "getcwd")),
    "none.pt": pt({"epoch": 3}),
    "word.csv": b"1,2\n3,four\n",
    "binary.csv": b"\xff\xfe\x00",
    "halves.npy": array(np.array([2.5, 5])),
    "slopes.npy": array(np.full((3, 5), -0.5)),
    "turned.npy": array(np.ones((5, 3), dtype=bool)),
    "general.pt": pt({"W.weight": torch.ones(4, 4)}),
    "additive.pt": pt(
        {"W_q.weight": torch.ones(8, 4), "W_k.weight": torch.ones(9, 4), "w_v.weights": torch.ones(1, 8)}
    ),
    "open.yaml": b"name: [1\n",
    "script.txt": b"import attncli\n",
    "taken/d2l.yaml": b"",
    "pairs.npz": zipped({"queries.npy": array(np.eye(4)), "keys.npy": array(np.ones((3, 4)))}),
    "heads.npz": zipped({"queries.npy": array(np.ones((2, 3, 4))), "keys.npy": array(np.ones((3, 3, 4)))}),
    "shared.npz": zipped({"queries.npy": array(np.ones((1, 4, 3, 4))), "keys.npy": array(np.ones((1, 2, 3, 4)))}),
    "one_key.npz": zipped({"queries.npy": array(np.eye(4)), "keys.npy": array(np.ones((1, 4)))}),
    "vector.npz": zipped({"queries.npy": array(np.ones(4)), "keys.npy": array(np.ones((3, 4)))}),
    "pairs.yaml": b"study: saturation\n",
    "lengths.yaml": b"data:\n  queries: {shape: [2, 3, 4]}\n  keys: {shape: [2, 5, 4]}\n  valid_lens: [2, 9]\n"
    b"scorers: [{scorer: dot}]\n",
}
MODULES = {
    "mine": MINE,
    "broken": "import torch\n\n1 / 0\n",
    "quits": "raise SystemExit(0)\n",
    "garbled": "class Mine:\n",
    "wordless": "class Wordless(BaseException):\n    def __str__(self):\n        raise ValueError\n\nraise Wordless\n",
}
