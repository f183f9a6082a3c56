"""`attncli train`: what scorers learn, against d."""

from pathlib import Path
from typing import Annotated

import typer

from attncli.commands.options import Device, DType, Full, Json, NoPlots, Out, Overwrite, Quiet, Seed, naming_options
from attncli.commands.sweep_options import Scorers, run_sweep

TASK, LEARNING = "The task", "Learning"
Text = str | None


def _number(flag: str, text: str, panel: str, metavar: str = "N") -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(flag, metavar=metavar, help=text, rich_help_panel=panel)
    return option


Sizes = Annotated[
    list[str] | None,
    typer.Option("--d", metavar="N", help="Size of queries and keys; repeatable. 16, 64, 256 and 1024 by default."),
]
Seeds = Annotated[Text, typer.Option(metavar="N", help="Models of each configuration, trained together; 5.")]
Resume = Annotated[
    Text,
    typer.Option(metavar="FOLDER", help="Go on with a run that was interrupted: what it has finished is kept."),
]
Keys = Annotated[Text, _number("--keys", "Keys of a sequence; 8.", TASK)]
Vocabulary = Annotated[Text, _number("--vocabulary", "Symbols; 16.", TASK)]
Classes = Annotated[Text, _number("--classes", "Values that a key may have; 8.", TASK)]
Embedding = Annotated[Text, _number("--embedding", "Size of a symbol's fixed random vector; 64.", TASK)]
TestKeys = Annotated[
    list[str] | None,
    _number("--test-keys", "Test with so many keys, too, whatever was trained with; repeatable.", TASK),
]
Optimizer = Annotated[Text, _number("--optimizer", "adam or sgd; adam.", LEARNING, "NAME")]
Rate = Annotated[Text, _number("--lr", "Learning rate; 0.001 for adam, 1 for sgd.", LEARNING, "X")]
Steps = Annotated[Text, _number("--steps", "Steps of the optimizer; 800.", LEARNING)]
Batch = Annotated[Text, _number("--batch", "Sequences of a step; 64.", LEARNING)]


def train(
    d: Sizes = None,
    scorers: Scorers = None,
    seeds: Seeds = None,
    keys: Keys = None,
    vocabulary: Vocabulary = None,
    classes: Classes = None,
    embedding: Embedding = None,
    test_keys: TestKeys = None,
    optimizer: Optimizer = None,
    lr: Rate = None,
    steps: Steps = None,
    batch: Batch = None,
    resume: Resume = None,
    out: Out = None,
    overwrite: Overwrite = False,
    seed: Seed = None,
    device: Device = None,
    dtype: DType = None,
    no_plots: NoPlots = False,
    json: Json = False,
    quiet: Quiet = False,
    full: Full = False,
) -> None:
    """Train each scorer to recall the value of a key, at several d and with several seeds."""
    given = locals()
    if resume is None:
        run_sweep("train", given)
        return
    from attncli.studies.train.resume import config_of_run

    with naming_options():
        config = config_of_run(resume)
    run_sweep("train", given | {"resume": Path(resume).absolute()}, config)
