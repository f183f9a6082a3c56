"""In a notebook, run by a real kernel, a cell whose last line is a value has one output: the display of the value."""

import ast
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "notebooks" / "tutorial.ipynb"
OWN = """
import os, signal, time
import torch


class Pressed(torch.nn.Module):  # as by the button Interrupt of a notebook
    def __init__(self, query_size, key_size):
        super().__init__()

    def forward(self, queries, keys):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

"""
SMALL = {"data": {"queries": {"shape": [2, 4, 9, 8]}, "keys": {"shape": [2, 4, 9, 8]}}, "scorers": ["dot", "cosine"]}
BEGIN = f"import attncli, own, torch; result = attncli.run({SMALL}, out='a'); attncli.run({SMALL}, seed=1, out='b');"
MODEL = "torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()"
RESULT, PICTURE = {"text/plain", "text/html"}, {"text/plain", "image/png"}
SHOWN: dict[str, set[str]] = {  # cells, with the MIME types of their display
    BEGIN: set(),
    "result": {*RESULT, "image/png"},
    "result.explain()": RESULT,
    "result.figure()": PICTURE,
    "result.figure('heads')": PICTURE,
    "attncli.load('a')": {*RESULT, "image/png"},
    "attncli.compare('a', 'b')": RESULT,
    "attncli.compare('a', result)": RESULT,
    f"swept = attncli.sweep({SMALL}, {{'seed': [0, 1]}}, jobs=2); swept": {*RESULT, "image/png"},
    "swept.figure()": PICTURE,
    f"attncli.swap({MODEL}, *[torch.ones(2, 5, 8)] * 3, scorers=['cosine'])": {*RESULT, "image/png"},
    f"attncli.run({SMALL}, scorers=['dot', 'own:Pressed'])": {*RESULT, "image/png"},
}


def outputs(notebook: Any, folder: Path) -> list[list[Any]]:
    """Run a notebook in a folder, and return the outputs of each of its cells with code."""
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture(scope="module")
def displays(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """The outputs of cells."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "own.py").write_text(OWN)
    cells = [nbformat.v4.new_code_cell(source) for source in SHOWN]  # type: ignore[no-untyped-call]
    notebook = nbformat.v4.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
    return dict(zip(SHOWN, outputs(notebook, folder), strict=True))


@pytest.mark.parametrize("cell", SHOWN)
def test_a_cell_has_one_output_and_none_without_a_display(cell: str, displays: dict[str, list[Any]]) -> None:
    found = [(output.output_type, set(output.data)) for output in displays[cell]]
    assert found == ([("execute_result", SHOWN[cell])] if SHOWN[cell] else [])


def test_the_tutorial(tmp_path: Path) -> None:
    """Its cells that end in a value have one output, the others none, and it writes no files."""
    notebook = nbformat.read(TUTORIAL, as_version=4)  # type: ignore[no-untyped-call]
    kinds = [[each.output_type for each in cell] for cell in outputs(notebook, tmp_path)]
    code = [ast.parse(cell.source).body[-1] for cell in notebook.cells if cell.cell_type == "code"]
    is_shown = [isinstance(line, ast.Expr) and "assert" not in ast.unparse(line) for line in code]
    assert kinds == [["execute_result"] * shown for shown in is_shown]
    displays = [output.data for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in data for data in displays) >= 4
    assert sum("<pre" in data.get("text/html", "") for data in displays) >= 1
    assert list(tmp_path.iterdir()) == []
