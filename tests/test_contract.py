"""The interface for users and their scripts, saved in contract.json: metrics, columns, files, options and YAML keys.

`python -m tests.test_contract` writes the file anew. Review its differences: each is a change that a user notices.
These tests use only the command line and the files it writes, never the inside of a module.
"""

import csv
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from safetensors import safe_open

from attncli.cli import app
from tests.cli import attncli, good
from tests.studies.bench.small import hurry

FILE = Path(__file__).with_name("contract.json")
EXPERIMENTS = Path(__file__).parents[1] / "experiments"
PATHS = sorted(path for path in EXPERIMENTS.rglob("*.yaml") if "\nsweep:" not in path.read_text(encoding="utf-8"))
RELATIVE, ABSOLUTE = 2e-5, 2e-6
STANDARD_ERRORS = 1e-3  # of `z` and `z_mean`: a difference of nearly equal figures, over a small one
FLOAT32 = 2.0**-24  # unit roundoff: the largest relative error of rounding to the nearest number
SIXTEEN_BITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
LARGEST_ERROR = 1e-4  # `swap` refuses the model's own scorer above it
TIMES = {"seconds", "seconds_iqr", "gflops", "gbytes_per_second", "ratio", "ratio_ci"}
# Columns that depend on time, memory or rounding during training: their values are not compared. Adam divides a
# gradient by its size, so one that is only rounding error moves a weight as far as any other: tests/studies/train
# compares `largest_score` with the trained weights.
MEASURED = {
    "bench": {*TIMES, "peak_bytes", "reason", "rounds", "times_as_fast", "times_as_fast_ci"},
    "swap": {"seconds"},
    "train": {
        *("accuracy", "loss", "entropy", "start_entropy", "gradient_norm", "largest_score"),
        *("steps_to_90", "reached_90"),
    },
}
SMALLER = {
    "saturation": ["d=[2, 64, 1024]", "rows=300"],
    "variance": ["d=[1, 64, 1024]", "samples=40000"],
    "variance_correlated": ["d=[1, 64]", "samples=40000"],
    "variance_nonzero_mean": ["d=[1, 64]", "samples=40000"],
    "speed": ["n=4", "d=4"],
    "swap": ["model=tests.studies.swap.models:tower", "texts=[]", "by=all", "expect=[]"],
    "fit": ["model=tests.studies.swap.models:tower", "texts=[]", "steps=0", "expect=[]"],
    "claims/09_cost": ["n=16", "d=4", "num_hiddens=4"],
    "learning": ["d=[4, 8]", "steps=3", "seeds=2"],
    "longer_sequences": ["steps=3", "seeds=2"],
    "claims/08_learning": ["steps=1", "seeds=2"],
    "claims/04_variance": ["samples=40000"],
    "papers/britz_2017": ["steps=1", "seeds=2"],
    "papers/katharopoulos_2020": ["n=[4, 8]", "d=4", "expect=[]"],
    "papers/luong_2015": ["steps=1", "seeds=2"],
    "papers/tsai_2019": ["steps=1", "seeds=2"],
}
ALL = [{"scorer": name} for name in ("additive", "cosine", "dot", "gaussian", "general", "scaled_dot", "vector_sum")]
TENSORS: dict[str, Any] = {
    "queries": {"shape": [2, 3, 5, 4]},
    "keys": {"shape": [2, 1, 7, 4], "fill": "uniform", "low": -2, "high": 2},
    "values": {"shape": [1, 7, 3], "fill": "student_t", "df": 5},
}
OPTIONED = [
    {"scorer": "additive", "num_hiddens": 3, "label": "capped", "softcap": 0.5},
    {"scorer": "scaled_dot", "scale": "1/d"},
    {"scorer": "gaussian", "sigma": 2.5},
    {"scorer": "cosine", "scale": 3.0, "label": "dropped", "dropout": 0.4},
    {"scorer": "general"},
    {"scorer": "dot"},
    {"scorer": "vector_sum"},
]
MORE: dict[str, dict[str, Any]] = {  # beside the experiments: keys that none of them has
    "leading_axes": {"data": {**TENSORS, "valid_lens": {"random": [0, 7]}}, "scorers": OPTIONED, "train": True},
    "outputs_alone": {"data": TENSORS, "scorers": OPTIONED[:3], "weights": False, "seed": 5},
    "top_left": {"data": TENSORS, "mask": {"causal": "top_left"}, "scorers": ALL, "dtype": "float64"},
    "bottom_right": {
        "data": {**TENSORS, "valid_lens": [[0, 1, 2, 3, 4], [7, 6, 5, 4, 3]]},
        "mask": {"causal": "bottom_right", "empty_row": "uniform"},
        "scorers": ALL,
    },
    "fills": {
        "data": {
            "queries": {"shape": [2, 4, 4], "fill": "eye"},
            "keys": {"shape": [2, 4, 4], "fill": "correlated", "with": "queries", "rho": 0.5},
            "values": [[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]],
        },
        "scorers": ALL,
        "tokens": {"queries": list("abcd"), "keys": list("efgh")},
    },
    "variance_of_all": {
        "study": "variance",
        "d": [2, 5],
        "samples": 5000,
        "scorers": ALL,
        "query_mean": 0.5,
        "key_std": 2.0,
        "rho": 0.25,
    },
    "variance_of_tails": {
        "study": "variance",
        "d": [3],
        "samples": 5000,
        "scorers": ALL,
        "distribution": "student_t",
        "df": 9,
    },
    "saturation_of_all": {"study": "saturation", "d": [2, 5], "rows": 60, "keys": 9, "scorers": ALL},
    "saturation_of_signs": {
        "study": "saturation",
        "d": [3],
        "rows": 60,
        "keys": 9,
        "scorers": ALL,
        "distribution": "rademacher",
    },
    "variance_of_real_pairs": {"study": "variance", "from": "leading_axes.yaml", "scorers": ALL},
    "saturation_of_real_pairs": {"study": "saturation", "from": "bottom_right.yaml", "scorers": ALL},
    "bench_of_all": {
        "study": "bench",
        "n": [3],
        "m": 5,
        "d": 4,
        "heads": 2,
        "batch": 2,
        "scorers": ALL,
        "measure": "output",
        "backward": True,
    },
    "train_of_all": {"study": "train", "d": [4], "seeds": 2, "steps": 2, "test_keys": [4, 16], "scorers": ALL},
}
PICTURES = ["leading_axes", "saturation_of_real_pairs", "variance_of_real_pairs", "bench_of_all", "train_of_all"]
FAILED = {"expect": [{"where": {"label": "dot"}, "metric": "entropy", "above": 100}]}
EXIT_CODES = {
    "--version": ["--version"],
    "done": ["run", "good.yaml", "--out", "good", "--no-plots"],
    "an expectation failed": ["run", "failed.yaml", "--out", "failed", "--no-plots"],
    "no such file": ["run", "missing.yaml"],
    "unknown option": ["run", "good.yaml", "--unknown"],
    "unknown command": ["unknown"],
    "unknown key": ["run", "good.yaml", "--set", "unknown=1"],
    "a good file": ["check", "good.yaml"],
    "a bad file": ["check", "good.yaml", "--set", "scorers=[]"],
    "unknown scorer": ["scorers", "unknown"],
    "the folder exists": ["run", "good.yaml", "--out", "good"],
}


def rounded(value: Any) -> Any:
    """Return JSON with 7 significant digits, enough for the tolerances."""
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return {key: rounded(each) for key, each in value.items()} if isinstance(value, dict) else value


def table(rows: list[dict[str, Any]], study: str) -> dict[str, Any]:
    """Return the names of the columns and a list of values for each row, without measured values.

    The changes that the model's own scorer makes in `swap` and `fit` are 0 but for rounding errors, and 0 is recorded.
    """
    columns = list(rows[0]) if rows else []
    assert all(list(row) == columns for row in rows)
    stems = MEASURED.get(study, set())
    measured = {c for c in columns if any(c in (s, *(f"{s}_{end}" for end in ("min", "max", "std"))) for s in stems)}

    def value(row: dict[str, Any], column: str) -> Any:
        if column in measured:
            return None
        is_own = study in ("swap", "fit") and row.get("label") == "model"
        unchanged = is_own and column.removesuffix("_before") in ("relative_l2", "largest", "output_l2")
        return (
            0.0 if unchanged and row[column] is not None and 0 <= row[column] < LARGEST_ERROR else rounded(row[column])
        )

    return {"columns": columns, "rows": [[value(row, column) for column in columns] for row in rows]}


def tensors(path: Path, study: str) -> dict[str, list[Any]]:
    """Return dtype and shape of each tensor; for bench the length is the number of rounds."""
    with safe_open(path, framework="np") as file:
        slices = {name: file.get_slice(name) for name in sorted(file.keys())}
        shapes = {name: [] if study == "bench" else each.get_shape() for name, each in slices.items()}
        return {name: [each.get_dtype(), *shapes[name]] for name, each in slices.items()}


def run_folder(folder: Path) -> dict[str, Any]:
    """Return the parts of a run folder that belong to the contract."""
    content = json.loads((folder / "results.json").read_text())
    with (folder / "records.csv").open(newline="") as file:
        header = next(csv.reader(file))
    study = content["study"]
    judged = [[each["metric"], each["holds"]] for each in content["expectations"]]
    return {
        "study": study,
        "keys": list(content),
        "config": list(yaml.safe_load((folder / "config.yaml").read_text())),
        "inputs": {name: [each["dtype"], *each["shape"]] for name, each in content["inputs"].items()},
        "csv": header,
        "records": table(content["records"], study),
        "comparisons": table(content["comparisons"], study),
        "heads": [len(heads := content.get("heads", [])), *(heads[0] if heads else [])],
        "expectations": [] if study in ("bench", "train") else judged,
        "files": sorted(path.name for path in folder.iterdir()),
        "tensors": tensors(folder / "tensors.safetensors", study),
    }


def arguments(name: str, folder: Path) -> list[str]:
    """Return the arguments of an experiment's run; the folder has the files of MORE."""
    known = [*(f"--set={change}" for change in SMALLER.get(name, [])), *([] if name in PICTURES else ["--no-plots"])]
    return [str(folder / f"{name}.yaml" if name in MORE else EXPERIMENTS / f"{name}.yaml"), "--quiet", *known]


NAMES = [*(path.relative_to(EXPERIMENTS).with_suffix("").as_posix() for path in PATHS), *MORE]


def write_more(folder: Path) -> None:
    for name, keys in MORE.items():
        (folder / f"{name}.yaml").write_text(json.dumps({"name": name, **keys}))  # JSON is YAML


def run(name: str, folder: Path) -> dict[str, Any]:
    """Return the content of an experiment's run folder."""
    out = folder / str(NAMES.index(name))
    result = attncli("run", *arguments(name, folder), "--out", out)
    assert result.exit_code in (0, 1), result.stderr
    assert "warning" not in result.stderr, result.stderr
    return run_folder(out)


def commands() -> dict[str, list[str]]:
    """Return the options of each command."""
    group: Any = typer.main.get_command(app)
    listed = {"": group, **group.commands}
    return {name: sorted(option for each in one.params for option in each.opts) for name, one in listed.items()}


def paths(schema: dict[str, Any], root: dict[str, Any], prefix: str) -> Iterator[str]:
    """Yield the name of every key that a YAML file may have, with its scorer or fill in braces."""
    if prefix.endswith("[][]"):
        return  # rows of rows of numbers refer to themselves
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for word in ("anyOf", "oneOf", "allOf"):
        for each in schema.get(word, []):
            yield from paths(each, root, prefix)
    if isinstance(schema.get("items"), dict):
        yield from paths(schema["items"], root, f"{prefix}[]")
    keys = schema.get("properties", {})
    tags = [str(keys[tag].get("const", "")) for tag in ("scorer", "fill") if tag in keys]
    inner = f"{prefix}{{{tags[0]}}}" if tags and tags[0] else prefix
    for key, value in keys.items():
        yield f"{inner}.{key}"
        yield from paths(value, root, f"{inner}.{key}")


def yaml_keys() -> dict[str, list[str]]:
    """Return the keys of each study."""
    schema = json.loads(good("schema"))
    studies = [schema["$defs"][each["$ref"].rpartition("/")[2]] for each in schema["anyOf"]]
    return {each["properties"]["study"]["const"]: sorted(set(paths(each, schema, ""))) for each in studies}


def exit_codes(folder: Path) -> dict[str, int]:
    """Return the exit codes of commands that succeed or fail."""
    keys = {"data": {"queries": {"shape": [1, 2, 4]}, "keys": {"shape": [1, 3, 4]}}, "scorers": [{"scorer": "dot"}]}
    (folder / "good.yaml").write_text(json.dumps(keys))
    (folder / "failed.yaml").write_text(json.dumps({**keys, **FAILED}))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return {name: attncli(*arguments).exit_code for name, arguments in EXIT_CODES.items()}


def contract(folder: Path) -> dict[str, Any]:
    """Return the whole content of the file."""
    write_more(folder)
    return {
        "commands": commands(),
        "yaml_keys": yaml_keys(),
        "exit_codes": exit_codes(folder),
        "experiments": {name: run(name, folder) for name in NAMES},
    }


def close(found: Any, expected: Any, relative: float, absolute: float) -> bool:
    """Whether two values of JSON agree, numbers up to rounding."""
    if isinstance(expected, list):
        same = isinstance(found, list) and len(found) == len(expected)
        return same and all(close(*pair, relative, absolute) for pair in zip(found, expected, strict=True))
    if isinstance(expected, float) and isinstance(found, (int, float)):
        return math.isclose(found, expected, rel_tol=relative, abs_tol=absolute)
    return bool(found == expected)


def tolerances(column: str, row: Mapping[str, Any], dtypes: Mapping[str, str]) -> tuple[float, float]:
    """Return the relative and the absolute tolerance of a number; `dtypes` are those of entries in low precision.

    Processors round sums and exponentials differently, so a number may differ by as much as rounding changes it.
    """
    if column in ("z", "z_mean"):
        return RELATIVE, STANDARD_ERRORS
    if column.startswith(("jacobian", "query_gradient")):
        # A score of size sqrt(d) is the sum of d products, with an error of sqrt(d) roundings, on either processor. An
        # absolute error of a score is a relative error of its weight.
        return max(RELATIVE, 2 * FLOAT32 * (row["d"] or 0)), ABSOLUTE
    if column in ("max_abs_difference", "output_difference", "output_change"):
        # An error in float32 turns the rounding to 16 bits of a share FLOAT32 / u of all numbers the other way, each by
        # u of its size. In the L2 norm these errors are sqrt(FLOAT32 / u) * u of the whole.
        u = max(SIXTEEN_BITS.get(dtypes.get(row[side], ""), 0.0) for side in "ab")
        size = row["output_change"] / row["output_difference"] if u and column == "output_change" else 1.0
        return RELATIVE, max(ABSOLUTE, math.sqrt(FLOAT32 * u) * size)
    return RELATIVE, ABSOLUTE


def assert_same_table(found: dict[str, Any], expected: dict[str, Any], dtypes: Mapping[str, str]) -> None:
    columns = expected["columns"]
    assert found["columns"] == columns
    assert len(found["rows"]) == len(expected["rows"])
    wrong = [
        f"row {number}: {column}: {got}, not {wanted}"
        for number, (row, other) in enumerate(zip(found["rows"], expected["rows"], strict=True))
        for column, got, wanted in zip(columns, row, other, strict=True)
        if not close(got, wanted, *tolerances(column, dict(zip(columns, other, strict=True)), dtypes))
    ]
    assert not wrong, "\n".join(wrong)


EXPECTED = json.loads(FILE.read_text()) if FILE.exists() else {}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        hurry(patch)
        write_more(made := tmp_path_factory.mktemp("contract"))
        yield made


def test_the_list_of_experiments() -> None:
    assert list(EXPECTED["experiments"]) == NAMES, "python -m tests.test_contract"


@pytest.mark.parametrize("name", NAMES)
def test_experiment(folder: Path, name: str) -> None:
    found, expected = run(name, folder), EXPECTED["experiments"][name]
    assert [key for key in expected["keys"] if key not in found["keys"]] == []
    for part in ("study", "config", "inputs", "csv", "heads", "expectations", "files", "tensors"):
        assert found[part] == expected[part], part
    config = yaml.safe_load((folder / str(NAMES.index(name)) / "config.yaml").read_text())
    dtypes = {entry["label"]: entry["dtype"] for entry in config.get("scorers", []) if "dtype" in entry}
    for part in ("records", "comparisons"):
        assert_same_table(found[part], expected[part], dtypes)


def test_tolerances_find_what_rounding_does_not_explain() -> None:
    columns = ["a", "b", "max_abs_difference", "output_difference", "output_change"]
    recorded = ["model", "half", 2.4e-4, 2.58e-4, 3.13e-3]  # outputs of length 12
    dtypes, expected = {"half": "float16"}, {"columns": columns, "rows": [recorded]}

    def same(row: list[Any], known: Mapping[str, str] = dtypes) -> bool:
        try:
            assert_same_table({"columns": columns, "rows": [row]}, expected, known)
        except AssertionError:
            return False
        return True

    other_processor = ["model", "half", 2.41e-4, 2.59e-4, 3.144e-3]
    assert same(recorded, {})
    assert same(other_processor)
    assert not same(other_processor, {}), "numbers in float32 agree to more digits"
    for unrounded in ([*recorded[:3], 1e-7, recorded[4]], [*recorded[:4], 1e-6]):
        assert not same(unrounded)
    assert tolerances("query_gradient_q75", {"d": 64}, {}) == (RELATIVE, ABSOLUTE)
    assert tolerances("query_gradient_q75", {"d": 1024}, {})[0] == pytest.approx(1.2e-4, rel=0.05)
    assert tolerances("entropy_q75", {"d": 1024}, {}) == (RELATIVE, ABSOLUTE)


def test_the_models_own_scorer_changes_nothing() -> None:
    """In `swap` its changes are 0 up to the error above which it is refused."""
    rows = [{"label": label, "largest": change} for label, change in (("model", 9e-5), ("model", 2e-4), ("dot", 9e-5))]
    assert [row[1] for row in table(rows, "swap")["rows"]] == [0.0, 2e-4, 9e-5]


@pytest.mark.parametrize(("part", "names"), [("commands", commands), ("yaml_keys", yaml_keys)])
def test_nothing_is_missing(part: str, names: Callable[[], dict[str, list[str]]]) -> None:
    """Nothing in the file is missing from the program; the program may have more."""
    found, expected = names(), EXPECTED[part]
    missing = {key: set(each) - set(found.get(key, [])) for key, each in expected.items()}
    assert not any(missing.values()), missing


def test_exit_codes(tmp_path: Path) -> None:
    assert exit_codes(tmp_path) == EXPECTED["exit_codes"]


def dump(value: Any, indent: str = "") -> str:
    """Return JSON with one line for each row of a table."""
    if isinstance(value, dict) and len(json.dumps(value)) > 110:
        inner = indent + " "
        lines = [f"{inner}{json.dumps(key)}: {dump(each, inner)}" for key, each in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and value and (isinstance(value[0], list) or len(value) > 25):
        return "[\n" + ",\n".join(f"{indent} {json.dumps(each, ensure_ascii=False)}" for each in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    FILE.write_text(dump(contract(Path(tempfile.mkdtemp()))) + "\n", encoding="utf-8")
