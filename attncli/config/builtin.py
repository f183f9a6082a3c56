"""Find the built-in experiments, which are in the folder `experiments/` of the project and in the wheel."""

from pathlib import Path

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
