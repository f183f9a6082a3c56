"""Make the config.yaml of a run folder, with all defaults and with references only to files in the folder."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from attncli import errors
from attncli.catalogue.plans import PLAN
from attncli.config.files import CAPTURED, FONT, TENSORS, marked_files
from attncli.config.models import Experiment
from attncli.config.tensors import CorrelatedFill, Data, FileTensor
from attncli.config.yaml_loader import Loader
from attncli.results import PARAMETERS, Result, Row


class Dumper(yaml.SafeDumper):
    """YAML dumper without aliases that quotes text which YAML 1.1 or 1.2 would read as another type."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True: equal objects are written out each time."""
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Return the node of a text, quoted if it has unprintable characters: YAML reads some as line breaks."""
        style = None if data.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


Dumper.add_representer(str, Dumper.represent_str)
for _first, _resolvers in Loader.yaml_implicit_resolvers.items():
    for _tag, _pattern in _resolvers:
        Dumper.add_implicit_resolver(_tag, _pattern, [_first])


def dump_yaml(config: Mapping[str, Any]) -> str:
    """Return a config as YAML text, in the order of its keys, with innermost lists on one line."""
    return yaml.dump(
        dict(config), Dumper=Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120
    )


def config_data(options: Experiment) -> dict[str, Any]:
    """Return the options as data for YAML, including all defaults."""
    unused = options.unused()
    data = options.model_dump(mode="json", by_alias=True, exclude_none=True, serialize_as_any=True, exclude=unused)
    for entry, written in zip(options.scorers, data["scorers"], strict=True):
        written |= entry.nulls
    return {"study": options.study, **data}


def stored_files(options: Experiment, result: Result) -> Iterator[tuple[errors.Path, Path, str]]:
    """Yield each file that a run folder has a copy of: the path of its key, the file, and its name in the folder.

    Files in plans stay the user's.
    """
    for path, file, name in marked_files(options):
        if name is not None and isinstance(file, str) and PLAN not in path:  # not a mask of Python
            if path == ("from",) and result.capture is not None:
                name = CAPTURED
            yield path, Path(file), name + (Path(file).suffix if name == FONT else "")


def self_contained(options: Experiment, result: Result) -> Row:
    """Return the config of a run with the user's files replaced by files of the run folder.

    A scorer without parameters in `result` keeps the user's file of parameters.
    """
    config = config_data(options)
    for (*above, key), _, name in stored_files(options, result):
        parent: Any = config
        for step in above:
            parent = parent[step] if isinstance(step, int) else parent.get(step, {})  # a fitted entry leaves keys out
        if name != PARAMETERS:
            parent[key] = name
            parent |= {"tensor": above[-1]} if name == TENSORS and above else {}
        elif own := _parameters(config["scorers"][above[1]]["label"], result):
            parent.clear()
            parent |= {"file": PARAMETERS, "names": own}
    if "from" in config:
        config.pop("layout", None)
    if isinstance(data := getattr(options, "data", None), Data):
        _use_stored_inputs(config, data, result)
    return config


def _parameters(label: str, result: Result) -> dict[str, str]:
    """Return the names of a scorer's stored parameters by their state_dict names."""
    owners = {name: name.rpartition("/") for name in result.parameters}
    return {short: name for name, (owner, _, short) in owners.items() if owner == label}


def _use_stored_inputs(config: Row, data: Data, result: Result) -> None:
    """Also replace tensors that are computed from files, by tensors of the run folder.

    If `values` are missing and `keys` are generated, `values` get the same entry as `keys`, which is their default.

    The saved tensors are (batch, heads, tokens, features): of another layout all are read again. The saved mask is True
    where a query may attend, and includes the keys masked by -inf in the bias; the saved bias is finite.
    """
    tensors = config["data"]
    has_layout = tensors.pop("layout", None) is not None
    if isinstance(tensors["keys"], dict):
        tensors.setdefault("values", tensors["keys"])
    for role in ("queries", "keys", "values"):
        if has_layout or _is_read(role, data):
            tensors[role] = {"file": TENSORS, "tensor": role}
    if "mask" in result.inputs:
        config["mask"] |= {"file": TENSORS, "tensor": "mask"}
        config["mask"].pop("invert", None)


def _is_read(role: str, data: Data) -> bool:
    """Whether a tensor was read from a file, or is correlated with a tensor that was."""
    source = getattr(data, role) or data.keys
    return _is_read(source.source, data) if isinstance(source, CorrelatedFill) else isinstance(source, FileTensor)
