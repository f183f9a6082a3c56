"""The cheapest plan: a model with three planted layers that need far keys, and all prefixes of its layers."""

import itertools
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

import attncli
from attncli.errors import InputError
from attncli.models.texts import drawn
from attncli.results import Row
from tests.cli import good, refusal, results
from tests.models.written import Computed
from tests.show.samples import shown

FAR = (2, 5, 9)  # the planted layers, each of which reads one bit of the first token
WINDOW: Row = {"scorer": "scaled_dot", "scale": "model", "window": 2, "label": "window"}
NAMES = [f"blocks.{number}" for number in range(12)]
pytestmark = pytest.mark.filterwarnings("ignore")


def attend(block: Any, x: Tensor) -> Tensor:
    """Attend by position alone: to the query's own place, or to the first key, of which it reads the `bit`."""
    place = torch.arange(float(x.shape[1]))
    near = 10.0 if block.bit is None else 0.0
    queries = torch.stack([near * place, place * 0 - 5], -1)  # scores 10 i j - 5 j^2, or -5 j^2
    keys = torch.stack([place, place**2], -1)
    queries, keys = (each.expand(len(x), 1, *each.shape) for each in (queries, keys))
    out = scaled_dot_product_attention(queries, keys, x[:, None, :, :3], is_causal=True, scale=1.0)[:, 0]
    read = torch.zeros(3, 3) if block.bit is not None else torch.eye(3) / 100
    if block.bit is not None:
        read[block.bit, block.bit] = 1 + block.bit / 4
    return x + nn.functional.pad(out @ read, (3, 0))


class PlantedForCausalLM(nn.Module):
    """It says the first token all along: a token has three bits, and the logit of a word counts equal bits."""

    def __init__(self) -> None:
        super().__init__()
        bits = [FAR.index(number) if number in FAR else None for number in range(12)]
        self.blocks = nn.ModuleList(Computed(attend, bit=bit) for bit in bits)
        self.bits: Tensor
        self.register_buffer("bits", torch.tensor([*itertools.product([-1.0, 1.0], repeat=3)]))

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> Tensor:
        x = nn.functional.pad(self.bits[input_ids], (0, 3))
        for block in self.blocks:
            x = block(x)
        return 3 * x[..., 3:] @ self.bits.T


def planted() -> tuple[nn.Module, dict[str, Tensor]]:
    """Return the model and its texts, for `module:function`."""
    tokens = torch.randint(8, (10, 7), generator=torch.Generator().manual_seed(0))
    return PlantedForCausalLM().eval(), {"input_ids": tokens, "labels": tokens[:, :1].expand(-1, 7)}


def loss(texts: Tensor, layers: Any, entry: Any = WINDOW) -> float:
    """Return the loss of some texts with an entry in some layers."""
    model, inputs = planted()
    with torch.no_grad(), attncli.Swap(entry, model, layers=layers) if layers else nullcontext():
        logits = model(**inputs)[texts]
    return float(cross_entropy(logits[:, :-1].flatten(0, 1).double(), inputs["labels"][texts, 1:].flatten()))


def found(within: float | None, scorers: Any = (WINDOW,), **keys: Any) -> tuple[Row, attncli.Result]:
    """Return the last row of the first entry, and the result for two batches of texts."""
    model, inputs = planted()
    batches = [{key: texts[part] for key, texts in inputs.items()} for part in (slice(4), slice(4, 10))]
    result = attncli.swap(model, batches, scorers=[*scorers], within=within, **keys)
    return [row for row in result.records if row["label"] == result.labels[1]][-1], result


def plan_of(result: attncli.Result) -> Row:
    (plan,) = result.facts.plans  # type: ignore[attr-defined]
    return dict(plan)


def test_exactly_the_layers_that_need_no_far_keys_are_found() -> None:
    row, result = found(0.05)
    plan = plan_of(result)
    assert (row["layers"], plan["label"], [*plan["plan"]]) == (9, "window_within", ["0-1,3-4,6-8,10-11"])
    chosen, held_out = drawn(10, 0.2, 0)
    layers = [name for number, name in enumerate(NAMES) if number not in FAR]
    assert row["chosen_change"] == pytest.approx(loss(chosen, layers) - loss(chosen, []), abs=1e-6)
    assert row["loss_change"] == pytest.approx(loss(held_out, layers) - loss(held_out, []), abs=1e-6)
    table = shown(result).partition("Within 0.05 nats, judged on 2 other texts")[2].splitlines()
    assert [*map(str.split, table[1:3])] == [["loss", "chosen"], ["label", "layers", *["change", "±"] * 2, "passes"]]
    (finding,) = (finding for finding in result.findings if finding.label == "window")
    assert "9 layers within 0.05 nats: " in finding.text
    assert "on 2 others, where the bound holds" in finding.text
    by_all = next(row for row in result.records if row["label"] == "window" and row["by"] == "all")
    assert by_all["loss"] == pytest.approx(loss(chosen, NAMES), rel=1e-5), "of the texts that choose"
    references = [(row["label"], row["by"]) for row in result.records if row["label"] in ("uniform", "zero")]
    assert references == [("uniform", "all"), ("zero", "all")], "they choose no layers"


FAR_NAMES = [NAMES[number] for number in FAR]


@pytest.mark.parametrize(
    ("limit", "names"), [*((limit, NAMES) for limit in (0.05, 3.0, 6.0, 9.0)), (0.05, FAR_NAMES), (6.0, FAR_NAMES)]
)
def test_all_prefixes_of_the_same_order(limit: float, names: list[str]) -> None:
    """A loss that rises with every layer has one longest prefix; the worst layer of all is the last."""
    row, result = found(limit, layers=names)
    assert ("window: in 3 chosen layers " in result.findings[0].text) == (names is FAR_NAMES)
    chosen, others = drawn(10, 0.2, 0)
    own = loss(chosen, [])
    order = sorted(names, key=lambda name: loss(chosen, [name]))
    changes = [loss(chosen, order[:count]) - own for count in range(len(names) + 1)]
    assert row["layers"] == max(count for count, change in enumerate(changes) if change <= limit)
    assert row["chosen_change"] == pytest.approx(changes[row["layers"]], abs=1e-5)
    assert row["loss_change"] == pytest.approx(loss(others, order[: row["layers"]]) - loss(others, []), abs=1e-5)
    assert row["passes"] > len(names)


def test_without_a_loss_the_output_has_the_limit() -> None:
    row, result = found(0.05, outputs="logits")
    assert row["layers"] == 9
    assert max(row["relative_l2"], row["chosen_l2"]) < 0.05
    assert not {"loss_change", "chosen_change"} & row.keys()
    assert "9 layers within 5 %: " in result.findings[0].text


def test_a_plan_has_its_own_layers() -> None:
    entry = {"label": "mixed", "plan": {"0-3": WINDOW, "5": "uniform", "7,8": "softmax_plus_one"}}
    row, result = found(0.05, [entry])
    assert (row["layers"], [*plan_of(result)["plan"]]) == (5, ["0-1,3", "7-8"])


def test_the_plan_of_a_run_is_a_file_of_entries(here: Path) -> None:
    arguments = ["swap", "tests.studies.swap.test_within:planted", "--within", "0.05", "--by", "layer", "--no-plots"]
    scorers = ["--scorer", "scaled_dot:scale=model,window=2,label=w", "--scorer", "cosine:scale=8"]
    good(*arguments, *scorers, "--out", "out", "--quiet")
    assert "plan.yaml" in results()["files"]
    entries = yaml.safe_load(Path("out/plan.yaml").read_text())["scorers"]
    labels = [entry["label"] for entry in entries]
    assert labels[0] == "w_within"
    chosen, _ = drawn(10, 0.2, 0)
    (row,) = (row for row in results()["records"] if (row["label"], row["by"]) == ("w", "within"))
    Path("one.yaml").write_text(yaml.safe_dump({"scorers": entries[:1]}))
    assert loss(chosen, NAMES, "one.yaml") - loss(chosen, []) == pytest.approx(row["chosen_change"], abs=1e-6)
    good(*arguments[:2], "--by", "all", "--scorer", "out/plan.yaml", "--scorer", "dot", "--out", "again", "--no-plots")
    assert [row["label"] for row in results("again")["records"]] == ["model", *labels, "dot", "uniform", "zero"]


def test_files_that_are_no_entry(here: Path) -> None:
    Path("several.yaml").write_text("scorers: [cosine, {scorer: dot, label: mine}]")
    Path("bad.yaml").write_text("scorers: 5")
    for entry in ("several.yaml", {0: "several.yaml"}):
        with pytest.raises(InputError, match=r'got "several.yaml"; it has the entries cosine, mine; expected one'):
            attncli.Swap(entry)
    for name, message in (
        ("none.yaml", "No such file or directory; expected a file with entries under `scorers`"),
        ("bad.yaml", "expected a file with a list of entries under `scorers`"),
    ):
        got = refusal("swap", "tests.studies.swap.models:tower", "--scorer", name)
        assert got == f'scorers: got "{name}"; {message}'


def test_a_fitted_entry(here: Path) -> None:
    entry = {"scorer": "scaled_dot", "window": 2, "label": "fitted"}
    attncli.fit(*planted(), scorers=[entry], steps=1, out="fit")
    row, result = found(0.05, [{"fitted": "fit", "label": "fitted"}])
    assert row["layers"] == 9
    plan = plan_of(result)
    (written,) = plan["plan"].values()
    assert written == {"fitted": str(Path("fit/fitted.safetensors").absolute()), "label": "fitted"}
    Path("plan.yaml").write_text(yaml.safe_dump({"scorers": [plan]}))
    chosen, _ = drawn(10, 0.2, 0)
    change = loss(chosen, NAMES, "plan.yaml") - loss(chosen, [])
    assert change == pytest.approx(row["chosen_change"], abs=1e-6)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"within": 0.1}, "within: got 4 texts; expected at least 5, some of which are held out"),
        ({"within": 0.1, "by": "all"}, "within: got 0.1; layers are put in order by their own changes; add `by: layer"),
        ({"held_out": 0.3}, "held_out: got 0.3; it is for `within`; add it, or leave this out"),
    ],
)
def test_wrong_input(keys: Row, message: str) -> None:
    model, inputs = planted()
    with pytest.raises(InputError, match=message):
        attncli.swap(model, {key: texts[:4] for key, texts in inputs.items()}, scorers=[WINDOW], **keys)
