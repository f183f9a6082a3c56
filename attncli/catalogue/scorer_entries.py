"""The key `scorers` in YAML: pydantic models of the entries, with the options of each scorer, and short forms."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PositiveFloat,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    create_model,
    model_serializer,
    model_validator,
)

from attncli import errors
from attncli.catalogue.catalogue import CUSTOM, Catalogue, built_in, class_name, names_in_catalogue
from attncli.catalogue.fitted import KEYS as FITTED_KEYS
from attncli.catalogue.fitted import entry_in
from attncli.catalogue.normalizer_entries import DEFAULT_NORMALIZER, Normalizer
from attncli.config.files import StoredAs
from attncli.config.strict import TEMPERATURE, Model, as_problem, problem
from attncli.config.values import FileName, Name, relative_to_config
from attncli.errors import InputError
from attncli.results import PARAMETERS

KIND = "scorer"  # in messages
BIAS = "bias"
MODEL = "model"  # `scale: model` means the scale of the captured model
SCORER = Field(description="name of the scorer")
Count = Annotated[int, Field(ge=1, le=10**9)]
ONCE = ("scorer", "label", "parameters")  # keys that no two entries share
NOT_IN_LABELS = re.compile(r'[\\:*?"<>|]')


def default_label(scorer: str, normalizer: str = DEFAULT_NORMALIZER) -> str:
    """Return the default label: the scorer's name, and the normaliser's unless it is softmax.

    Custom scorers and normalisers are named by the class, without the module.
    """
    suffix = f"_{class_name(normalizer)}" if normalizer != DEFAULT_NORMALIZER else ""
    return class_name(scorer) + suffix


def is_models(scorer: object, scale: object) -> bool:
    """Whether an entry with this scorer and scale computes the scores as the captured model does."""
    return scorer == "scaled_dot" and scale == MODEL


class ParameterFile(Model):
    """A file with a scorer's parameters."""

    file: Annotated[
        FileName,
        Field(description="file with the parameters; the path is relative to the YAML file"),
        StoredAs(PARAMETERS),
    ]
    names: dict[str, str] = Field(
        default_factory=dict, description="names in the file by their state_dict names, if they differ"
    )
    transpose: bool = Field(
        default=False,
        exclude_if=lambda transpose: not transpose,
        description="whether matrices are stored as (in, out), as by Keras",
    )

    @property
    def untransposed_kernels(self) -> list[str]:
        """The names of parameters in the file that look like matrices of Keras, (in, out), and are not transposed."""
        names = [name for name in self.names.values() if name.removesuffix(":0").endswith("kernel")]
        return [] if self.transpose else names


class Rope(Model):
    """Rotary positions (Su et al. 2021, arXiv:2104.09864)."""

    theta: Annotated[PositiveFloat, Field(description="pair t turns by position * theta^(-2t/d)")] = 10000.0
    pairs: Annotated[Literal["halves", "interleaved"], Field(description="features t, t + d/2; or 2t, 2t + 1")] = (
        "halves"
    )
    share: Annotated[float, Field(gt=0, le=1, description="share of the features, the first ones, that turn")] = 1.0

    def __str__(self) -> str:
        """Return the settings in words, as in `theta 10000, halves`."""
        return f"theta {self.theta:g}, {self.pairs}" + (f", share {self.share:g}" if self.share < 1 else "")


class ScorerEntry(Model, validate_default=True):  # so a default that YAML cannot hold is an error
    """The keys common to all entries of scorers. The subclass for each scorer adds its options as fields."""

    implementation: ClassVar[type] = object  # the scorer's class
    is_object: ClassVar[bool] = False  # whether the scorer was given as an object that only Python has
    is_plan: ClassVar[bool] = False  # whether it has other entries in other layers
    module: ClassVar[Any] = None  # the torch module that was given in place of a name, in Python

    scorer: Annotated[str, SCORER]
    normalizer: Annotated[Normalizer, Field(description="normaliser, which turns scores into weights")] = (
        DEFAULT_NORMALIZER  # type: ignore[assignment]
    )
    label: Annotated[
        Name,
        Field(
            default_factory=lambda fields: default_label(fields["scorer"], fields["normalizer"].normalizer),
            description="name in tables and files; default: the scorer's name (model with `scale: model`), and the "
            "normaliser's unless it is softmax",
        ),
    ]
    bias: Annotated[
        Literal["alibi"] | None, Field(description="`alibi`: the linear position biases of Press et al. 2022")
    ] = None
    dropout: Annotated[float, Field(ge=0, lt=1, description="share of the weights set to 0 with `train: true`")] = 0.0
    softcap: Annotated[
        PositiveFloat | None,
        Field(description="bound of the scores, applied before the mask; `null`: none; default: a captured model's"),
    ] = None
    parameters: Annotated[ParameterFile | None, Field(description="file of trained parameters")] = None
    qk_norm: Annotated[
        Literal["layer", "rms"] | None,
        Field(description="layer: LayerNorm of queries and keys over their features, before the score; rms: RMSNorm"),
    ] = None
    rope: Annotated[
        Rope | None,
        BeforeValidator(lambda rope: ({} if rope else None) if isinstance(rope, bool) else rope, bool | Rope | None),
        Field(description="rotary positions of queries and keys, before the score; true: with the defaults"),
    ] = None
    window: Annotated[
        Count | None, Field(description="a query attends to keys less than this many positions away only")
    ] = None
    first_keys: Annotated[
        Count | None, Field(description="beside `window`: and to this many first keys of its text, padding aside")
    ] = None

    dtype: Annotated[
        Literal["float16", "bfloat16", "float8_e4m3", "float8_e5m2"] | None,
        Field(description="dtype that this entry is computed in, simulated; default: the experiment's"),
    ] = None
    rounding: Annotated[
        Literal["inputs", "flash", "steps"] | None,
        Field(
            description="beside `dtype`, what is rounded: `inputs` alone, inputs, weights and output as in "
            "FlashAttention (`flash`), or the result of each step; default: inputs"
        ),
    ] = None

    fitted: Annotated[
        FileName | None,
        Field(description="folder of a run of the study fit; the entry with this `label` is fitted, layer by layer"),
        StoredAs(),
    ] = None
    project: Annotated[
        bool,
        Field(
            exclude_if=lambda project: not project,
            description="in the study fit: whether to learn matrices for queries and keys",
        ),
    ] = False

    @model_validator(mode="after")
    def _beside_each_other(self) -> "ScorerEntry":
        for key, needed, example in (("first_keys", "window", 64), ("rounding", "dtype", "bfloat16")):
            if getattr(self, key) is not None and getattr(self, needed) is None:
                message = errors.got(getattr(self, key), f"expected `{needed}` beside it")
                raise problem(f"{message}; add `{needed}: {example}`, or leave it out", under=[key])
        if (self.dtype or "").startswith("float8") and self.rounding not in (None, "inputs"):
            message = errors.got(self.rounding, "float8 rounds queries and keys only")
            raise problem(f"{message}; use `rounding: inputs`, or another dtype", under=["rounding"])
        return self

    @classmethod
    def cure_of_key(cls, key: str) -> str:
        """Return which scorers have the unknown key as an option."""
        option = "scale" if key == TEMPERATURE else key
        owners = [name for name, model in CATALOGUE.built_in.items() if option in model.model_fields]
        has_option = option in cls.model_fields or not owners
        return "" if has_option else f"{option} is an option of {errors.listed(owners)}"

    @property
    def options(self) -> dict[str, Any]:
        """The options of the scorer: all fields except the common ones, unless `bias` is a scorer's own."""
        return {
            key: value for key, value in dict(self).items() if key not in ENTRY_KEYS or (key, value) == (BIAS, True)
        }

    @property
    def position_bias(self) -> Literal["alibi"] | None:
        """The bias of the scores that depends on positions, if any."""
        return None if isinstance(self.bias, bool) else self.bias

    @property
    def position_key(self) -> str | None:
        """The key of the entry that needs the positions of queries and keys, if any."""
        return BIAS if self.position_bias else next((key for key in ("window", "rope") if getattr(self, key)), None)

    @model_serializer(mode="wrap")
    def _fitted_alone(self, handler: SerializerFunctionWrapHandler) -> Any:
        """Return a fitted entry with its folder and label only: everything else is in the folder."""
        written = handler(self)
        return (
            {key: written[key] for key in FITTED_KEYS} if self.fitted is not None and "scorer" in written else written
        )

    @property
    def nulls(self) -> dict[str, None]:
        """The keys for which null is a value: options, and the softcap, which is the model's if it is missing."""
        names = [name for name, value in self.options.items() if value is None]
        is_uncapped = "softcap" in self.model_fields_set and self.softcap is None
        return dict.fromkeys([*names, *(["softcap"] if is_uncapped else [])])

    @property
    def entries(self) -> list["ScorerEntry"]:
        """The entry itself, or the entries of a plan."""
        return [self]

    @property
    def has_models_scale(self) -> bool:
        """Whether the entry uses the scale of the captured model."""
        return is_models(self.scorer, self.options.get("scale"))

    @property
    def seed_name(self) -> str:
        """The name that seeds the entry's random numbers: the label without the normaliser's name at its end.

        So a scorer has the same parameters with every normaliser. The value of an option may follow the normaliser's
        name, as in the default label `additive_entmax_1.3`.
        """
        name, options = class_name(self.normalizer.normalizer), self.normalizer.options
        values = {f"_{text}" for value in options.values() for text in (str(value), str(value).removesuffix(".0"))}
        rest, separator, tail = self.label.rpartition(f"_{name}")
        is_at_end = bool(separator) and tail in {"", *values}
        return rest if name != DEFAULT_NORMALIZER and is_at_end else self.label


ENTRY_KEYS = tuple(ScorerEntry.model_fields)


class CustomEntry(ScorerEntry, extra="allow"):
    """An entry of a custom scorer, `my_package.my_module:MyScorer`, with its options as keys."""

    scorer: Annotated[str, Field(pattern=CUSTOM, description="module and class of the scorer, as module:Class")]


def _sharing_bias(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a scorer; its own `bias`, if any, shares the key with the bias of positions."""
    kind, default = options.get(BIAS, (None, None))
    if default is not False:
        return {**options}
    about = f"{kind.__metadata__[0].description}; or `alibi`, as for every scorer"
    return {**options, BIAS: (Annotated[bool | Literal["alibi"] | None, Field(description=about)], False)}


CATALOGUE = Catalogue(KIND, "scorer", ScorerEntry, _sharing_bias)


def entry_model(entry: object) -> type[ScorerEntry]:
    """Return the pydantic model of an entry of a scorer without short forms."""
    if not isinstance(entry, dict):
        raise problem("expected NAME, NAME:KEY=VALUE,... or a mapping such as {scorer: additive, num_hiddens: 8}")
    if "scorer" not in entry:
        first = next(iter(entry), None)
        if first in names_in_catalogue(KIND):
            raise problem(f"the key `scorer` is missing; write {{scorer: {first}}}, with its options as further keys")
        raise problem("the key `scorer` is missing; known scorers: " + ", ".join(names_in_catalogue(KIND)))
    with as_problem("scorer"):
        name = entry["scorer"]
        return _model_of_object(name) if callable(name) else CATALOGUE.lookup(name)


def _model_of_object(code: object) -> type[ScorerEntry]:
    """Return the model of entries with a function, a class or a torch module, which Python allows in place of a name.

    A module has no options, since it is made already.
    """
    from attncli.scorers._custom import is_importable, object_class

    cls_of_code, is_class = object_class(code), isinstance(code, type)
    is_module = not is_class and not hasattr(cls_of_code, "function")
    name = f"{(cls_of_code if is_class or is_module else code).__module__ or 'python'}:{cls_of_code.__name__}"
    name = next((listed for listed, cls in built_in(KIND).items() if cls is code), name)
    by_name = BeforeValidator(lambda value: name if value is code else value)
    fields = dict[str, Any](scorer=(Annotated[Literal[name], by_name], ...))
    base = CATALOGUE.model(name, object if is_module else cls_of_code)  # a module is made already
    model = create_model(base.__name__, __base__=base, **fields)
    entry_class: Any = model
    entry_class.implementation, entry_class.module = cls_of_code, code if is_module else None
    entry_class.is_object = not (is_class and is_importable(cls_of_code))
    return entry_class  # type: ignore[no-any-return]


def refuse_objects(entries: Sequence[ScorerEntry], why: str) -> None:
    """Raise InputError, with the reason `why`, if a scorer was given as an object of Python."""
    for index, each in ((index, each) for index, entry in enumerate(entries) for each in entry.entries):
        if each.is_object:
            is_function = hasattr(each.implementation, "function")
            cure = f"put it in a module, and name it module:{'function' if is_function else 'Class'}"
            kind = "a function" if is_function else "a module or a class"
            raise InputError.of(f"got {kind}, {why}; {cure}", ["scorers", index])


def with_fitted(entry: object, info: ValidationInfo) -> Any:
    """Return an entry `{fitted: FOLDER, label: LABEL}` with the keys that it was fitted with."""
    if not isinstance(entry, dict) or entry.get("fitted") is None:
        return entry
    if not isinstance(entry["fitted"], str):
        raise problem(errors.got(entry["fitted"], "expected the folder of a run of the study fit"), under=["fitted"])
    with as_problem():
        return entry_in(entry, relative_to_config(entry["fitted"], info))
