"""`attncli variance` and `attncli saturation`: files, flags, keys of YAML, and real tensors in place of random ones."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import attncli as package
from tests.cli import attncli, config, experiment, good, kept, refusal, run, swept

pytestmark = pytest.mark.usefixtures("here")

STUDIES = pytest.mark.parametrize("study", ["variance", "saturation"])
SETTINGS: dict[str, Any] = {
    "seed": 3,
    "dtype": "float64",
    "device": "cpu",
    "d": [2, 8],
    "distribution": "student_t",
    "df": 9.5,
    "mean": 0.5,
    "std": 2.0,
    "query_mean": -1.0,
    "query_std": 0.5,
    "key_mean": 2.0,
    "key_std": 1.5,
    "rho": -0.25,
}


def test_weights_that_are_known(here: Path) -> None:
    """One query and two keys with the scores 0 and ln 3 have the weights 1/4 and 3/4."""
    np.savez(here / "qk.npz", queries=np.array([[1.0]]), keys=np.array([[0.0], [math.log(3)]]))
    record = swept("saturation", "--from", "qk.npz", "--scorer", "dot", "--dtype", "float64")["records"][0]
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    figures = [record[name] for name in ("max_weight", "entropy", "effective_keys", "jacobian_median")]
    assert figures == pytest.approx([0.75, entropy / math.log(2), math.exp(entropy), 0.25 * 0.75 * 2])


@pytest.mark.parametrize(("study", "own"), [("variance", {"samples": 500}), ("saturation", {"keys": 4, "rows": 10})])
def test_every_flag_is_the_key_of_its_name(study: str, own: dict[str, int], here: Path) -> None:
    """Flags have the same effect as YAML keys, and config.yaml repeats the run."""
    settings, flags = SETTINGS | own, list[object]()
    for key, value in settings.items():
        for each in value if isinstance(value, list) else [value]:
            flags += [f"--{key.replace('_', '-')}", each]
    by_flags = swept(study, *flags, "--scorer", "additive:num_hiddens=3", "--scorer", "cosine:label=c")
    assert {key: config()[key] for key in settings} == settings
    scorers = [{"scorer": "additive", "num_hiddens": 3, "label": "additive_3"}, {"scorer": "cosine", "label": "c"}]
    same = kept({"study": study, "name": study, **settings, "scorers": scorers}, here / "file")
    assert same.records == by_flags["records"]
    assert (by_flags["study"], by_flags["name"], by_flags["seed"]) == (study, study, 3)
    assert run(here / "out" / "config.yaml", here / "again")["records"] == by_flags["records"]
    assert config("again") == config()


SMALL: dict[str, dict[str, Any]] = {
    study: {"study": study, "d": 4, "dtype": "float64", "distribution": "student_t", **keys}
    for study, keys in {"variance": {"samples": 100}, "saturation": {"rows": 10, "keys": 3}}.items()
}


@STUDIES
@pytest.mark.parametrize("key", SETTINGS)
def test_every_key_changes_the_numbers(study: str, key: str) -> None:
    other = {"dtype": "float32", "distribution": "uniform"}.get(key, SETTINGS[key])
    first, second = (package.run(SMALL[study] | keys).records for keys in ({}, {key: other}))
    assert (first == second) == (key == "device")


@STUDIES
@pytest.mark.parametrize("kind", ["heads", "run", "config", "study"])
def test_tensors_that_were_read_are_in_the_run_folder(study: str, kind: str, here: Path) -> None:
    """config.yaml gives the same metrics after the tensor files have been deleted."""
    leading = (2, 3) if kind == "heads" else (2,)
    numbers, source = np.random.default_rng(0), here / "qk.npz"
    np.savez(source, queries=numbers.normal(size=(*leading, 3, 4)), keys=numbers.normal(size=(*leading, 5, 4)))
    own = {"queries": {"file": "qk.npz", "tensor": "queries"}, "keys": {"file": "qk.npz", "tensor": "keys"}}
    if kind in ("run", "config"):
        source = experiment(here / "x.yaml", data={**own, "valid_lens": [2, 5]})
    if kind == "run":
        run(source, here / "first")
        source = here / "first"
    if kind == "study":
        swept(study, "--from", source, out="first")
        source = here / "first"
    save_file({"W.weight": torch.arange(16.0).reshape(4, 4)}, here / "W.safetensors")
    content = swept(study, "--from", source, "--scorer", "dot", "--scorer", "general:parameters={file: W.safetensors}")
    assert {record["head"] for record in content["records"]} == ({0, 1, 2} if kind == "heads" else {None})
    assert len(content["inputs"]) == (3 if kind in ("run", "config") else 2)
    elsewhere = here / "moved"
    (here / "out").rename(elsewhere)
    for path in (here / "qk.npz", here / "x.yaml", here / "W.safetensors"):
        path.unlink(missing_ok=True)
    assert config("moved")["from"] == "tensors.safetensors"
    assert not {"d", "distribution", "mean", "samples", "keys", "rows"} & set(config("moved"))
    again = run(elsewhere / "config.yaml", here / "again")
    assert (again["records"], again["inputs"]) == (content["records"], content["inputs"])


@STUDIES
def test_a_mask_beside_the_tensors_is_used_and_what_is_not_is_named(study: str, here: Path) -> None:
    """With padding the metrics would be wrong by orders of magnitude."""
    numbers = np.random.default_rng(0)
    queries, keys = numbers.normal(size=(2, 3, 4)), numbers.normal(size=(2, 5, 4))
    padding = np.arange(5) >= np.array([[4], [3]])
    np.savez(here / "plain.npz", queries=queries, keys=keys, valid_lens=[4, 3])
    padded = np.where(padding[..., None], 1e6, keys)
    np.savez(here / "dump.npz", queries=queries, keys=padded, valid=~padding, logits=keys)
    plain, dump = (swept(study, "--from", f"{name}.npz", out=name)["records"] for name in ("plain", "dump"))
    assert plain == dump
    assert attncli(study, "--from", "dump.npz", "--no-plots").stderr == (
        f"{study}: dump.npz: valid: shape [2, 5], read as (batch, keys)\n"
        f"{study}: dump.npz: not used: logits; a mask is named valid or mask, lengths are named valid_lens\n"
    )


def test_from_all_runs_of_a_name(here: Path) -> None:
    good("run", experiment(here / "x.yaml"), "--no-plots", "--quiet")
    line = 'attncli variance: --from outputs/x: got "outputs/x", which has no tensors.safetensors; did you mean '
    assert refusal("variance", "--from", "outputs/x") == f"{line}`outputs/x/latest`?"
    swept("variance", "--from", "outputs/x/latest")
