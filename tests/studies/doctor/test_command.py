"""The command `attncli doctor`: its sources, its findings, its output, and wrong input."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import attncli as package
from attncli.studies.doctor.checks import CHECKS
from tests.cli import attncli, experiment, good, refusal, results, swept
from tests.models.families import of_transformers
from tests.studies.doctor.test_batch import checked as of_model
from tests.studies.swap.models import Written

MINILM = Path(__file__).parents[3] / "experiments" / "minilm.safetensors"
TEXTS = ["The cat sat on the mat because it was tired.", "Astronomers found another planet, far outside the system."]
pytestmark = [pytest.mark.usefixtures("here"), pytest.mark.filterwarnings("ignore")]


def found(*arguments: object, out: str = "out") -> set[tuple[str | None, int | None, str]]:
    """Return layer, head and check of each row."""
    return {(row["layer"], row["head"], row["check"]) for row in swept("doctor", *arguments, out=out)["records"]}


def planted() -> Path:
    """Write a config with nine heads, each but the first with something to find, and return its path."""
    n = 32
    q, k, v = torch.randn(3, 1, 9, n, 9, generator=torch.Generator().manual_seed(0))
    bias, valid = torch.zeros(1, 9, n, n), torch.ones(1, 9, n, n, dtype=torch.bool)
    q[..., -1] = k[..., -1] = 0
    q[:, 1] = 0
    q[:, 2] *= 500
    bias[:, 3, :, 0] = 5
    bias[:, 4].diagonal(-1, -2, -1).fill_(6)
    bias[:, 5].diagonal(1, -2, -1).fill_(6)
    q[:, 7], k[:, 7] = q[:, 6], k[:, 6]
    v[:, 8] *= 0.001
    q[:, 0, 5, -1], k[:, 0, 7, -1] = -200, 200  # one product of -40000, and a score of -13333
    valid[:, 8, 3] = False
    save_file({"q": q, "k": k, "v": v, "bias": bias, "may_attend": valid}, "planted.safetensors")
    named = {role: {"file": "planted.safetensors", "tensor": name} for role, name in zip(ROLES, "qkv", strict=True)}
    data = {**named, "bias": {"file": "planted.safetensors", "tensor": "bias"}}
    mask = {"file": "planted.safetensors", "tensor": "may_attend"}
    return experiment(Path("planted.yaml"), data=data, mask=mask, scorers=["scaled_dot"])


ROLES = ("queries", "keys", "values")
REMARKS = ("uniform", "saturated", "first_key", "previous_key", "next_key", "duplicate", "duplicate", "silent")
PLANTED = ("overflow", *REMARKS)


def test_each_planted_fault_of_a_config_is_found_shown_and_drawn_and_nothing_else() -> None:
    expected = {(None, head, check) for head, check in enumerate(PLANTED)} | {(None, 8, "dead_query")}
    assert found(planted()) == expected
    lines = good("doctor", "planted.yaml", "--out", "drawn").splitlines()
    assert lines[7].split() == ["O", "U", "S", "F", "P", "N", "D", "D", "XZ"]
    assert "- fault, overflow in 1 of 9 heads: head 0 (" in " ".join(lines)
    assert {"doctor.png", "records.csv", "heads.csv"} <= {path.name for path in Path("drawn").iterdir()}
    assert "a run without weights and scores" in refusal("heatmap", "drawn")
    assert "first_key     remark" in good("doctor", "planted.yaml", "--full", "--no-plots")
    assert attncli("doctor", "planted.yaml", "--no-plots", "--fail").exit_code == 1
    assert attncli("doctor", MINILM, "--no-plots", "--fail").exit_code == 0, "it has remarks alone"
    good("run", "planted.yaml", "--out", "run", "--no-plots", "--quiet")
    assert found("run", out="of_run") == found("run/results.json", out="of_results") == expected
    Path("planted.safetensors").unlink()
    good("run", "out/config.yaml", "--out", "again", "--no-plots", "--quiet")
    assert package.compare("out", "again").verdict == "identical"
    names = ["[CLS]", *["word"] * 28, "[SEP]", "[PAD]", "[PAD]"]
    padded = experiment(Path("padded.yaml"), data={role: {"shape": [1, 3, 32, 8]} for role in ROLES}, tokens=names)
    padding = {(None, head, "padding") for head in range(3)}
    assert found(padded, out="padded") == padding
    everything = {check for _, _, check in expected | padding}
    assert everything == {check.key for check in CHECKS} - {"batch"}  # of models alone


def test_queries_without_a_key_are_a_finding_and_no_error() -> None:
    data = {**{role: {"shape": [2, 4, 16, 8]} for role in ROLES}, "valid_lens": [0, 16]}
    experiment(Path("x.yaml"), data=data, scorers=["scaled_dot"], mask={"empty_row": "error"})
    lines = good("doctor", "x.yaml", "--no-plots", "--out", "out")
    assert lines.splitlines()[7].split() == ["X"] * 4
    rows = [(row["head"], row["check"], row["kind"], row["value"]) for row in results()["records"]]
    assert rows == [(head, "dead_query", "fault", 16) for head in range(4)]
    assert "- fault, dead_query in 4 of 4 heads: head 0 (dead queries 16);" in lines


def checked(data: dict[str, Any], *scorers: str, **keys: Any) -> package.Result:
    """Return the result of doctor for tensors, by default of a scaled dot product."""
    return package.run({"study": "doctor", "data": data, "scorers": [*scorers] or ["scaled_dot"], **keys})


@pytest.mark.parametrize(("causal", "shift"), [("bottom_right", 16), ("top_left", 0)])
def test_positions_of_fewer_queries_than_keys(causal: str, shift: int) -> None:
    bias = 8 * torch.ones(8, 24).tril(shift - 1).triu(shift - 1)
    data = {"queries": {"shape": [1, 2, 8, 4]}, "keys": {"shape": [1, 2, 24, 4]}, "bias": bias}
    rows = checked(data, mask={"causal": causal}).records
    assert (0, "previous_key") in [(row["head"], row["check"]) for row in rows]


def test_a_captured_file_and_a_model_with_texts_of_different_lengths(minilm: str) -> None:
    captured, both = found(MINILM, out="captured"), found(minilm, "--text", TEXTS[0], "--text", TEXTS[1])
    own = "encoder.layer.0.attention.self"
    for everything in (captured, both):
        assert {(own, 2, "saturated"), (own, 2, "previous_key")} <= everything
        assert sum(check == "first_key" for _, _, check in everything) > 40
    assert found("minilm", out="builtin") >= captured, "with the scorers of the experiment"
    assert {check for _, _, check in both} == {"saturated", "previous_key", "first_key", "batch"}
    good("run", "out/config.yaml", "--out", "again", "--no-plots", "--quiet")
    assert package.compare("out", "again").verdict != "different"


class Careless(Written):
    """A model that ignores the mask of its inputs."""

    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return super().forward(x)


class Tokenized(dict[str, Tensor]):
    """The output of a fast tokenizer, without its mask."""

    encodings = (SimpleNamespace(attention_mask=[1] * 12), SimpleNamespace(attention_mask=[0] * 4 + [1] * 8))


def careless() -> tuple[nn.Module, dict[str, Tensor]]:
    torch.manual_seed(0)
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, :4] = 0
    return Careless(), {"x": torch.randn(2, 12, 32), "attention_mask": mask}


NAMES = [["a"] * 12, ["[PAD]"] * 4 + ["b"] * 8]


@pytest.mark.parametrize("given", ["a mask", "a tokenizer", "names", "nothing"])
def test_a_model_that_ignores_its_mask_or_gets_none(given: str) -> None:
    model, inputs = careless()
    x = {"x": inputs["x"]}
    sources: dict[str, Any] = {"a mask": [inputs], "a tokenizer": [Tokenized(x)], "names": [x, NAMES], "nothing": [x]}
    result = of_model(model, *sources[given])
    found = {(row["head"], row["kind"]) for row in result.records if row["check"] == "padding"}
    assert found == ({(h, "fault") for h in range(4)} if given != "nothing" else set())
    is_unknown = [finding.text.startswith("Padding was not checked") for finding in result.findings]
    assert sum(is_unknown) == (given == "nothing")


@pytest.mark.parametrize("before", [True, False])
def test_a_scale_before_the_product_keeps_it_small(before: bool) -> None:
    q, k = torch.randn(2, 1, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    q[..., 5, 0], k[..., 7, 0] = -200, 200  # a product of -40000
    scale, after = (0.25, 1.0) if before else (1.0, 0.25)
    seen = package.capture(lambda: scaled_dot_product_attention(q * scale, k, k, scale=after))
    package.save(seen, "seen.safetensors")
    assert any(check == "overflow" for _, _, check in found("seen.safetensors")) is not before


def test_what_cannot_be_told() -> None:
    data = {role: {"shape": [1, 2, 7, 8], "fill": "zeros"} for role in ROLES}
    lines = good("doctor", experiment(Path("x.yaml"), data=data), "--no-plots")
    assert "No fault found in 2 heads." in lines
    few = "other checks need 6 queries with finite weights on 3 keys or more, one of them on 8 or more."
    assert f"Only faults were checked: {few}" in " ".join(lines.split())
    assert package.load("outputs/doctor/latest").heads[0]["uniform"] is None


def test_a_sweep_collects_the_numbers_of_all_heads() -> None:
    data = {"capture": str(MINILM), "layers": [0, 1]}
    config = {"study": "doctor", "data": data, "scorers": [{"scorer": "scaled_dot", "label": "own"}]}
    result = package.sweep(config, over={"scorers[0].scale": [0.01, 1, 2]}, jobs=1)
    assert len(result.records) == 3 * 2 * 12
    shares = [row["uniform"] for row in result.records if row["head"] == 3 and "layer.1." in row["layer"]]
    assert shares == sorted(shares, reverse=True)


PADS = [["a", "b", "c", "d", "e", "f"], ["<eot>", "<eot>", "<eot>", "a", "b", "c"]]
BATCH = {role: {"shape": [2, 2, 6, 4]} for role in ROLES}


@pytest.mark.parametrize(("name", "kind"), [("<eot>", "fault"), ("</s>", "fault"), ("[X]", "fault"), ("ha", "remark")])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("inverted", [False, True])
def test_tokens_that_repeat_at_an_end_are_padding(inverted: bool, side: str, name: str, kind: str) -> None:
    """With an inverted mask, words are not: the others, which no query sees, may be padding as well."""
    names = [[name if token == "<eot>" else token for token in text] for text in PADS]
    names = names if side == "left" else [text[::-1] for text in names]
    pads, real = (slice(0, 3), slice(3, 6)) if side == "left" else (slice(3, 6), slice(0, 3))
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[1, real] = not inverted
    found = checked(BATCH, tokens={"keys": names}, mask=mask).records
    rows = [row for row in found if row["check"] == "padding"]
    assert [(row["head"], row["kind"]) for row in rows] == ([] if inverted and name == "ha" else [(0, kind), (1, kind)])
    assert all(row["about"].startswith("Text 1, keys " + ("0 to 2" if side == "left" else "3 to 5")) for row in rows)
    tensors = package.run({"data": BATCH, "scorers": ["scaled_dot"], "mask": mask}).tensors["scaled_dot/weights"]
    for row in rows:
        on_padding = float(tensors[1, row["head"], real, pads].sum())
        assert row["value"] == pytest.approx(on_padding / 9, rel=1e-5), "of the queries that are no padding"


@pytest.mark.parametrize(
    "names",
    [
        [["ha"] * 6, PADS[0]],  # a whole text
        [["<s>", "<s>", "a", "b", "c", "d"], ["<s>", "<s>", "e", "f", "g", "h"]],  # at this end of all texts
        [["<s>", "a", "b", "c", "d", "e"], PADS[0]],  # once
        [["a", "<x>", "<x>", "b", "c", "d"], PADS[0]],  # inside
    ],
)
def test_tokens_that_are_no_padding(names: list[list[str]]) -> None:
    assert {row["padding"] for row in checked(BATCH, tokens={"keys": names}).heads} == {None}


@pytest.mark.parametrize(
    ("tokens", "side"),
    [
        (careless()[1], "left"),
        (Tokenized(careless()[1]), "left"),
        ({"attention_mask": careless()[1]["attention_mask"].flip(1)}, "right"),
        (NAMES, None),
    ],
)
def test_a_captured_file_knows_its_padding_from_a_mask_or_from_tokens(tokens: Any, side: str | None) -> None:
    """A model that ignores the mask has weight on padding."""
    model, inputs = careless()
    package.save(package.capture(model, inputs["x"]), "seen.safetensors", tokens=tokens)
    with safe_open("seen.safetensors", "pt") as file:
        padding = json.loads(file.metadata()["attncli"]).get("padding")
    assert padding == {"left": [[0, 0], [4, 0]], "right": [[0, 0], [0, 4]]}.get(side or "")
    result = package.run({"study": "doctor", "data": {"capture": "seen.safetensors"}})
    rows = [row for row in result.records if row["check"] == "padding"]
    assert [row["kind"] for row in rows] == ["fault"] * (0 if side == "right" else 4), (
        "no real query sees the last keys"
    )
    assert all(row["about"].startswith("Text 1, keys 0 to 3 are padding") for row in rows)


def test_a_head_overflows_once() -> None:
    """Also where its products are too large, and its outputs are not finite."""
    values = torch.ones(1, 9, 1)
    values[0, 0, 0] = math.nan
    data = {"queries": torch.ones(1, 9, 1), "keys": 1e5 * torch.ones(1, 9, 1), "values": values}
    with pytest.warns(UserWarning, match="values"):
        rows = checked(data, "dot").records
    assert [row["value"] for row in rows if row["check"] == "overflow"] == [1e5]


@pytest.mark.parametrize(
    ("bad", "kind"), [(math.nan, "NaN: keys[1, 3]: NaN."), (math.inf, "infinite: keys[1, 3]: inf.")]
)
def test_keys_that_are_not_finite_are_named(bad: float, kind: str) -> None:
    """The other batch element is judged as without them. A query with a score of -inf has finite weights."""
    queries, keys = torch.randn(2, 2, 9, 4, generator=torch.Generator().manual_seed(0))
    other = checked({"queries": queries[:1], "keys": keys[:1]})
    keys[1, 3, 2] = bad
    with pytest.warns(UserWarning, match=r"keys\[1, 3\]"):
        result = checked({"queries": queries, "keys": keys})
    (row,) = [row for row in result.records if row["check"] == "overflow"]
    assert row["about"] == f"Scores are {kind}"
    if math.isnan(bad):
        nats = other.heads[0]["uniform"] * math.log(9)
        assert result.heads[0]["uniform"] * math.log(9) == pytest.approx(nats, rel=1e-6)
        with pytest.warns(UserWarning, match="NaN"):
            run = package.run({"data": {"queries": queries, "keys": keys}, "scorers": ["scaled_dot"]})
        assert run.records[0]["entropy"] == pytest.approx(nats, rel=1e-5), "also of the study attention"


def test_values_that_are_not_finite_are_a_fault_of_their_heads_and_masked_keys_may_have_any_score() -> None:
    values, keys = torch.ones(2, 3, 9, 4), torch.ones(2, 3, 9, 4)
    keys[1, :, 8] = 1e6
    values[1, 2, 3, 0] = math.nan
    values[1, 0, 8] = math.inf  # of a key that no query sees
    data = {"queries": {"shape": [2, 3, 9, 4]}, "keys": keys, "values": values, "valid_lens": [9, 8]}
    with pytest.warns(UserWarning, match="values"):
        result = checked(data, "dot")
    (row,) = [row for row in result.records if row["kind"] == "fault"]
    assert (row["head"], row["check"]) == (2, "overflow")
    assert row["about"] == "Outputs are not finite: values[1, 2, 3]: NaN."
    assert not any(finding.text.startswith("No fault found") for finding in result.findings)


@pytest.mark.parametrize(("pads", "names"), [(0, None), (2, None), (4, [f"t{index}" for index in range(15)])])
def test_the_first_key_is_the_first_that_is_seen(pads: int, names: list[str] | None) -> None:
    """`attention` averages over all queries with a key, `doctor` over those that see three.

    Queries of padding see no key, and no query sees their keys: they are no dead queries.
    """
    torch.manual_seed(0)
    model, _ = of_transformers("llama", "sdpa")
    tokens = torch.cat([torch.zeros(1, pads, dtype=torch.long), torch.randint(5, 90, (1, 11))], -1)
    positions = (torch.arange(11 + pads) - pads).clamp(min=0)[None]
    with torch.no_grad():
        seen = package.capture(model, input_ids=tokens, attention_mask=(tokens > 0).long(), position_ids=positions)
    package.save(seen, "seen.safetensors", tokens=names)
    data = {"data": {"capture": "seen.safetensors"}, "scorers": [{"scorer": "scaled_dot", "scale": "model"}]}
    result, checked = package.run({**data, "save": ["weights"]}), package.run({"study": "doctor", **data})
    for row, judged in zip(result.heads, checked.heads, strict=True):
        weights = result.tensors[f"{row['layer']}/{row['label']}/weights"][0, row["head"], pads:]
        assert row["first_key"] == pytest.approx(float(weights[:, pads].mean()), rel=1e-5)
        assert judged["dead_query"] == 0
        assert judged["first_key"] == pytest.approx(float(weights[2:, pads].mean()), rel=1e-5)
