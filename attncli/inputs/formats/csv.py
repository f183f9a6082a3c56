"""CSV: one matrix row a line, separated by commas, semicolons, tabs or spaces; `#` begins a comment; no header line."""

import csv
import re
from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import torch
from torch import Tensor

from attncli.errors import InputError, show
from attncli.inputs.formats.contents import Contents, Entry, bare
from attncli.inputs.formats.problems import printable, problem
from attncli.units import in_bytes

LONGEST_LINE = 1 << 24  # characters
MEMORY = 8  # bytes for one byte of text, at most: "1,1,1" takes two a number, eight in memory, and once more to convert
SEPARATORS = ";,\t"  # the first of them that the first row has; spaces where it has none

Row: TypeAlias = "array[Any]"  # of int64 ("q") or float64 ("d"); array itself is subscriptable from Python 3.12 on


def contents(path: Path) -> Contents:
    """The one matrix (rows, columns) of a .csv: int64 where every number is whole, else float64; always two axes."""
    return bare(path, Entry(lambda: read(path), MEMORY * path.stat().st_size))


def read(path: Path) -> Tensor:
    """All rows; InputError with line and column for the first cell that is no number."""
    every: Row = array("q")
    first_line = columns = rows = 0
    for line, cells in rows_of_cells(path):
        row = numbers(path, line, cells, first=rows == 0)
        first_line, columns = (first_line, columns) if rows else (line, len(row))
        if len(row) != columns:
            raise ragged(path, line, len(row), first_line, columns)
        if row.typecode != every.typecode:  # one number that is not whole makes all of them floats
            row, every = array("d", row), every if every.typecode == "d" else array("d", every)
        every.extend(row)
        rows += 1
    if not rows:
        raise problem(path, "holds no numbers", "write one matrix row a line")
    return torch.frombuffer(every, dtype=torch.int64 if every.typecode == "q" else torch.float64).reshape(rows, columns)


def rows_of_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines that hold something besides a comment, cut into cells, with their numbers in the file."""
    separator = ""
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(lines(path, file), start=1):
            text = line.partition("#")[0].rstrip("\n")
            if not text.strip():
                continue
            separator = separator or next((mark for mark in SEPARATORS if mark in text), " ")
            yield number, cut(path, number, text, separator)


def lines(path: Path, file: TextIO) -> Iterator[str]:
    """The lines of a text file, none of which may fill the memory."""
    try:
        while line := file.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise problem(path, f"has a line of more than {in_bytes(LONGEST_LINE)}", "write one matrix row a line")
            yield line
    except UnicodeDecodeError as error:
        raise problem(path, "not text in UTF-8", "save it as UTF-8") from error


def cut(path: Path, line: int, text: str, separator: str) -> list[str]:
    """The cells of a line; a quoted cell may hold the separator."""
    if separator == " ":
        return text.split()
    try:
        return next(csv.reader([text], delimiter=separator))
    except csv.Error as error:
        raise problem(path, f"line {line} makes no sense ({error})") from error


def numbers(path: Path, line: int, cells: list[str], *, first: bool) -> Row:
    """A row as int64 where all cells are whole numbers that fit, else as float64."""
    if "_" not in "".join(cells):  # `1_000` is Python, and nobody's CSV
        with suppress(ValueError, OverflowError):
            return array("q", map(int, cells))
        with suppress(ValueError):
            return array("d", map(float, cells))
    column = next(column for column, cell in enumerate(cells) if not is_number(cell))
    raise no_number(path, line, column, cells, first=first)


def is_number(cell: str) -> bool:
    with suppress(ValueError):
        float(cell)
        return "_" not in cell
    return False


def no_number(path: Path, line: int, column: int, cells: list[str], *, first: bool) -> InputError:
    """What stands there instead, and how that may have come about."""
    cell = cells[column].strip()
    place = f"line {line}, column {column + 1} of {show(path.name)}"
    message = f"got {printable(show(cell or None))} in {place}; expected a number"
    advice = cure(cells, column, first=first)
    return InputError.of(f"{message}; {advice}" if advice else message, ("file",))


def cure(cells: list[str], column: int, *, first: bool) -> str:
    """What to do about a cell that is no number, where that can be guessed."""
    cell = cells[column].strip()
    if cell.lower() in ("true", "false"):
        return "write 1 for true and 0 for false"
    if re.fullmatch(r"[+-]?\d*,\d+", cell):
        return "write decimals with a point"
    if first and not any(is_number(cell) for cell in cells):
        return "there is no header line: remove it, or begin it with #"
    if not cell and column == len(cells) - 1:
        return "remove the separator at the end of the line"
    return "" if cell else "give every cell a number (nan and inf are fine)"


def ragged(path: Path, line: int, size: int, first_line: int, columns: int) -> InputError:
    """Lines of unequal length are no matrix."""
    place = f"line {line} of {show(path.name)}"
    expected = f"expected {columns}, as in line {first_line}; one matrix row a line"
    return InputError.of(f"got {size} number{'s' * (size != 1)} in {place}; {expected}", ("file",))
