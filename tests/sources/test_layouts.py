"""Files in the conventions of others: axes in another order, masks of ignored keys, transposed matrices."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import attncli
from attncli.errors import InputError
from tests.cli import attncli as command
from tests.cli import experiment, good, refusal
from tests.scorers.catalogue import normal

pytestmark = pytest.mark.usefixtures("here")

ROLES = ("queries", "keys", "values")
BSHD = {"queries": normal(2, 6, 4, 3), "keys": normal(2, 5, 2, 3, seed=1), "values": normal(2, 5, 2, 2, seed=2)}
BHSD = {role: tensor.transpose(1, 2).contiguous() for role, tensor in BSHD.items()}


def saved(tensors: dict[str, Tensor], name: str) -> dict[str, Any]:
    """Write tensors to an .npz file, and return the keys under `data` that name them."""
    np.savez(name, allow_pickle=False, **{role: tensor.numpy() for role, tensor in tensors.items()})
    return {role: {"file": name, "tensor": role} for role in tensors}


SOURCES: dict[str, Callable[[dict[str, Tensor], str], dict[str, Any]]] = {
    "file": lambda tensors, name: saved(tensors, f"{name}.npz"),
    "tensors": lambda tensors, name: dict(tensors),
    "arrays": lambda tensors, name: {role: tensor.numpy() for role, tensor in tensors.items()},
    "lists": lambda tensors, name: {role: tensor.tolist() for role, tensor in tensors.items()},
}
DATA: dict[str, Any] = {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 4, 4]}}
BIAS, MASK = normal(2, 4, 6, 5, seed=3), normal(2, 1, 6, 5, seed=4) > -0.5
BIAS[0, 1, 2, 3] = -torch.inf


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("source", SOURCES)
def test_bshd_is_the_transposed_file(source: str) -> None:
    """Bias and mask are (batch, heads, queries, keys) in any layout; a run has all data in its folder, heads first."""
    config = {"mask": {"file": MASK}, "scorers": ["scaled_dot", "additive"]}
    by_layout = {"bshd": SOURCES[source](BSHD, "bshd"), "bhsd": SOURCES[source](BHSD, "bhsd")}
    bias = SOURCES[source]({"bias": BIAS}, "bias")
    data = {name: {**read, "grouped": True, **bias, "layout": name} for name, read in by_layout.items()}
    one = attncli.run({"data": data["bshd"], **config}, out="one")
    assert one.inputs["queries"].shape == (2, 4, 6, 3)
    assert torch.equal(one.inputs["valid"], MASK & ~BIAS.isinf())
    others = [attncli.run({"data": data["bhsd"], **config})]
    for file in Path().glob("*.npz"):
        file.unlink()
    for other in (*others, attncli.run("one/config.yaml")):
        assert one.tensors.keys() == other.tensors.keys()
        assert all(torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items())
    words = " ".join(str(one._repr_mimebundle_()["text/plain"]).split())
    assert "2 texts, 4 heads, 6 queries, 5 keys, d = 3, v = 2; " in words
    assert "; 2 heads of keys " in words


@pytest.mark.usefixtures("no_pictures")
def test_generated_and_shared_tensors_have_the_layout_too() -> None:
    data: dict[str, Any] = {
        "queries": {"shape": [2, 6, 4, 3], "fill": "arange"},
        "keys": {"fill": "correlated", "with": "queries", "rho": 0.5},
        "values": [[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]],
        "layout": "bshd",
    }
    result = attncli.run({"data": data, "scorers": ["dot"]}, out="one")
    inputs = result.inputs
    assert torch.equal(attncli.run("one/config.yaml").tensors["dot/output"], result.tensors["dot/output"])
    assert torch.equal(inputs["queries"], torch.arange(144.0).view(2, 6, 4, 3).transpose(1, 2))
    assert inputs["keys"].shape == (2, 4, 6, 3)
    assert torch.equal(inputs["values"], torch.arange(1.0, 7.0)[:, None].expand(2, 4, 6, 1))


def test_a_layout_of_no_four_axes_is_refused() -> None:
    with pytest.raises(InputError, match=r"data\.layout: got bshd for queries \[.*\(batch, tokens, heads, features\)"):
        attncli.run({"data": {**DATA, "layout": "bshd"}, "scorers": ["dot"]})


def test_the_option_of_every_command_that_reads_tensors() -> None:
    for name, tensors in (("bshd.npz", BSHD), ("bhsd.npz", BHSD)):
        equal = {role: tensor[:, :, :2] if name == "bshd.npz" else tensor[:, :2] for role, tensor in tensors.items()}
        data = saved(equal, name)
        experiment(Path(name).with_suffix(".yaml"), data=data, scorers=["dot"])
    for args in (["run", "bshd.yaml"], ["doctor", "bshd.yaml"]):
        assert "2 texts, 2 heads, 6 queries, 5 keys, d = 3" in good(*args, "--layout", "bshd", "--no-plots")
    for study in ("variance", "saturation"):
        for name, options in (("bshd", ["--layout", "bshd"]), ("bhsd", [])):
            good(study, "--from", f"{name}.npz", *options, "--no-plots", "--out", f"{study}-{name}")
        one, other = (attncli.load(f"{study}-{name}").records for name in ("bshd", "bhsd"))
        assert one == other
        good("run", f"{study}-bshd/config.yaml", "--no-plots", "--out", f"{study}-again")
        assert attncli.load(f"{study}-again").records == one
        assert "--layout bshd" in refusal(study, "--layout", "bshd", "--no-plots")
        assert "no tensor file" in refusal(study, "--from", "bshd.yaml", "--layout", "bshd", "--no-plots")
    good("heatmap", "bshd.yaml", "--layout", "bshd", "--out", "config.svg")
    good("heatmap", "bshd.npz", "--tensor", "queries", "--layout", "bshd", "--out", "one.svg")
    good("heatmap", "bhsd.npz", "--tensor", "queries", "--out", "two.svg")
    drawn = [Path(name).read_text().split("<defs>", 1)[1].count("<path") for name in ("one.svg", "two.svg")]
    assert drawn[0] == drawn[1]


PADDED = [[0, 0, 1, 1], [0, 0, 0, 1]]  # 1 = ignore


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64])
def test_a_mask_of_ignored_keys(dtype: type) -> None:
    np.save("mask.npy", np.array(PADDED, dtype=dtype))
    cure = "mask.npy: text 0 keeps keys 2 to 3, text 1 key 3; if 1 means to ignore a key, add `invert: true`"
    for invert, counts in ((True, [2, 3]), (False, [2, 1])):
        experiment(Path("own.yaml"), data=DATA, mask={"file": "mask.npy", "invert": invert}, scorers=["dot"])
        notes = command("run", "own.yaml", "--no-plots", "--out", "run", "--overwrite").stderr
        assert attncli.load("run").inputs["valid"].sum(-1).tolist() == [[count] * 3 for count in counts]
        assert (cure in notes) is not invert
        again = attncli.run("run/config.yaml").inputs["valid"]
        assert torch.equal(again, attncli.load("run").inputs["valid"])


@pytest.mark.parametrize("shape", [(4, 5, 5), (4, 1, 5)])
def test_batch_times_heads_is_refused_with_the_shape_to_save(shape: tuple[int, ...]) -> None:
    data: dict[str, Any] = {"queries": {"shape": [2, 2, 5, 4]}, "keys": {"shape": [2, 2, 5, 4]}}
    mask = {"file": torch.ones(shape, dtype=torch.bool)}
    for config in ({"data": {**data, "bias": np.ones(shape)}}, {"data": data, "mask": mask}):
        with pytest.raises(InputError, match=rf"reshape .* to \[2, 2, {shape[1]}, {shape[2]}\]"):
            attncli.run({**config, "scorers": ["dot"]})


W = normal(4, 4)


def general(name: str, data: dict[str, Any] = DATA, **keys: Any) -> dict[str, Any]:
    parameters = {"file": "trained.safetensors", "names": {"W.weight": name}, **keys}
    return {"data": data, "scorers": [{"scorer": "general", "parameters": parameters}]}


@pytest.mark.usefixtures("no_pictures")
def test_every_matrix_of_keras_is_transposed() -> None:
    """`additive` has matrices (h, q), (h, k) and (1, h), `general` has (q, k); a run stores them as they are used."""
    state = {"W_q.weight": normal(8, 4), "W_k.weight": normal(8, 4, seed=1), "w_v.weight": normal(1, 8, seed=2)}
    own = {**state, "W.weight": W}
    save_file(own, "own.safetensors")
    save_file({name: tensor.T.contiguous() for name, tensor in own.items()}, "keras.safetensors")
    files: list[dict[str, Any]] = [{"file": "own.safetensors"}, {"file": "keras.safetensors", "transpose": True}]
    one, other = (
        attncli.run(
            {"data": DATA, "scorers": [{"scorer": name, "parameters": file} for name in ("additive", "general")]},
            out=Path(file["file"]).stem,
        )
        for file in files
    )
    again = attncli.run("keras/config.yaml")
    for name in ("additive/scores", "general/scores"):
        assert torch.equal(one.tensors[name], other.tensors[name])
        assert torch.equal(again.tensors[name], other.tensors[name])


@pytest.mark.parametrize("name", ["dense/kernel", "dense/kernel:0", "W"])
def test_a_kernel_has_a_note(name: str) -> None:
    save_file({name: W}, "trained.safetensors")
    for transpose in (False, True):
        experiment(Path("own.yaml"), **general(name, transpose=transpose))
        for args in (["run", "own.yaml", "--no-plots"], ["check", "own.yaml"]):
            assert ("`transpose: true`" in command(*args).stderr) is ("kernel" in name and not transpose)


@pytest.mark.parametrize("transpose", [False, True])
def test_a_matrix_that_fits_transposed_says_so(transpose: bool) -> None:
    data = {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 3]}}
    fitting = normal(4, 3) if transpose else normal(3, 4)  # W.weight is (4, 3)
    save_file({"W": fitting, "other": W}, "trained.safetensors")
    cure = "leave out `transpose`" if transpose else "add `transpose: true`"
    with pytest.raises(InputError, match=rf"expected \[4, 3\] for W.weight; it fits transposed: {cure}"):
        attncli.run(general("W", data, transpose=transpose))
    with pytest.raises(InputError) as error:
        attncli.run(general("other", data, transpose=transpose))
    assert "fits" not in str(error.value)
