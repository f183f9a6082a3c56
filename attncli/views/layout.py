"""Which queries and keys of a weight table are shown, and in which blocks of columns, so that every line fits.

Only sizes and names are looked at, never a weight, and of those no more than are shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from rich.cells import cell_len

from attncli.show.numbers import printable
from attncli.show.tables import balanced, pack

if TYPE_CHECKING:
    from attncli.studies.study import Names, Tokens

CORNER = r"q \ k"
MOST_ROWS = 16  # more queries than this are shortened to the first and last few
ENDS = 4
MOST_BLOCKS = 4  # more blocks of keys than this are shortened to the first and the last
LONGEST_LABEL = 20  # cells; longer names are folded
LONGEST_HEADING = 12
PEAK_HEADINGS = ("max", "at key")


@dataclass(frozen=True)
class Layout:
    """The shape of every weight table of one output: the sizes n and m, and what of them is shown where.

    `number_width` is the width of a weight in cells, without its mark.
    """

    n: int
    m: int
    width: int
    number_width: int
    tokens: "Tokens"
    full: bool = False

    @cached_property
    def rows(self) -> Sequence[int]:
        """The queries shown."""
        if self.full or self.n <= MOST_ROWS:
            return range(self.n)
        return [*range(ENDS), *range(self.n - ENDS, self.n)]

    @cached_property
    def blocks(self) -> list[range]:
        """The keys shown, in the blocks they are shown in."""
        room = self.width - self.label_width
        first_blocks = list(islice(pack(map(self.key_width, range(self.m)), room), MOST_BLOCKS + 1))
        if self.full or len(first_blocks) <= MOST_BLOCKS:
            return balanced([self.key_width(key) for key in range(self.m)], room)
        room = max(room - sum(self.peak_widths), room // 2)
        first = next(pack(map(self.key_width, range(self.m)), room))
        last = next(pack(map(self.key_width, reversed(range(self.m))), room))
        return [range(first), range(self.m - last, self.m)]

    @cached_property
    def label_width(self) -> int:
        """The width of the queries' names."""
        longest = min(LONGEST_LABEL, max(len(CORNER), self.width // 4))
        return max(len(CORNER), *(min(_widest(self.tokens.queries, i), longest) for i in self.rows))

    def key_width(self, key: int) -> int:
        """The width of a key's column, a space on its left included."""
        longest = max(min(LONGEST_HEADING, self.width - self.label_width - 1), 1)
        return 1 + max(self.number_width + 1, min(_widest(self.tokens.keys, key), longest))

    @property
    def peak_widths(self) -> tuple[int, int]:
        """The widths of the two columns that say how large a row's maximum is and where."""
        return self.number_width + 2, 1 + max(len(PEAK_HEADINGS[1]), len(str(self.m - 1)))

    @cached_property
    def shows_peaks(self) -> bool:
        """Whether those two columns stand beside the last block: they do where keys are left out and they fit."""
        last = sum(map(self.key_width, self.blocks[-1]))
        return self.keys_left_out > 0 and self.label_width + last + sum(self.peak_widths) <= self.width

    @cached_property
    def keys_left_out(self) -> int:
        return self.m - sum(map(len, self.blocks))

    @property
    def queries_left_out(self) -> int:
        return self.n - len(self.rows)

    @property
    def lines(self) -> int:
        """About how many lines one table takes."""
        return len(self.blocks) * (len(self.rows) + 3)


def _widest(names: "Names | None", index: int) -> int:
    """The width of a name in cells, the widest over the batch, so that all its tables look alike."""
    return max(cell_len(printable(row[index])) for row in names) if names else len(str(index))
