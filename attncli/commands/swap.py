"""`attncli swap`: run a real model with other scorers inside."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from attncli.commands.options import Output, Sets, Text, Texts, import_quickly, overrides_of, text_overrides
from attncli.commands.study_flags import StudyFlag, flags_of, overrides_of_flags, with_flags
from attncli.config.document import document_of_data
from attncli.config.overrides import Override, typed

MODEL = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A folder or a name of the Hugging Face hub; or module:function of your own."),
]
OWN = ("model", "texts")  # keys with options of their own


def swap(
    values: Mapping[StudyFlag, Any],
    output: Output,
    model: MODEL,
    text: Text = None,
    texts: Texts = None,
    sets: Sets = None,
) -> None:
    """Run a real model with other scorers inside, and compare its outputs with its own."""
    of_texts = text_overrides(text, texts)
    import_quickly(pictures=not output.no_plots)
    from attncli.commands.experiments import run_and_show  # load torch
    from attncli.engine.experiment import load_experiment

    overrides = [*overrides_of(sets), *overrides_of_flags(values)]
    data: dict[str, Any] = {"study": "swap"}
    overrides.append(Override(("model",), model, typed("MODEL", model)))
    overrides += of_texts
    run_and_show([load_experiment(document_of_data("attncli swap", data, overrides))], output)


COMMAND = with_flags("swap", swap, [flag for flag in flags_of("swap") if flag.key not in OWN])
