"""Entries of scorers in short forms: names, `name:option=value`, modules; and the options that an entry may have."""

from collections.abc import Collection, Mapping
from numbers import Integral
from typing import Any

from attncli.catalogue.catalogue import class_name, is_custom, names_in_catalogue, short_names
from attncli.catalogue.normalizer_entries import DEFAULT_NORMALIZER, KEY, as_mapping, named_options
from attncli.catalogue.scorer_entries import MODEL, NOT_IN_LABELS, default_label, is_models


def parsed_scorer(text: str, unnamed: Collection[str | int] = ()) -> dict[str, Any] | str:
    """Return the mapping for `name:option=value,option=value`, or the text itself if it has another form.

    The default label joins the scorer's name (`model` with `scale: model`), the values of the options (the name of one
    that is true), and the normaliser, but leaves out options in `unnamed`. `/`, which labels must not contain, becomes
    `_over_`.
    """
    name, options = named_options(text, ("label",)) or (text, {})
    if "=" in name or (":" in name and not is_custom(name)) or "scorer" in options:
        return text
    entry: dict[str, Any] = {"scorer": name, **options}
    if options.keys() - {*unnamed}:
        is_own = is_models(name, options.get("scale"))
        written = options.keys() - {KEY, "scale" if is_own else KEY, *unnamed}
        plain = {key: value for key, value in options.items() if key in written and not isinstance(value, dict | list)}
        words = [key if value is True else "null" if value is None else str(value) for key, value in plain.items()]
        normalizer = as_mapping(options.get(KEY))
        is_named = isinstance(normalizer, dict) and KEY not in unnamed
        words += [class_name(str(value)) for key, value in normalizer.items() if key not in unnamed] if is_named else []
        words = [word.replace("/", "_over_") for word in words]
        entry.setdefault("label", NOT_IN_LABELS.sub("_", "_".join([MODEL if is_own else default_label(name), *words])))
    return entry


def model_entry(entry: object) -> Any:
    """Return an entry for a captured model, with `model` and the name of a normaliser replaced by mappings.

    `model` stands for the model's own scores with softmax; the name of a normaliser stands for the model's own scores
    with that normaliser. Other entries are returned unchanged.
    """
    if not isinstance(entry, str):
        return entry
    if entry == MODEL:
        return {"scorer": "scaled_dot", "scale": MODEL}
    if entry in names_in_catalogue("normaliser"):
        return {"scorer": "scaled_dot", "scale": MODEL, KEY: entry, "label": entry}
    return entry


def _with_text_keys(plan: object) -> Any:
    """Return a plan, or a part of one, with numbers of layers and heads as text, as YAML has all keys.

    Numbers of NumPy count, too. One that is there as text, too, stays: it is an error.
    """
    if not isinstance(plan, Mapping) or "scorer" in plan:
        return plan
    is_number = {key: isinstance(key, Integral) and not isinstance(key, bool) and str(key) not in plan for key in plan}
    return {str(key) if is_number[key] else key: _with_text_keys(value) for key, value in plan.items()}


def expand_short_forms(entry: object) -> Any:
    """Return an entry with short forms expanded: text and objects become mappings, as do normalisers with options.

    A short name such as `hedgehog` becomes the entry for which it stands, with the short name as its label. An entry
    with `scorer: scaled_dot` and `scale: model` also gets its default label, which depends on `scale`.
    """
    entry = parsed_scorer(entry) if isinstance(entry, str) else {"scorer": entry} if callable(entry) else entry
    if not isinstance(entry, dict):
        return entry
    if isinstance(short := entry.get("scorer"), str) and short in (entries := short_names()):
        entry = {"label": short, **entries[short], **{key: entry[key] for key in entry if key != "scorer"}}
    if "plan" in entry:
        return {**entry, "plan": _with_text_keys(entry["plan"])}
    normalizer = as_mapping(entry.get(KEY))
    if is_models(entry.get("scorer"), entry.get("scale")):
        name = normalizer.get(KEY) if isinstance(normalizer, dict) else None
        entry = {"label": default_label(MODEL, name if isinstance(name, str) else DEFAULT_NORMALIZER), **entry}
    return {**entry, KEY: normalizer} if isinstance(normalizer, dict) and len(normalizer) > 1 else entry
