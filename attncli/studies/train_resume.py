"""What an earlier run, which was ended before all was done, has finished already."""

from pathlib import Path
from typing import Any

from attncli.config.document import read_document
from attncli.config.loading import validate
from attncli.config.scorer_entries import ScorerEntry
from attncli.errors import Collector, InputError, below, got, show
from attncli.results.train_files import Kept, load_train
from attncli.scorers import SCORERS
from attncli.studies.train_records import configurations

MAY_DIFFER = {"name", "study", "scorers", "d", "expect", "device", "resume"}
CURE = "a run is resumed with the same settings"


def config_of_run(folder: Path) -> Path:
    """The config that a run of this study goes on with.

    Raises:
        InputError: a folder that is no run of this study.
    """
    with below("resume"):
        load_train(folder)
    return folder / "config.yaml"


def kept_of(options: Any) -> dict[tuple[str, int], Kept]:
    """What is finished already, by label and d; nothing where no run is resumed.

    Parameters that are read may have changed since: what begins with them is trained again.

    Raises:
        InputError: a folder that is no run of this study, or one with other settings.
    """
    if options.resume is None:
        return {}
    folder = Path(options.resume)
    with below("resume"):
        finished = load_train(folder)
    before = validate(read_document(folder / "config.yaml"), type(options), SCORERS)
    collector = Collector()
    for name in sorted(set(type(options).model_fields) - MAY_DIFFER):
        with collector.under(name):
            _check_same(getattr(options, name), getattr(before, name), folder)
    known = {entry.label: entry for entry in before.scorers}
    for index, entry in enumerate(options.scorers):
        with collector.under("scorers", index):
            _check_entry(entry, known.get(entry.label, entry), folder)
    collector.check()
    wanted = {(entry.label, d) for entry, d in configurations(options) if entry.parameters is None}
    whole = options.seeds * len(options.tested)
    return {place: kept for place, kept in finished.items() if place in wanted and len(kept.records) == whole}


def _check_same(value: Any, there: Any, folder: Path) -> None:
    if value != there:
        raise InputError.of(got(value, f"the run in {folder} has {show(there)}; {CURE}"))


def _check_entry(entry: ScorerEntry, there: ScorerEntry, folder: Path) -> None:
    plain, before = (each.model_dump(exclude={"parameters"}) for each in (entry, there))
    if plain != before:
        message = f"got other options of {entry.label} than the run in {folder} has; {CURE}"
        raise InputError.of(f"{message}; expected the same, or another label")
