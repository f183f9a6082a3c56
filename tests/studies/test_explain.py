"""`explain`: each number of a query against the run's tensors and slow loops; its screen; a user's own scorers."""

import json
import math
import pickle
import re
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.cells import cell_len
from torch import Tensor, nn
from torch.testing import assert_close

import attncli
from attncli.errors import InputError
from attncli.normalizers import NORMALIZERS, Normalizer
from attncli.results import Explanation
from attncli.scorers import SCORERS, Scorer
from attncli.show.terminal.explanation import lines
from attncli.show.terminal.tables import SCREEN, recorded
from tests import reference
from tests.cli import good
from tests.margins import last_digit
from tests.normalizers.catalogue import VARIANTS as NORMALIZER_VARIANTS
from tests.reference import rounding
from tests.scorers.catalogue import VARIANTS as SCORER_VARIANTS
from tests.scorers.catalogue import make, normal
from tests.studies.test_captured import capped, saved

pytestmark = pytest.mark.catalogue("scorers", "normalizers")
MASKED = {
    "queries": normal(2, 3, 4, 6),
    "keys": normal(2, 3, 5, 6, seed=1),
    "values": normal(2, 3, 5, 2, seed=2),
    "valid_lens": [4, 2],
    "bias": normal(1, 3, 1, 5, seed=3).abs(),
}
ENTRIES: list[dict[str, Any]] = [
    *({"scorer": name, **options} for name, options in SCORER_VARIANTS),
    *({"scorer": "kernel", "normalizer": {"normalizer": name, **options}} for name, options in NORMALIZER_VARIANTS),
    {"scorer": "dot", "softcap": 2.0, "bias": "alibi", "dropout": 0.5},
    {"scorer": "general", "qk_norm": "layer", "window": 2, "first_keys": 1, "normalizer": "ssmax"},
    {"scorer": "scaled_dot", "qk_norm": "rms", "dtype": "float8_e4m3"},
    {"scorer": "scaled_dot", "dtype": "bfloat16", "rounding": "flash"},
    {"scorer": "dot", "normalizer": {"normalizer": "softmax_plus_one", "sink": [0.0, math.log(3), -1.0]}},  # of heads
]
PLACES = [(0, 2, 3), (1, 1, 0)]  # batch element, head, query


def result_of(entry: Mapping[str, Any], data: Mapping[str, Any] = MASKED, **keys: Any) -> attncli.Result:
    return attncli.run({"data": data, "scorers": [{**entry, "label": "it"}], **keys})


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: "-".join(map(str, entry.values())))
def test_the_numbers_are_those_of_the_run(entry: Mapping[str, Any]) -> None:
    result = result_of(entry, train=True, mask={"causal": "bottom_right"})
    for place in PLACES:
        batch, head, query = place
        found = result.explain(batch=batch, head=head, query=query)
        valid = result.inputs["valid"].expand(2, 3, 4, 5)[place].clone()
        if "window" in entry:  # query i is at position i + 1
            valid[entry["first_keys"] : max(query + 2 - entry["window"], 0)] = False
        listed = [row["key"] for row in found.keys]
        assert listed == valid.nonzero()[:, 0].tolist()
        assert found.masked == (~valid).nonzero()[:, 0].tolist()
        stages = {"score": "scores", "capped": "capped", "biased": "biased", "weight": "weights", "dropped": "dropped"}
        for name, stage in stages.items():
            tensor = result.tensors.get(f"it/{stage}")
            assert (tensor is None) is (name not in found.keys[0])
            if tensor is not None:
                assert_close(torch.tensor([row[name] for row in found.keys]), tensor[place][listed])
        assert_close(torch.tensor(found.output), result.tensors["it/output"][place])
        output = torch.tensor([row["part"] for row in found.keys]).sum(0)
        is_rounded = entry.get("rounding") == "flash"
        assert_close(output.bfloat16().float() if is_rounded else output, torch.tensor(found.output))
        assert found.formulas["output"] == "sum of weight * v" + ", rounded to bfloat16" * is_rounded
        weight = found.formulas["weight"] or ""  # without steps, of a normaliser
        assert weight.endswith(", rounded to bfloat16 relative to the largest") is is_rounded
        assert_close(torch.tensor(found.of_query["q"]), result.inputs["queries"][place])
        for side in ("keys", "values"):
            own = torch.tensor([row[side[0]] for row in found.keys])
            # values are shown rounded
            slack: dict[str, Any] = {"rtol": last_digit(2.0**-7), "atol": 0.0} if "dtype" in entry else {}
            assert_close(own, result.inputs[side][batch, head][listed], **slack)
        assert (found.rest, found.sink, found.empty_row) == (None, None, None)
        few = result.explain(batch=batch, head=head, query=query, most=1)
        if few.rest is not None:
            assert few.keys[0]["key"] == max(found.keys, key=lambda row: row["weight"])["key"]
            assert_close(torch.tensor([few.keys[0]["part"], few.rest["part"]]).sum(0), output)
            whole = math.fsum(row["weight"] for row in found.keys)
            assert math.isclose(few.keys[0]["weight"] + few.rest["weight"], whole, rel_tol=1e-6)


# Of a scorer, its options, a query and a key.
SCORER_STEPS: dict[str, Callable[[Any, Mapping[str, Any], Tensor, Tensor], Any]] = {
    "q_i k_i": lambda s, o, q, k: q * k,
    "q_i - k_i": lambda s, o, q, k: q - k,
    "q . k": lambda s, o, q, k: (q * k).sum(),
    "phi(q)_i phi(k)_i": lambda s, o, q, k: features(s, o, q, "q") * features(s, o, k, "k"),
    "phi(q)": lambda s, o, q, k: features(s, o, q, "q"),
    "phi(k)": lambda s, o, q, k: features(s, o, k, "k"),
    "|q|": lambda s, o, q, k: math.hypot(*q),
    "|k|": lambda s, o, q, k: math.hypot(*k),
    "|q - k|^2": lambda s, o, q, k: math.dist(q, k) ** 2,
    "scale": lambda s, o, q, k: {"1/sqrt(d)": 6**-0.5, "1/d": 1 / 6}.get(o["scale"], o["scale"]),
    "2 sigma^2": lambda s, o, q, k: 2 * o["sigma"] ** 2,
    "sum_i q_i": lambda s, o, q, k: math.fsum(q),
    "sum_i k_i": lambda s, o, q, k: math.fsum(k),
    "W k": lambda s, o, q, k: s.W.weight @ k,
    "q_i (W k)_i": lambda s, o, q, k: q * (s.W.weight @ k),
    "W_q q": lambda s, o, q, k: s.W_q.weight @ q,
    "W_q q + b": lambda s, o, q, k: s.W_q.weight @ q + s.W_q.bias,
    "W_k k": lambda s, o, q, k: s.W_k.weight @ k,
    "w_v": lambda s, o, q, k: s.w_v.weight[0],
    "tanh(W_q q + W_k k)": lambda s, o, q, k: (s.W_q.weight @ q + s.W_k.weight @ k).tanh(),
    "tanh(W_q q + b + W_k k)": lambda s, o, q, k: (s.W_q.weight @ q + s.W_q.bias + s.W_k.weight @ k).tanh(),
}


def features(scorer: nn.Module, options: Mapping[str, Any], x: Tensor, side: str) -> Tensor:
    return torch.tensor(reference.features(scorer, x.tolist(), side, options["phi"]), dtype=torch.float64)


@pytest.mark.parametrize(("name", "options"), SCORER_VARIANTS)
@torch.no_grad()
def test_steps_of_scorers_pair_by_pair(name: str, options: dict[str, Any]) -> None:
    """The last step is the score."""
    scorer: Any = make(name, 6, **options).double()
    if type(scorer).steps is Scorer.steps:
        return
    options = {"scale": "1/sqrt(d)" if name == "scaled_dot" else 1.0, "sigma": 1.0, "phi": "elu_plus_one", **options}
    queries, keys = normal(4, 6, dtype=torch.float64), normal(5, 6, seed=1, dtype=torch.float64)
    steps = dict(scorer.steps(queries, keys))
    assert_close(steps.popitem()[1].expand(4, 5), scorer(queries, keys))
    for step, tensor in steps.items():
        for i, j in product(range(4), range(5)):
            wanted = torch.as_tensor(SCORER_STEPS[step](scorer, options, queries[i], keys[j]), dtype=torch.float64)
            assert_close(tensor.expand(4, 5, *wanted.shape)[i, j], wanted, msg=step)


# Of the scores of a query's valid keys, options, and the weights by the oracle. `sum of X` is the sum of the step X.
NORMALIZER_STEPS: dict[str, Callable[[Tensor, Mapping[str, Any], Tensor], Any]] = {
    "s": lambda s, o, w: s,
    "m": lambda s, o, w: len(s),
    "max = largest s": lambda s, o, w: s.max(),
    "max = largest of s and sink": lambda s, o, w: s.max().clamp(min=o["sink"]),
    "exp(s - max)": lambda s, o, w: (s - s.max().clamp(min=o.get("sink", -math.inf))).exp(),
    "exp(sink - max)": lambda s, o, w: (o["sink"] - s.max().clamp(min=o["sink"])).exp(),
    "b": lambda s, o, w: o.get("bias", -math.log(len(s))),
    "s + b": lambda s, o, w: s + o.get("bias", -math.log(len(s))),
    "c ln(m)": lambda s, o, w: o["c"] * math.log(len(s)),
    "z = c ln(m) s": lambda s, o, w: o["c"] * math.log(len(s)) * s,
    "max = largest z": lambda s, o, w: o["c"] * math.log(len(s)) * s.max(),
    "exp(z - max)": lambda s, o, w: (o["c"] * math.log(len(s)) * (s - s.max())).exp(),
    "z = (alpha - 1) s": lambda s, o, w: (o["alpha"] - 1) * s,
    "tau": lambda s, o, w: (o["alpha"] - 1) * s.max() - w.max() ** (o["alpha"] - 1),
    "max(z - tau, 0)": lambda s, o, w: w ** (o["alpha"] - 1),
    "max(s, 0)": lambda s, o, w: s.clamp(min=0),
    "exp(-max), max = largest of s and 0": lambda s, o, w: 1 / s.max().clamp(min=0).exp(),
    "|exp(s) - 1| exp(-max)": lambda s, o, w: (s.exp() - 1).abs() / s.max().clamp(min=0).exp(),
    "sigmoid(s)": lambda s, o, w: s.sigmoid(),
    "left = product of 1 - sigmoid(s) of later keys": lambda s, o, w: [
        math.prod(1 - s[j + 1 :].sigmoid()) for j in range(len(s))
    ],
}
DEFAULTS: dict[str, Any] = {
    "softmax_plus_one": {"sink": 0.0},
    "ssmax": {"c": 1.0},
    "sparsemax": {"alpha": 2},
    "entmax": {"alpha": 1.5},
}


@pytest.mark.parametrize(("name", "options"), NORMALIZER_VARIANTS)
def test_steps_of_normalizers_row_by_row(name: str, options: dict[str, Any]) -> None:
    """The last step has the weights."""
    normalizer: Any = NORMALIZERS[name](**options)
    if type(normalizer).steps is Normalizer.steps or options.get("alpha") == 1.0001:  # tau is a difference of powers
        return
    valid = torch.tensor([[True, True, False, True, True], [False, True, True, False, True], [True] * 5])
    for size in (0.3, 3.0):
        scores = size * normal(3, 5, dtype=torch.float64)
        scores = scores.abs() if name == "sum" else scores
        steps = dict(normalizer.steps(scores.where(valid, torch.nan), valid))
        assert_close(steps.popitem()[1], normalizer(scores, valid))
        for s, allowed, *tensors in zip(scores, valid, *(step.expand(3, -1) for step in steps.values()), strict=True):
            weights = reference.matrix([reference.NORMALIZERS[name](s[allowed].tolist(), **options)])[0]
            for step, own in zip(steps, tensors, strict=True):
                key = step.removeprefix("sum of ")
                wanted = NORMALIZER_STEPS[key](s[allowed], DEFAULTS.get(name, {}) | options, weights)
                wanted = torch.as_tensor(wanted if key == step else wanted.sum(), dtype=torch.float64)
                assert_close(own[allowed] if wanted.ndim else own[0], wanted, rtol=1e-9, atol=1e-11)
    assert_close([*normalizer.steps(scores).values()][-1], normalizer(scores))


def screen(found: Explanation, width: int = 80, most: int | None = SCREEN) -> list[str]:
    return recorded(lines(found, width, most), width).export_text().splitlines()


@pytest.mark.parametrize("width", [80, 1, 20, 47])
@pytest.mark.parametrize("name", SCORERS)
def test_one_screen(name: str, width: int) -> None:
    """Long vectors are cut, and long names folded."""
    entry = {"scorer": name, "softcap": 9.0, "bias": "alibi", "dropout": 0.5, "normalizer": "ssmax"}
    for m, d in [(1024, 256), (10, 2), (1, 1)]:
        data = {"queries": {"shape": [1, 1, d]}, "keys": {"shape": [1, m, d]}}
        tokens = {"keys": [f"a long token, the {key}th" for key in range(m)]} if d == 2 else {}
        found = result_of(entry, data, train=True, tokens=tokens, mask={"align": "bottom_right"}).explain()
        text, whole = screen(found, width), screen(found, width, most=None)
        assert len(found.keys) == min(m, 10)
        assert width < 80 or len(text) <= SCREEN
        assert max(map(cell_len, text + whole)) <= width
        if width == 80:
            assert len(re.findall(r"\nkey \d", "\n".join(whole))) == len(found.keys)


@pytest.mark.parametrize(("empty_row", "weight"), [("zero", None), ("uniform", 0.2), ("nan", math.nan)])
def test_a_query_without_a_valid_key(empty_row: str, weight: float | None) -> None:
    result = result_of({"scorer": "dot"}, {**MASKED, "valid_lens": [0, 5]}, mask={"empty_row": empty_row})
    found = result.explain(query=1)
    assert found.empty_row == empty_row
    assert_close(torch.tensor(found.output), result.tensors["it/output"][0, 0, 1], equal_nan=True)
    text = "\n".join(screen(found))
    assert f"(empty_row: {empty_row})" in text
    if weight is None:
        assert not found.keys
        assert "0 to 4   masked       0" in text
    else:
        assert len(found.keys) == 5
        assert text.count("masked") == 5
        assert_close(torch.tensor([row["weight"] for row in found.keys]), torch.full((5,), weight), equal_nan=True)


def test_nan_among_keys_and_values() -> None:
    data = {**MASKED, "keys": MASKED["keys"].clone(), "values": MASKED["values"].clone()}  # type: ignore[attr-defined]
    data["keys"][0, 0, 1], data["values"][1, 0, 4] = math.nan, math.inf  # the infinity is in padding
    data["keys"][0, 1, 2] = math.inf
    with pytest.warns(UserWarning, match="NaN"):
        result = result_of({"scorer": "dot"}, data)
    assert "inf" in "\n".join(screen(result.explain(head=1)))
    assert "nan" in "\n".join(screen(result.explain()))
    assert all(map(math.isfinite, result.explain(batch=1).output))


def test_layers_and_sinks_of_a_captured_model(tmp_path: Path, here: Path) -> None:
    file = saved(tmp_path, capped, capped)
    result = attncli.run({"data": {"capture": file}, "scorers": [{"scorer": "scaled_dot", "scale": "model"}]})
    names = list(result.layers)
    found = result.explain(layer=1, head=2, query=3)
    assert found == result.explain("model", layer=names[1], head=2, query=3)
    assert found.place["layer"] == names[1]
    weights = result.tensors[f"{names[1]}/model/weights"][0, 2, 3]
    listed = [row["key"] for row in found.keys]
    assert_close(torch.tensor([row["weight"] for row in found.keys]), weights[listed])
    assert found.sink is not None
    terms = [row["weight_steps"]["exp(s - max)"] for row in (*found.keys, found.sink)]
    assert math.isclose(math.fsum(terms), found.of_weights["sum of exp(s - max)"], rel_tol=1e-6)
    assert math.isclose(found.sink["weight"], 1 - float(weights.sum()), rel_tol=1e-5)
    assert json.loads(good("explain", file, "--layer", names[1], "--head", "2", "--query", "3", "--json"))["sink"]
    with pytest.raises(InputError, match=r"result\.explain: layer: got 2; expected 0 to 1, of 2 layers"):
        result.explain(layer=2)


class Plain(nn.Module):
    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return -(queries @ keys.mT)


class Stepped(Plain):
    def steps(self, queries: Tensor, keys: Tensor) -> Any:
        products = queries @ keys.mT
        return {"half": torch.tensor(0.5), "q . k": products, "-(q . k)\x1b": -products}


class Shaped(Plain):
    def steps(self, queries: Tensor, keys: Tensor) -> Any:
        return {"k": keys}


class Failing(Plain):
    def steps(self, queries: Tensor, keys: Tensor) -> Any:
        raise KeyError(0)


class Mixing(Plain):
    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return (queries - queries.mean(-2, keepdim=True)) @ keys.mT


class Squares(nn.Module):
    def forward(self, scores: Tensor, valid: Tensor) -> Tensor:
        return self.steps(scores, valid)["s^2 / sum"]

    def steps(self, scores: Tensor, valid: Tensor) -> dict[str, Tensor]:
        squares = (scores * valid) ** 2
        total = squares.sum(-1, keepdim=True)
        return {"s^2": squares, "sum of s^2": total, "s^2 / sum": squares / total}


def test_scorers_of_ones_own() -> None:
    scorers = [{"scorer": f"{__name__}:{own.__name__}"} for own in (Plain, Stepped, Mixing, Shaped, Failing)]
    result = attncli.run({"data": MASKED, "scorers": scorers})
    for label in ("Plain", "Stepped", "Mixing"):
        found = result.explain(label, query=2)
        listed = [row["key"] for row in found.keys]
        scores = result.tensors[f"{label}/scores"][0, 0, 2, listed]
        assert_close(torch.tensor([row["score"] for row in found.keys]), scores)
        steps = found.formulas["score"], "q . k" in found.keys[0]["steps"], found.of_query.get("half")
        assert steps == ((r"-(q . k)\x1b", True, 0.5) if label == "Stepped" else (None, False, None))
    for label, message in {
        "Shaped": r"scorers\[3\]: the scorer's steps gave k of shape \[5, 6\]; expected a number, ",
        "Failing": r"scorers\[4\]: the scorer's steps gave KeyError: 0 \(line \d+ of test_explain.py\)",
    }.items():
        with pytest.raises(InputError, match=message):
            result.explain(label)


def test_normalizers_of_ones_own() -> None:
    found = result_of({"scorer": "dot", "normalizer": f"{__name__}:Squares"}).explain(batch=1, query=2)
    squares = [row["biased"] ** 2 for row in found.keys]
    assert_close([row["weight_steps"]["s^2"] for row in found.keys], squares, rtol=rounding(4), atol=0.0)
    assert_close(found.of_weights, {"sum of s^2": math.fsum(squares)}, rtol=rounding(8), atol=0.0)
    assert found.formulas["weight"] == "s^2 / sum"


def test_config_run_folder_and_python_say_the_same(here: Path) -> None:
    good("run", "d2l_additive", "--seed", "3", "--out", "run", "--quiet", "--set", "save=none")
    choice = ["--batch", "1", "--query", "0"]
    found = json.loads(good("explain", "run", "--json", *choice))
    assert found == json.loads(good("explain", "d2l_additive", "--seed", "3", "--json", *choice))
    result = attncli.run("d2l_additive", seed=3)
    for same in (result, attncli.load("run"), pickle.loads(pickle.dumps(result))):
        assert found["keys"] == [*same.explain(batch=1).keys]
    assert good("explain", "run", *choice) == good("explain", "run/results.json", "--label", "additive", *choice)


def test_all_keys_other_scorers_and_no_source(here: Path) -> None:
    assert good("explain") == good("explain", "d2l")
    found = json.loads(good("explain", "--scorer", "gaussian:sigma=2", "--scorer", "dot", "--json"))
    assert (found["label"], found["others"], found["of_query"]["2 sigma^2"]) == ("gaussian_2", ["dot"], 8)
    changes = "keys.shape=[2, 30, 2]", "valid_lens=[2, 30]", "values.shape=[1, 30, 4]"
    arguments = ["explain", "d2l", "--batch", "1", *(f"--set={change}" for change in changes)]
    assert good(*arguments, "--full").count("tanh(W_q q + W_k k)") == 30 + 2
    assert {"20 others", "the other 29 keys take the same steps"} <= {*re.split(r"\n|  +", good(*arguments))}


def test_a_notebook_displays_it() -> None:
    found = attncli.run("d2l").explain("scaled_dot", batch=1)
    bundle = found._repr_mimebundle_()
    assert "q_i k_i" in bundle["text/plain"]
    assert "font-family: monospace" in bundle["text/html"], "or columns are not aligned"
    assert repr(found) == "<attncli.Explanation d2l: scaled_dot, batch 1, query 0>"
    with pytest.raises(InputError, match=r"result\.explain: got a sweep; expected a run with its config"):
        attncli.sweep("d2l", {"seed": [0]}, jobs=1).explain()
