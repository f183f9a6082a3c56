"""What an earlier run, which was ended before all was done, has finished already."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attncli.config.document import Document, read_document
from attncli.config.loading import validate
from attncli.config.scorer_entries import ScorerEntry
from attncli.errors import Collector, InputError, below, got, show
from attncli.results.train_files import INCOMPLETE, Kept, load_train
from attncli.scorers import SCORERS
from attncli.studies.training.kept import flaw_of
from attncli.studies.training.records import configurations

MAY_DIFFER = {"name", "study", "scorers", "d", "expect", "device", "resume"}
WRITTEN = ("d", "scorers", "seed", "seeds", "steps", "batch", "keys", "vocabulary", "classes", "embedding", "optimizer")
CONFIG = "config.yaml"
CURE = "a run is resumed with the same settings"


@dataclass(frozen=True)
class Earlier:
    """What is finished already, by label and d; and why the rest of what is there is trained again."""

    kept: Mapping[tuple[str, int], Kept] = field(default_factory=dict)
    flaws: Mapping[tuple[str, int], str] = field(default_factory=dict)


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

    Parameters that are read may have changed since: what begins with them is trained again.

    Raises:
        InputError: a folder that is no run of this study, or one with other settings.
    """
    if options.resume is None:
        return Earlier()
    folder = Path(options.resume)
    with below("resume"):
        finished, document = load_train(folder), _config(folder)
    _check_settings(options, validate(document, type(options), SCORERS), folder)
    wanted = {(entry.label, d): entry for entry, d in configurations(options) if entry.parameters is None}
    found = {place: finished[place] for place in wanted if place in finished}
    flaws = {place: flaw_of(kept, wanted[place], place[1], options) for place, kept in found.items()}
    return Earlier(
        {place: kept for place, kept in found.items() if flaws[place] is None},
        {place: flaw for place, flaw in flaws.items() if flaw is not None},
    )


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
