"""Find the full paths of overrides: `data.keys.fill` for `keys.fill`, and for `scale` the scale of every scorer."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attncli import errors
from attncli.config.models import Experiment
from attncli.config.overrides import Override, changed
from attncli.config.scorer_entries import ONCE
from attncli.config.short_forms import all_option_paths, is_known, option_paths, scorer_of
from attncli.errors import Collector, InputError, dotted

SCORERS, SCORER = "scorers", "scorer"  # the key of the entries, and its other name, which is replaced


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
        overrides = [
            replace(override, path=(SCORERS, *override.path[1:])) if override.path[0] == SCORER else override
            for override in overrides
        ]
    names = {override.path[0] for override in overrides if override.may_be_short}
    for index in sorted(range(len(overrides)), key=lambda index: overrides[index].path not in ((SCORERS,), (SCORER,))):
        with collector.under():
            data, full[index] = _with_full_paths(overrides[index], data, model, names)
            for override in full[index]:
                data = changed(data, override, source)
    collector.check()
    return data, full


def _with_full_paths(
    change: Override, data: object, model: type[Experiment] | None, names: Collection[str | int]
) -> tuple[Any, list[Override]]:
    """Return the data and the override with its full path, one override for each scorer that has the option.

    A key is, in this order: a key of the config, a key that `data` or `mask` has in the config, a key of the study, or
    an option of scorers. If it is an option, the entries in the returned data have no short forms; their default labels
    leave out the values of options called `names`.

    Raises:
        InputError: the path is ambiguous.
    """
    key, where = change.path[0], change.where or change.text
    if not change.may_be_short or not isinstance(data, dict) or key in data or key in Experiment.model_fields:
        return data, [change]
    paths: list[errors.Path] = [
        (name, *change.path) for name in ("data", "mask") if isinstance(data.get(name), dict) and key in data[name]
    ]
    written = enumerate(_as_list(data.get(SCORERS)))
    entries = [(SCORERS, index, *change.path) for index, entry in written if _writes(entry, key)]
    if paths and len(paths + entries) > 1:
        raise InputError.of(_ambiguous(change, paths + entries), where=where)
    if paths:
        return data, [replace(change, path=paths[0])]
    if model is None or key in model.keys_in_yaml():
        return data, [change]
    return _of_scorers(change, data, model, names)


def _writes(entry: object, key: str | int) -> bool:
    return isinstance(entry, dict) and key in entry


def _of_scorers(
    change: Override, data: dict[str, Any], model: type[Experiment], names: Collection[str | int]
) -> tuple[Any, list[Override]]:
    where, written = change.where or change.text, data.get(SCORERS)
    listed = [
        scorer_of(entry, names) if isinstance(entry, str) and "=" in entry else entry for entry in _as_list(written)
    ]
    default = model.model_fields[SCORERS].get_default(call_default_factory=True)
    entries = model.normalised(data if written is None else {**data, SCORERS: listed}).get(SCORERS, default)
    if not isinstance(entries, list):
        return data, [change]
    paths = _paths(entries, change)
    full = [(SCORERS, *path) for path in paths]
    kinds = {len(path) for path in paths}  # paths of the scorers' options, and of the normalisers'
    if len(kinds) > 1 or (len(paths) > 1 and change.path[0] in ONCE):
        raise InputError.of(_ambiguous(change, full), where=where)
    if not full and not all(map(is_known, entries)):  # validation reports the wrong entry
        return data, []
    if not full and (kept := _paths(entries, change, all_option_paths)):
        message = f"got {dotted(change.path)}, which entries of the model's own scores keep; expected a whole path"
        raise InputError.of(f"{message}, such as {dotted((SCORERS, *kept[0]))}", where=where)
    if written is None and any(_writes(entries[int(index)], key) for index, key, *_ in paths):
        message = f"got {dotted(change.path)}, in which the default scorers of this study differ"
        raise InputError.of(f"{message}; give `{SCORERS}` first", where=where)
    return {**data, SCORERS: entries} if full else data, [replace(change, path=path) for path in full] or [change]


def _as_list(entries: object) -> list[Any]:
    return entries if isinstance(entries, list) else [] if entries is None else [entries]


def _paths(
    entries: Sequence[Any], change: Override, paths_in: Callable[[Any, errors.Path], list[errors.Path]] = option_paths
) -> list[errors.Path]:
    """Return the paths of an option of scorers in the list of entries."""
    return [(index, *path) for index, entry in enumerate(entries) for path in paths_in(entry, change.path)]


def _ambiguous(change: Override, paths: Sequence[errors.Path]) -> str:
    return f"got {dotted(change.path)}; expected one of {errors.listed([dotted(path) for path in paths])}"
