"""Find the built-in experiments, which are in the folder `experiments/` of the project and in the wheel."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def builtin_folder() -> Path:
    """Return the folder of the built-in experiments: inside an installed package, beside it in a checkout."""
    installed = PACKAGE / "experiments"
    return installed if installed.is_dir() else PACKAGE.parent / "experiments"


def builtin_names() -> list[str]:
    """Return the names for `attncli init`: the YAML files without ending, such as `d2l` or `claims/04_variance`."""
    folder = builtin_folder()
    names = [path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml")]
    return sorted(names, key=lambda name: ("/" in name, name))  # folders last


def builtin_path(name: str) -> Path:
    """Return the path that a built-in experiment of this name has, whether or not it exists."""
    return builtin_folder() / f"{name}.yaml"


def experiment_path(given: Path) -> Path:
    """Return the path itself, or the built-in experiment of this name if there is no such file."""
    return builtin_path(given.as_posix()) if given.as_posix() in builtin_names() and not given.exists() else given
