"""Keys of studies that run a real model: the model, its texts, its layers and heads, and references beside scorers."""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo

from attncli.catalogue.scorer_entries import ScorerEntry
from attncli.config.files import StoredAs
from attncli.config.models import DType
from attncli.config.strict import Flag, Model, problem
from attncli.config.values import FileName
from attncli.core.opening import read_config
from attncli.errors import got, refusal

RUN = Flag(panel="The model")
GGUF = ".gguf"


class TextFile(Model):
    """A file with a text on each line; empty lines are skipped."""

    file: Annotated[FileName, Field(description="file with a text on each line; relative to the YAML file")]


def _read_lines(value: object, info: ValidationInfo) -> Any:
    """Return the lines of `{file: ...}` as a list of texts, and a single text as a list with this text."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, dict):
        return value
    path = Path(TextFile.model_validate(value, context=info.context, strict=True).file)
    try:
        lines = [line.strip() for line in read_config(path).decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise problem(f'got "{path}", which is not UTF-8 text', under=["file"]) from None
    except (OSError, ValueError) as error:
        raise problem(f'got "{path}"; {refusal(error)}', under=["file"]) from None
    return [line for line in lines if line]


def is_gguf(path: Path) -> bool:
    """Whether a path is a `.gguf` file, which has a model and its tokenizer."""
    return path.suffix.lower() == GGUF and path.is_file()


def _in_folder(model: str, info: ValidationInfo) -> str:
    """Return the path of a folder or a `.gguf` file, named relative to the config; return other names unchanged."""
    folder = (info.context or {}).get("folder")
    with suppress(OSError):  # a name that no file can have
        if folder and ((path := Path(folder) / model).is_dir() or is_gguf(path)):
            return str(path)
    return model


Text = Annotated[str, StringConstraints(min_length=1)]
Texts = Annotated[
    list[Text],
    BeforeValidator(_read_lines, json_schema_input_type=list[Text] | Text | TextFile),
    Field(default_factory=list, description="texts for the model, a list or {file: texts.txt}"),
    StoredAs(),
]
ModelName = Annotated[str, StringConstraints(min_length=1), AfterValidator(_in_folder)]
NO_TEXTS = 'got no texts for the model to read; give --text "..." (repeatable) or --texts FILE, in YAML `texts: [...]`'
MODEL_NAME = Field(
    description="a folder, a .gguf file or a name of the Hugging Face hub; or module:function, giving (model, inputs)"
)


BatchSize = Annotated[
    int | None,
    Field(ge=1, le=10**6, description="texts in one run of the model; default: of like length, 2,048 tokens in all"),
    RUN,
]
Way = Annotated[Literal["auto", "eager", "sdpa"], Field(description="how the model computes attention by itself"), RUN]
Revision = Annotated[str | None, Field(description="branch, tag or commit of a model of the hub"), RUN]
ModelDType = Annotated[DType | None, Field(description="dtype of the model; default: the file's")]


def beside(references: Collection[str]) -> AfterValidator:
    """Return a validator of scorers that refuses the labels of references, which always run."""

    def check(entries: list[ScorerEntry]) -> list[ScorerEntry]:
        """Return the entries; raise a `problem` for the first with such a label."""
        for index, entry in enumerate(entries):
            if entry.label in references:
                cure = "give this entry another `label`, or leave it out"
                raise problem(got(entry.label, "a reference that always runs", cure), under=[index, "label"])
        return entries

    return AfterValidator(check)
