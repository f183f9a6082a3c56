"""`attncli swap`: run a real model with other scorers inside."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from attncli.commands.options import Output, Sets, import_quickly, overrides_of
from attncli.commands.study_flags import StudyFlag, flags_of, overrides_of_flags, with_flags
from attncli.config.document import document_of_data
from attncli.config.overrides import Override, typed
from attncli.errors import InputError

MODEL = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A folder or a name of the Hugging Face hub; or module:function of your own."),
]
TEXT = Annotated[
    list[str] | None,
    typer.Option("--text", metavar="TEXT", help="Text for the model; several are padded (repeatable)."),
]
TEXTS = Annotated[Path | None, typer.Option("--texts", metavar="FILE", help="File with a text on each line.")]
OWN = ("model", "texts")  # keys with options of their own


def swap(
    given: Mapping[StudyFlag, Any],
    output: Output,
    model: MODEL,
    text: TEXT = None,
    texts: TEXTS = None,
    sets: Sets = None,
) -> None:
    """Run a real model with other scorers inside, and compare its outputs with its own."""
    if text and texts is not None:
        raise InputError.of(f'got "{texts}" beside --text; expected one of the two', where="--texts")
    import_quickly(pictures=not output.no_plots)
    from attncli.api import load_experiment
    from attncli.commands.experiments import run_and_show

    overrides = [*overrides_of(sets), *overrides_of_flags(given)]
    data: dict[str, Any] = {"study": "swap"}
    overrides.append(Override(("model",), model, typed("MODEL", model)))
    if text:
        overrides.append(Override(("texts",), text, " ".join(typed("--text", each) for each in text)))
    if texts is not None:
        overrides.append(Override(("texts",), {"file": str(texts.absolute())}, typed("--texts", str(texts))))
    run_and_show([load_experiment(document_of_data("attncli swap", data, overrides))], output)


COMMAND = with_flags("swap", swap, [flag for flag in flags_of("swap") if flag.key not in OWN])
