"""`attncli capture`: save the inputs and outputs of every attention call of a real model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from attncli.cli.options import ModelName, OverwriteFile, Quiet, Text, naming_options
from attncli.cli.progress import Terminal
from attncli.cli.streams import print_line
from attncli.core.numbers import several
from attncli.errors import InputError, Problem, got

if TYPE_CHECKING:
    from attncli.models.capture import Capture

Text2 = Annotated[
    str | None,
    typer.Option("--text2", metavar="TEXT", help="A second text; for a decoder, its text so far."),
]
Image = Annotated[Path | None, typer.Option("--image", metavar="FILE", help="Picture for the model.")]
Layers = Annotated[
    str | None,
    typer.Option("--layers", metavar="LAYERS", help="Layers to keep: numbers such as 0,5-7, or a glob of names."),
]
Heads = Annotated[str | None, typer.Option("--heads", metavar="HEADS", help="Heads to keep, such as 0-3.")]
Calls = Annotated[
    Literal["first", "all"],
    typer.Option("--calls", metavar="WHICH", help="Keep all calls of a layer, or the first: first or all."),
]
Generate = Annotated[
    int | None, typer.Option("--generate", metavar="N", min=1, help="Let the model write N tokens, greedily.")
]
DType = Annotated[
    Literal["float16", "bfloat16", "float32", "float64"] | None,
    typer.Option("--dtype", metavar="NAME", help="Dtype: float16, bfloat16, float32 or float64; else the file's."),
]
Device = Annotated[str, typer.Option("--device", metavar="NAME", help="Device: auto, cpu, cuda, cuda:N or mps.")]
Revision = Annotated[
    str | None, typer.Option("--revision", metavar="NAME", help="Branch, tag or commit of a model of the hub.")
]
Attention = Annotated[
    Literal["auto", "eager", "sdpa"],
    typer.Option("--attn", metavar="NAME", help="How the model computes attention: auto (its own way), eager or sdpa."),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="File to write, .safetensors; default: the model's name.")
]


def capture(
    model: ModelName,
    text: Text = None,
    text2: Text2 = None,
    image: Image = None,
    layers: Layers = None,
    heads: Heads = None,
    calls: Calls = "all",
    generate: Generate = None,
    dtype: DType = None,
    device: Device = "auto",
    revision: Revision = None,
    attention: Attention = "auto",
    out: Out = None,
    overwrite: OverwriteFile = False,
    quiet: Quiet = False,
) -> None:
    """Run a model once, and write the inputs of its attention calls to a file."""
    from attncli.core.device import resolve_device
    from attncli.engine.runs.captured import check_place, save_captured  # load torch
    from attncli.models.capture import Capture
    from attncli.models.loading import Request, run

    with naming_options():
        Capture(layers, heads, calls)  # raises InputError for a wrong choice before the model is loaded
        where = resolve_device(device)
    way = None if attention == "auto" else attention
    request = Request(model, tuple(text or ()), text2, image, generate, dtype, revision, way, where)
    if request.is_function:
        where_given = None if device == "auto" else device
        _refuse_inputs(
            text=text[0] if text else None, text2=text2, image=image, generate=generate, dtype=dtype,
            device=where_given, revision=revision, attn=way,
        )  # fmt: skip
    path = out or Path(f"{request.name}.safetensors")
    check_place(path, overwrite)
    seen, about = run(request, lambda: Capture(layers, heads, calls))
    try:
        seen.check()
    except InputError as error:
        if error.problems[0].path:
            raise InputError.of(error.problems[0].message, where="--layers") from error
        raise InputError.of(f'got "{model}"; {error}', where="attncli capture") from error
    save_captured(path, seen, about)
    if not quiet:
        _print_summary(seen)
        print_line(str(path))


def _refuse_inputs(**options: object) -> None:
    """Raise InputError if any of the options, which have no effect on a user's `module:function`, is not None."""
    expected = "module:function brings its own model and inputs; leave out the option, or let the function do it"
    unused = [name for name, value in options.items() if value is not None]
    if unused:
        raise InputError(Problem(got(options[name], expected), where=f"--{name}") for name in unused)


def _print_summary(seen: "Capture") -> None:
    """Print a table of the layers, the largest error of recomputed outputs, and the attention that was not captured."""
    from rich.text import Text

    from attncli.show.terminal.tables import Cells, blocks

    terminal, good = Terminal(), [record for record in seen.records if record.problem is None]
    rows = list[list[str]]()
    for name in dict.fromkeys(record.layer for record in good):
        calls = [record for record in good if record.layer == name]
        b, h, n, d = calls[0].queries.shape
        numbers = map(str, (len(calls), b, n, calls[0].keys.shape[-2], d, h, calls[0].groups))
        rows.append([name, calls[0].kind, *numbers, f"{calls[0].scale * calls[0].pre_scale:.4g}"])
    headings = ("layer", "class", "calls", "b", "n", "m", "d", "heads", "groups", "scale")
    names, kinds, *sizes = (Cells(*column) for column in zip(headings, zip(*rows, strict=True), strict=True))
    is_one_class = len(set(kinds.cells)) == 1  # so it needs no column
    for table in blocks([names] if is_one_class else [names, kinds], sizes, terminal.width):
        terminal.print(table)
    largest = max(record.error for record in good)
    count = f"{several(len(good), 'call')} of {several(len(rows), 'layer')}"
    count += f" of {kinds.cells[0]}" if is_one_class else ""
    differ = f"outputs differ by {largest:.1e} at most" if largest else "outputs are equal"
    terminal.print(Text(f"\n{count}; re-scored, {differ}"))
    unlike = [(record.name, record.problem) for record in seen.records if record.problem is not None]
    for name, problem in [*unlike, *((call.layer, call.problem) for call in seen.missed)]:
        terminal.print(Text(f"not captured: {name}: {problem}"))
