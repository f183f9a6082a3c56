"""What a point is: its resolved config and the code that computes it, as one short key."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attncli

NO_PART = ("name", "expect", "figure")  # keys of a config that change no number


@cache
def code_version() -> str:
    """The version of the package with a hash of its sources, as `0.9.0+1a2b3c4d5e6f`."""
    folder, digest = Path(attncli.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return f"{attncli.__version__}+{digest.hexdigest()[:12]}"


def key_of(config: Mapping[str, Any], code: str) -> str:
    """The identity of a point: configs that differ in its name, its pictures or what is expected are the same."""
    part = {key: value for key, value in config.items() if key not in NO_PART}
    return hashlib.sha256(json.dumps([part, code], sort_keys=True).encode()).hexdigest()[:16]
