"""The JSON Schema is valid, and accepts the same experiments as the models."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from attncli.catalogue.scorer_entries import ENTRY_KEYS
from attncli.config.document import read_document
from attncli.config.models import json_schema
from attncli.scorers import SCORERS
from attncli.studies import STUDIES, options_model
from tests.cli import good
from tests.config.documents import data_of, options_of, problems_of

SCHEMA = json_schema([options_model(study) for study in STUDIES])
VALIDATOR = Draft202012Validator(SCHEMA)
EXPERIMENTS = sorted((Path(__file__).parents[2] / "experiments").glob("*.yaml"))


def experiment(
    queries: str = "[[1, 2]]", lens: str = "null", scorer: str = "dot", keys: str = "", data: str = ""
) -> str:
    """Return a small experiment with one varied part."""
    return f"data: {{queries: {queries}, keys: [[1, 2]], valid_lens: {lens}, {data}}}\nscorers: [{scorer}]\n{keys}\n"


def expectation(text: str) -> str:
    """Return an experiment with an expectation of the entropy."""
    return experiment(keys=f"expect: [{{metric: entropy, {text}}}]")


def test_it_is_a_schema_and_the_command_prints_it() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(good("schema")) == SCHEMA


def test_the_built_in_experiments_are_valid() -> None:
    assert len(EXPERIMENTS) >= 11
    for path in EXPERIMENTS:
        VALIDATOR.validate(read_document(path).data)


ACCEPTED = [
    "data: {capture: a.safetensors, layer: 3, heads: [0, 2]}",
    "data: {capture: a.safetensors, layers: [0, encoder.1]}\nscorers: [{scorer: scaled_dot, scale: model}]",
    experiment(),
    experiment(keys="sweep: {over: [{seed: 0..4}, {train: [true, false], batch: [[0], [1]]}], metric: entropy}"),
    *(experiment(keys=f"save: {stages}") for stages in ("none", "[weights, output]")),
    *map(experiment, (
        "{shape: [1, 2], fill: eye}", "{shape: [2, 3, 4, 5]}", "{fill: correlated, with: keys, rho: -1}",
        "{file: q.npy}", "{file: q.npz, tensor: q}", "[[1, 2.5], [3, 4]]", "[[[[1]]]]",
    )),
    *(experiment(lens=lens) for lens in ("[2]", "[[0, 1], [2, 3]]", "{random: [0, 1]}", "{file: lens.csv}")),
    *(experiment(data=f"bias: {bias}") for bias in ("null", "[0, -1.5]", "[[0], [1]]", "{shape: [5]}")),
    *(experiment(keys=keys) for keys in (
        "study: attention\nname: x y\nseed: 9223372036854775807", "device: cuda:1\ndtype: bfloat16\ntrain: true",
        "mask: {causal: true}", "mask: {file: m.npz, tensor: m, empty_row: uniform}",
        "tokens: {queries: [a, b], keys: [[a], [b]]}", "tokens: {queries: null, keys: []}",
        "tokens: [a, b]", "tokens: [[a, b], [c, d]]",
        "expect: [{where: {scorer: dot}, metric: output, equal: [[1, 2], [3, 4]], within: 0.1}]",
    )),
    *(experiment(scorer=name) for name in SCORERS),
    *(experiment(scorer=scorer) for scorer in (
        "'gaussian:sigma=2', general", "{scorer: scaled_dot, scale: 1/d, softcap: null}",
        "{scorer: additive, num_hiddens: 1, dropout: 0, softcap: 30, label: é}",
        "{scorer: general, parameters: {file: p.pt, names: {W.weight: a}}}",
    )),
    *(f"{{study: variance, {text}}}" for text in (
        "name: a", "d: 1048576", "d: [512, 64]", "d: {from: 3, to: 3, factor: 10}", "scorer: dot",
        "scorers: ['scaled_dot:scale=1/d', {scorer: general}]", "scorer: {scorer: gaussian, sigma: 2}",
    )),
    "{study: bench, n: 4, m: [2, 3], d: {from: 2, to: 8}, num_hiddens: 5, batch: [1], heads: null}",
    "{study: bench, backward: true, measure: [scores, weights, output], implementations: [textbook, linear]}",
    *map(expectation, (
        "between: [0, 1]", "about: 1, within: 0", "about: 1, within: 5 %", "above: 0", "above: {scorer: dot}, by: 2 x",
        "below: {d: [1, 2]}, by: 0.5", "equal: 1", "equal: [1, 2]", "equal: [[1, 2], [3, 4]], within: 1.5",
        "claim: c, source: s, where: {scorer: dot, d: [1, 2], head: null, exact: true}, above: 0",
    )),
]  # fmt: skip
REFUSED = [
    "[]", "{}", "seed: 1", "data: {capture: ''}", experiment(keys="sweep: {over: []}"),
    *(f"data: {{capture: a.safetensors, {wrong}}}" for wrong in (
        "layer: -1", "layer: 1.5", "layers: []", "layers: [[1]]", "heads: [-1]", "queries: [[1]]", "file: b.npy",
    )),
    *(experiment(keys=keys) for keys in (
        "sede: 1", "seed: -1", "train: 1", "study: atention", "study: variance", "name: a/b", f"name: {'x' * 201}",
        "device: gpu", "mask: null", "mask: {causal: 1}", "mask: {file: ''}", "tokens: {queries: [[a], b]}",
    )),
    *map(experiment, (
        "null", "x", "[]", "[1]", "[[1], 2]", "[[true]]", "{}", "{fill: ones}", "{shape: [1]}", "{shape: [1, 0]}",
        "{shape: [1, 2.5]}", "{shape: [1, 2], fill: gauss}", "{shape: [1, 2], fill: constant}",
        "{fill: correlated, source: keys, rho: 1}", "{file: a.npy, shape: [1, 2]}",
    )),
    *(experiment(data=f"bias: {bias}") for bias in ("1", "[]", "[0, [1]]", "{shape: []}", "{tensor: b}")),
    *(experiment(lens=lens) for lens in (
        "3", "[]", "[-1]", "[1.5]", "[[[1]]]", "[1, [1]]", "{}", "{random: [1]}", "{random: [0, 1], file: a.npy}",
    )),
    *(experiment(scorer=scorer) for scorer in (
        "", "{label: a}", "{scorer: dott}", "{scorer: dot, scale: 1}", "{scorer: scaled_dot, scale: 1/d2}",
        "{scorer: dot, label: a/b}", "{scorer: 'mine:'}", "{scorer: 3}",
    )),
    *(experiment(keys=f"expect: {wrong}") for wrong in ("null", "[entropy]", "[{above: 0}]")),
    *map(expectation, (
        "between: [1]", "between: [a, 1]", "equal: text", "equal: []", "about: 1, within: 5 percent", "above: {}",
        "above: 0, by: 5 %", "equal: [[true]]", "where: {d: []}, above: 0", "where: {d: [[1]]}, above: 0",
    )),
    *(f"{{study: variance, {wrong}}}" for wrong in (
        "d: 0", "d: null", "d: [[1]]", "d: {from: 1, to: 4, factor: 1}", "d: [{from: 1, to: 4}]", "source: a.npz",
        "scorers: []", "scorer: null", "scorers: [{scorer: dott}]", "valid_lens: [2]",
    )),
    "{study: bench, measure: []}", "{study: bench, implementations: [3]}",
]  # fmt: skip
ONLY_THE_MODELS_REFUSE = [  # relations of several keys or numbers, and
    experiment(keys="seed: 3.0"),  # to a JSON Schema this is an integer
    experiment("{shape: [1, 2], mean: .inf}"),  # JSON has no such number
    *map(experiment, ("[[1, 2], [3]]", "{shape: [1, 2], fill: uniform, low: 2}")),
    *(experiment(lens=lens) for lens in ("[[1, 2], [3]]", "{random: [2, 1]}")),
    experiment(data="bias: {shape: [3], fill: eye}"), experiment(scorer="dot, dot"),
    *(experiment(keys=keys) for keys in ("mask: {tensor: m}", "mask: {invert: true}", f"name: {'é' * 101}")),
    *(f"{{study: variance, {wrong}}}" for wrong in (
        "samples: 1e3", "d: [4, 4]", "d: {from: 4, to: 2}", "df: 5", "scorers: [dot, dot]",
        "scorers: dott", "scorers: [{scorer: dot, dropout: 0.1}]",
    )),
    *map(expectation, (
        "where: {}", "between: [1, 0]", "above: 1, by: 1 x", "where: {d: [1, 2, 1]}, above: 0", "equal: [[1, 2], [3]]",
    )),
]  # fmt: skip


@pytest.mark.parametrize("text", ACCEPTED)
def test_both_accept(text: str, tmp_path: Path) -> None:
    VALIDATOR.validate(data_of(text))
    options_of(tmp_path, text)


@pytest.mark.parametrize("text", [*REFUSED, *ONLY_THE_MODELS_REFUSE])
def test_the_models_refuse(text: str, tmp_path: Path) -> None:
    assert problems_of(tmp_path, text)
    assert VALIDATOR.is_valid(data_of(text)) == (text in ONLY_THE_MODELS_REFUSE)


def test_own_scorers_have_options_that_only_their_class_knows() -> None:
    VALIDATOR.validate(data_of(experiment(scorer="{scorer: 'mine:Mine', power: 2, dropout: 0.1}")))
    assert not VALIDATOR.is_valid(data_of(experiment(scorer="{scorer: 'mine:Mine', dropout: 2}")))


@pytest.mark.parametrize("name", SCORERS)
def test_every_option_of_every_scorer_is_in_it(name: str) -> None:
    definitions = [definition.get("properties", {}) for definition in SCHEMA["$defs"].values()]
    (options,) = (
        keys for keys in definitions if keys.get("scorer", {}).get("const") == name
    )  # the same in all studies
    code: dict[str, Any] = SCORERS[name].__init__.__kwdefaults__ or {}
    assert {key: options[key]["default"] for key in code} == code
    assert set(options) == {*ENTRY_KEYS, *code}
