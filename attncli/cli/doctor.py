"""`attncli doctor`: check the attention of every head."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from attncli.cli.options import (
    Layout,
    Output,
    Sets,
    Text,
    Texts,
    find_source,
    import_quickly,
    set_overrides,
    text_overrides,
)
from attncli.cli.streams import FAILED
from attncli.cli.study_flags import StudyFlag, flags_of, overrides_of_flags, run_document, with_flags
from attncli.config.document import YAML, Document, document_of_data, read_document
from attncli.config.overrides import Override, typed
from attncli.config.texts import GGUF
from attncli.errors import InputError, got
from attncli.studies import STUDIES, options_model

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A config, run folder or captured model; or a model with --text: a folder, a .gguf file, or a name of the "
        "hub; or module:function of your own.",
    ),
]
Fail = Annotated[bool, typer.Option("--fail", help="Exit with 1 if there is a fault.")]
OWN = ("data", "mask", "tokens", "model", "texts")  # keys without flags
WITH_SOURCES = ("attention", "doctor")  # studies with queries and keys, which `attncli doctor` can check
ENDINGS = (*YAML, ".safetensors")


def doctor(
    values: Mapping[StudyFlag, Any],
    output: Output,
    source: Source,
    text: Text = None,
    texts: Texts = None,
    fail: Fail = False,
    layout: Layout = None,
    sets: Sets = None,
) -> None:
    """Check the attention of every head for faults and remarkable patterns."""
    overrides = [*set_overrides(sets, layout=layout), *overrides_of_flags(values)]
    of_texts = text_overrides(text, texts)
    if of_texts and source.lower().endswith(ENDINGS):
        message = f'got "{source}" together with --text; expected a model to read it, or no --text'
        raise InputError.of(message, where="SOURCE")
    import_quickly(pictures=False)
    from attncli.models.loading import Request  # loads torch

    if of_texts or Request(source).is_function:
        if layout is not None:
            raise InputError.of("a model has no layout; leave it out", where=f"--layout {layout}")
        model = Override(("model",), source, typed("SOURCE", source))
        document = document_of_data("attncli doctor", {"study": "doctor"}, [*overrides, model, *of_texts])
    else:
        document = _config_document(Path(source), overrides)
    (finished,) = run_document(document, output)
    if fail and any(row["kind"] == "fault" for row in finished.result.records):
        raise typer.Exit(FAILED)


def _config_document(source: Path, overrides: list[Override]) -> Document:
    """Return the experiment of the study doctor on the inputs of a config, a run or a captured file.

    Raises:
        InputError: there is no such file, or its study has no queries and keys.
    """
    path, is_folder = find_source(source, "a config, a run folder or a captured model, or a model with --text")
    if path.suffix.lower() == GGUF or (is_folder and not (path / "config.yaml").is_file()):
        latest = path / "latest"
        cure = f"did you mean `{latest}`?" if latest.is_dir() else "a model needs --text"
        raise InputError.of(f'got "{source}", which is not a run folder; {cure}', where="SOURCE")
    document = read_document(path / "config.yaml" if is_folder else path)
    study = document.study(STUDIES)
    if study not in WITH_SOURCES:
        expected = f"expected {' or '.join(WITH_SOURCES)}, which have queries and keys"
        raise document.located(InputError.of(got(study, expected), ["study"]))
    if study == "doctor":
        return document.changed(overrides)
    if document.data.get("sweep") is not None:
        message = "got a sweep; expected one experiment; `attncli sweep` runs a sweep of the study doctor"
        raise document.located(InputError.of(message, ["sweep"]))
    keys, others = (set(options_model(study_name).model_fields) for study_name in ("doctor", "attention"))
    dropped = (others - keys) | {"about", "expect", "figure", "sweep"}
    data = {key: value for key, value in document.data.items() if key not in dropped}
    return replace(document, written={**data, "study": "doctor", "name": "doctor"}).changed(overrides)


COMMAND = with_flags("doctor", doctor, [flag for flag in flags_of("doctor") if flag.key not in OWN])
