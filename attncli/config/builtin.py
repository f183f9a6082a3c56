"""Find the built-in experiments, which are in the folder `experiments/` of the project and in the wheel."""

from collections.abc import Collection
from itertools import islice
from pathlib import Path

from attncli.errors import nearest

MOST_NEIGHBOURS = 1000  # files of a folder among which one with a similar name is searched
PACKAGE = Path(__file__).resolve().parents[1]


def builtin_folder() -> Path:
    """Return the folder of the built-in experiments: inside the package if it is installed, beside it in a checkout."""
    installed = PACKAGE / "experiments"
    return installed if installed.is_dir() else PACKAGE.parent / "experiments"


def builtin_names() -> list[str]:
    """Return the names of the built-in experiments, paths without `.yaml` such as `d2l` or `claims/04_variance`."""
    folder = builtin_folder()
    names = [path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml")]
    return sorted(names, key=lambda name: ("/" in name, name))  # folders last


def builtin_path(name: str) -> Path:
    """Return the path of the built-in experiment `name`, whether or not it exists."""
    return builtin_folder() / f"{name}.yaml"


def experiment_path(path: Path) -> Path:
    """Return `path`, or the path of the built-in experiment with this name if no such file exists."""
    return builtin_path(path.as_posix()) if path.as_posix() in builtin_names() and not path.exists() else path


def similar_experiment(path: Path, endings: Collection[str] | None = None) -> str | None:
    """Return the built-in experiment, or the file beside `path`, with the most similar name; None if there is none.

    The endings of names do not count. Only files with these `endings` are suggested, any if it is None.
    """
    names = {Path(name).name: name for name in builtin_names()}
    if path.parent.is_dir():
        for file in islice(path.parent.iterdir(), MOST_NEIGHBOURS):
            if endings is None or file.suffix.lower() in endings:
                names[file.stem] = str(file)
    near = nearest(path.stem, names)
    return None if near is None else names[near]
