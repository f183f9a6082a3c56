"""`normalizer:` of a scorer in YAML: a name, `name:option=value`, or a mapping with the normaliser's options."""

import functools
from typing import Annotated, Any, Literal, Union

from pydantic import SerializerFunctionWrapHandler, create_model, model_serializer

from attncli import errors
from attncli.config.one_line import named_options
from attncli.config.signatures import options_of
from attncli.config.strict import Model, SchemaOf, chosen, problem

DEFAULT_NORMALIZER = "softmax"
KEY = "normalizer"


class NormalizerEntry(Model, validate_default=True):
    """The name; subclasses made for each normaliser add its options."""

    normalizer: str

    @property
    def options(self) -> dict[str, Any]:
        """The options of the normaliser."""
        return {key: value for key, value in dict(self).items() if key != KEY}

    @model_serializer(mode="wrap")
    def _name_alone(self, handler: SerializerFunctionWrapHandler) -> Any:
        written = handler(self)
        return written if len(written) > 1 else written[KEY]


@functools.cache
def normalizer_models() -> dict[str, type[NormalizerEntry]]:
    """Return the models of the catalogue's normalisers, made on first use: normalisers load torch."""
    from attncli.normalizers import NORMALIZERS

    models = {}
    for name, cls in NORMALIZERS.items():
        fields: Any = {KEY: (Literal[name], ...), **options_of(cls)}
        models[name] = create_model(f"{cls.__name__}Entry", __base__=NormalizerEntry, **fields)
    return models


def as_mapping(value: Any) -> Any:
    """Return a name, or a name with options, as a mapping."""
    if not isinstance(value, str):
        return value
    name, options = named_options(value) or (value, {})
    return {KEY: value} if KEY in options else {KEY: name, **options}


def _model_of(value: Any) -> type[NormalizerEntry]:
    known = normalizer_models()
    if not isinstance(value, dict) or KEY not in value:
        raise problem("expected a name such as sparsemax, or a mapping such as {normalizer: entmax, alpha: 1.3}")
    name = value[KEY]
    if not isinstance(name, str) or name not in known:
        raise problem(errors.got(name, "unknown normaliser", errors.did_you_mean(name, known)))
    return known[name]


def _any() -> Any:
    return Union[(Literal[tuple(normalizer_models())], *normalizer_models().values(), str)]


Normalizer = Annotated[NormalizerEntry, SchemaOf(_any), chosen(_model_of, as_mapping)]
