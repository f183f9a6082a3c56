"""The built-in experiments: the folder `experiments/` of the project, which the wheel carries along."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def builtin_folder() -> Path:
    """Inside an installed wheel `attncli/experiments`, in a checkout `experiments` beside the package."""
    installed = PACKAGE / "experiments"
    return installed if installed.is_dir() else PACKAGE.parent / "experiments"


def builtin_names() -> list[str]:
    """Names to give to `attncli init`: the YAML files without their ending, such as `d2l` or `claims/04_variance`."""
    folder = builtin_folder()
    names = [path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml")]
    return sorted(names, key=lambda name: ("/" in name, name))  # folders last


def builtin_path(name: str) -> Path:
    """The YAML file of a built-in experiment; it need not exist."""
    return builtin_folder() / f"{name}.yaml"


def experiment_path(given: Path) -> Path:
    """What a command is given: a file, or where there is none the name of a built-in experiment."""
    return builtin_path(given.as_posix()) if given.as_posix() in builtin_names() and not given.exists() else given
