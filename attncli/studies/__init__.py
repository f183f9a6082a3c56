"""The studies: one folder each, with everything that belongs to it.

Its folder has the modules `options` (the pydantic model of its YAML keys and flags), `columns` (the columns of its
rows), `study` (the work, and the record `STUDY` of the whole), `tables` and `figure`. Modules are imported when they
are needed, since most of them import torch.
"""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attncli.config.models import Experiment
    from attncli.studies.study import Figures, Study

STUDIES = {  # each with the help of its command
    "attention": "Run several scorers on the same queries, keys, values and mask.",
    "variance": "Measure mean and variance of scores for several d, and compare them with theory.",
    "saturation": "Measure entropy, largest weight and softmax gradient for several d.",
    "bench": "Compare time and memory of scorers with the textbook's code and torch's fused kernel.",
    "train": "Train models to recall the value of a key, with each scorer, size d and seed.",
    "swap": "Run a real model with other scorers inside, and compare its outputs with its own.",
    "fit": "Fit scorers to the attention of a real model, and put them into the model.",
    "doctor": "Check the attention of every head for faults and remarkable patterns.",
}


def load_study(name: str) -> "Study[Any, Any]":
    """Return the record of a study; this loads torch."""
    study: Study[Any, Any] = _module(name, "study").STUDY
    return study


def options_model(name: str) -> "type[Experiment]":
    """Return the pydantic model of a study's YAML."""
    model: type[Experiment] = _module(name, "options").OPTIONS
    return model


def study_figures(name: str) -> "Figures":
    """Return the function of a study that returns functions that draw its pictures; this loads matplotlib."""
    figures: Figures = _module(name, "figure").figures
    return figures


def _module(study: str, name: str) -> ModuleType:
    """Return a module of a study's folder."""
    return importlib.import_module(f"attncli.studies.{study}.{name}")
