"""`--set scale=2` and `--over scale=1,2`: an option without its path is that of every scorer that has it."""

from pathlib import Path
from typing import Any

import pytest

from attncli.config.document import read_document
from attncli.config.overrides import parse_override
from attncli.config.sweep import typed_axes
from attncli.engine.runs.resolved import dump_yaml
from attncli.engine.sweeps.points import SweepPlan, sweep_plan
from attncli.errors import InputError
from tests.config.documents import options_of, problems_of

DATA = "data: {queries: {shape: [2, 3, 4]}, keys: {shape: [2, 5, 4]}}\n"
CAPTURED = "data: {capture: seen.safetensors}\n"
FOUR = "scorers: [dot, scaled_dot, {scorer: cosine, scale: 4}, additive]\n"


MODELS = "{scorer: scaled_dot, scale: model}"
SWAP = "study: swap\nmodel: gpt2\ntexts: [a]\n"
RESOLVED = "{scorer: scaled_dot, normalizer: softmax, label: model, dropout: 0.0, scale: model}"


@pytest.mark.parametrize(
    ("text", "sets", "expected"),
    [
        (DATA + FOUR, ["scale=2"], [None, 2, 2, None]),
        (DATA + FOUR, ["scale=2", "scorers[2].scale=3"], [None, 2, 3, None]),
        (DATA + FOUR, ["scale=2", "scorers=[cosine, dot]"], [2, None]),
        (DATA + "scorer: [scaled_dot, gaussian]", ["sigma=3"], [None, 3]),
        (DATA + "scorer: {scorer: additive, num_hiddens: 5}", ["num_hiddens=3", "scorer=[additive, dot]"], [3, None]),
        (DATA + "scorers: ['scaled_dot:scale=3', dot]", ["scale=2"], [2, None]),
        (DATA + "scorers: [{scorer: dot, normalizer: entmax}, 'dot:normalizer=sigmoid']", ["alpha=2"], [2, None]),
        (DATA + "scorers: [{scorer: dot, normalizer: 'ssmax:c=3'}, 'dot:normalizer=ssmax,label=b']", ["c=2"], [2, 2]),
        # What computes the model's own scores stays as it is, unless it has further keys.
        (CAPTURED + f"scorers: [{MODELS}, scaled_dot, dot]", ["scale=2"], ["model", 2, None]),
        (CAPTURED + f"scorers: [{MODELS}, 'scaled_dot:scale=model,window=2,label=b']", ["window=3"], [None, 3]),
        (CAPTURED + f"scorers: [{RESOLVED}, dot]", ["window=3"], [None, 3]),
        (SWAP + "scorers: [sparsemax, cosine, {scorer: scaled_dot, label: a}]", ["scale=2"], ["model", 2, 2]),
        ("study: saturation", ["num_hiddens=3"], [None, None, None, 3, None]),  # the default scorers
    ],
)  # fmt: skip
def test_every_scorer_with_the_option_has_it(tmp_path: Path, text: str, sets: list[str], expected: list[Any]) -> None:
    key = sets[0].partition("=")[0].rpartition(".")[2]
    entries = options_of(tmp_path, f"{text}\n", *sets).scorers
    options = [{**dict(entry), **entry.normalizer.options, **entry.options} for entry in entries]
    assert [each.get(key) for each in options] == expected


def test_keys_of_the_study_come_first(tmp_path: Path) -> None:
    """`num_hiddens` is a key of bench, `seed` and `dtype` are keys of all studies, and `bias` is one of the data."""
    bench = options_of(tmp_path, "study: bench\nscorers: [additive]\n", "num_hiddens=[16]")
    assert (bench.num_hiddens, bench.scorers[0].options) == ([16], {"num_hiddens": 8})
    assert options_of(tmp_path, DATA + FOUR, "dtype=float64").scorers[0].dtype is None
    biased = "data: {queries: {shape: [2, 3, 4]}, keys: {shape: [2, 5, 4]}, bias: {file: a.npy}}\n"
    options = options_of(tmp_path, biased + FOUR, "bias.file=b.npy")
    assert (Path(options.data.bias.file).name, {entry.position_bias for entry in options.scorers}) == ("b.npy", {None})
    assert {entry.bias for entry in options_of(tmp_path, DATA + FOUR, "bias=alibi").scorers} == {"alibi"}


def test_labels_do_not_name_values_that_are_changed(tmp_path: Path) -> None:
    text = DATA + "scorers: ['scaled_dot:scale=3', 'cosine:scale=2,normalizer=entmax:alpha=1.5', 'gaussian:sigma=2']\n"
    assert [entry.label for entry in options_of(tmp_path, text).scorers] == [
        *("scaled_dot_3", "cosine_2_entmax_1.5", "gaussian_2")
    ]
    changed = options_of(tmp_path, text, "scale=1", "alpha=1.2").scorers
    assert [entry.label for entry in changed] == ["scaled_dot", "cosine_entmax", "gaussian_2"]


DIFFER = "got scale, in which the default scorers of this study differ; give `scorers` first"


@pytest.mark.parametrize(
    ("text", "change", "problems"),
    [
        (DATA + FOUR, "scal=2", ["scal: unknown key; did you mean `scorers[1].scale`?"]),
        (DATA + FOUR, "temperature=2", ["temperature: unknown key; scale is 1 / temperature"]),
        (DATA + FOUR, "scale=-1", [
            "scorers[1].scale: got -1; expected 1/sqrt(d), 1/d, model or a number above 0",
            "scorers[2].scale: got -1; expected a number above 0",
        ]),
        (DATA + FOUR, "sigma=2", ["sigma: unknown key; known: name, about, seed, "]),
        (DATA + "scorers: [{scorer: dot, normalizer: sigmoid}]\n", "bias=-2",
         ["scorers[0].bias: got -2; expected alibi"]),
        (CAPTURED + f"scorers: [{MODELS}]", "scale=2", ["scale: unknown key; did you mean `scorers[0].scale`?"]),
        ("study: variance\n", "scale=2", [DIFFER]),
        ("study: variance\n", "causal=top_left", ["causal: unknown key; known: name, about, seed, "]),
    ],
)  # fmt: skip
def test_mistakes(tmp_path: Path, change: str, text: str, problems: list[str]) -> None:
    found = problems_of(tmp_path, text, change)
    assert len(found) == len(problems)
    assert all(map(str.startswith, found, [f"--set {change}: {each}" for each in problems]))
    if change in ("scal=2", "sigma=2"):
        assert found[0].endswith(" options of the scorers: scale, num_hiddens")


def test_a_wrong_scorer_is_reported_in_place_of_its_options(tmp_path: Path) -> None:
    wrong = '2:11: scorers[0].scorer: got "dott"; unknown scorer; did you mean `dot`?'
    assert problems_of(tmp_path, f"{DATA}scorers: [dott]\n", "scale=2") == [wrong]


def planned(path: Path, *over: str, sets: tuple[str, ...] = ()) -> SweepPlan:
    axes = typed_axes([("over", each) for each in over])
    return sweep_plan(read_document(path, [parse_override(each) for each in sets]), axes)


def test_a_sweep_changes_every_scorer_with_the_option(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(DATA + "scorers: [dot, scaled_dot, 'cosine:scale=4']\n")

    def scales(*over: str, sets: tuple[str, ...] = ()) -> list[list[Any]]:
        points = planned(path, *over, sets=sets).points
        return [[entry.get("scale") for entry in point.config["scorers"]] for point in points]

    assert scales("scale=0.1,1") == [[None, 0.1, 0.1], [None, 1, 1]]
    assert scales("scale=0.1,1", "scorers[1].scale=7,8")[:2] == [[None, 7, 0.1], [None, 8, 0.1]]
    assert scales("scale=0.1", sets=("scorers=[cosine, dot]",)) == [[0.1, None]]
    plan = planned(path, "scale=0.1,1")
    assert [point.sweep for point in plan.points] == [{"scale": 0.1}, {"scale": 1}]
    (tmp_path / "config.yaml").write_text(dump_yaml(plan.config))
    again = planned(tmp_path / "config.yaml")
    assert [point.key for point in again.points] == [point.key for point in plan.points], "labels included"
    for key, over, given in (
        ("scale", "scale=0.1,1", "scale=3"),
        ("scale", "scale=0.1,1", "scorers[1].scale=3"),
        ("scorers", "scorers=[cosine]", "scale=3"),
    ):
        with pytest.raises(InputError, match=f"got a value for `{key}`, which the sweep varies; leave out one of them"):
            planned(path, over, sets=(given,))


@pytest.mark.parametrize(
    ("change", "path", "value"),
    [
        ("keys.fill=ones", ("data", "keys", "fill"), "ones"),
        ("grouped=true", ("data", "grouped"), True),
        ("align=top_left", ("mask", "align"), "top_left"),
        ("mask.align=top_left", ("mask", "align"), "top_left"),
    ],
)
def test_keys_of_data_and_mask_stand_without_their_beginning(
    tmp_path: Path, change: str, path: tuple[str, ...], value: Any
) -> None:
    """Also where the config does not have them yet."""
    found = options_of(tmp_path, DATA + FOUR, change).model_dump()
    for key in path:
        found = found[key]
    assert found == value


def test_a_file_of_entries_is_beside_the_config_or_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option names it from the current folder, a config from its own; its own paths begin at its folder."""
    here, beside = tmp_path / "here", tmp_path / "beside"
    for folder in (here, beside):
        (folder / "in").mkdir(parents=True)
        (folder / "in/own.yaml").write_text("scorers: [{scorer: additive, parameters: {file: w.npz}}]\n")
    monkeypatch.chdir(here)
    for config, sets, folder in (
        ("in/own.yaml", [], beside),
        ("in/own.yaml", ["softcap=2"], beside),
        ("dot", ["scorers=in/own.yaml"], here),
        ("in/own.yaml", ["scorers[0]=in/own.yaml"], here),
        ("in/own.yaml", ["scorers=[in/own.yaml, dot]", "softcap=2"], here),
    ):
        entry = options_of(beside, f"{DATA}scorers: {config}\n", *sets).scorers[0]
        assert Path(entry.parameters.file).resolve() == folder / "in/w.npz"
