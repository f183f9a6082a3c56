"""`attncli bench`: time and memory of scorers and implementations against sizes."""

from typing import Annotated

import typer

from attncli.commands.options import Device, DType, Full, Json, NoPlots, Out, Overwrite, Quiet, Seed
from attncli.commands.sweep_options import Scorers, run_sweep

SIZE, WHAT = "Sizes", "What is measured"


def _size(flag: str, text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(flag, metavar="N", help=f"{text} Repeatable.", rich_help_panel=SIZE)
    return option


Words = list[str] | None
N = Annotated[Words, _size("--n", "Queries; 128 to 1024 by default.")]
M = Annotated[Words, _size("--m", "Keys and values; as many as queries by default.")]
D = Annotated[Words, _size("--d", "Size of queries, keys and values; 64 by default.")]
NumHiddens = Annotated[Words, _size("--num-hiddens", "Hidden units of additive scorers; d by default.")]
Batch = Annotated[Words, _size("--batch", "Elements of a batch; 1 by default.")]
Heads = Annotated[Words, _size("--heads", "Heads; no such axis by default.")]
Backward = Annotated[
    bool, typer.Option("--backward", help="Gradients of inputs and parameters, too.", rich_help_panel=WHAT)
]
Compile = Annotated[bool, typer.Option("--compile", help="Measure torch.compile, too.", rich_help_panel=WHAT)]
Measure = Annotated[
    Words,
    typer.Option(help="scores, weights or output; repeatable. scores and output by default.", rich_help_panel=WHAT),
]
Threads = Annotated[
    str | None,
    typer.Option(metavar="N", help="Of torch on the CPU; as many as it takes by default.", rich_help_panel=WHAT),
]
Only = Annotated[
    Words,
    typer.Option(
        metavar="NAME",
        help="An implementation (attncli, compiled, textbook, fused), a label, or label/implementation; repeatable.",
        rich_help_panel=WHAT,
    ),
]
Skip = Annotated[Words, typer.Option(metavar="NAME", help="The same, to leave out; repeatable.", rich_help_panel=WHAT)]
Baseline = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="What all are compared with; scaled_dot/textbook.", rich_help_panel=WHAT),
]


def bench(
    scorers: Scorers = None,
    n: N = None,
    m: M = None,
    d: D = None,
    num_hiddens: NumHiddens = None,
    batch: Batch = None,
    heads: Heads = None,
    measure: Measure = None,
    backward: Backward = False,
    compile_too: Compile = False,
    threads: Threads = None,
    only: Only = None,
    skip: Skip = None,
    baseline: Baseline = None,
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
    """Measure time and memory of scorers beside the textbook's code and the fused kernel."""
    given = locals()
    flags = {"backward": given.pop("backward"), "compile": given.pop("compile_too")}
    run_sweep("bench", given | {name: "true" for name, wanted in flags.items() if wanted})
