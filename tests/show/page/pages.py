"""Small runs, and helpers to operate and read their pages in a browser."""

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import FloatRect, Locator, Page, expect

from tests.cli import kept

PATIENCE, EVERY = int(os.environ.get("PAGE_PATIENCE", "30000")), 50  # milliseconds
TOKENS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and", "then", "it"]
HOSTILE = [
    "<script>window.attacked=1</script>",
    "</script><script>window.attacked=1</script>",
    "<img src=x onerror=window.attacked=1>",
    "\u202eevil",
    "x" * 10_000,
    "{{ 7 * 7 }}",
    "]]>",
    "&lt;b&gt;",
    "\u2028line",
    "'\"`",
    "",
    "שלום",
]


def attention(out: Path, **keys: Any) -> None:
    """Save a run of three scorers on two batch elements and four heads of twelve causal tokens."""
    shape = {"shape": [2, 4, 12, 8]}
    data = {"queries": shape, "keys": shape, "values": shape, "valid_lens": [10, 12]}
    config = {
        "data": data,
        "mask": {"causal": "top_left"},
        "scorers": ["additive", "scaled_dot", "dot"],
        "tokens": {"queries": TOKENS, "keys": TOKENS},
    }
    kept(config | keys, out)


def study(out: Path, study: str) -> None:
    """Save a small run of another study."""
    options: dict[str, dict[str, Any]] = {
        "variance": {"d": [4, 32, 128], "samples": 2000},
        "train": {"d": [8, 16], "seeds": 2, "steps": 20},
        "bench": {"n": [8, 16], "measure": ["scores"], "implementations": ["attncli"], "scorers": ["dot"]},
    }
    kept({"study": study, **options[study]}, out)


def box_of(element: Locator) -> FloatRect:
    """Return the place and size of a visible element, in pixels."""
    box = element.bounding_box()
    assert box is not None
    return box


def choose(page: Page, name: str, value: str) -> None:
    """Choose from the first list with this name."""
    label = page.locator(".bar label").filter(has_text=re.compile(f"^{name} ")).first
    label.locator("select").select_option(label=value)


def point(page: Page, panel: int, row: int, column: int, size: int = 12, rows: int | None = None) -> None:
    """Move the pointer to the middle of a cell of a matrix with `size` columns, and as many rows unless given."""
    cells = page.locator(".cells").nth(panel)
    cells.scroll_into_view_if_needed()
    box = box_of(cells)
    cells.hover(position={"x": (column + 0.5) / size * box["width"], "y": (row + 0.5) / (rows or size) * box["height"]})


def settles(page: Page, read: Callable[[], Any], expected: Any) -> None:
    """Wait until `read` returns the expected value, for any time below the timeout."""
    for _ in range(PATIENCE // EVERY):
        if read() == expected:
            return
        page.wait_for_timeout(EVERY)
    assert read() == expected


def open_all(page: Page) -> None:
    """Open everything that is folded."""
    page.evaluate("document.querySelectorAll('details').forEach((details) => (details.open = true))")


def numbers(cells: Locator) -> list[float]:
    """Return the numbers in the cells of a table, with all digits."""
    found: list[float | None] = cells.evaluate_all("cells => cells.map((cell) => cell.dataset.value ?? null)")
    return [math.nan if value is None else float(value) for value in found]


def pixels(canvas: Locator) -> list[list[int]]:
    """Return red, green, blue and opacity of each cell of a picture."""
    found: list[list[int]] = canvas.evaluate(
        """(canvas) => {
            const { width, height } = canvas;
            const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
            copy.drawImage(canvas, 0, 0);
            const { data } = copy.getImageData(0, 0, width, height);
            return Array.from({ length: data.length / 4 }, (_, i) => [...data.subarray(4 * i, 4 * i + 4)]);
        }"""
    )
    return found


def tip_has(page: Page, *lines: str) -> None:
    """Wait until the box beside the pointer has these lines."""
    expect(page.locator("#tip div")).to_have_text(lines)


def has_numbers(cells: Locator, expected: list[float]) -> None:
    """Wait until cells have these numbers."""
    settles(cells.page, lambda: numbers(cells), expected)
