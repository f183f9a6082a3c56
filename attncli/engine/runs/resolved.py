"""Make the config.yaml of a run folder, with all defaults and with references only to files in the folder."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from attncli.config.document import CAPTURED, FONT, TENSORS
from attncli.config.models import Experiment
from attncli.config.yaml_loader import Loader
from attncli.results import PARAMETERS, Result


class Dumper(yaml.SafeDumper):
    """YAML dumper without aliases that quotes text which YAML 1.1 or 1.2 would read as another type."""

    def ignore_aliases(self, data: object) -> bool:
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


def config_of(options: Experiment) -> dict[str, Any]:
    """Return the options as data for YAML, including all defaults."""
    unused = options.unused()
    data = options.model_dump(mode="json", by_alias=True, exclude_none=True, serialize_as_any=True, exclude=unused)
    for entry, written in zip(options.scorers, data["scorers"], strict=True):
        written |= {name: value for name, value in entry.options.items() if value is None}  # here null is a value
        if "softcap" in entry.model_fields_set and entry.softcap is None:  # if missing, a captured model's is used
            written["softcap"] = None
    return {"study": options.study, **data}


def self_contained(config: Mapping[str, Any], result: Result) -> dict[str, Any]:
    """Return the config of a run with the user's files replaced by files of the run folder.

    A scorer without parameters in `result` keeps the user's file of parameters.
    """
    resolved = copy.deepcopy(dict(config))
    if captured_file(config, result) is not None:
        resolved |= {"data": {**resolved["data"], "capture": CAPTURED}} if "data" in resolved else {"from": CAPTURED}
    elif "from" in resolved:
        resolved["from"] = TENSORS
        resolved.pop("layout", None)
    elif "data" in resolved:
        _use_stored_inputs(resolved["data"], resolved["mask"], result)
    if "font" in resolved.get("figure", {}):
        resolved["figure"]["font"] = FONT + Path(resolved["figure"]["font"]).suffix
    for entry in resolved["scorers"]:
        stored = [name for name in result.parameters if name.rpartition("/")[0] == entry["label"]]
        if "parameters" in entry and stored:
            names = {name.rpartition("/")[2]: name for name in stored}
            entry["parameters"] = {"file": PARAMETERS, "names": names}
    return resolved


def captured_file(config: Mapping[str, Any], result: Result) -> Path | None:
    """Return the file of captured calls that the run used, or None. A copy of it goes into the run folder."""
    if result.capture is None:
        return None
    return Path(config["data"]["capture"] if "data" in config else config["from"])


def _use_stored_inputs(data: dict[str, Any], mask: dict[str, Any], result: Result) -> None:
    """Replace the user's files in the data and mask of an attention experiment by files of the run folder.

    If `values` are missing and `keys` are generated, `values` get the same entry as `keys`, which is their default.

    The saved tensors are (batch, heads, tokens, features): of another layout all are read again. The saved mask is True
    where a query may attend, and includes the keys masked by -inf in the bias; the saved bias is finite.
    """
    is_swapped = data.pop("layout", None) is not None
    stored = [role for role in ("queries", "keys", "values") if is_swapped or _from_file(role, data)]
    if isinstance(data["keys"], dict):
        data.setdefault("values", data["keys"])
    data |= {role: {"file": TENSORS, "tensor": role} for role in stored}
    if "file" in (data.get("valid_lens") or {}):
        data["valid_lens"] = {"file": TENSORS, "tensor": "valid_lens"}
    bias = data.get("bias")
    if isinstance(bias, dict) and "file" in bias:
        data["bias"] = {"file": TENSORS, "tensor": "bias"}
    if "mask" in result.inputs:
        mask |= {"file": TENSORS, "tensor": "mask"}
        mask.pop("invert", None)


def _from_file(role: str, data: Mapping[str, Any]) -> bool:
    """Whether a tensor was read from a file, or is correlated with a tensor that was."""
    source = data.get(role, data["keys"])
    if not isinstance(source, dict):
        return False
    return "file" in source or ("with" in source and _from_file(source["with"], data))
