"""From a YAML file to the validated options of its study."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from attncli import errors
from attncli.config.document import Document
from attncli.config.models import LONGEST_NAME, Experiment
from attncli.config.problems import problems_of
from attncli.errors import InputError, Problem

Options = TypeVar("Options", bound=Experiment)
DEFAULT_STUDY = "attention"


def study_of(document: Document, known: Mapping[str, Any]) -> str:
    """The name of the study that a document asks for.

    Raises:
        InputError: a document that is no mapping, or an unknown study.
    """
    data = document.data
    if not isinstance(data, dict):
        expected = "expected an experiment: a mapping with `data` and `scorers`"
        raise document.located(
            InputError.of(errors.got(data, expected, "`attncli init` lists experiments to start from"))
        )
    study = data.get("study", DEFAULT_STUDY)
    if not isinstance(study, str) or study not in known:
        message = errors.got(study, "unknown study", errors.did_you_mean(study, known))
        raise document.located(InputError([*document.problems, Problem(message, ("study",))]))
    return study


def validate(document: Document, model: type[Options], scorers: Mapping[str, Any]) -> Options:
    """The document as the options of its study; file paths become relative to the working directory.

    Raises:
        InputError: every problem of the document at once, located.
    """
    data = model.normalised({"study": DEFAULT_STUDY, "name": default_name(document), **document.data})
    problems = list(document.problems)
    try:
        options = model.model_validate(data, context={"folder": document.path.parent})
    except ValidationError as error:
        problems += problems_of(error, data, list(scorers))
    problems += model.across(data)
    if problems:
        raise document.located(InputError(problems))
    return options


def default_name(document: Document) -> str:
    """The file's name without its ending, what a folder's name must not have replaced by `_`."""
    name = "".join(c if c.isprintable() and c not in '/\\:*?"<>|' else "_" for c in document.path.stem)
    return name.lstrip(". ").encode()[:LONGEST_NAME].decode(errors="ignore").strip() or "experiment"
