"""The interface for users and their scripts, saved in contract.json: metrics, columns, files, options and YAML keys.

`python -m tests.test_contract` writes the file anew. Review its differences: each is a change that a user notices.
These tests use only the command line and the files it writes, never the inside of a module. The file has names and
types. It has numbers where nothing else judges them: those that follow from the random draws of a seed.
"""

import csv
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from safetensors import safe_open

from attncli.cli import app
from tests.cli import attncli, good
from tests.studies.bench.small import hurry

pytestmark = pytest.mark.usefixtures("sketches")

FILE = Path(__file__).with_name("contract.json")
EXPERIMENTS = Path(__file__).parents[1] / "experiments"
# The claims have pages and tests of their own.
PATHS = sorted(path for path in EXPERIMENTS.glob("*.yaml") if "\nsweep:" not in path.read_text(encoding="utf-8"))
SMALLER = {
    "saturation": ["d=[2, 64]", "rows=100"],
    "variance": ["d=[1, 64]", "samples=40000"],
    "variance_correlated": ["d=[1, 64]", "samples=40000"],
    "variance_nonzero_mean": ["d=[1, 64]", "samples=40000"],
    "speed": ["n=4", "d=4"],
    "swap": ["model=tests.studies.swap.models:tower", "texts=[]", "by=all", "expect=[]"],
    "fit": ["model=tests.studies.swap.models:tower", "texts=[]", "steps=0", "expect=[]"],
    "learning": ["d=[4, 8]", "steps=3", "seeds=2", "expect=[]"],
    "longer_sequences": ["steps=3", "seeds=2", "expect=[]"],
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
SAMPLES, ROWS, MOMENTS = {"samples": 5000}, {"rows": 60, "keys": 9}, {"query_mean": 0.5, "key_std": 2.0, "rho": 0.25}
MORE: dict[str, dict[str, Any]] = {  # beside the experiments: keys that none of them has; all scorers if it has none
    "leading_axes": {"data": {**TENSORS, "valid_lens": {"random": [0, 7]}}, "scorers": OPTIONED, "train": True},
    "outputs_alone": {"data": TENSORS, "scorers": OPTIONED[:3], "weights": False, "seed": 5},
    "top_left": {"data": TENSORS, "mask": {"causal": "top_left"}, "dtype": "float64"},
    "bottom_right": {
        "data": {**TENSORS, "valid_lens": [[0, 1, 2, 3, 4], [7, 6, 5, 4, 3]]},
        "mask": {"causal": "bottom_right", "empty_row": "uniform"},
    },
    "fills": {
        "data": {
            "queries": {"shape": [2, 4, 4], "fill": "eye"},
            "keys": {"shape": [2, 4, 4], "fill": "correlated", "with": "queries", "rho": 0.5},
            "values": [[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]],
        },
        "tokens": {"queries": list("abcd"), "keys": list("efgh")},
    },
    "variance_of_all": {"study": "variance", "d": [2, 5], **MOMENTS, **SAMPLES},
    "variance_of_tails": {"study": "variance", "d": 3, "distribution": "student_t", "df": 9, **SAMPLES},
    "saturation_of_all": {"study": "saturation", "d": [2, 5], **ROWS},
    "saturation_of_signs": {"study": "saturation", "d": 3, "distribution": "rademacher", **ROWS},
    "variance_of_real_pairs": {"study": "variance", "from": "leading_axes.yaml"},
    "saturation_of_real_pairs": {"study": "saturation", "from": "bottom_right.yaml"},
    "bench_of_all": {"study": "bench", "n": 3, "m": 5, "d": 4, "heads": 2, "batch": 2, "backward": True},
    "train_of_all": {"study": "train", "d": 4, "seeds": 2, "steps": 2, "test_keys": [4, 16]},
}
NAMED, TYPED = ("keys", "config", "files"), ("records", "comparisons", "heads", "tensors")  # of a run folder
PICTURES = ["d2l", "multi_head", "saturation_of_real_pairs", "variance_of_real_pairs", "bench_of_all", "train_of_all"]
DRAWN = ["fills", "leading_axes", "saturation_of_signs", "variance_of_tails"]


def types(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the types of each column."""
    assert len({tuple(row) for row in rows}) <= 1, "all rows have the same columns"
    return {key: sorted({type(row[key]).__name__ for row in rows}) for key in (rows[0] if rows else {})}


def tensors(path: Path) -> dict[str, list[str]]:
    """Return the dtype and the number of axes of the tensors by the last part of their names."""
    found = defaultdict[str, set[str]](set)
    with safe_open(path, framework="np") as file:
        for name in file.keys():  # noqa: SIM118 - it is no dictionary
            tensor = file.get_slice(name)
            found[name.rpartition("/")[2]].add(f"{tensor.get_dtype()} {len(tensor.get_shape())}")
    return {name: sorted(kinds) for name, kinds in sorted(found.items())}


def run_folder(folder: Path) -> dict[str, Any]:
    """Return the parts of a run folder that belong to the contract."""
    content = json.loads((folder / "results.json").read_text())
    with (folder / "records.csv").open(newline="") as file:
        header = next(csv.reader(file))
    return {
        "study": content["study"],
        "keys": list(content),
        "config": list(yaml.safe_load((folder / "config.yaml").read_text())),
        "csv": header,
        **{rows: types(content.get(rows, [])) for rows in ("records", "comparisons", "heads")},
        "files": sorted(path.name for path in folder.iterdir()),
        "tensors": tensors(folder / "tensors.safetensors") if "tensors.safetensors" in content["files"] else {},
    }


NAMES = [*(path.relative_to(EXPERIMENTS).with_suffix("").as_posix() for path in PATHS), *MORE]


def write_more(folder: Path) -> None:
    for name, keys in MORE.items():
        (folder / f"{name}.yaml").write_text(json.dumps({"name": name, "scorers": ALL, **keys}))  # JSON is YAML


def run(name: str, folder: Path) -> Path:
    """Run an experiment, and return its folder; `folder` has the files of MORE."""
    out = folder / str(NAMES.index(name))
    path = folder / f"{name}.yaml" if name in MORE else EXPERIMENTS / f"{name}.yaml"
    options = [*(f"--set={change}" for change in SMALLER.get(name, [])), *([] if name in PICTURES else ["--no-plots"])]
    result = attncli("run", path, "--quiet", *options, "--out", out)
    assert result.exit_code == 0, result.stderr + result.stdout
    assert "warning" not in result.stderr, result.stderr
    return out


def numbers(folder: Path) -> list[list[float]]:
    """Return the finite numbers of each record."""
    records = json.loads((folder / "results.json").read_text())["records"]
    return [[float(f"{value:.5g}") for value in row.values() if isinstance(value, float)] for row in records]


def commands() -> dict[str, list[str]]:
    """Return the options of each command."""
    group: Any = typer.main.get_command(app)
    listed = {"": group, **group.commands}
    return {name: sorted(option for each in one.params for option in each.opts) for name, one in listed.items()}


def kind(schema: dict[str, Any]) -> str:
    """Return the type of a key with its bounds."""
    if options := [*schema.get("anyOf", []), *schema.get("oneOf", [])]:
        return " | ".join(sorted({kind(each) for each in options}))
    if "items" in schema:
        return f"list of {kind(schema['items'])}"
    bounds = {">=": "minimum", ">": "exclusiveMinimum", "<=": "maximum", "<": "exclusiveMaximum"}
    return " ".join(
        [schema.get("type", "mapping"), *(f"{sign} {schema[word]}" for sign, word in bounds.items() if word in schema)]
    )


def paths(schema: dict[str, Any], root: dict[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the name and type of every key that a YAML file may have; those of a scorer begin with it in braces."""
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
    tags = [str(keys[tag].get("const", "")) for tag in ("scorer", "normalizer", "fill") if tag in keys]
    inner = f"{{{tags[0]}}}" if tags and tags[0] else prefix
    for key, value in keys.items():
        yield f"{inner}.{key}", kind(value)
        yield from paths(value, root, f"{inner}.{key}")


def yaml_keys() -> dict[str, dict[str, str]]:
    """Return the types of the keys of each study, of a scorer, a normaliser or a fill, and of every study."""
    schema, found = json.loads(good("schema")), defaultdict[str, dict[str, str]](dict)
    for each in (schema["$defs"][each["$ref"].rpartition("/")[2]] for each in schema["anyOf"]):
        for path, types in sorted(set(paths(each, schema, ""))):
            entry, _, key = path.partition(".")
            found[entry or each["properties"]["study"]["const"]][key] = types
    studies = [found[name] for name in found if not name.startswith("{")]
    common = {key: types for key, types in studies[0].items() if all(each.get(key) == types for each in studies)}
    alone = {name: {key: keys[key] for key in keys if keys[key] != common.get(key)} for name, keys in found.items()}
    return {"every study": common, **alone}


def merged(folders: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the names and types of a study's run folders, those of any of them."""
    whole = {group: sorted({name for each in folders for name in each[group]}) for group in NAMED}
    names = dict[str, list[str]]()
    for group in ("csv", *TYPED):
        longest_first = sorted(folders, key=lambda each: -len(each[group]))
        names[group] = [*dict.fromkeys(name for each in longest_first for name in each[group])]
    typed = {
        group: {name: sorted({kind for each in folders for kind in each[group].get(name, [])}) for name in names[group]}
        for group in TYPED
    }
    return {**whole, "csv": names["csv"], **typed}


def contract(folder: Path) -> dict[str, Any]:
    """Return the whole content of the file."""
    write_more(folder)
    studies, outs = defaultdict[str, list[dict[str, Any]]](list), {name: run(name, folder) for name in NAMES}
    for found in map(run_folder, outs.values()):
        studies[found["study"]].append(found)
    return {
        "commands": commands(),
        "yaml_keys": yaml_keys(),
        "studies": {name: merged(folders) for name, folders in studies.items()},
        "numbers": {name: numbers(outs[name]) for name in DRAWN},
    }


EXPECTED = json.loads(FILE.read_text()) if FILE.exists() else {}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        hurry(patch)
        write_more(folder := tmp_path_factory.mktemp("contract"))
        yield folder


@pytest.mark.parametrize("name", NAMES)
def test_experiment(folder: Path, name: str) -> None:
    """A run has no column, key, type, file or tensor that its study has not; some columns depend on the inputs."""
    found = run_folder(run(name, folder))
    expected = EXPECTED["studies"][found["study"]]
    for group in NAMED:
        assert set(found[group]) <= set(expected[group]), group
    for group in ("csv", "records", "comparisons", "heads"):
        assert list(found[group]) == [column for column in expected[group] if column in found[group]], group
    for group in TYPED:
        for column, kinds in found[group].items():
            assert set(kinds) <= set(expected[group][column]), (group, column)


def test_no_command_or_option_is_missing() -> None:
    """The program may have more."""
    found, expected = commands(), EXPECTED["commands"]
    missing = {name: set(options) - set(found.get(name, [])) for name, options in expected.items()}
    assert not any(missing.values()), missing


def test_no_key_is_missing_or_has_another_type() -> None:
    found = yaml_keys()
    for entry, keys in EXPECTED["yaml_keys"].items():
        assert {key: found.get(entry, {}).get(key) for key in keys} == keys, entry


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
