"""What an earlier run, which was ended before all was done, has finished already."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attncli.config.document import Document, read_document
from attncli.config.scorer_entries import ScorerEntry
from attncli.errors import Collector, InputError, below, got, show
from attncli.runs.train_files import INCOMPLETE, Kept, load_train
from attncli.scorers import SCORERS
from attncli.studies.train.kept import flaw_of
from attncli.studies.train.records import configurations

MAY_DIFFER = {"name", "study", "scorers", "d", "expect", "device", "resume"}
WRITTEN = ("d", "scorers", "seed", "seeds", "steps", "batch", "keys", "vocabulary", "classes", "embedding", "optimizer")
CONFIG = "config.yaml"
CURE = "a run is resumed with the same settings"


@dataclass(frozen=True)
class Earlier:
    """What is finished already, by label and d; why what else is there is trained again, or how much is not wanted."""

    kept: Mapping[tuple[str, int], Kept] = field(default_factory=dict)
    flaws: Mapping[tuple[str, int], str] = field(default_factory=dict)
    left_out: int = 0


def config_of_run(folder: str) -> Path:
    """The config that a run of this study goes on with.

    Raises:
        InputError: a folder that is no run of this study, or has not all of its files.
    """
    with below("resume"):
        if not folder:
            raise InputError.of(got(folder, "expected the folder of a run of attncli train"))
        load_train(Path(folder))
        _config(Path(folder))
    return Path(folder) / CONFIG


def earlier_run(options: Any) -> Earlier:
    """What is finished already; nothing where no run is resumed.

    Parameters that are read, and scorers of the user's own, may have changed since: they are trained again.

    Raises:
        InputError: a folder that is no run of this study, or one with other settings.
    """
    if options.resume is None:
        return Earlier()
    folder = Path(options.resume)
    with below("resume"):
        finished, document = load_train(folder), _config(folder)
    _check_settings(options, document.validate(type(options)), folder)
    kept, flaws = dict[tuple[str, int], Kept](), dict[tuple[str, int], str]()
    for entry, d in configurations(options):
        place = entry.label, d
        if place in finished:
            flaw = _changeable(entry) or _told(flaw_of(finished[place], entry, d, options), folder)
            if flaw is None:
                kept[place] = finished[place]
            else:
                flaws[place] = flaw
    return Earlier(kept, flaws, len(finished) - len(kept) - len(flaws))


def _changeable(entry: ScorerEntry) -> str | None:
    """What of an entry may have changed since."""
    if entry.parameters is not None:
        return "its parameters are read from a file, which may have changed"
    return None if entry.scorer in SCORERS else "its scorer is your own, and may have changed"


def _told(flaw: str | None, folder: Path) -> str | None:
    return flaw and f"in {folder} {flaw}"


def _config(folder: Path) -> Document:
    """The config of a run whose results are those of this study, with all keys that a run writes down."""
    path = folder / CONFIG
    if not path.is_file():
        raise InputError.of(f'got "{folder}", which has no {CONFIG}; {INCOMPLETE}')
    try:
        document = read_document(path)
    except InputError as error:
        raise InputError.of(f'got "{folder}", whose {CONFIG} is damaged: {error.problems[0]}') from error
    data = document.data if isinstance(document.data, dict) else {}
    if data.get("study", "train") != "train":
        disagree = f"disagree: the one is of the study {show(data['study'])}, the other of train"
        raise InputError.of(f'got "{folder}", whose {CONFIG} and results.json {disagree}')
    missing = [key for key in ("study", *WRITTEN) if key not in data]
    if missing:
        raise InputError.of(f'got "{folder}", whose {CONFIG} has no `{missing[0]}`; {INCOMPLETE}')
    return document


def _check_settings(options: Any, before: Any, folder: Path) -> None:
    collector = Collector()
    for name in sorted(set(type(options).model_fields) - MAY_DIFFER):
        with collector.under(name):
            _check_same(getattr(options, name), getattr(before, name), folder)
    known = {entry.label: entry for entry in before.scorers}
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            _check_entry(entry, known.get(entry.label, entry), folder)
    collector.check()


def _check_same(value: Any, there: Any, folder: Path) -> None:
    if value != there:
        raise InputError.of(got(value, f"the run in {folder} has {show(there)}; {CURE}"))


def _check_entry(entry: ScorerEntry, there: ScorerEntry, folder: Path) -> None:
    plain, before = (each.model_dump(exclude={"parameters"}) for each in (entry, there))
    if plain != before:
        message = f"got other options of {entry.label} than the run in {folder} has; {CURE}"
        raise InputError.of(f"{message}; expected the same, or another label")
