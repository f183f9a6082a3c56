"""The study as users run it: rows, files, references, and fitted scorers put to use."""

import errno
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, ClassVar
from unittest.mock import Mock

import pytest
import torch
from pydantic import Field
from torch import Tensor, nn

import attncli
from attncli.core.seeding import generator
from attncli.errors import InputError
from attncli.normalizers import Normalizer
from attncli.runtime import Interrupted, Progress
from attncli.studies.fit import study
from attncli.studies.fit.columns import FitFacts
from attncli.studies.fit.options import FitOptions
from tests.cli import attncli as command
from tests.cli import good
from tests.experiments import Notes
from tests.reference import ORACLES
from tests.studies.swap.models import tower

LABELS = ("cosine", "additive_4", "sparsemax")
SCORERS = ["cosine", "additive:num_hiddens=4", "sparsemax"]
TEXTS = [f"text {number}" for number in range(12)]

pytestmark = [pytest.mark.usefixtures("sketches"), pytest.mark.filterwarnings("ignore")]


def batches() -> list[Tensor]:
    randomness = torch.Generator().manual_seed(1)
    return [torch.randn(count, 7, 32, generator=randomness) for count in (4, 3, 5)]


def held_out() -> Tensor:
    return torch.cat(batches())[torch.randperm(12, generator=generator(0, "fit.held_out"))[:2]]


def changes(result: attncli.Result, labels: Collection[str]) -> dict[str, float]:
    """Return the relative change of the whole model's outputs with each of these entries."""
    rows = {row["label"]: row["relative_l2"] for row in result.records if row["by"] == "all"}
    return {label: rows[label] for label in labels}


def fitted(model: nn.Module | None = None, inputs: Any = None, **keys: Any) -> attncli.Result:
    given = tower()[0] if model is None else model, batches() if inputs is None else inputs
    return attncli.fit(*given, **{"scorers": SCORERS, "steps": 5, **keys})


def entry(run: attncli.Result, label: str) -> dict[str, Any]:
    return {"fitted": str(run.folder), "label": label}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, sketches: Any) -> attncli.Result:
    """Fit three scorers to all heads."""
    return fitted(out=tmp_path_factory.mktemp("fit") / "run", texts=TEXTS)


@pytest.fixture(scope="module")
def of_some_heads(tmp_path_factory: pytest.TempPathFactory, sketches: Any) -> attncli.Result:
    """Fit two scorers to two heads of the second layer."""
    folder = tmp_path_factory.mktemp("fit") / "heads"
    return fitted(out=folder, layers=["second"], heads=[0, 2], scorers=SCORERS[:2])


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Capture the calls of all texts."""
    file = tmp_path_factory.mktemp("captured") / "seen.safetensors"
    attncli.save(attncli.capture(tower()[0], torch.cat(batches())), file, model="a/Tower", text=TEXTS)
    return file


def test_rows(run: attncli.Result) -> None:
    """A row for each label and head, references among them, and one for the whole model with `swap`'s columns."""
    assert run.labels == ["model", *LABELS, "uniform", "keys_alone"]
    parameters = {"model": 0, "cosine": 1, "additive_4": 4 * 8 * 2 + 4, "sparsemax": 1, "uniform": 0, "keys_alone": 8}
    for label, count in parameters.items():
        *heads, whole = (row for row in run.records if row["label"] == label)
        assert [(row["layer"], row["head"]) for row in heads] == [(x, y) for x in ("first", "second") for y in range(4)]
        assert (whole["by"], whole["layer"], whole["head"]) == ("all", None, None)
        for row in heads:
            assert (row["by"], row["parameters"]) == ("head", count)
            assert [row[key] is None for key in ("kl", "kl_before", "kl_train")] == [label == "sparsemax"] * 3
        if label == "model":
            assert max(row["kl"] for row in heads) < 1e-8
            assert whole["relative_l2"] < 1e-5
        assert label != "cosine" or whole["relative_l2"] < whole["relative_l2_before"]


def test_a_run_again_has_the_same_numbers(run: attncli.Result) -> None:
    """Options that were learnt are not written into the config, so that they are learnt again."""
    assert run.folder is not None
    assert "scale: 1" not in (run.folder / "config.yaml").read_text()
    assert {*attncli.load(run.folder).parameters} == {*run.parameters}
    assert fitted(texts=TEXTS).records == run.records


def test_used_again(run: attncli.Result, captured: Path) -> None:
    """A fitted entry has the same effect in `fit`, in `swap`, in `attncli.Swap`, and in runs on captured calls."""
    model, entries = tower()[0], [entry(run, label) for label in LABELS]
    fitted_changes, x = changes(run, LABELS), held_out()
    swapped = attncli.swap(model, x, scorers=entries, by="all")
    assert changes(swapped, LABELS) == pytest.approx(fitted_changes, rel=1e-4)
    with torch.no_grad():
        own = model(x)
        with attncli.Swap(entries[0]):
            new = model(x)
    with attncli.Swap("zero", layers=["first"]):
        behind = fitted(layers=["second"], scorers=["cosine"]).parameters["cosine/second/scale"]
    assert (behind - run.parameters["cosine/second/scale"]).abs().max() > 0.01
    assert float((new - own).norm() / own.norm()) == pytest.approx(fitted_changes["cosine"], rel=1e-4)
    data = {"capture": str(captured), "layers": ["second"]}
    with pytest.warns(UserWarning, match="cosine was fitted to 10 of 12 texts"):
        scores = attncli.run({"data": data, "scorers": entries}).tensors["second/cosine/scores"]
    with attncli.Capture() as seen:
        model(torch.cat(batches()))
    (record,) = (each for each in seen.records if each.layer == "second")
    scale = float(run.parameters["cosine/second/scale"][2])
    wanted = ORACLES["cosine"](nn.Identity(), record.queries[1, 2], record.keys[1, 2], scale=scale)
    torch.testing.assert_close(scores[1, 2].double(), wanted, rtol=1e-4, atol=1e-5)


def test_a_captured_file_and_a_config_beside_the_run(run: attncli.Result, captured: Path) -> None:
    """Its heads have the same figures; texts in training give a warning."""
    folder = captured.parent
    data = {"study": "fit", "data": {"capture": str(captured)}, "scorers": ["cosine"]}
    result = attncli.run(data, out=folder / "run")
    wanted = {(row["layer"], row["head"]): row["kl"] for row in run.records if row["label"] == "cosine"}
    assert {row["by"] for row in result.records} == {"head"}
    for row in result.records:
        assert row["label"] != "cosine" or row["kl"] == pytest.approx(wanted[row["layer"], row["head"]], rel=1e-4)
    (folder / "x.yaml").write_text(
        "data: {capture: seen.safetensors, layers: [0], heads: [0]}\nscorers: [{fitted: run, label: cosine}]\n"
    )
    records = []
    for config, out in ((folder / "x.yaml", folder / "second"), (folder / "second" / "config.yaml", None)):
        with pytest.warns(UserWarning, match="cosine was fitted to 10 of 12 texts"):
            records.append(attncli.run(config, out=out).records)
    assert records[0] == records[1]
    attncli.save(attncli.capture(tower()[0], torch.cat(batches())), folder / "cut.safetensors", text="one text")
    data["data"] = {"capture": str(folder / "cut.safetensors"), "layers": [0], "heads": [0]}
    facts = FitFacts.of(attncli.run(data, steps=0)).fitted
    assert facts.trained_on == [], "of a text in several batch elements it is unknown"


def test_some_heads_have_the_same_parameters_and_can_be_put_into_them(
    run: attncli.Result, of_some_heads: attncli.Result
) -> None:
    for name, values in of_some_heads.parameters.items():
        torch.testing.assert_close(values, run.parameters[name][[0, 2]], rtol=1e-4, atol=1e-4)
    cosine, (model, x), outputs = entry(of_some_heads, "cosine"), tower(), list[Tensor]()
    for swap in (
        attncli.Swap(cosine, layers=["second"], heads=[0, 2]),
        attncli.Swap({"second": {"heads": {0: cosine, 2: cosine}}}),
    ):
        with torch.no_grad(), swap:
            outputs.append(model(x))
    torch.testing.assert_close(*outputs)


class Tempered(nn.Module):
    """q . M k / tau"""

    learnable: ClassVar = {"tau": (0.0, 10.0)}

    def __init__(self, query_size: int, key_size: int, *, tau: float = 2.0) -> None:
        super().__init__()
        self.tau, self.M = tau, nn.Parameter(torch.eye(query_size, key_size))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return queries @ self.M @ keys.mT / self.tau


class Warm(Normalizer):
    """softmax of s / tau"""

    learnable: ClassVar = {"tau": (0.0, float("inf"))}

    def __init__(self, *, tau: Annotated[float, Field(gt=0)] = 30.0) -> None:
        super().__init__()
        self.tau = tau

    def forward(self, scores: Tensor, valid: Tensor | None = None) -> Tensor:
        assert valid is not None
        return (scores / self.tau).masked_fill(~valid, -torch.inf).softmax(-1)


class Unequal(nn.Module):
    """Attention with heads of 8 and of 16 features."""

    def forward(self, x: Tensor) -> Tensor:
        for size in (8, 16):
            heads = x.view(*x.shape[:2], -1, size).transpose(1, 2)
            x = nn.functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(2)
        return x


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"dtype": "float16"}, "^attncli.fit: dtype: the model and its batches are used as they are; leave it out$"),
    ({"texts": TEXTS[:-1]}, "texts: got 11 texts; expected 12, one for each entry of the batches"),
    (
        {"scorers": [{"scorer": f"{__name__}:Tempered", "normalizer": f"{__name__}:Warm"}]},
        r"scorers\[0\]: got the option tau, which the scorer and the normaliser would both learn; rename it",
    ),
    (
        {"scorers": [type("Odd", (Tempered,), {"learnable": 3})]},
        r"attncli.fit: scorers\[0\].*scorer: got .* whose `learnable` is 3; expected ranges of its options, such as",
    ),
    (
        {"scorers": [type("Odd", (Tempered,), {"learnable": {"tau": (0.0, 1.0)}})]},
        r"attncli.fit: scorers\[0\].*got 2.0 as tau of Odd before any step; expected a number between 0 and 1",
    ),
    ({"inputs": torch.zeros(1, 7, 32)}, "got 1 text; expected at least two"),
    ({"inputs": torch.zeros(4, 1, 32)}, "no query of the texts to learn from sees two keys; expected longer"),
    ({"model": Unequal(), "per": "all"}, "per: got .*all.*; the layers have queries and keys of different sizes"),
]


@pytest.mark.parametrize(("keys", "message"), REFUSED)
def test_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted(**keys)


def test_refused_entries(run: attncli.Result, of_some_heads: attncli.Result, tmp_path: Path) -> None:
    cosine, (model, x) = entry(of_some_heads, "cosine"), tower()
    for keys, message in (
        ({"scorers": [cosine]}, "nothing was fitted to first"),
        ({"scorers": [cosine], "layers": ["second"]}, "nothing was fitted to heads 1 or 3 of second"),
    ):
        with pytest.raises(InputError, match=message):
            attncli.swap(model, x, by="all", **keys)
    with pytest.raises(InputError, match="fitted to the model Tower, not to Sequential"):
        attncli.swap(nn.Sequential(model), x, scorers=[{"label": "mixed", "plan": {0: cosine}}], by="all")
    attncli.save(attncli.capture(model, x), tmp_path / "seen.safetensors", model="Other")
    data = {"capture": str(tmp_path / "seen.safetensors")}
    for name in ("variance", "saturation", "doctor", "attention"):
        with pytest.raises(InputError, match="got cosine, fitted to the model Tower, not to Other"):
            attncli.run({"study": name, "data": data, "scorers": [entry(run, "cosine")]})
    with pytest.raises(InputError, match="got cosine, fitted to the model Tower, not to tower"):
        attncli.run({"study": "doctor", "model": "tests.studies.swap.models:tower", "scorers": [entry(run, "cosine")]})


@pytest.mark.nightly
def test_minilm(minilm: str, here: Path) -> None:
    """The expectations of the built-in experiment hold; `swap` warns of texts that its scorers were fitted to."""
    good("run", "fit", "--set", f"model={minilm}", "--no-plots", "--quiet", "--out", "run")
    texts = (Path(__file__).parents[3] / "experiments" / "sentences.txt").read_text().splitlines()[:6]
    flags = [flag for text in texts for flag in ("--text", text)]
    swapped = command("swap", minilm, *flags, "--set", "scorers=[{fitted: run, label: cosine}]", "--no-plots")
    assert swapped.exit_code == 0
    assert "cosine was fitted to 5 of 6 texts; its figures would be worse for other texts" in swapped.stderr


class Stopping(Notes):
    """Keeps notes and labels of steps, and stops the work at the first step of a label after a number of them."""

    def __init__(self, label: str = "", steps: int = 0) -> None:
        super().__init__()
        self._label, self._steps = label, steps

    def step(self, done: int, total: int, what: str) -> None:
        self.notes.append(what)
        self._steps -= what == self._label
        if self._steps < 0:
            raise Interrupted


def prepared(**keys: Any) -> study.PreparedFit:
    data = {"name": "x", "study": "fit", "model": "tests.studies.swap.models:tower", "steps": 3, "held_out": 0.5}
    entries = [{"scorer": "cosine"}, {"scorer": "general"}]
    return study.prepare(FitOptions.model_validate({**data, "scorers": entries, **keys}), Progress())


def test_what_is_not_finished_is_absent_everywhere() -> None:
    """Ctrl-C keeps the layers that are finished, and the labels that are finished in the whole model."""
    labels = ["model", "cosine", "general", "uniform", "keys_alone"]
    for stopping, layers, whole in (
        (Stopping("uniform", 1), ["first"], []),
        (Stopping("general", 2 * 4), ["first", "second"], ["model", "cosine"]),
    ):
        result = study.run(prepared(), stopping)
        assert result.interrupted
        assert result.labels == labels
        assert [row["label"] for row in result.records if row["by"] == "all"] == whole
        assert {name.rpartition("/")[0] for name in result.parameters} == {
            f"{label}/{layer}" for label in labels[1:3] for layer in layers
        }
        assert [*FitFacts.of(result).fitted.layers] == layers == [*result.layers]
    for label in ("model", "uniform"):
        with pytest.raises(Interrupted):
            study.run(prepared(), Stopping(label))


def test_time_and_memory_are_estimated_after_the_first_layer() -> None:
    """Three of five entries learn. All layers together have their memory only."""
    words = r"2 layers of about \S+ s and 8 runs of the model of about \S+ s: \S+ s and \d+\.\d GiB"
    for per, label, count, text in (
        ("head", "uniform", 1, words),
        ("all", "cosine", 0, r"`per: all` holds all 2 layers in memory: \d+\.\d GiB"),
    ):
        progress = Stopping()
        study.run(prepared(per=per), progress)
        (place,) = (index for index, line in enumerate(progress.notes) if re.fullmatch(text, line))
        assert progress.notes[:place].count(label) == count


def test_a_text_in_training_and_held_out_gives_a_warning() -> None:
    with pytest.warns(UserWarning, match="1 text is in training and held out, too"):
        fitted(texts=["same"] * 12, scorers=["cosine"], layers=[0])


def test_an_object_can_be_fitted_but_not_saved(tmp_path: Path) -> None:
    """Of a module, which is made already, only the parameters are learnt."""

    class Local(Tempered):
        """A class that no config can name."""

    for scorer, names in ((Local, {"Local/second/M", "Local/second/tau"}), (Local(8, 8), {"Local/second/module.M"})):
        result = fitted(scorers=[scorer], layers=[1])
        assert {*result.parameters} == names
        assert result.parameters[min(names)].shape == (4, 8, 8)
        with pytest.raises(InputError, match=r"scorers\[0\]: got a module or a class, which the config.yaml in `out`"):
            fitted(scorers=[scorer], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_options_of_own_scorers_and_normalizers(tmp_path: Path) -> None:
    """They are learnt if their class says so, named in the findings, and used again."""
    warm = {"scorer": "scaled_dot", "scale": 1.0, "normalizer": f"{__name__}:Warm", "label": "warm"}
    result = fitted(scorers=[f"{__name__}:Tempered", warm], steps=60, out=tmp_path / "run")
    whole = {row["label"]: row for row in result.records if row["by"] == "all" and row["label"] in ("Tempered", "warm")}
    for label in whole:
        values = result.parameters[f"{label}/first/tau"]
        assert len({*values.tolist()}) == 4
        (finding,) = (each for each in result.findings if each.label == label)
        assert "fitted tau " in finding.text
        assert whole[label]["relative_l2"] < whole[label]["relative_l2_before"]
    entries = [entry(result, label) for label in whole]
    swapped = attncli.swap(tower()[0], held_out(), scorers=entries, by="all")
    assert changes(swapped, whole) == pytest.approx(changes(result, whole), rel=1e-4)


def test_fitted_scorers_have_the_heads_of_the_capture(captured: Path, tmp_path: Path) -> None:
    """Each head of `saturation` has the weights of this head in `attention`."""
    result = fitted(scorers=["cosine", "additive:num_hiddens=3", "dot:normalizer=ssmax"], out=tmp_path / "run")
    entries = [entry(result, label) for label in ("cosine", "additive_3", "dot_ssmax")]
    data = {"capture": str(captured), "layers": [1], "heads": [2, 0]}
    whole = attncli.run({"data": data, "scorers": entries})
    rows = attncli.run({"study": "saturation", "data": data, "scorers": entries}).records
    assert len(rows) == 3 * 2
    for row in rows:
        layer, label, position = row["layer"], row["label"], [0, 2].index(row["head"])
        weights = whole.tensors[f"{layer}/{label}/weights"][:, position].double()
        valid = whole.inputs[f"{layer}/valid"].expand(len(weights), -1, -1, -1)[:, 0]
        weights = weights[valid.sum(-1) >= 2]
        assert row["max_weight"] == pytest.approx(float(weights.amax(-1).mean()), rel=1e-5), label
        nats = torch.special.entr(weights / weights.sum(-1, keepdim=True)).sum(-1)
        assert row["effective_keys"] == pytest.approx(float(nats.exp().mean()), rel=1e-5), label


def test_a_full_disk_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("attncli.models.spool.pickle.dump", Mock(side_effect=full))
    with pytest.raises(InputError, match=r"attention calls are kept in .*; No space left on device; .* in TMPDIR"):
        fitted()
