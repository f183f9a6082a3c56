"""The JSON Schema: valid, and of one mind with the models."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from attncli.config.document import read_document
from attncli.config.schema import json_schema
from attncli.scorers import SCORERS
from attncli.studies import STUDIES, options_model
from tests.cli import good
from tests.config.documents import data_of, options_of, problems_of

SCHEMA = json_schema([options_model(study) for study in STUDIES])
SWEEPS = ("variance", "saturation")
VALIDATOR = Draft202012Validator(SCHEMA)
EXPERIMENTS = sorted((Path(__file__).parents[2] / "experiments").glob("*.yaml"))
BASE = "data: {{queries: {queries}, keys: [[1, 2]], valid_lens: {valid_lens}}}\nscorers: [{scorer}]\n{more}\n"


def experiment(
    queries: str = "[[1, 2]]", valid_lens: str = "null", scorer: str = "{scorer: dot}", more: str = ""
) -> str:
    """A small experiment with one part that matters."""
    return BASE.format(queries=queries, valid_lens=valid_lens, scorer=scorer, more=more)


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_command_prints_it() -> None:
    assert json.loads(good("schema")) == SCHEMA


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_the_built_in_experiments_are_valid(path: Path) -> None:
    VALIDATOR.validate(read_document(path).data)


def test_there_are_built_in_experiments() -> None:
    assert len(EXPERIMENTS) >= 11


ACCEPTED = [
    experiment(),
    experiment(more="study: attention\nname: x y\nseed: 9223372036854775807"),
    experiment(more="device: cuda:1\ndtype: bfloat16\ntrain: true"),
    *(experiment(f"{{shape: [1, 2], fill: {fill}}}") for fill in ("normal", "ones", "zeros", "arange", "eye")),
    experiment("{shape: [1, 2], fill: rademacher}"),
    experiment("{shape: [2, 3, 4, 5]}"),
    experiment("{shape: [1, 2], mean: 3, std: 0}"),
    experiment("{shape: [1, 2], fill: uniform, low: -1, high: 1e-3}"),
    experiment("{shape: [1, 2], fill: constant, value: -1.5}"),
    experiment("{shape: [1, 2], fill: student_t, df: 0.1}"),
    experiment("{fill: correlated, with: keys, rho: -1}"),
    experiment("{fill: correlated, with: keys, rho: 1, shape: [1, 2]}"),
    experiment("{file: q.npy}"),
    experiment("{file: q.npz, tensor: q}"),
    experiment("[[1, 2.5], [3, 4]]"),
    experiment("[[[[1]]]]"),
    experiment(valid_lens="[2]"),
    experiment(valid_lens="[[0, 1], [2, 3]]"),
    experiment(valid_lens="{random: [0, 1]}"),
    experiment(valid_lens="{file: lens.csv}"),
    *(experiment(more=f"mask: {{causal: {causal}}}") for causal in ("true", "false", "top_left", "bottom_right")),
    experiment(more="mask: {file: m.npz, tensor: m, empty_row: uniform}"),
    experiment(more="mask: {}"),
    experiment(more="tokens: {queries: [a, b], keys: [[a], [b]]}"),
    experiment(more="tokens: {queries: null, keys: []}"),
    *(experiment(scorer=f"{{scorer: {name}}}") for name in SCORERS),
    experiment(scorer="{scorer: additive, num_hiddens: 1, dropout: 0, softcap: 30, label: é}"),
    experiment(scorer="{scorer: scaled_dot, scale: 1/d}"),
    experiment(scorer="{scorer: scaled_dot, scale: 0.5, softcap: null}"),
    experiment(scorer="{scorer: general, parameters: {file: p.pt, names: {W.weight: a}}}"),
    experiment(scorer="{scorer: dot}, {scorer: dot, label: b}"),
    "study: variance",
    "{study: saturation, name: a, seed: 3, device: cpu, dtype: float16}",
    *(f"{{study: {study}, d: {d}}}" for study in SWEEPS for d in (
        "1", "1048576", "[1]", "[512, 64]", "{from: 1, to: 1024}", "{from: 3, to: 3, factor: 10}",
    )),
    *(f"{{study: {study}, {key}: {scorers}}}" for study in SWEEPS for key in ("scorer", "scorers") for scorers in (
        "dot", "'additive:num_hiddens=64'", "[dot, cosine]", "['scaled_dot:scale=1/d', {scorer: general}]",
        "{scorer: gaussian, sigma: 2}", "[{scorer: dot, softcap: 3, label: a}]",
    )),
    *(f"{{study: variance, distribution: {name}}}" for name in ("normal", "uniform", "rademacher", "laplace")),
    "{study: variance, distribution: student_t, df: 4.5}",
    "{study: saturation, distribution: student_t, df: 0.1}",
    "{study: variance, mean: -1, std: 0, query_mean: 0.5, query_std: 2, key_mean: 1, key_std: 3, rho: -1}",
    "{study: variance, query_mean: null, key_std: null, df: null, from: null, samples: null}",
    "{study: variance, samples: 10}",
    "{study: saturation, keys: 2, rows: 1}",
    "{study: saturation, from: qk.npz, scorer: dot}",
    "study: bench",
    "{study: bench, n: 4, m: [2, 3], d: {from: 2, to: 8}, num_hiddens: 5, batch: [1], heads: null}",
    "{study: bench, measure: output, only: textbook, skip: a/b}",
    "{study: bench, backward: true, compile: false, only: [textbook], skip: [additive/textbook]}",
    "{study: bench, measure: [scores, weights, output], scorer: 'additive:num_hiddens=64', baseline: dot/attncli}",
    *(experiment(more=f"expect: [{{metric: entropy, {bound}}}]") for bound in (
        "between: [0, 1]", "between: [null, 1.5]", "between: [-1, null]", "about: 1, within: 0",
        "about: 1, within: 5 %", "above: 0", "above: {scorer: dot}, by: 2 x", "below: 1, by: 0.5", "below: {d: [1, 2]}",
        "equal: 1", "equal: text", "equal: false", "equal: [1, 2]", "equal: [[1, 2], [3, 4]], within: 1.5%",
        "where: {}, above: 0", "where: {scorer: dot, d: [1, 2], head: null, exact: true}, above: 0",
        "claim: c, source: s, above: 0",
    )),
    experiment(more="expect: [{where: {scorer: dot}, equal: {output: [[1, 2], [3, 4]]}, within: 0.1}]"),
    experiment(more="expect: [{equal: {entropy: 1}}]"),
    "{study: variance, expect: []}",
    "{study: saturation, expect: [{metric: entropy, above: 0}, {metric: entropy, below: 9}]}",
]  # fmt: skip
REFUSED = [
    "[]",
    "{study: bench, n: 0}",
    "{study: bench, n: null}",
    "{study: bench, measure: [weight]}",
    "{study: bench, measure: weight}",
    "{study: bench, measure: []}",
    "{study: bench, backward: 1}",
    "{study: bench, only: [3]}",
    "{study: bench, baseline: ''}",
    "{study: bench, samples: 10}",
    "{}",
    "seed: 1",
    experiment(more="sede: 1"),
    experiment(more="seed: -1"),
    experiment(more="seed: '1'"),
    experiment(more="seed: 9223372036854775807.5"),
    experiment(more="train: 1"),
    experiment(more="train: yes"),
    experiment(more="study: atention"),
    experiment(more="name: 3"),
    experiment(more="name: ''"),
    experiment(more="name: a/b"),
    experiment(more="name: .a"),
    experiment(more=f"name: {'x' * 201}"),
    experiment(more="device: gpu"),
    experiment(more="dtype: float"),
    experiment(more="mask: null"),
    experiment(more="mask: {causal: 1}"),
    experiment(more="mask: {causal: top}"),
    experiment(more="mask: {empty_row: zeros}"),
    experiment(more="mask: {tensor: m}"),
    experiment(more="mask: {file: ''}"),
    experiment(more="tokens: [a]"),
    experiment(more="tokens: {queries: [a, 1]}"),
    experiment(more="tokens: {queries: [[a], b]}"),
    experiment(more="tokens: {values: [a]}"),
    *(experiment(tensor) for tensor in (
        "null", "3", "x", "[]", "[1]", "[[]]", "[[1], 2]", "[[a]]", "[[true]]", "{}", "{fill: ones}", "{tensor: a}",
        "{shape: []}", "{shape: [1]}", "{shape: [1, 0]}", "{shape: [1, 2.5]}", "{shape: [1, true]}", "{shape: 3}",
        "{shape: [1, 2], fill: gauss}", "{shape: [1, 2], fill: 3}", "{shape: [1, 2], std: -1}",
        "{shape: [1, 2], std: '1'}", "{shape: [1, 2], value: 1}", "{shape: [1, 2], fill: constant}",
        "{shape: [1, 2], fill: student_t, df: 0}", "{fill: correlated, with: keys}",
        "{fill: correlated, with: masks, rho: 0}", "{fill: correlated, with: keys, rho: 1.1}",
        "{fill: correlated, source: keys, rho: 1}", "{file: ''}", "{file: 3}", "{file: a.npy, shape: [1, 2]}",
        "{shape: [1, 2], fill: eye, tensor: a}",
    )),
    *(experiment(valid_lens=lens) for lens in (
        "3", "[]", "[[]]", "[-1]", "[1.5]", "[true]", "['1']", "[[[1]]]", "[1, [1]]", "{}", "{random: [1]}",
        "{random: [-1, 1]}", "{random: [1, 2, 3]}", "{random: 3}", "{random: [0, 1], file: a.npy}",
    )),
    *(experiment(scorer=scorer) for scorer in (
        "", "dot", "{}", "{label: a}", "{scorer: dott}", "{scorer: 3}", "{scorer: dot, scale: 1}",
        "{scorer: additive, num_hidden: 3}", "{scorer: additive, num_hiddens: 0}",
        "{scorer: additive, num_hiddens: 1.5}", "{scorer: scaled_dot, scale: 0}", "{scorer: scaled_dot, scale: 1/d2}",
        "{scorer: scaled_dot, scale: true}", "{scorer: cosine, scale: 1/d}", "{scorer: gaussian, sigma: 0}",
        "{scorer: dot, dropout: 1}", "{scorer: dot, dropout: -0.1}", "{scorer: dot, dropout: null}",
        "{scorer: dot, softcap: 0}", "{scorer: dot, label: null}", "{scorer: dot, label: a/b}",
        "{scorer: dot, parameters: p.pt}", "{scorer: dot, parameters: {}}", "{scorer: dot, parameters: {file: 3}}",
        "{scorer: dot, parameters: {file: p.pt, names: [a]}}", "{scorer: dot, parameters: {file: p, names: {a: 1}}}",
        "{scorer: 'mine:'}", "{scorer: 'a b:C'}",
    )),
    *(experiment(more=f"expect: {wrong}") for wrong in (
        "null", "{metric: entropy, above: 0}", "[entropy]", "[{above: 0}]", "[{metric: '', above: 0}]",
        "[{metric: 3, above: 0}]", "[{equal: {}}]", "[{equal: {a: 1, b: 2}}]", "[{equal: {a: {b: 1}}}]",
        "[{equal: [1]}]", "[{metric: output, equal: {output: [[1]]}}]", "[{equal: {output: [[1]]}, above: 0}]",
        "[{metric: entropy, above: 0, claim: 3}]", "[{metric: entropy, beyond: 0}]",
        "[{metric: entropy, above: 0, claim: ''}]",
    )),
    *(experiment(more=f"expect: [{{metric: entropy, {wrong}}}]") for wrong in (
        "where: {}", "above: 0, below: 1", "between: [0, 1], above: 0", "between: 1", "between: [1]",
        "between: [0, 1, 2]", "between: [null, null]", "between: [a, 1]", "between: null", "about: 1", "within: 1",
        "about: a, within: 1", "about: 1, within: -1", "about: 1, within: 5 percent", "about: 1, within: null",
        "above: dot", "above: {}", "above: null", "above: [1]", "above: 0, by: -1", "above: 0, by: 5 %",
        "above: 0, within: 1", "between: [0, 1], by: 1", "equal: null", "equal: {}", "equal: []", "equal: [a]",
        "equal: [[true]]", "where: dot, above: 0", "where: {d: []}, above: 0", "where: {d: [[1]]}, above: 0",
        "where: {d: {a: 1}}, above: 0", "where: {d: [1, 2, 1]}, above: 0", "source: '', above: 0",
    )),
    experiment(more="study: variance"),
    *(f"{{study: {study}, {wrong}}}" for study in SWEEPS for wrong in (
        "d: 0", "d: 2.5", "d: x", "d: null", "d: true", "d: []", "d: [0]", "d: [[1]]", "d: 1048577", "d: {from: 1}",
        "d: {from: 1, to: 4, factor: 1}", "d: {from: 1, to: 4, by: 2}", "d: [{from: 1, to: 4}]",
        "std: -1", "query_std: -1", "key_std: x", "mean: a", "mean: 1e10", "std: 1e10", "rho: 1.5", "rho: -2",
        "distribution: gauss", "distribution: null", "df: 0", "from: 3", "from: ''", "source: a.npz",
        "scorers: []", "scorers: 3", "scorer: null", "scorer: []", "scorer: {scorer: dot, scale: 2}",
        "scorers: [{scorer: dott}]", "valid_lens: [2]", "seed: -1", "nonsense: 1", "scorer: dot, scorers: [dot]",
    )),
    *(f"{{study: variance, {wrong}}}" for wrong in ("samples: 9", "samples: 1.5", "samples: x", "rows: 3", "keys: 3")),
    *(f"{{study: saturation, {wrong}}}" for wrong in ("keys: 1", "rows: 0", "rows: 1.5", "samples: 1000")),
]  # fmt: skip


@pytest.mark.parametrize("text", ACCEPTED)
def test_both_accept(text: str, tmp_path: Path) -> None:
    VALIDATOR.validate(data_of(text))
    options_of(tmp_path, text)


@pytest.mark.parametrize("text", REFUSED)
def test_both_refuse(text: str, tmp_path: Path) -> None:
    assert problems_of(tmp_path, text)
    assert not VALIDATOR.is_valid(data_of(text))


ONLY_THE_MODELS_REFUSE = [
    experiment(more="seed: 3.0"),  # to a JSON Schema this is an integer
    experiment("{shape: [1, 2], mean: .inf}"),  # JSON has no such number
    experiment("[[1, 2], [3]]"),
    experiment("{shape: [1, 2], fill: uniform, low: 2}"),
    experiment(valid_lens="[[1, 2], [3]]"),
    experiment(valid_lens="{random: [2, 1]}"),
    experiment(scorer="{scorer: dot}, {scorer: dot}"),
    experiment(more=f"name: {'é' * 101}"),
    "{study: variance, samples: 1e3}",
    "{study: variance, d: [4, 4]}",
    "{study: variance, d: {from: 4, to: 2}}",
    "{study: variance, df: 5}",
    "{study: variance, distribution: student_t, df: 4}",
    "{study: variance, from: a.npz, d: 3}",
    "{study: variance, scorers: [dot, dot]}",
    "{study: variance, scorers: dott}",
    "{study: variance, scorers: [{scorer: dot, dropout: 0.1}]}",
    *(experiment(more=f"expect: [{{metric: entropy, {wrong}}}]") for wrong in (
        "between: [1, 0]", "about: 0, within: 5 %", "above: 1, by: 1 x", "above: 1, by: 1e999 x",
        "about: 1, within: 1e999 %", "equal: [[1, 2], [3]]", "equal: 1, within: 1",
    )),
]  # fmt: skip


@pytest.mark.parametrize("text", ONLY_THE_MODELS_REFUSE)
def test_more_than_a_schema_can_say(text: str, tmp_path: Path) -> None:
    assert problems_of(tmp_path, text)
    VALIDATOR.validate(data_of(text))


def test_own_scorers_have_options_that_only_their_class_knows() -> None:
    VALIDATOR.validate(data_of(experiment(scorer="{scorer: 'mine:Mine', power: 2, dropout: 0.1}")))
    assert not VALIDATOR.is_valid(data_of(experiment(scorer="{scorer: 'mine:Mine', dropout: 2}")))


@pytest.mark.parametrize("name", SCORERS)
def test_every_option_of_every_scorer_is_in_it(name: str) -> None:
    entries = [
        entry
        for entry in SCHEMA["$defs"].values()
        if entry.get("properties", {}).get("scorer", {}).get("const") == name
    ]
    assert entries
    assert all(entry == entries[0] for entry in entries), "the same for every study"
    options: dict[str, Any] = entries[0]["properties"]
    code: dict[str, Any] = SCORERS[name].__init__.__kwdefaults__ or {}
    assert {key: options[key]["default"] for key in code} == code
    assert set(options) == {"scorer", "label", "dropout", "softcap", "parameters", *code}
