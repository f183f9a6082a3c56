"""Before a format matters: is there a file that can be read at all?"""

import stat
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from attncli.errors import InputError
from attncli.inputs.formats.problems import AGAIN, problem, reading

HEAD = 4096  # bytes from which a file's kind can be told
MOST_NEIGHBOURS = 2000  # names in the same folder that are compared with a mistyped one


def head_of(path: Path) -> bytes:
    """The first bytes of a regular file that is not empty; InputError for everything else."""
    if "\0" in str(path):
        raise problem(path, "no file can have a name with a zero byte")
    with reading(path):
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError) as error:
            raise missing(path) from error
        refuse_special(path, mode)
        with path.open("rb") as file:
            head = file.read(HEAD)
    if not head:
        raise problem(path, "an empty file (0 bytes)", AGAIN)
    return head


def refuse_special(path: Path, mode: int) -> None:
    """Reading a pipe would wait forever, a device might never end."""
    if stat.S_ISDIR(mode):
        raise problem(path, "a folder; expected a file")
    if not stat.S_ISREG(mode):
        raise problem(path, "neither a file nor a link to one; expected a file")


def missing(path: Path) -> InputError:
    """There is no such file: where it was looked for, and what it may have been meant to be."""
    folder = path.parent.absolute()
    shown = str(path.parent)
    if folder.is_relative_to(Path.cwd()):
        shown = str(folder.relative_to(Path.cwd()))
    if not folder.is_dir():
        return problem(path, f"no such folder: {shown}")
    return problem(path, "no such file" if shown == "." else f"no such file in {shown}", near(path))


def near(path: Path) -> str:
    """A question naming a file of nearly this name in the same folder, or nothing."""
    try:
        names = [neighbour.name for neighbour in islice(path.parent.iterdir(), MOST_NEIGHBOURS)]
    except OSError:
        return ""
    stems = {Path(name).stem: name for name in sorted(names)}  # endings are alike, and would make all names near
    closest = get_close_matches(path.stem, stems, n=1)
    return f"did you mean `{stems[closest[0]]}`?" if closest else ""
