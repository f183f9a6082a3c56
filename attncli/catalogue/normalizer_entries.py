"""The key `normalizer` of a scorer in YAML: a name, `name:option=value`, or a mapping with options."""

import re
from collections.abc import Collection
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal, Union

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer

from attncli.catalogue.catalogue import CUSTOM, Catalogue
from attncli.config.strict import Model, as_problem, chosen, late_schema, problem
from attncli.config.yaml_loader import parse_yaml
from attncli.errors import InputError

NEXT_OPTION = re.compile(r",(?=[^,=]*=)")  # a comma before `name=`, not one inside a list or mapping
DEFAULT_NORMALIZER = "softmax"
KEY = "normalizer"
KIND = "normaliser"  # in messages
NAME = Field(description="name of the normaliser")


class NormalizerEntry(Model, validate_default=True):
    """The name of a normaliser. The subclass for each normaliser adds its options as fields."""

    implementation: ClassVar[type] = object  # the normaliser's class

    normalizer: Annotated[str, NAME]

    @property
    def options(self) -> dict[str, Any]:
        """The options of the normaliser: all fields except its name."""
        return {key: value for key, value in dict(self).items() if key != KEY}

    @model_serializer(mode="wrap")
    def _name_alone(self, handler: SerializerFunctionWrapHandler) -> Any:
        written = handler(self)
        return written if len(written) > 1 else written[KEY]


class CustomNormalizer(NormalizerEntry, extra="allow"):
    """A custom normaliser, `my_package.my_module:MyNormalizer`; used in the JSON Schema only."""

    normalizer: Annotated[str, Field(pattern=CUSTOM, description="module and class of the normaliser")]


CATALOGUE = Catalogue(KIND, KEY, NormalizerEntry)


def named_options(text: str, as_text: Collection[str] = ()) -> tuple[str, dict[str, Any]] | None:
    """Return name and options of `name:option=value,option=value`; None if the text has another form.

    The name may be `module:Class`; a name alone has no options. Values of options are read as YAML, except for the
    options in `as_text`.
    """
    head, equals, tail = text.partition("=")
    name, colon, first = (text.strip() for text in head.rpartition(":"))
    if not equals or not colon:
        return (text.strip(), {}) if not equals else None
    options: dict[str, Any] = {}
    for option in NEXT_OPTION.split(f"{first}={tail}"):
        key, equals, value = (text.strip() for text in option.partition("="))
        if not key or not equals or not value or key in options:
            return None
        options[key] = value
        if key not in as_text:
            with suppress(InputError):  # text that is not YAML
                options[key] = parse_yaml(value, lambda line, column: "")[0]
    return name, options


def as_mapping(value: object) -> Any:
    """Return text such as `entmax:alpha=1.3` as {normalizer: entmax, alpha: 1.3}; return other types unchanged."""
    if not isinstance(value, str):
        return value
    name, options = named_options(value) or (value, {})
    return {KEY: value} if KEY in options else {KEY: name, **options}


def entry_normalizer(value: object) -> type[NormalizerEntry]:
    """Return the pydantic model for a normaliser, given as a mapping; raise a `problem` if there is none."""
    if not isinstance(value, dict) or KEY not in value:
        raise problem("expected a name such as sparsemax, or a mapping such as {normalizer: entmax, alpha: 1.3}")
    with as_problem():
        return CATALOGUE.lookup(value[KEY])


def _any() -> Any:
    models, _ = CATALOGUE.loadable()
    return Union[(Literal[tuple(models)], *models.values(), CustomNormalizer, str)]


Normalizer = Annotated[NormalizerEntry, late_schema(_any), chosen(entry_normalizer), BeforeValidator(as_mapping)]
