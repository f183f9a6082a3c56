"""What the study `swap` measures: models of each kind, labels, batches of every form, and metrics of the user's."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import attncli
from attncli.errors import InputError
from attncli.models.loading import LoadedModel
from attncli.results import Row
from attncli.runtime import Progress
from attncli.studies.swap.options import SwapOptions
from attncli.studies.swap.study import prepare_loaded, run
from tests.cli import refusal, swept
from tests.models.families import of_transformers
from tests.models.written import Computed
from tests.studies.fit.test_study import Stopping
from tests.studies.swap.models import Strides, tower

pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers


def rows(model: nn.Module, *args: Any, **kwargs: Any) -> dict[str, Row]:
    """Return the rows with all layers replaced, by label."""
    result = attncli.swap(model, *args, scorers=["sparsemax"], by="all", **kwargs)
    return {row["label"]: row for row in result.records}


def columns(row: Row) -> list[str]:
    """Return the columns of what was measured."""
    places = ("scorer", "label", "normalizer", "by", "layer", "head", "seconds")
    return [key for key in row if key not in places]


def swapped(model: nn.Module, entry: str, work: Callable[[], Any]) -> Any:
    with attncli.Swap(entry) as swap, torch.no_grad():
        swap.take_names(model)
        return work()


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_labels_count_as_in_transformers(kind: str) -> None:
    """The loss of a row is the loss that transformers computes inside of the same `Swap`."""
    model, inputs = of_transformers(kind)
    if kind == "t5":
        labels = inputs.pop("decoder_input_ids")
        labels[1, 4:] = -100
    else:
        labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
        labels[:, 5:8] = -100
    found = rows(model, **inputs, labels=labels)
    for label in ("model", "sparsemax", "uniform", "zero"):
        loss = float(swapped(model, label, lambda: model(**inputs, labels=labels).loss))
        assert found[label]["loss"] == pytest.approx(loss, rel=1e-5), label


def test_the_kind_of_the_outputs_can_be_stated(here: Path) -> None:
    torch.manual_seed(0)
    layers = {"table": nn.Embedding(11, 32), "attention": Strides(), "head": nn.Linear(32, 11)}
    model = Computed(lambda module, tokens: module.head(module.attention(module.table(tokens))), **layers).eval()
    tokens = torch.randint(11, (3, 6))
    assert columns(rows(model, tokens)["sparsemax"]) == ["relative_l2", "largest"]
    assert columns(rows(model, tokens, outputs="logits")["sparsemax"])[2:] == ["kl", "top1_agreement"]
    row = rows(model, tokens, outputs="language")["zero"]
    logs = swapped(model, "zero", lambda: model(tokens)).log_softmax(-1)
    expected = [-float(logs[text, token, tokens[text, token + 1]]) for text in range(3) for token in range(5)]
    assert row["loss"] == pytest.approx(sum(expected) / 15, rel=1e-5)
    name = "tests.studies.swap.models:tower"
    content = swept("swap", name, "--outputs", "states", "--by", "all")
    assert columns(content["records"][0])[2:] == ["token_cosine", "pooled_cosine", "rank_correlation"]
    assert content["settings"]["kind"] == "states"
    message = f"MODEL {name}: the model gives Tensor of float32; `outputs: language` needs logits (b, n, vocabulary)"
    assert message in refusal("swap", name, "--outputs", "language")


FORMS: dict[str, Callable[[Tensor], Any]] = {
    "a list of tensors": lambda x: [x[:2], x[2:]],
    "a list of mappings": lambda x: [{"x": x[:2]}, {"x": x[2:]}],
    "a loader": lambda x: DataLoader(TensorDataset(x), batch_size=2),
    "a generator": lambda x: iter([x[:2], x[2:]]),
    "a tuple": lambda x: (x,),
    "a mapping": lambda x: {"x": x},
}


@pytest.mark.parametrize("form", FORMS)
def test_batches_of_every_form(form: str) -> None:
    model, _ = tower()
    x = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(3))
    expected, found = rows(model, x), rows(model, FORMS[form](x))
    for key in ("relative_l2", "largest"):
        assert found["sparsemax"][key] == pytest.approx(expected["sparsemax"][key], rel=1e-4)


def classifier() -> nn.Module:
    """Return attention, the mean of its outputs, and two classes; the labels are no input."""
    torch.manual_seed(0)
    return Computed(
        lambda module, x: module.head(module.attention(x).mean(1)), attention=Strides(), head=nn.Linear(32, 2)
    )


def accuracy(model: nn.Module, batch: Any) -> Tensor:
    """Return the share of right classes of a batch of inputs and labels."""
    x, labels = batch
    share: Tensor = (model(x).argmax(-1) == labels).double().mean()
    return share


def labelled() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    x, labels = torch.randn(4, 8, 5, 32, generator=generator), torch.randint(2, (4, 8), generator=generator)
    return [*zip(x, labels, strict=True)]


def test_a_metric_of_batches_with_labels() -> None:
    model, batches = classifier().eval(), labelled()
    found = rows(model, batches, metric=accuracy)
    own = [float(swapped(model, "model", partial(accuracy, model, batch))) for batch in batches]
    for label in ("model", "sparsemax", "zero"):
        new = [float(swapped(model, label, partial(accuracy, model, batch))) for batch in batches]
        changes = [b - a for a, b in zip(own, new, strict=True)]
        mean = sum(changes) / 4
        error = math.sqrt(sum((change - mean) ** 2 for change in changes) / 3 / 4)
        row = found[label]
        assert columns(row) == ["relative_l2", "largest", "metric", "metric_change", "metric_change_se"]
        assert [row["metric"], row["metric_change"], row["metric_change_se"]] == pytest.approx(
            [sum(new) / 4, mean, error]
        )
    assert found["zero"]["metric_change"] != 0


def test_a_metric_sees_the_model_in_evaluation_mode_without_gradients_and_runs_once_a_batch() -> None:
    """It need not call the model as a whole: then there are no outputs to compare."""
    model, calls = classifier().train(), list[tuple[bool, bool]]()

    def metric(inner: Any, batch: Any) -> Tensor:
        calls.append((inner.training, torch.is_grad_enabled()))
        deviation: Tensor = inner.attention(batch[0]).std()
        return deviation

    found = rows(model, labelled(), metric=metric)
    assert calls == [(False, False)] * 4 * (1 + 4), "the model as it is, and four entries"
    assert (model.training, *model._forward_hooks) == (True,)
    row = found["zero"]
    assert (row["relative_l2"], row["largest"]) == (None, None)
    assert row["metric_change"] == pytest.approx(row["metric"] - found["model"]["metric"])


def test_a_metric_of_generated_text() -> None:
    """The outputs are those of the first call, the logits for the end of the prompt."""
    model, inputs = of_transformers("gqa", "sdpa")

    def mean_token(inner: Any, batch: Any) -> float:
        written = inner.generate(**batch, max_new_tokens=3, do_sample=False, pad_token_id=0)
        return float(written[:, -3:].double().mean())

    row = rows(model, inputs, metric=mean_token)["zero"]
    assert row["metric"] == pytest.approx(swapped(model, "zero", lambda: mean_token(model, inputs)))
    assert row["metric_change_se"] is None
    before, after = (swapped(model, label, lambda: model(**inputs).logits[:, -1]) for label in ("model", "zero"))
    assert row["relative_l2"] == pytest.approx(float((after - before).norm() / before.norm()), rel=1e-4)


@pytest.mark.parametrize(
    ("batches", "metric", "message"),
    [
        (iter([]), None, "^attncli.swap: got no batches; expected at least one$"),
        (labelled(), "loss", '^attncli.swap: metric: got "loss"; expected a function of the model and a batch$'),
        (labelled(), lambda *_: 1 / 0, "attncli.swap: model: the metric gave ZeroDivisionError: division by zero"),
        (labelled(), lambda m, b: m(b[0]), r"the metric gave Tensor of shape \[8, 2\]; expected a number"),
        (labelled(), None, "attncli.swap: model: running the model gave TypeError"),
        (
            [torch.zeros(2, 5, 32), torch.zeros(2, 5, 32).index_fill(0, torch.tensor([1]), math.nan)],
            None,
            "^attncli.swap: model: 2 numbers of its output for batch 1 are NaN without any change; expected numbers",
        ),
    ],
)
def test_batches_and_metrics_that_cannot_be_measured(batches: Any, metric: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        rows(classifier().eval(), batches, metric=metric)
    assert "\n" not in str(caught.value)


def test_an_own_scorer_that_changes_the_output_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attncli.studies.swap.study.TOLERANCE", -1.0)
    monkeypatch.setattr("attncli.studies.swap.study.ROUNDINGS", -1)
    message = (
        r"model: the model's own scorer, put into it, changes its output by .+, most in (first|second); expected at"
    )
    with pytest.raises(InputError, match=message):
        rows(*tower())


def test_finished_entries_are_kept_at_an_interrupt() -> None:
    """Runs of a language model wait to be compared with others."""
    model, inputs = of_transformers("gqa", "sdpa")
    loaded = LoadedModel(model, [inputs])
    options = SwapOptions.model_validate({"name": "x", "model": "m", "scorers": [{"scorer": "dot"}], "by": ["all"]})
    result = run(prepare_loaded(options, loaded, Progress()), Stopping("zero all"))
    assert result.interrupted
    expected = rows(model, **inputs)
    assert [row["label"] for row in result.records] == ["model", "dot", "uniform"]
    assert result.formulas["uniform"].startswith("uniform: 1 / m")
    assert result.records[-1]["loss"] == pytest.approx(expected["uniform"]["loss"])


def test_arguments_of_the_function() -> None:
    model, inputs = tower()
    with pytest.raises(InputError, match=r"heads: got \[0\]; they are for `by: head`"):
        attncli.swap(model, inputs, heads=[0])
    with pytest.raises(InputError, match="model: got 5; expected a torch module"):
        attncli.swap(5, inputs)
    with pytest.raises(InputError, match=r'result\.explain: got "swap"; only experiments of the study attention have'):
        attncli.swap(model, inputs, scorers=["dot"], by="all").explain()
