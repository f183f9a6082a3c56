"""`import attncli`: Python has the same experiments, results and run folders as the command line."""

import base64
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text
from torch import Tensor

import attncli
from attncli.engine.runs.loading import StoredTensors
from attncli.engine.runs.stored import StoredResult
from attncli.errors import InputError
from tests import cli
from tests.studies.bench.small import hurry

pytestmark = pytest.mark.usefixtures("sketches")

SMALL: dict[str, Any] = {
    "data": {"queries": {"shape": [2, 3, 4]}, "keys": {"shape": [2, 5, 4]}, "valid_lens": [2, 5]},
    "scorers": ["dot", {"scorer": "gaussian", "sigma": 2.0}],
}
STUDIES: dict[str, dict[str, Any]] = {
    "attention": SMALL,
    "variance": {"d": [4, 16], "samples": 200, "scorers": ["dot", "scaled_dot"]},
    "saturation": {"d": [4, 16], "rows": 50, "scorers": ["dot", "scaled_dot"]},
    "bench": {"n": [2, 3], "d": 4, "measure": "scores", "scorers": ["dot"]},
    "swap": {"model": "tests.studies.swap.models:tower", "scorers": ["dot"], "by": ["all", "layer"]},
    "fit": {"model": "tests.studies.swap.models:tower", "scorers": ["dot", "cosine"], "steps": 2},
    "doctor": {
        "data": {"queries": {"shape": [2, 3, 9, 4]}, "keys": {"shape": [2, 3, 9, 4]}, "valid_lens": [0, 9]},
        "scorers": ["dot"],
    },
    "train": {"d": [4], "steps": 2, "seeds": 1, "scorers": ["dot"]},
}


def same_facts(result: attncli.Result) -> None:
    """Assert that a run that was kept is read with the facts that it had, as results.json has them."""
    assert result.folder is not None
    again = attncli.load(result.folder)
    facts = ("formulas", "scales", "layers", "capture", "save", "facts")
    assert {key: getattr(again, key) for key in facts} == {key: getattr(result, key) for key in facts}
    assert {key: [*map(list, names)] for key, names in result.tokens.items()} == again.tokens
    settings = cli.results(result.folder)["settings"]
    written = [StoredResult.of(each, inputs={}).content["settings"] for each in (result, again)]
    assert [json.loads(json.dumps(each)) for each in written] == [settings, settings]


@pytest.mark.parametrize("study", STUDIES)
def test_every_study_runs_is_kept_loads_and_shows_itself(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_pictures: None
) -> None:
    hurry(monkeypatch)
    result = attncli.run({"study": study, "name": "small", **STUDIES[study]}, out=tmp_path / "run")
    loaded = attncli.load(tmp_path / "run")
    assert json.loads(json.dumps(list(result.records))) == list(loaded.records)
    assert [finding.text for finding in result.findings] == [finding.text for finding in loaded.findings]
    for kind in ("inputs", "tensors", "parameters"):
        first, second = {**getattr(result, kind)}, {**getattr(loaded, kind)}
        torch.testing.assert_close(first, second, rtol=0, atol=0, equal_nan=True)
    same_facts(result)
    assert isinstance(result.figure(), Figure)
    bundle = loaded._repr_mimebundle_()
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert "dot" in bundle["text/plain"]
    assert '<iframe sandbox="allow-scripts"' in bundle["text/html"]
    assert study == "fit" or "data:image/svg" not in bundle["text/html"], "the one picture stands above the page"
    assert "no pictures" not in bundle["text/html"]
    assert str(loaded.records[0]["label"]) in repr(loaded) == repr(result)


MASKS: dict[str, Callable[[Tensor], Any]] = {
    "booleans": lambda mask: mask,
    "mapping of an array": lambda mask: {"file": mask.numpy()},
    "0 and 1": lambda mask: mask.long(),
    "array of 0 and 1": lambda mask: mask.numpy().astype("uint8"),
}


@pytest.mark.parametrize("kind", MASKS)
def test_tensors_stand_for_lists_are_kept_in_the_run_and_keywords_replace_keys(
    kind: str, tmp_path: Path, no_pictures: None
) -> None:
    queries, keys = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 5, 4, dtype=torch.float64)
    mask = torch.tensor([True, False, True, True, False]).repeat(2, 3, 1)
    mask[1, 2] = False
    data = {"queries": queries, "keys": keys.numpy(), "valid_lens": torch.tensor([5, 2])}
    changes: dict[str, Any] = {"dtype": torch.float64, "scorers[0].scale": 0.5, "valid_lens": [3, 5]}
    result = attncli.run(
        {"data": data, "scorers": ["scaled_dot"]}, mask=MASKS[kind](mask), out=tmp_path / "run", **changes
    )
    mask[0, :, 3] = False
    scores = (queries @ keys.mT / 2).masked_fill(~mask, -torch.inf)
    torch.testing.assert_close(result.tensors["scaled_dot/weights"], scores.softmax(-1).nan_to_num(0.0))
    again = attncli.run(tmp_path / "run" / "config.yaml")
    assert torch.equal(again.tensors["scaled_dot/weights"], result.tensors["scaled_dot/weights"])


def test_a_sweep_has_the_rows_of_its_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    over = {"scorers[1].sigma": [Decimal(".1"), 2.0], "seed": range(2)}
    result = attncli.sweep(SMALL, over=over, metric="entropy", jobs=1)
    assert (list(tmp_path.iterdir()), result.folder) == ([], None)
    assert result.axes == [{"scorers[1].sigma": [0.1, 2.0]}, {"seed": [0, 1]}]
    assert len(result.records) == 2 * 2 * 2
    for row in result.records:
        alone = attncli.run(SMALL, seed=row["seed"], **{"scorers[1].sigma": row["scorers[1].sigma"]})
        (same_row,) = (each for each in alone.records if each["label"] == row["label"])
        assert row == {**row, **{key: value for key, value in same_row.items() if key != "seconds"}}
    assert result.to_frame("summary")["count"].max() == 2
    assert any("entropy" in finding.text for finding in result.findings)


def test_a_sweep_without_results_is_an_error_and_one_with_some_warns() -> None:
    broken = {**SMALL, "scorers": ["tests.scorers.failing:Fails"]}
    with pytest.raises(InputError, match=r"attncli.sweep: failed: seed = 0 and 1 more: .*no scores today"):
        attncli.sweep(broken, over={"seed": [0, 1]}, jobs=1)
    with pytest.warns(UserWarning, match=r"failed: scorers\[0\].scale = -1.*no scores today"):
        result = attncli.sweep(
            {**SMALL, "scorers": [{"scorer": "tests.scorers.failing:Fails", "scale": 1}]}, {"scorers[0].scale": [-1, 1]}
        )
    assert len(result.records) == 1


SWEPT = """import attncli, multiprocessing, sys

{}print(len(attncli.sweep("d2l", {{"seed": [0, 1]}}{}).records), len(multiprocessing.active_children()))
"""
GUARD = "if __name__ == '__main__': "
HERE = "points run in this process, one at a time: others cannot import its script; they need `if __name__"
NO_TIMEOUT = "attncli.sweep: timeout: got 60, for which points need other processes, which cannot import this script"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guard", "options", "from_stdin", "code", "warning"),
    [
        (GUARD, ", jobs=2", False, 0, None),
        ("", ", jobs=2", False, 0, HERE),
        ("", ", timeout=60", False, 1, NO_TIMEOUT),
        (GUARD, "", True, 0, HERE),
        (GUARD, ", timeout=60", True, 1, NO_TIMEOUT),
    ],
)
def test_a_sweep_in_a_script_that_other_processes_may_not_import(
    guard: str, options: str, from_stdin: bool, code: int, warning: str | None, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SWEPT.format(guard, options))
    command = [sys.executable, *([] if from_stdin else [str(script)])]
    with script.open() as file:
        done = subprocess.run(command, stdin=file, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert done.stdout == ("4 0\n" if code == 0 else "")
    assert (warning is None) == (done.stderr == "")
    assert (warning or "") in done.stderr


def test_ctrl_c_ends_a_sweep_in_this_process_and_keeps_its_finished_points() -> None:
    scorers = ["dot", "tests.engine.sweeps.jobs:IsInterrupted", "cosine"]
    result = attncli.sweep(SMALL | {"scorers": ["dot"]}, {"scorers[0].scorer": scorers}, jobs=1)
    assert result.interrupted
    assert [row["scorers[0].scorer"] for row in result.records] == ["dot"]


def variants() -> dict[str, Any]:
    """Return similar numbers (2, 3, 4) as every kind of tensor and array."""
    numbers = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    read_only = numbers.numpy().copy()
    read_only.flags.writeable = False
    with torch.inference_mode():
        frozen = numbers.clone()
    return {
        **{str(dtype): numbers.to(dtype) for dtype in (torch.float64, torch.bfloat16)},
        "integers": (numbers * 10).long(),
        "learnable": torch.nn.Parameter(numbers.float()),
        "of inference": frozen,
        "big-endian": numbers.numpy().astype(">f4"),
        "backwards": numbers.numpy()[..., ::-1],
        "unsigned": (numbers.numpy() ** 2 * 100).astype("uint16"),
        "read only": read_only,
    }


@pytest.mark.parametrize(("kind", "dtype"), [*((kind, "float64") for kind in variants()), ("learnable", "bfloat16")])
def test_a_tensor_is_what_its_lists_are(kind: str, dtype: str, tmp_path: Path, no_pictures: None) -> None:
    """A tensor gives the same results as its nested lists; the run folder has the tensor in place of the lists."""
    given = variants()[kind]
    shared: dict[str, Any] = {"scorers": ["dot", "additive"], "dtype": dtype}
    lists, tensors = ({"queries": each, "values": each, "keys": each} for each in (given.tolist(), given))
    expected = attncli.run({"data": {**lists, "bias": lists["keys"][0][0][:3]}, **shared})
    result = attncli.run({"data": {**tensors, "bias": given[0, 0, :3]}, **shared}, out=tmp_path / "run")
    by_keyword = attncli.run({"data": {**lists, "keys": None, "bias": lists["keys"][0][0][:3]}, **shared}, keys=given)
    for other in (result, by_keyword, attncli.run(tmp_path / "run" / "config.yaml")):
        for name, tensor in {**expected.inputs, **expected.tensors}.items():
            assert torch.equal({**other.inputs, **other.tensors}[name], tensor), name
    config = cli.config(tmp_path / "run")
    for role in ("queries", "keys", "values"):
        assert config["data"][role] == {"file": "tensors.safetensors", "tensor": role}


def test_the_callers_tensor_is_not_touched_and_one_number_of_it_may_be_changed() -> None:
    given, array = torch.ones(1, 2, 3, dtype=torch.float64), np.ones((1, 2, 3))
    changes: dict[str, Any] = {"queries[0][1][2]": 5.0}
    config = {"data": {"queries": given, "keys": array, "values": given}, "scorers": ["dot"], "dtype": "float64"}
    result = attncli.run(config, **changes)
    assert result.inputs["queries"].tolist() == [[[1, 1, 1], [1, 1, 5]]]
    for name in ("keys", "values"):
        result.inputs[name].zero_()
    assert (given == 1).all()
    assert (array == 1).all()


def test_a_run_is_kept_under_its_own_command_and_errors_speak_python(tmp_path: Path, no_pictures: None) -> None:
    expect = [{"where": {"label": "dot"}, "metric": "entropy", "between": [10, 11]}]
    result = attncli.run({**SMALL, "expect": expect}, out=tmp_path / "run")
    assert [row["holds"] for row in result.expectations] == [False]
    assert attncli.load(tmp_path / "run").expectations == result.expectations
    assert cli.results(tmp_path / "run")["command"] == "attncli.run"
    message = "attncli.run: out: got .*; expected a new or empty folder; overwrite=True replaces this run"
    with pytest.raises(InputError, match=message):
        attncli.run(SMALL, out=tmp_path / "run")
    assert attncli.run(SMALL, out=tmp_path / "run", overwrite=True).folder == tmp_path / "run"
    config = cli.experiment(tmp_path / "e.yaml", **SMALL)
    assert str(cli.run(config, tmp_path / "typed")["command"]).split()[0] == "attncli"


def test_frames_have_the_rows() -> None:
    result = attncli.run(SMALL)
    for kind in ("records", "comparisons", "heads", "head_comparisons"):
        assert result.to_frame(kind).to_dict("records") == [*getattr(result, kind)]
    with pytest.raises(InputError, match='got "findings"; expected one of records, comparisons, heads, head_comp'):
        result.to_frame("findings")
    variance = attncli.run({"study": "variance", "samples": 20, "d": [2], "scorers": ["dot"]})
    with pytest.raises(InputError, match='got "heads"; this run of the study variance has no heads; expected one of'):
        variance.to_frame("heads")


def test_pictures_have_names_outputs_alone_have_none_and_nothing_is_written_without_out(here: Path) -> None:
    result = attncli.run(SMALL)
    assert (list(here.iterdir()), result.folder) == ([], None)
    assert result.pictures == ["heatmaps", "heatmap_dot", "heatmap_gaussian"]
    titles = [text.get_text() for text in result.figure("heatmap_dot").findobj(Text)]
    assert any("dot" in title for title in titles)
    with pytest.raises(InputError, match="did you mean `heatmap_dot`"):
        result.figure("heatmap_dots")
    with pytest.raises(InputError, match="expected a range such as 0:32"):
        result.figure(queries=(0, 2))
    alone = attncli.run(SMALL, weights=False)
    assert set(alone._repr_mimebundle_()) == {"text/plain", "text/html"}
    with pytest.raises(InputError, match="nothing to draw"):
        alone.figure()


ODD: dict[Any, Any] = {**SMALL, 1: 2}
SEED = {"over": {"seed": [0]}}


@pytest.mark.parametrize(
    ("function", "given", "keys", "message"),
    [
        ("run", "d3l", {}, "d3l: no such file"),
        ("run", {"data": {}, "scorers": ["dot"]}, {}, "attncli.run: data.keys: "),
        ("run", SMALL, {"seed": -1}, "attncli.run: seed = -1: got -1"),
        ("run", {"data": {}, "scorers": ["d\udce9"]}, {}, r'scorers[0].scorer: got "d\udce9"; unknown scorer'),
        ("run", None, {}, "attncli.run: got nothing; expected a YAML file, the name of a built-in experiment, or a "),
        ("run", ODD, {"seed": -1}, "attncli.run: [1]: got 1; expected keys that are text"),
        ("run", SMALL, {"out": 1}, "attncli.run: out: got 1; expected a folder"),
        ("run", SMALL, {"out": "a\0b"}, "embedded null byte; expected a writable place"),
        ("run", SMALL, {"data.keys": torch.ones(1, 5, 4, device="meta")}, "device='meta'"),
        ("run", SMALL, {"data.keys": torch.ones(1, 5, 4, dtype=torch.bool)}, "keys[0][0][0]: got true; expected a "),
        ("run", SMALL, {"data.values": torch.ones(2, 4, 4)}, "data.values = [[[1.0, 1.0, 1.0, 1.0], [1.0"),
        ("run", SMALL, {"mask": torch.zeros(3, 3)}, "a tensor of shape [3, 3]"),
        ("run", SMALL, {"valid_lens": torch.ones(1, 3)}, "got 1.0; expected an integer of at least 0"),
        ("run", SMALL, {"data.keys": torch.ones(1, 5, 4).to_sparse()}, "or nested lists of numbers"),
        ("sweep", SMALL, {}, "attncli.sweep: got nothing to sweep over; expected --over KEY=VALUES, `over={KEY:"),
        ("sweep", SMALL, {**SEED, "metric": "entropi"}, 'metric: got "entropi"; unknown metric; did you mean `entropy'),
        ("sweep", SMALL, {**SEED, "jobs": 0}, "attncli.sweep: jobs: got 0; expected a number above 0"),
        ("sweep", SMALL, {**SEED, "timeout": math.nan}, "attncli.sweep: timeout: got NaN; expected a number above 0"),
        ("sweep", SMALL, {"over": {"scorers[1].sigma": [1, -1]}}, "sweep: scorers[1].sigma = -1: got -1; expected a "),
        (
            "sweep",
            SMALL,
            {"over": {"seed": [{1}]}},
            "over[0].seed[0]: got {1}; expected numbers, text, lists or mappings, which YAML can hold",
        ),
        ("save", [1.0], {"file": "a.safetensors"}, "attncli.save: seen: got [1.0]; expected the calls that "),
        ("Swap", "dot", {"seed": "a"}, 'seed: got "a"; expected an integer'),
        ("Swap", "dot", {"seed": -1}, "seed: got -1; expected an integer of at least 0"),
        ("Swap", "dot", {"seed": True}, "seed: got true; expected an integer"),
        ("Swap", "dot", {"seed": 2**63}, f"seed: got {2**63}; expected an integer below {2**63}"),
    ],
)
def test_what_is_wrong_is_an_input_error(
    function: str, given: Any, keys: dict[str, Any], message: str, here: Path
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        getattr(attncli, function)(given, **keys)
    assert isinstance(caught.value, InputError)
    assert cli.names_in(here) == [], "nothing is written"


def test_warnings_are_pythons_own_and_those_of_a_picture_of_the_callers_line() -> None:
    huge = {"queries": [[[3e38, 3e38]]], "keys": [[[3e38, 3e38]]]}
    with pytest.warns(UserWarning, match="dot"):
        attncli.run({"data": huge, "scorers": ["dot"]})
    result = attncli.run(SMALL)
    with pytest.warns(UserWarning, match="inches") as caught:
        result.figure(size=(0.6, 0.6))
    assert {each.filename for each in caught} == {__file__}


def test_tensors_are_read_on_request_and_are_the_callers_own(tmp_path: Path, no_pictures: None) -> None:
    attncli.run(SMALL, out=tmp_path / "run")
    with patch.object(StoredTensors, "__getitem__", side_effect=AssertionError):
        result = attncli.load(tmp_path / "run")
        assert ("queries" in result.inputs, "queries" in result.tensors) == (True, False)
        assert [name in result.tensors for name in ("dot/weights", "dot/nothing")] == [True, False]
    before = result.tensors["dot/weights"].clone()
    result.tensors["dot/weights"].zero_()
    assert torch.equal(result.tensors["dot/weights"], before)
    file = tmp_path / "run" / "tensors.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(InputError, match="has changed since it was read; load the run again"):
        result.tensors["dot/weights"]


def test_the_callers_torch_has_no_say_and_stays_as_it_is() -> None:
    expected, generator = attncli.run(SMALL, scorers=["additive"]), torch.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"), torch.inference_mode():
            result = attncli.run(SMALL, scorers=["additive"])
            assert "image/png" in result._repr_mimebundle_()
            assert (torch.get_default_dtype(), torch.get_default_device().type) == (torch.float64, "meta")
    finally:
        torch.set_default_dtype(torch.float32)
    assert result.records[0] | {"seconds": None} == expected.records[0] | {"seconds": None}
    assert torch.equal(torch.get_rng_state(), generator)


def test_threads_take_turns_and_leave_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    configs = [{**SMALL, "scorers": ["additive"]}, {"study": "bench", **STUDIES["bench"]}]
    expected = [attncli.run(config).records for config in configs]
    generator, environment = torch.get_rng_state(), dict(os.environ)
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda index: attncli.run(configs[index % 2]), range(6)))
    assert {result.records[0]["score_std"] for result in results[::2]} == {expected[0][0]["score_std"]}
    assert {len(result.records) for result in results[1::2]} == {len(expected[1])}
    assert torch.equal(torch.get_rng_state(), generator)
    assert dict(os.environ) == environment
    assert "KINETO_LOG_LEVEL" not in environment


def test_the_package_lists_what_it_has() -> None:
    assert {"Result", "load", "run"} <= {*dir(attncli)}
