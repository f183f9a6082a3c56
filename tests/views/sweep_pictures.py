"""Looks at figures of studies."""

from collections.abc import Iterator

from matplotlib.figure import Figure
from matplotlib.text import Text


def check_texts(figure: Figure) -> None:
    """All texts lie on the page, and none on another."""
    figure.draw_without_rendering()
    width, height = figure.get_size_inches() * figure.dpi
    boxes = [(text.get_text(), text.get_window_extent()) for text in _texts(figure) if text.get_text()]
    assert boxes
    for text, box in boxes:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= width, text
        assert box.y1 <= height, text
    for index, (text, box) in enumerate(boxes):
        assert [other for other, place in boxes[:index] if box.overlaps(place)] == [], text


def _texts(figure: Figure) -> Iterator[Text]:
    """Titles, labels, legends, and ticks inside of the limits."""
    yield from figure.texts
    for legend in figure.legends:
        yield from legend.get_texts()
    for axes in figure.axes:
        yield axes.title
        for axis in (axes.xaxis, axes.yaxis):
            yield axis.label
            low, high = sorted(axis.get_view_interval())
            for minor in (False, True):
                for tick in axis.get_minor_ticks() if minor else axis.get_major_ticks():
                    if low <= tick.get_loc() <= high:
                        yield tick.label1
