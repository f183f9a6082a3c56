"""The columns of a whole model's outputs against loops in float64, closed forms and resampling."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from attncli.errors import InputError
from attncli.models.changes import Changes
from attncli.models.loading import LoadedModel
from attncli.models.outputs import (
    IGNORED,
    OutputKind,
    Outputs,
    Runner,
    is_language_model,
    output_columns,
    outputs_of,
)
from attncli.results import Row
from tests.models.families import of_transformers

LENGTHS = (100, 3, 3, 3, 3)


def language(lengths: tuple[int, ...], words: int = 7) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return logits before and after a change, valid tokens and targets, for texts of these numbers of predictions."""
    torch.manual_seed(0)
    shape = len(lengths), max(lengths) + 1
    own, valid = torch.randn(*shape, words), torch.arange(shape[1]) <= torch.tensor(lengths)[:, None]
    targets = torch.randint(words, shape).masked_fill(~torch.cat([valid[:, 1:], valid[:, :1] & False], 1), IGNORED)
    return own, own + torch.randn(*shape, words) + torch.randn(len(lengths), 1, 1), valid, targets


def losses(logits: Tensor, targets: Tensor) -> list[float]:
    """Return the sum of the losses of each text, prediction by prediction in Python."""
    texts = []
    for rows, tokens in zip(logits.tolist(), targets.tolist(), strict=True):
        pairs = [(row, token) for row, token in zip(rows, tokens, strict=True) if token != IGNORED]
        texts.append(math.fsum(math.log(math.fsum(map(math.exp, row))) - row[token] for row, token in pairs))
    return texts


def changed(kind: OutputKind, own: Tensor, new: Tensor, valid: Tensor, targets: Tensor | None = None) -> Row:
    """Return the row of a change."""
    return record(*(Outputs(kind, main, valid, targets) for main in (own, new)))


def record(own: Outputs, new: Outputs) -> Row:
    """Return the row of a change; its reference changes nothing."""
    changes, reference = Changes(), Changes()
    changes.add(own, new)
    reference.add(own, own)
    return changes.record(reference)


def test_loss_and_its_standard_error_are_of_the_mean_over_tokens() -> None:
    """The standard error is that of a ratio of sums, by its influence function."""
    own, new, valid, targets = language(LENGTHS)
    before, after = losses(own, targets), losses(new, targets)
    row, count = changed("language", own, new, valid, targets), sum(LENGTHS)
    changes, sizes = np.subtract(after, before), np.array(LENGTHS)
    influences = (changes - changes.sum() / count * sizes) / sizes.mean()
    assert row["loss"] == pytest.approx(math.fsum(after) / count, rel=1e-6)
    assert row["perplexity"] == pytest.approx(math.exp(row["loss"]))
    assert row["loss_change"] == pytest.approx(math.fsum(changes) / count, abs=1e-6)
    assert row["loss_change_se"] == pytest.approx(influences.std(ddof=1) / math.sqrt(5), rel=1e-5)
    of_means = (changes / sizes).std(ddof=1) / math.sqrt(5)
    assert row["loss_change_se"] < of_means / 2, "four short texts weigh little"


@pytest.mark.parametrize("chunk", [128, 5])
def test_batches_chunks_and_the_order_of_texts_change_nothing(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = language(LENGTHS)
    expected, changes, reference = changed("language", *batch), Changes(), Changes()
    monkeypatch.setattr("attncli.models.changes.CHUNK", chunk)
    for texts in ([4, 3, 2], [1, 0]):
        own, new, valid, targets = (each[texts] for each in batch)
        changes.add(*(Outputs("language", main, valid, targets) for main in (own, new)))
        reference.add(*(Outputs("language", own, valid, targets) for _ in range(2)))
    assert changes.record(reference) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_one_text_has_no_standard_error_and_the_models_own_scorer_no_change() -> None:
    own, new, valid, targets = language((5,))
    assert changed("language", own, new, valid, targets)["loss_change_se"] is None
    changes = Changes()
    changes.add(*(Outputs("language", main, valid, targets) for main in (own, new)))
    assert changes.record()["loss_change"] == 0


@pytest.mark.parametrize("kind", ["language", "logits"])
def test_divergence_and_agreement_of_predictions_that_count(kind: OutputKind) -> None:
    """By torch's kernel in float64, and by the share of equal predictions."""
    own, new, valid, targets = language(LENGTHS)
    counted = targets != IGNORED if kind == "language" else valid
    row = changed(kind, own, new, valid, targets if kind == "language" else None)
    before, after = (each[counted].double().log_softmax(-1) for each in (own, new))
    divergence = nn.functional.kl_div(after, before, log_target=True, reduction="batchmean")
    agreement = (before.argmax(-1) == after.argmax(-1)).double().mean()
    assert (row["kl"], row["top1_agreement"]) == pytest.approx((float(divergence), float(agreement)), rel=1e-6)


@pytest.mark.parametrize("kind", ["logits", "states"])
@pytest.mark.parametrize("batches", [(math.nan, 2.0), (2.0, math.nan)])
def test_nan_stays_nan_but_at_padding(batches: tuple[float, float], kind: OutputKind) -> None:
    changes, of_padding, valid = Changes(), Changes(), torch.ones(4, 3) > 0
    valid[0, 2] = False
    for number in batches:
        own, new = torch.randn(4, 3, 2), torch.randn(4, 3, 2)
        new[0, 2] = math.nan
        of_padding.add(*(Outputs(kind, main.clone(), valid) for main in (own, new)))
        new[1, 1, 0] = number
        changes.add(*(Outputs(kind, main, valid) for main in (own, new)))
    assert all(math.isnan(value) for value in changes.record().values())
    assert not any(math.isnan(value) for value in of_padding.record().values())


def test_equal_infinities_agree() -> None:
    own, new, *others = language((6, 4))
    expected = changed("language", own, new, *others)
    own, new = (torch.cat([each, torch.full((*own.shape[:2], 5), -math.inf)], -1) for each in (own, new))  # never used
    assert changed("language", own, new, *others) == pytest.approx(expected, rel=1e-5, abs=1e-6)  # float32
    new[0, 0, -1] = 0.0
    for logits in (own, new):
        logits[0, 2, others[1][0, 2]] = -math.inf  # a target, impossible before and after
    row = changed("language", own, new, *others)
    assert row["largest"] == row["relative_l2"] == row["loss"] == row["perplexity"] == math.inf
    assert math.isfinite(row["kl"])
    assert math.isfinite(row["loss_change"])


def test_equal_similarities_share_their_rank() -> None:
    """Spearman's correlation is that of ranks: one more than the lower values, and half of the other equal ones."""
    torch.manual_seed(0)
    own, new = torch.tensor([[1.0, 0], [1, 0], [-1, 0], [0, 1], [0, 1]]), torch.randn(5, 2)  # a token for each text
    ranks = []
    for states in (own, nn.functional.normalize(new, dim=-1)):
        values = (states @ states.T)[torch.triu_indices(5, 5, 1).unbind()].tolist()
        ranks.append([1 + sum(x < y for x in values) + (values.count(y) - 1) / 2 for y in values])
    row = changed("states", own[:, None], new[:, None], torch.ones(5, 1) > 0)
    assert row["rank_correlation"] == pytest.approx(np.corrcoef(ranks)[0, 1])


def test_outputs_of_zeros() -> None:
    zeros, ones, valid = torch.zeros(2, 3), torch.ones(2, 3), torch.ones(2) > 0
    assert changed("other", zeros, zeros, valid) == {"relative_l2": 0.0, "largest": 0.0}
    assert changed("other", zeros, ones, valid) == {"relative_l2": None, "largest": 1.0}


def test_an_output_of_another_shape_is_refused() -> None:
    with pytest.raises(InputError, match=r"the output has the shape \[2, 4\]; expected \[2, 3\], as the model's own"):
        changed("other", torch.ones(2, 3), torch.ones(2, 4), torch.ones(2) > 0)


@pytest.mark.parametrize("kind", ["language", "logits", "states", "other"])
@pytest.mark.parametrize("metric", [None, 1.0])
def test_rows_have_the_columns_of_their_kind(kind: Any, metric: float | None) -> None:
    shape, targets = (4, 3, 5), torch.zeros(4, 3, dtype=torch.long) if kind == "language" else None
    outputs = Outputs(kind, torch.randn(shape), torch.ones(shape[:2]) > 0, targets, metric)
    assert [*record(outputs, outputs)] == [column.key for column in output_columns(kind, metric is not None)]


LOGITS = torch.randn(2, 3, 4)
FORMS: dict[str, tuple[Any, str, Tensor]] = {
    "a number": (3.5, "other", torch.tensor([3.5], dtype=torch.float64)),
    "a tensor without axes": (torch.tensor(2.0), "other", torch.tensor([2.0])),
    "logits beside a loss": ({"loss": torch.tensor(2.0), "logits": LOGITS}, "logits", LOGITS),
    "a loss alone": ({"loss": torch.tensor(2.0)}, "other", torch.tensor([2.0])),
    "classes of texts": ({"logits": LOGITS[:, 0]}, "logits", LOGITS[:, :1]),
    "one class": ({"logits": LOGITS[..., :1]}, "other", LOGITS[..., :1]),
    "sparse": (LOGITS.relu().to_sparse(), "other", LOGITS.relu()),
    "states": ({"last_hidden_state": LOGITS}, "states", LOGITS),
    "integers before numbers": ((torch.ones(2, dtype=torch.long), [LOGITS]), "other", LOGITS),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_outputs_of_every_form(form: str) -> None:
    output, kind, main = FORMS[form]
    outputs = outputs_of(tiny(), (torch.ones(2, 3),), {}, output)
    assert outputs.kind == kind
    torch.testing.assert_close(outputs.main, main)
    assert [*record(outputs, outputs).values()][:2] == [0, 0]


@pytest.mark.parametrize(
    ("output", "kind", "message"),
    [
        (torch.ones(2, 3, dtype=torch.long), None, "gives Tensor of int64; expected floating-point logits or states"),
        ({"ids": torch.ones(2, dtype=torch.int32)}, None, r"gives dict \(ids\) of int32; expected"),
        (None, None, "gives NoneType without numbers; expected"),
        (torch.ones(0, 3), None, "gives Tensor without numbers; expected"),
        ({"logits": LOGITS}, "states", r"dict \(logits\) of float32; `outputs: states` needs states \(..., d\) as"),
        (LOGITS, "language", r"`outputs: language` needs logits \(b, n, vocabulary\), and the tokens"),
    ],
)
def test_outputs_that_cannot_be_measured(output: Any, kind: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        outputs_of(tiny(), (torch.ones(2, 3),), {}, output, kind)
    assert "\n" not in str(caught.value)


def tiny(kind: str = "Tiny", **config: Any) -> Any:
    """Return a model of a class of this name, with these keys of a config, if any."""
    model = type(kind, (nn.Identity,), {})()
    if config:
        model.config = SimpleNamespace(**config)
    return model


CAUSAL = "TinyForCausalLM"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (tiny(CAUSAL), True),
        (nn.Sequential(tiny(CAUSAL)), True),
        (tiny(), False),
        (tiny(architectures=["LlamaForCausalLM"]), True),
        (tiny(architectures=["BertForMaskedLM"], is_decoder=False), False),
        (tiny(architectures=None, is_decoder=True), True),
        (tiny("TinyForMaskedLM", architectures=["LlamaForCausalLM"]), False),
    ],
)
def test_a_language_model_by_class_or_config(model: nn.Module, expected: bool) -> None:
    assert is_language_model(model) is expected
    tokens = torch.randint(4, (2, 3))
    output = outputs_of(model, (tokens,), {"input_ids": tokens}, {"logits": LOGITS})
    assert output.kind == ("language" if expected else "logits")
    if expected:
        torch.testing.assert_close(output.targets[:, :-1], tokens[:, 1:])  # type: ignore[index]


TOKENS, MASK = torch.tensor([[3, 1, 2], [3, 1, 2]]), torch.tensor([[0, 1, 1], [1, 1, 0]])
DECODES = {"decoder_input_ids": TOKENS, "decoder_attention_mask": MASK}


@pytest.mark.parametrize(
    ("args", "inputs"),
    [
        ((TOKENS, MASK), {"attention_mask": MASK}),
        ((), {"input_ids": TOKENS * 0, "attention_mask": MASK * 0 + 1, **DECODES}),  # a decoder has both of its own
    ],
)
def test_the_next_token_counts_if_neither_is_padding(args: tuple[Tensor, ...], inputs: dict[str, Tensor]) -> None:
    outputs = outputs_of(tiny(CAUSAL), args, inputs, LOGITS)
    assert outputs.targets is not None
    assert outputs.targets.tolist() == [[IGNORED, 2, IGNORED], [1, IGNORED, IGNORED]]
    for each in (outputs, outputs_of(tiny(), args, inputs, {"last_hidden_state": LOGITS})):
        assert torch.equal(each.valid, MASK.bool())


def test_tokens_of_another_vocabulary_are_no_targets() -> None:
    tokens = torch.full((2, 3), 4)
    assert outputs_of(tiny(CAUSAL), (tokens,), {}, LOGITS).kind == "other"
    assert outputs_of(tiny(CAUSAL), (tokens - 1,), {}, LOGITS).kind == "language"
    headless = tiny(architectures=["GPT2LMHeadModel"], vocab_size=5)
    assert outputs_of(headless, (tokens - 1,), {}, (LOGITS,)).kind == "other"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "is_last"), [("gqa", True), ("gpt2", True), ("t5", True), ("gemma2", False)])
@torch.no_grad()
def test_logits_are_made_from_states_if_the_output_layer_is_the_last_step(kind: str, is_last: bool) -> None:
    """Gemma 2 caps its logits after this layer, so these are kept whole."""
    model, inputs = of_transformers(kind)
    if kind == "gpt2":
        inputs["labels"] = inputs["input_ids"]
    head: Any = model.get_output_embeddings()  # type: ignore[operator]
    runner, before = Runner(LoadedModel(model, [inputs])), {**vars(head)}
    logits, own = model(**inputs).logits, runner.run(inputs)
    new = runner.run(inputs, own)
    assert (own.head is head) == is_last
    for outputs in (own, new):
        torch.testing.assert_close(outputs.rows(torch.arange(9, 14)), logits.flatten(0, 1)[9:14].float())
        assert not is_last or outputs.main.shape[-1] == head.in_features  # type: ignore[union-attr]
    with pytest.raises(InputError, match="running the model gave"):
        runner.run({**inputs, "input_ids": "words"}, own)
    assert vars(head) == before, "the module is as before"
