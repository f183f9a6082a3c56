"""The options of the study `doctor`: tensors, a captured file, or a model with texts."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from attncli.catalogue.entries import Scorers
from attncli.catalogue.scorer_entries import MODEL
from attncli.catalogue.short_forms import model_entry
from attncli.config.files import StoredAs
from attncli.config.models import STUDY, About, DType, Experiment
from attncli.config.strict import problem
from attncli.config.tensors import BESIDE, CapturedData, DataSource, Mask, TokenNames, Tokens
from attncli.config.texts import MODEL_NAME, ModelName, Revision, Texts, Way

DEFAULT_SCORERS: list[Any] = [{"scorer": "scaled_dot"}]
OWN_SCORER: list[Any] = [model_entry(MODEL)]  # of a captured model
OF_DATA = ("mask", "tokens")  # keys beside queries, keys and values
OF_MODEL = ("texts", "attn", "revision")


class DoctorOptions(Experiment):
    """`study: doctor`."""

    study: Annotated[Literal["doctor"], STUDY] = "doctor"
    about: About = "Is anything wrong or remarkable in this attention?"
    scorers: Scorers = DEFAULT_SCORERS
    data: Annotated[DataSource | None, Field(description="queries, keys and values, or a captured model")] = None
    mask: Annotated[Mask, Field(description="which keys a query may attend to, beside the valid lengths")] = Mask()
    tokens: Annotated[Tokens, Field(description="names of queries and keys; keys named [PAD] are padding")] = (
        TokenNames()
    )
    model: Annotated[ModelName | None, MODEL_NAME, StoredAs()] = None
    texts: Texts
    attn: Way = "auto"
    revision: Revision = None
    dtype: Annotated[DType | None, Field(description="dtype of the tensors or the model; default: the file's")] = None  # type: ignore[assignment]

    @model_validator(mode="after")
    def _one_source(self) -> "DoctorOptions":
        if self.data is not None and self.model is not None:
            raise problem(f"got data together with a model, {BESIDE}", under=["data"])
        if self.data is None and self.model is None:
            raise problem("the key `data` or the key `model` is missing", under=["data"])
        for beside in sorted(self.unused() & self.model_fields_set):
            source = "a model" if self.model is not None else "`capture`" if beside == "mask" else "data"
            raise problem(f"got {beside} together with {source}, which has no use for it; leave it out", under=[beside])
        return self

    @classmethod
    def normalised(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the data with short forms expanded, and the model's own scorer by default for a captured model."""
        is_captured = isinstance(data.get("data"), dict) and "capture" in data["data"]
        is_models = is_captured or data.get("model") is not None
        return super().normalised({"scorers": OWN_SCORER, **data} if is_models else data)

    def unused(self) -> set[str]:
        """Return the keys without effect: the keys of other kinds of sources."""
        if self.model is not None:
            return {*OF_DATA}
        return {*OF_MODEL, *(["mask"] if isinstance(self.data, CapturedData) else [])}


OPTIONS = DoctorOptions
