"""Find the full paths of overrides: `data.keys.fill` for `keys.fill`, and for `scale` the scale of every scorer."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attncli.catalogue.entries import is_known, keeps, option_paths
from attncli.catalogue.entry_files import with_entries_of_files
from attncli.catalogue.short_forms import parsed_scorer
from attncli.config.models import Experiment
from attncli.config.overrides import Override, changed
from attncli.config.strict import Model, keys_in_yaml
from attncli.config.tensors import Data, Mask
from attncli.errors import Collector, InputError, dotted

SCORERS, SCORER = "scorers", "scorer"  # the key of the entries, and its other name, which is replaced
WITHOUT_BEGINNING: dict[str, type[Model]] = {"data": Data, "mask": Mask}  # keys whose own keys may be given alone


def applied(
    data: object, overrides: Sequence[Override], source: Path, model: type[Experiment] | None
) -> tuple[Any, dict[int, list[Override]]]:
    """Return the data with the overrides applied, and the overrides with full paths by the index of the override.

    Overrides apply in their order, except that the list of scorers is replaced first; the returned mapping is in the
    order of application. `model` has the options of the study. If it is None, a key without its path is not looked for
    in the entries of scorers. `source` is the path of the config, for errors.

    Raises:
        InputError: all overrides that do not fit the data.
    """
    collector, full = Collector(), dict[int, list[Override]]()
    data = {} if data is None and overrides else data
    if isinstance(data, dict) and SCORERS not in data:
        data = {SCORERS if key == SCORER else key: value for key, value in data.items()}
        overrides = [replace(change, path=(SCORERS,)) if change.path == (SCORER,) else change for change in overrides]
    names = {override.path[0] for override in overrides if override.may_be_short}
    data = with_entries_of_files(data, source.parent)
    for index in sorted(range(len(overrides)), key=lambda index: overrides[index].path != (SCORERS,)):
        folder = source.parent if overrides[index].where else Path()  # options name files from the current folder
        with collector.under():
            data, full[index] = _with_full_paths(overrides[index], data, model, names)
            for override in full[index]:
                data = with_entries_of_files(changed(data, override, source), folder)
    collector.check()
    return data, full


def _with_full_paths(
    change: Override, data: object, model: type[Experiment] | None, names: Collection[str | int]
) -> tuple[Any, list[Override]]:
    """Return the data and the override with its full path, one override for each entry or normaliser with the option.

    A key is, in this order: a key of the config or the study, a key that `data` or `mask` has in the config, an option,
    or any other key of `data` or `mask`. If it is an option, the entries in the returned data have no short forms;
    their default labels leave out the values of options called `names`.

    Raises:
        InputError: the default scorers of the study differ in the option.
    """
    key = change.path[0]
    if not change.may_be_short or not isinstance(data, dict) or key in data or key in Experiment.model_fields:
        return data, [change]
    for name in WITHOUT_BEGINNING:
        if isinstance(data.get(name), dict) and key in data[name]:
            return data, [replace(change, path=(name, *change.path))]
    if model is None or key in keys_in_yaml(model) or (key == SCORER and len(change.path) > 1):
        return data, [change]
    entries = _entries(data, model, names)
    paths = [path for path in option_paths(entries).get(str(key), ()) if not keeps(entries[path[0]], str(key))]
    if not paths and not all(map(is_known, entries)):  # validation reports the wrong entry
        return data, []
    if not paths:
        above = [name for name, keys in WITHOUT_BEGINNING.items() if key in keys.model_fields]
        return data, [replace(change, path=(*above, *change.path)) if {*above} & {*model.model_fields} else change]
    if data.get(SCORERS) is None and any(key in entries[path[0]] for path in paths):
        message = f"got {dotted(change.path)}, in which the default scorers of this study differ"
        raise InputError.of(f"{message}; give `{SCORERS}` first", where=change.where or change.text)
    full = [replace(change, path=(SCORERS, *path, *change.path[1:])) for path in paths]
    return {**data, SCORERS: entries}, full


def _entries(data: dict[str, Any], model: type[Experiment], names: Collection[str | int]) -> Any:
    """Return the entries of scorers without short forms, by default the default entries of the study."""
    written = data.get(SCORERS)
    if written is not None:
        listed = written if isinstance(written, list) else [written]
        texts = [parsed_scorer(entry, names) if isinstance(entry, str) and "=" in entry else entry for entry in listed]
        data = {**data, SCORERS: texts}
    default = model.model_fields[SCORERS].get_default(call_default_factory=True)
    return model.normalised(data).get(SCORERS, default)
