"""What a heatmap does not show as it is, in words: under the picture and in the terminal."""

from collections.abc import Iterable, Sequence

import numpy as np

from attncli.views.heatmap.colours import Cells, valid_values
from attncli.views.heatmap.drawing import Picture
from attncli.views.heatmap.frames import Frame
from attncli.views.heatmap.panels import Selection

SHARED = "attncli heatmap --scale shared"
PALE = 0.05  # weights below this cannot be told apart on the scale from 0 to 1


def footnote(frames: Sequence[Frame], shown: Sequence[Cells]) -> str:
    """What a pixel is, where there are more cells than pixels; else empty."""
    factors = [_factor(frame, cells) for frame, cells in zip(frames, shown, strict=True)]
    down, across = (max(factor[axis] for factor in factors) for axis in (0, 1))
    if down == across == 1:
        return ""
    about = "about" if len(set(factors)) == 1 else "up to about"
    return f"each pixel is the mean of {about} {down:.2g} × {across:.2g} cells"


def _factor(frame: Frame, cells: Cells) -> tuple[float, float]:
    (n, m), (rows, columns) = frame.panel.values.shape, cells.shape
    return n / rows, m / columns


def notes_on(selection: Selection, picture: Picture, all_numbers: bool) -> list[str]:
    """What was left out, averaged, cut off or is not a number, a line each; `all_numbers`: they were asked for."""
    notes = [_left_out(selection), _averaged(picture), _unlabelled(picture), _not_numbers(picture), *_outside(picture)]
    if all_numbers and picture.numbers is None:
        notes.append("no numbers in the cells: they are too many, or the cells too small")
    return [note for note in (*notes, picture.face.note) if note]


def _left_out(selection: Selection) -> str:
    if not selection.left_out:
        return ""
    count = len(selection.panels)
    batch, head = selection.places[-1]
    last = f"{selection.labels[-1]}, batch element {batch}, head {head}"
    hint = "attncli heatmap with --scorer, --batch or --head draws others"
    return f"{count} of {count + selection.left_out} panels are shown, up to {last}; {hint}"


def _averaged(picture: Picture) -> str:
    if not picture.footnote:
        return ""
    largest = max((frame.panel.values.shape for frame in picture.sheet.frames), key=np.prod)
    return f"{largest[0]} × {largest[1]} cells are more than there are pixels: {picture.footnote}"


def _unlabelled(picture: Picture) -> str:
    frames = picture.sheet.frames
    queries = max((frame.queries.thinned for frame in frames if frame.queries), default=1)
    keys = max((frame.keys.thinned for frame in frames if frame.keys), default=1)
    axes = [f"of the queries one in {queries}"] * (queries > 1) + [f"of the keys one in {keys}"] * (keys > 1)
    return f"too many tokens to label them all: {', '.join(axes)}" if axes else ""


def _not_numbers(picture: Picture) -> str:
    counts = [int(np.isnan(cells.compressed()).sum()) for cells in picture.shown]
    labels = [frame.panel.label for frame, count in zip(picture.sheet.frames, counts, strict=True) if count]
    what = "pixels" if picture.footnote else "valid cells"
    return f"NaN in {sum(counts)} {what} of {_joined(labels)}" if labels else ""


def _outside(picture: Picture) -> list[str]:
    """Values beyond the colours, and weights that are all pale."""
    values = valid_values(picture.shown)
    infinite = int(np.isinf(values).sum())
    notes = [f"{infinite} infinite values are drawn in the colours of the ends"] if infinite else []
    finite = values[np.isfinite(values)]
    if picture.scale != "unit" or not finite.size:
        return notes
    ends, low, high = picture.ends[0], finite.min(), finite.max()
    if ends.below or ends.above:
        notes.append(f"values from {low:.3g} to {high:.3g} go beyond the scale 0..1; {SHARED} shows them all")
    elif high < PALE:
        notes.append(f"the largest value shown is {high:.2g}, pale on the scale 0..1; {SHARED} tells them apart")
    return notes


def _joined(labels: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(labels))
