"""`attncli capture`: save the inputs and outputs of every attention call of a real model."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from attncli.cli.options import Full, ModelName, OverwriteFile, Quiet, Text, naming_options
from attncli.cli.progress import Terminal
from attncli.cli.streams import print_line
from attncli.core.numbers import several
from attncli.errors import InputError, Problem, got

if TYPE_CHECKING:
    from rich.console import RenderableType

    from attncli.models.capture import Capture
    from attncli.results import Row

Text2 = Annotated[
    str | None,
    typer.Option("--text2", metavar="TEXT", help="A second text; for a decoder, its text so far."),
]
Image = Annotated[Path | None, typer.Option("--image", metavar="FILE", help="Picture for the model.")]
Layers = Annotated[
    str | None,
    typer.Option("--layers", metavar="LAYERS", help="Layers to keep: numbers such as 0,5-7, or a pattern of names."),
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
    full: Full = False,
    quiet: Quiet = False,
) -> None:
    """Run a model once, and write the inputs of its attention calls to a file."""
    from attncli.core.device import resolve_device
    from attncli.engine.runs.captured import check_place, save_captured  # load torch
    from attncli.models.capture import Capture
    from attncli.models.loading import Request, run

    chosen: Any = (_choice(layers), _choice(heads), calls)
    with naming_options():
        Capture(*chosen)  # raises InputError for a wrong choice before the model is loaded
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
    if _is_of_model(path, model):
        if out is not None:
            raise InputError.of(f'got "{out}", a file of the model; expected another name', where="--out")
        path = path.with_suffix(".capture.safetensors")
    check_place(path, overwrite)
    seen, about = run(request, lambda: Capture(*chosen))
    try:
        seen.check()
    except InputError as error:
        if path_of_problem := error.problems[0].path:
            raise InputError.of(error.problems[0].message, where=f"--{path_of_problem[0]}") from error
        raise InputError.of(f'got "{model}"; {error}', where="attncli capture") from error
    summaries = save_captured(path, seen, about)
    if not quiet:
        _print_summary(seen, summaries, full)
        print_line(str(path))


def _is_of_model(path: Path, model: str) -> bool:
    """Whether a file is in the folder of a model, and belongs to it or would be read as its weights."""
    from attncli.sources.captured import is_captured

    is_inside = Path(model).is_dir() and path.absolute().parent.resolve().is_relative_to(Path(model).resolve())
    return is_inside and (path.exists() or path.name == "model.safetensors") and not is_captured(path)


def _choice(text: str | None) -> list[int | str] | None:
    """Return the numbers, ranges and names in text such as `0,5-7`."""
    items = [] if text is None else text.split(",")
    return [int(item) if re.fullmatch(r"-?\d+", item.strip()) else item for item in items] or None


def _refuse_inputs(**options: object) -> None:
    """Raise InputError if any of the options, which have no effect on a user's `module:function`, is not None."""
    expected = "module:function brings its own model and inputs; leave out the option, or let the function do it"
    unused = [name for name, value in options.items() if value is not None]
    if unused:
        raise InputError(Problem(got(options[name], expected), where=f"--{name}") for name in unused)


def _print_summary(seen: "Capture", summaries: Mapping[str, "Row"], full: bool) -> None:
    """Print the summary of each layer, the largest error of recomputed outputs, and attention that was not captured."""
    from rich.text import Text

    from attncli.show.terminal.summaries import summary_lines
    from attncli.show.terminal.tables import SCREEN, fit, numbered_layers, remark

    good = [record for record in seen.records if record.problem is None]
    layers = {name: number for number, name in enumerate(dict.fromkeys(record.layer for record in seen.records))}
    kinds, (b, h, n, d) = {record.kind for record in good}, good[0].queries.shape
    sizes = (
        f"{several(b, 'text')}, {several(h, 'head')}, {several(n, 'query')}, {several(good[0].keys.shape[-2], 'key')}"
    )
    largest = max(record.error for record in good)
    differ = f"outputs differ by {largest:.1e} at most" if largest else "outputs are equal"
    count = f"{several(len(good), 'call')} of {several(len({record.layer for record in good}), 'layer')}"
    count += f" of {kinds.pop()}" if len(kinds) == 1 else ""
    without = several(len(seen.without_weights), "layer")
    unlike = [(record.name, record.problem) for record in seen.records if record.problem is not None]
    end = [Text(f"\n{count}; {sizes}, d = {d}; re-scored, {differ}")]
    end += (
        [Text(f"{without} without attention weights (linear attention, for example)")] if seen.without_weights else []
    )
    end += [
        Text(f"not captured: {name}: {problem}")
        for name, problem in [*unlike, *((call.layer, call.problem) for call in seen.missed)]
    ]
    terminal = Terminal()

    def blocks(most: int | None) -> Iterator["RenderableType"]:
        yield from remark(numbered_layers([], layers, most)[1])
        yield from summary_lines(summaries, layers, terminal.width, most)

    for line in fit(blocks, end, terminal.width, None if full else SCREEN - 1):
        terminal.print(line)
