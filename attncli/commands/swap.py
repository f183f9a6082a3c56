"""`attncli swap`: run a real model with other scorers inside."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from attncli.commands.options import Output, Sets, Text, Texts, import_quickly, overrides_of, text_overrides
from attncli.commands.study_flags import StudyFlag, flags_of, overrides_of_flags, with_flags
from attncli.config.document import document_of_data
from attncli.config.overrides import Override, typed
from attncli.studies import STUDIES

MODEL = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="A folder or a name of the Hugging Face hub; or module:function of your own."),
]
OWN = ("model", "texts", "data")  # keys with options of their own, or in YAML only


def command_on_model(study: str) -> Any:
    """Return the command of a study that runs a model on texts."""

    def command(
        values: Mapping[StudyFlag, Any],
        output: Output,
        model: MODEL,
        text: Text = None,
        texts: Texts = None,
        sets: Sets = None,
    ) -> None:
        """Run the study on a model and texts that flags or a config give."""
        of_texts = text_overrides(text, texts)
        import_quickly(pictures=not output.no_plots)
        from attncli.commands.experiments import run_and_show  # load torch
        from attncli.engine.experiment import load_experiment

        overrides = [*overrides_of(sets), *overrides_of_flags(values)]
        overrides += [Override(("model",), model, typed("MODEL", model)), *of_texts]
        run_and_show([load_experiment(document_of_data(f"attncli {study}", {"study": study}, overrides))], output)

    command.__doc__ = STUDIES[study]
    return with_flags(study, command, [flag for flag in flags_of(study) if flag.key not in OWN])


COMMAND = command_on_model("swap")
