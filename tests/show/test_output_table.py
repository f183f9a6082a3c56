"""The outputs beside the weight tables: read back, they are the tensor's numbers."""

import io
import re

import torch
from rich.console import Console

from attncli.show.weights import Layout, output_table
from attncli.studies.study import Tokens


def layout(n: int, width: int = 80) -> Layout:
    return Layout(n, 5, width, 5, Tokens())


def printed(output: torch.Tensor, width: int = 80) -> list[str]:
    n = output.shape[-2]
    table = output_table(output, [f"q{row}" for row in layout(n).rows], layout(n, width))
    assert table is not None
    file = io.StringIO()
    Console(file=file, width=width).print(table)
    return file.getvalue().splitlines()


def numbers_of(line: str) -> list[float]:
    return [float(word) for word in re.findall(r"-?\d[\d.e+-]*", line)]


def test_one_query_is_one_line() -> None:
    assert printed(torch.tensor([[2.0, 3.0, 4.0, 5.0]])) == ["output  2  3  4  5"]


def test_rows_read_back_as_the_tensor() -> None:
    output = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    lines = printed(output)
    assert lines[0].split() == ["output", "0", "1", "2"]
    assert [line.split()[0] for line in lines[1:]] == [f"q{row}" for row in range(6)]
    read = torch.tensor([numbers_of(line.split(maxsplit=1)[1]) for line in lines[1:]])
    torch.testing.assert_close(read, output, atol=6e-5, rtol=5e-3)


def test_wide_outputs_are_left_to_the_files() -> None:
    assert output_table(torch.zeros(2, 9), ["a", "b"], layout(2)) is None
    assert output_table(torch.full((2, 8), 123456.0), ["a", "b"], layout(2, width=40)) is None
