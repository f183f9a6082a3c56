"""Private names of torch."""

import re
from pathlib import Path

import attncli

PACKAGE = Path(attncli.__file__).parent
PRIVATE = re.compile(  # names of torch, of its objects, and of Python's frames
    r"(?<![\w\".])(?:torch|sys|dispatch)(?:\.\w+)*\._(?!_)\w+"
    r"|from torch[\w.]* import _\w+|[.\"]_(?:schema|cdata)\b|\.f_(?:back|code|locals)\b"
)


def test_private_names_stand_in_one_file() -> None:
    names = {
        path.relative_to(PACKAGE).as_posix(): PRIVATE.findall(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")
    }
    assert {file for file in names if names[file]} == {"models/internals.py", "scorers/_additive.py"}
    assert all(name.startswith("torch._dynamo") for name in names["scorers/_additive.py"]), "it compiles a function"
