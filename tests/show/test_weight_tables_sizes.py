"""Wide tables are split, long ones shortened, and nothing that is not shown is read."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from attncli.attention import valid_mask
from attncli.studies.attention.tables import LEGEND
from tests.show.samples import check_grid, grids, random_weights, result_of, run_of, shown


def test_wide_tables_split_into_blocks_of_like_length() -> None:
    text = shown(result_of(run_of(random_weights(1, 2, 34))))
    assert re.findall(r"^keys.*$", text, re.M) == [
        "keys 0-8 of 34",
        "keys 9-17 of 34",
        "keys 18-26 of 34",
        "keys 27-33 of 34",
    ]
    assert "left out" not in text
    assert "keys" not in shown(result_of(run_of(random_weights(2, 2, 10)))).split("Summary")[0]


def test_shortened_tables_say_what_is_left_out_and_how_to_see_it() -> None:
    weights = random_weights(64, 12, 20, 100)
    text = shown(result_of(run_of(weights)), csv="outputs/x/weights.csv")
    found = grids(text)
    keys = {key for _, key in found["dot batch 0, head 0"]}
    assert {query for query, _ in found["dot batch 0, head 0"]} == {0, 1, 2, 3, 16, 17, 18, 19}
    assert keys == {*range(8), *range(92, 100)}
    line = re.sub(r"\s+", " ", text)
    assert (
        f"12 of 20 queries and {100 - len(keys)} of 100 keys left out; {768 - len(found)} of 768 tables left out"
        in line
    )
    assert "left out; see them with --full or in outputs/x/weights.csv" in line
    assert 2 <= len(found) <= 8
    check_grid(found["dot batch 0, head 1"], weights[0, 1])
    shorter = shown(result_of(run_of(random_weights(1, 20, 3))))
    assert re.search(r"^ +3 .*\n +\.\.\. *\n +16 ", shorter, re.M)  # a gap
    assert "see them with --full\n" in shorter


def test_where_keys_are_left_out_the_maximum_is_still_told() -> None:
    weights = random_weights(1, 30, 300)[..., :-1]
    text = shown(result_of(run_of(weights)))
    last = text[text.index("max   at key") :]
    told = {
        int(row): (float(weight), int(key))
        for row, weight, key in re.findall(r"^ +(\d+) .* (\S+)\* +(\d+)$", last, re.M)
    }
    assert list(told) == [0, 1, 2, 3, 26, 27, 28, 29]
    assert [key for _, key in told.values()] == weights[0, list(told)].argmax(-1).tolist()
    assert [weight for weight, _ in told.values()] == pytest.approx(
        weights[0, list(told)].amax(-1).tolist(), abs=5.1e-4
    )


def test_empty_and_level_rows_have_no_maximum() -> None:
    valid = valid_mask((1, 2, 100), [[0, 100]])
    text = shown(result_of(run_of(random_weights(1, 2, 100, valid=valid)), valid=valid))
    assert re.search(r"^ +0( +·)+ +-$", text, re.M)
    level = shown(result_of(run_of(torch.full((1, 2, 100), 0.01))))
    assert re.search(r"^ +1 .*0\.010  +-$", level, re.M)
    assert "*" not in level.replace(LEGEND, "")


def test_only_what_is_shown_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty thousand million weights that would need 160 GB if anything looked at them all."""
    read: list[int] = []
    original = Tensor.tolist

    def counting(tensor: Tensor) -> Any:
        read.append(tensor.numel())
        return original(tensor)

    monkeypatch.setattr(Tensor, "tolist", counting)
    weights = torch.tensor(5e-6).expand(1, 200_000, 200_000)
    text = shown(result_of(run_of(weights), valid=torch.ones(1, 1, 1, dtype=torch.bool)))
    assert "199992 of 200000 queries and 199984 of 200000 keys left out" in re.sub(r"\s+", " ", text)
    assert max(read) <= 8 * 8
