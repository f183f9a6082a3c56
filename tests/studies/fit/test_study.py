"""The study as users run it: rows, files, references, and fitted scorers put to use."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import attncli
from attncli.errors import InputError
from attncli.stopping import Interrupted, Progress
from attncli.studies.fit import study
from attncli.studies.fit.columns import FitFacts
from attncli.studies.fit.options import FitOptions
from tests.cli import good
from tests.reference import ORACLES
from tests.studies.swap.models import tower

STEPS = 20


def batches() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(count, 7, 32, generator=generator) for count in (4, 3, 5)]


def fitted(out: Path | None = None, **keys: Any) -> attncli.Result:
    keys = {"scorers": ["cosine", "additive:num_hiddens=4", "sparsemax"], "steps": STEPS, **keys}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return attncli.fit(tower()[0], batches(), out=out, **keys)


def test_rows() -> None:
    """A row for each label and head, references among them, and one for the whole model with `swap`'s columns."""
    result = fitted()
    assert result.labels == ["model", "cosine", "additive_4", "sparsemax", "uniform", "keys_alone"]
    for label in result.labels:
        rows = [row for row in result.records if row["label"] == label]
        assert [(row["by"], row["layer"], row["head"]) for row in rows] == [
            *(("head", layer, head) for layer in ("first", "second") for head in range(4)),
            ("all", None, None),
        ]
        whole = rows[-1]
        assert whole["relative_l2"] is not None
        assert whole["relative_l2_before"] is not None
    own, found = (
        {(row["label"], row["by"]): row for row in result.records}[key] for key in (("model", "all"), ("cosine", "all"))
    )
    assert own["relative_l2"] < 1e-5
    assert found["relative_l2"] < found["relative_l2_before"]
    of_heads = [row for row in result.records if row["by"] == "head"]
    for row in of_heads:
        if row["label"] == "sparsemax":
            assert row["kl"] is row["kl_before"] is row["kl_train"] is None
        if row["label"] in ("cosine", "additive_4"):
            assert row["parameters"] == {"cosine": 1, "additive_4": 4 * 8 * 2 + 4}[row["label"]]
        if row["label"] in ("model", "uniform"):
            assert (row["parameters"], row["kl"]) == (0, row["kl_before"])
    keys = {row["label"]: row["kl"] for row in of_heads}
    assert keys["model"] < 1e-9


def _generator() -> torch.Generator:
    from attncli.inputs.seeding import generator

    return generator(0, "fit.held_out")


def test_used_again(tmp_path: Path) -> None:
    """A fitted entry has the same effect in `fit`, in `swap`, in `attncli.Swap`, and in runs on captured calls."""
    run, (model, x) = tmp_path / "run", tower()
    result = fitted(run)
    entries = [{"fitted": str(run), "label": label} for label in ("cosine", "additive_4", "sparsemax")]
    swapped = attncli.swap(model, x, scorers=entries, by="all")
    change = {row["label"]: row["relative_l2"] for row in swapped.records}
    held_out = torch.cat(batches())[torch.randperm(12, generator=_generator())[:2]]
    again = attncli.swap(model, held_out, scorers=entries, by="all")
    for label in ("cosine", "additive_4", "sparsemax"):
        whole, same = (
            next(row for row in each.records if (row["label"], row["by"]) == (label, "all")) for each in (result, again)
        )
        assert same["relative_l2"] == pytest.approx(whole["relative_l2"], rel=1e-4)
    with torch.no_grad(), attncli.Swap(entries[0]):
        new = model(x)
    with torch.no_grad():
        own = model(x)
    assert float((new - own).norm() / own.norm()) == pytest.approx(change["cosine"], rel=1e-4)
    attncli.save(attncli.capture(model, x), tmp_path / "seen.safetensors", model="Tower")
    own = {"scorer": "scaled_dot", "scale": "model"}
    captured = attncli.run({"data": {"capture": str(tmp_path / "seen.safetensors")}, "scorers": [own, *entries]})
    assert captured.labels == ["model", "cosine", "additive_4", "sparsemax"]
    scales = result.parameters["cosine/second/scale"]
    with attncli.Capture() as seen:
        model(x)
    (record,) = [each for each in seen.records if each.layer == "second"]
    scores = captured.tensors["second/cosine/scores"]
    wanted = ORACLES["cosine"](torch.nn.Identity(), record.queries[1, 2], record.keys[1, 2], scale=float(scales[2]))
    torch.testing.assert_close(scores[1, 2].double(), wanted, rtol=1e-4, atol=1e-5)


def test_a_run_again_has_the_same_numbers(tmp_path: Path) -> None:
    first, second = (fitted(tmp_path / name) for name in "ab")
    assert first.records == second.records
    written = (tmp_path / "a" / "config.yaml").read_text()
    assert "scale: 1" not in written  # so that it is learnt again
    assert {*attncli.load(tmp_path / "a").parameters} == {*first.parameters}


def test_a_captured_file(tmp_path: Path) -> None:
    model, _ = tower()
    attncli.save(attncli.capture(model, torch.cat(batches())), tmp_path / "seen.safetensors")
    config = {
        "study": "fit",
        "data": {"capture": str(tmp_path / "seen.safetensors")},
        "scorers": ["cosine"],
        "steps": 5,
    }
    result = attncli.run(config, out=tmp_path / "run")
    assert {row["by"] for row in result.records} == {"head"}
    direct = {(row["layer"], row["head"]): row["kl"] for row in fitted().records if row["label"] == "cosine"}
    for row in result.records:
        if row["label"] == "cosine":
            assert row["kl"] == pytest.approx(direct[row["layer"], row["head"]], rel=1e-4)


def test_layers_fitted_alone_have_the_same_parameters() -> None:
    both, alone = fitted(), fitted(layers=["second"])
    for name, values in alone.parameters.items():
        torch.testing.assert_close(values, both.parameters[name])


@pytest.mark.parametrize("per", ["layer", "all"])
def test_shared_parameters(per: str) -> None:
    result = fitted(per=per, scorers=["cosine", {"scorer": "cosine", "project": True, "label": "projected"}])
    scales = [result.parameters[f"cosine/{layer}/scale"] for layer in ("first", "second")]
    assert all(bool((each == each[0]).all()) for each in scales)
    assert bool(scales[0][0] == scales[1][0]) is (per == "all")
    assert result.parameters["projected/first/P_q"].shape == (4, 8, 8)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"scorers": [{"scorer": "dot", "label": "model"}]}, "a reference that always runs"),
    ({"scorers": ["sparsemax"], "objective": "kl"}, "weights of sparsemax can be 0"),
    ({"layers": [7]}, "expected 0 to 1, of 2 layers with attention"),
    ({"heads": [4]}, "expected 0 to 3, of the heads of first"),
    ({"held_out": 1.0}, "a number below 1"),
]


@pytest.mark.parametrize(("keys", "message"), REFUSED)
def test_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted(**keys)


def test_refused_entries(tmp_path: Path) -> None:
    run, (model, x) = tmp_path / "run", tower()
    fitted(run, layers=["second"], heads=[0, 1], scorers=["cosine"])
    entry = {"fitted": str(run), "label": "cosine"}
    for given, message in (
        ({**entry, "label": "other"}, "no label of"),
        ({**entry, "normalizer": "sparsemax"}, "leave this key out"),
        ({"fitted": str(tmp_path), "label": "cosine"}, "has no fitted.safetensors"),
    ):
        with pytest.raises(InputError, match=message):
            attncli.swap(model, x, scorers=[given], by="all")
    with pytest.raises(InputError, match="nothing was fitted to first"):
        attncli.swap(model, x, scorers=[entry], by="all")
    with pytest.raises(InputError, match=r"nothing was fitted to head 2 to 3 of second"):
        attncli.swap(model, x, scorers=[entry], by="all", layers=["second"])
    other = torch.nn.Sequential(model)
    with pytest.raises(InputError, match="fitted to the model Tower, not to Sequential"):
        attncli.swap(other, x, scorers=[entry], by="all")
    with pytest.raises(InputError, match="was fitted to the layers of a model"):
        attncli.run({"data": {"queries": [[1.0]], "keys": [[1.0]]}, "scorers": [entry]})
    with pytest.raises(InputError, match="only the study fit learns matrices"):
        attncli.run({"data": {"queries": [[1.0]], "keys": [[1.0]]}, "scorers": [{"scorer": "dot", "project": True}]})


def test_heads_and_plans(tmp_path: Path) -> None:
    """What was fitted to some heads can be put into these heads, alone or in a plan."""
    run, (model, x) = tmp_path / "run", tower()
    fitted(run, layers=["second"], heads=[0, 2], scorers=["cosine"])
    entry = {"fitted": str(run), "label": "cosine"}
    outputs = []
    with torch.no_grad():
        for swap in (
            attncli.Swap(entry, layers=["second"], heads=[0, 2]),
            attncli.Swap({"second": {"heads": {0: entry, 2: entry}}}),
        ):
            with swap:
                outputs.append(model(x))
    torch.testing.assert_close(*outputs)


def test_a_config_names_a_folder_beside_it_and_texts_in_training_give_a_warning(tmp_path: Path) -> None:
    model, _ = tower()
    texts = [f"text {number}" for number in range(12)]
    seen = attncli.capture(model, torch.cat(batches()))
    attncli.save(seen, tmp_path / "seen.safetensors", model="a/Tower", text=texts)
    config = {"study": "fit", "data": {"capture": str(tmp_path / "seen.safetensors")}, "scorers": ["cosine"]}
    attncli.run(config, out=tmp_path / "run")
    (tmp_path / "again.yaml").write_text(
        "data: {capture: seen.safetensors}\nscorers: [{fitted: run, label: cosine}, {scorer: dot}]\n"
    )
    with pytest.warns(UserWarning, match="cosine was fitted to 10 of 12 texts"):
        result = attncli.run(tmp_path / "again.yaml", out=tmp_path / "second")
    with pytest.warns(UserWarning, match="cosine was fitted to 10 of 12 texts"):
        again = attncli.run(tmp_path / "second" / "config.yaml")
    assert again.records == result.records


@pytest.mark.slow
def test_minilm(minilm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The expectations of the built-in experiment hold."""
    monkeypatch.chdir(tmp_path)
    good("run", "fit", "--set", f"model={minilm}", "--no-plots", "--quiet")


def test_one_text_is_too_few() -> None:
    with pytest.raises(InputError, match="got 1 text; expected at least two"):
        attncli.fit(tower()[0], torch.zeros(1, 7, 32), scorers=["cosine"])


class Stopping(Progress):
    """Stops the work at the first step of an entry."""

    def __init__(self, label: str) -> None:
        self._label = label

    def step(self, done: int, total: int, what: str) -> None:
        if what == self._label:
            raise Interrupted


def test_a_label_that_is_not_finished_is_absent_everywhere() -> None:
    """Ctrl-C keeps the labels that are finished."""
    data = {"name": "x", "study": "fit", "model": "tests.studies.swap.models:tower", "steps": 3, "held_out": 0.5}
    options = FitOptions.model_validate({**data, "scorers": [{"scorer": "cosine"}, {"scorer": "general"}]})
    prepared = study.prepare(options, Progress())
    result = study.run(prepared, Stopping("general"))
    assert result.interrupted
    assert result.labels == ["model", "cosine"]
    assert {name.partition("/")[0] for name in result.parameters} == {"cosine"}
    assert [*FitFacts.of(result).fitted.entries] == ["cosine"]
    assert {finding.label for finding in result.findings} == {"cosine"}
    with pytest.raises(Interrupted):
        study.run(prepared, Stopping("model"))


def test_texts_of_batches() -> None:
    """Texts in Python are hashed, so that other runs know them; one in both parts gives a warning."""
    names = [f"text {number}" for number in range(12)]
    facts = FitFacts.of(fitted(texts=names, scorers=["cosine"])).fitted
    assert len(facts.trained_on) == 10
    assert facts.texts is not None
    with pytest.raises(InputError, match="texts: got 11 texts; expected 12, one for each entry of the batches"):
        fitted(texts=names[:-1])
    with pytest.warns(UserWarning, match="1 text is in training and held out, too"):
        attncli.fit(tower()[0], batches(), texts=["same"] * 12, scorers=["cosine"])


class Unequal(torch.nn.Module):
    """Layers of attention with heads of 8 and of 16 features."""

    def __init__(self) -> None:
        super().__init__()
        self.small, self.large = Heads(8), Heads(16)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.large(self.small(x))
        return result


class Heads(torch.nn.Module):
    """Attention of the inputs to themselves."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        heads = x.view(*x.shape[:2], -1, self.size).transpose(1, 2)
        return torch.nn.functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(2)


def test_layers_of_other_sizes_cannot_share_parameters() -> None:
    with pytest.raises(InputError, match=r"per: got .*all.*; the layers have queries and keys of different sizes"):
        attncli.fit(Unequal(), batches(), scorers=["cosine"], per="all")
    result = attncli.fit(Unequal(), batches(), scorers=["cosine"], per="layer")
    assert result.parameters["cosine/large/scale"].shape == (2,)
