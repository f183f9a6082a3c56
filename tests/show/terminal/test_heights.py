"""Heights of tables and texts are computed as rich then prints them, and nothing is rendered to measure it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import RenderableType
from rich.text import Text

from attncli.show.terminal.tables import Block, Cells, blocks, length_of, recorded
from tests.cli import good

WORDS = st.text("ab c_字ü-", min_size=1, max_size=60)
SHORT = st.text("ab_字", min_size=1, max_size=9)


def rendered(parts: list[RenderableType], width: int) -> int:
    return recorded(parts, width).export_text().count("\n")


@given(st.data(), st.integers(60, 140))
def test_heights_of_tables_are_those_of_rich(data: st.DataObject, width: int) -> None:
    rows = data.draw(st.integers(0, 5))
    names, columns = (
        [
            Cells(data.draw(heading), data.draw(st.lists(cell, min_size=rows, max_size=rows)))
            for _ in range(data.draw(st.integers(1, most)))
        ]
        for heading, cell, most in ((SHORT, WORDS, 3), (WORDS | st.just("two\nlines"), SHORT, 12))
    )
    for block in blocks(names, columns, width):
        assert isinstance(block, Block)
        assert block.height == rendered([block], width)


@given(st.lists(st.text("ab c_字\n", max_size=200), max_size=4), st.integers(10, 100))
def test_heights_of_texts_are_those_of_rich(texts: list[str], width: int) -> None:
    assert length_of(map(Text, texts), width) == rendered([*map(Text, texts)], width)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("command", [("run", "minilm"), ("run", "multi_head"), ("explain", "d2l")], ids=" ".join)
def test_a_table_is_rendered_once(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    rendering, rendered_blocks = Block.__rich__, list[Block]()

    def counted(block: Block) -> object:
        rendered_blocks.append(block)
        return rendering(block)

    monkeypatch.setattr(Block, "__rich__", counted)
    lines = good(*command, *["--no-plots"] * (command[0] == "run")).splitlines()
    rules = [line for line in lines if line.startswith("───")]
    assert len(rendered_blocks) == len(rules) > 0
