"""The built-in experiments: the folder `experiments/` of the project, also in the wheel."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def builtin_folder() -> Path:
    """Return `attncli/experiments` in an installed wheel, `experiments` beside the package in a checkout."""
    installed = PACKAGE / "experiments"
    return installed if installed.is_dir() else PACKAGE.parent / "experiments"


def builtin_names() -> list[str]:
    """Return the names for `attncli init`: the YAML files without ending, such as `d2l` or `claims/04_variance`."""
    folder = builtin_folder()
    names = [path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml")]
    return sorted(names, key=lambda name: ("/" in name, name))  # folders last


def builtin_path(name: str) -> Path:
    """Return the path of a built-in experiment, which need not exist."""
    return builtin_folder() / f"{name}.yaml"


def experiment_path(given: Path) -> Path:
    """Return the path of a config: a file, or if there is none a built-in experiment of this name."""
    return builtin_path(given.as_posix()) if given.as_posix() in builtin_names() and not given.exists() else given
