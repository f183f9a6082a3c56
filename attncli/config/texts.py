"""Keys of studies that run a real model: the model and its texts."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, ValidationInfo

from attncli.config.opening import read_config
from attncli.config.strict import Model, problem
from attncli.config.values import FileName
from attncli.errors import refusal


class TextFile(Model):
    """A file with a text on each line; empty lines are skipped."""

    file: Annotated[FileName, Field(description="file with a text on each line; relative to the YAML file")]


def _lines_of(value: Any, info: ValidationInfo) -> Any:
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


def _in_folder(model: str, info: ValidationInfo) -> str:
    """Return the path of the model if it is a folder, named relative to the config; return other names unchanged."""
    folder = (info.context or {}).get("folder")
    return str(Path(folder) / model) if folder and (Path(folder) / model).is_dir() else model


Text = Annotated[str, StringConstraints(min_length=1)]
Texts = Annotated[
    list[Text],
    BeforeValidator(_lines_of, json_schema_input_type=list[Text] | Text | TextFile),
    Field(default_factory=list, description="texts for the model, a list or {file: texts.txt}"),
]
ModelName = Annotated[str, StringConstraints(min_length=1), AfterValidator(_in_folder)]
NO_TEXTS = 'got no texts for the model to read; give --text "..." (repeatable) or --texts FILE, in YAML `texts: [...]`'
MODEL_NAME = Field(
    description="a folder or a name of the Hugging Face hub; or module:function, which gives (model, inputs)"
)
