"""Every claim of docs/claims.md and docs/papers.md holds, with the numbers of the page."""

import math
import re
import shlex
from functools import cache
from typing import Any

import pytest

from attncli.config.document import read_document
from tests.claims import (
    CLAIM,
    DOCS,
    EXPECTED,
    EXPERIMENT,
    FITTED,
    FOLDERS,
    HOLDS,
    LEARNING,
    LONG,
    MEASURED,
    PATHS,
    SOURCE,
    result_of,
    shown_rows,
    table_rows,
    with_results,
)
from tests.cli import refusal
from tests.margins import last_digit

TRAIN_PAGE, *PAGES = (
    (DOCS / name).read_text(encoding="utf-8") for name in ("studies/train.md", *(f"{name}.md" for name in FOLDERS))
)
SHOWN = [row for page in PAGES for row in shown_rows(page)]
CLAIMS, PAPERS = 22, 18
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-\d+)?")
OTHER = re.compile(rf"{NUMBER.pattern}(?= \()")  # the number of another row, with that row in brackets behind it
DIFFERS = {  # claims with numbers that depend on the processor
    "08_learning": "steps|accuracy",
    "09_cost": "seconds",
    "katharopoulos_2020": "seconds",
    **dict.fromkeys([*LEARNING, *FITTED], ""),
}
ROUNDING, ERRORS = 1e-3, 0.9  # relative tolerance for other numbers, and for numbers that are rounding errors


@cache
def found_of(name: str) -> tuple[Any, list[list[str]]]:
    """Return the result of one file, and its rows of the table."""
    result, verdicts = result_of(name)
    return result, table_rows(name, verdicts)


def shown_of(name: str) -> list[list[str]]:
    """Return the rows of the page for one file."""
    return [row for row in SHOWN if row[EXPERIMENT] == f"`{name}`"]


def same_row(old: list[str], new: list[str]) -> bool:
    """Whether claim, bounds and verdict are the same, and the numbers unless they depend on the processor."""
    fixed = [
        [OTHER.sub("", row[column]) for column in (HOLDS, CLAIM, EXPECTED, SOURCE, EXPERIMENT)] for row in (old, new)
    ]
    if re.search(DIFFERS.get(new[EXPERIMENT].strip("`"), "$^"), new[CLAIM]):
        return fixed[0] == fixed[1]
    share = ERRORS if new[EXPECTED].startswith("below 1e-") else ROUNDING
    return fixed[0] == fixed[1] and all(alike(old[column], new[column], share) for column in (EXPECTED, MEASURED))


def alike(old: str, new: str, share: float) -> bool:
    """Whether two texts are the same, with numbers up to a relative tolerance."""
    pairs = zip(NUMBER.findall(old), NUMBER.findall(new), strict=False)
    return NUMBER.split(old) == NUMBER.split(new) and all(
        math.isclose(float(a), float(b), rel_tol=share) for a, b in pairs
    )


def test_every_claim_has_a_file_and_rows_of_the_page() -> None:
    numbered = {int(name[:2]) for name in PATHS if name[:2].isdigit()}
    assert numbered == set(range(1, CLAIMS + 1))
    assert sum(name[-4:].isdigit() for name in PATHS) == PAPERS
    assert list(dict.fromkeys(row[EXPERIMENT].strip("`") for row in SHOWN)) == list(PATHS)


@pytest.mark.parametrize("page", PAGES)
def test_top_of_the_page_has_the_number_of_claims_that_hold(page: str) -> None:
    rows = shown_rows(page)
    assert page.split("\n\n")[1].startswith(f"**{len(rows)} of {len(rows)} hold**")
    assert with_results(page, rows) == page
    failing = with_results(page, [["**no**", *rows[0][1:]], *rows[1:]])
    assert f"**{len(rows) - 1} of {len(rows)} hold**" in failing
    assert failing.count("| **no** |") == 1


def test_every_paper_has_a_row_a_section_and_a_picture() -> None:
    page = PAGES[FOLDERS.index("papers")]
    rows = re.findall(
        r"^\| \[.*\]\(https://arxiv.*\| \*\*(?:yes|no|in part)\*\*.* \| \[`(\w+)`\]\(#([\w-]+)\) \|$", page, flags=re.M
    )
    assert {name for name, _ in rows} == {name for name in PATHS if name[-4:].isdigit()}
    for name, anchor in rows:
        assert re.sub(r"[^\w -]", "", section_of(name).lower()).replace(" ", "-").startswith(anchor)


FIGURES = [
    ("henry_2020", "Without a gain the right one of 512 keys gets {} of the weight", [0]),
    ("henry_2020", "and the number of keys as L, it gets {}.", [4]),
    ("henry_2020", "hardly depends on L ({} of 8 keys)", [3]),
    ("henry_2020", "the right key gets {} of 8 keys and {} of 512", [2, 1]),
    ("ramsauer_2021", "(weight {}). With $1/\\sqrt d$ it gets {} of 16 patterns, and {} of 4096", [0, 2, 1]),
    ("zhai_2023", "The bound falls from {} to {} nats", [0, 2]),
]


@pytest.mark.parametrize(("name", "text", "rows"), FIGURES)
def test_text_has_the_figures_of_the_table(name: str, text: str, rows: list[int]) -> None:
    measured = [float(shown_of(name)[row][MEASURED]) for row in rows]
    found = re.search(re.escape(text).replace(r"\{\}", f"({NUMBER.pattern})"), section_of(name))
    assert found
    for number, exact in zip(found.groups(), measured, strict=True):
        assert float(number) == pytest.approx(exact, abs=last_digit(10.0 ** -len(number.partition(".")[2])))


def test_text_has_the_cost_of_linear_attention() -> None:
    tiles, matrix, memory = (float(row[MEASURED].replace(",", "")) for row in shown_of("katharopoulos_2020"))
    linear, _, most = (float(row[EXPECTED].partition(" (")[0].split()[-1]) for row in shown_of("katharopoulos_2020"))
    text = section_of("katharopoulos_2020")
    assert f"it is {matrix / linear:.0f} times as fast as softmax attention with the whole matrix" in text
    assert f"{tiles / linear:.0f} times as fast as the same kernel" in text
    assert f"It holds {memory / 2**20:.2f} MiB in place of {most / 2**20:.0f}." in text


def section_of(name: str) -> str:
    """Return the section about one paper, in one line."""
    sections = re.split(r"^## ", PAGES[FOLDERS.index("papers")], flags=re.M)
    (text,) = (each for each in sections if re.search(rf"Made by `attncli \w+ papers/{name}\b", each))
    return " ".join(text.split())


@pytest.mark.parametrize("name", PATHS)
def test_every_expectation_has_claim_and_source(name: str) -> None:
    expectations = read_document(PATHS[name]).data["expect"]
    assert expectations
    assert all(each["claim"] and each["source"] for each in expectations)
    claims = [each["claim"] for each in expectations]
    assert len(set(claims)) == len(claims)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] if name in LONG else []) for name in PATHS]
)
def test_page_has_what_comes_out(name: str) -> None:
    shown, found = shown_of(name), found_of(name)[1]
    assert [row for row in found if row[HOLDS] != "yes"] == []
    assert len(shown) == len(found)
    assert [pair for pair in zip(shown, found, strict=True) if not same_row(*pair)] == []


@pytest.mark.nightly
def test_page_has_what_scorers_learn() -> None:
    """The page has the numbers that are the same on every processor, at the two sizes of the claim."""
    block = TRAIN_PAGE.partition("$ attncli train --no-plots\n")[2].partition("```")[0].splitlines()
    columns = re.split(r" {2,}", block[0])
    table = [dict(zip(columns, re.split(r" {2,}", line), strict=True)) for line in block[2:5]]
    assert columns == ["label", "d = 16", "d = 64", "d = 256", "d = 1024"]
    assert [row["label"] for row in table] == ["dot", "scaled_dot", "additive"]
    rows = {(row["label"], row["d"]): row["accuracy"] for row in found_of("08_learning")[0].comparisons}
    for d in (16, 1024):
        means = {row["label"]: float(row[f"d = {d}"].split()[0]) for row in table}
        for label in ("scaled_dot", "additive"):
            assert means[label] == pytest.approx(rows[label, d], abs=0.03)
        for accuracy in (means["dot"], rows["dot", d]):
            assert accuracy > 0.93 if d == 16 else 0.6 < accuracy < 0.97


@pytest.mark.nightly
def test_page_has_the_entropy_of_the_start() -> None:
    found = re.findall(r"from the start \(entropy ([\d.]+) of at most ([\d.]+) nats\)", " ".join(TRAIN_PAGE.split()))
    result = found_of("08_learning")[0]
    first = [row["start_entropy"] for row in result.records if (row["label"], row["d"]) == ("dot", 1024)][:5]
    assert found == [(f"{sum(first) / len(first):.2f}", f"{math.log(8):.2f}")]


def test_dot_product_refuses_different_lengths_as_the_comment_says() -> None:
    text = PATHS["10_different_lengths"].read_text(encoding="utf-8")
    change = shlex.split(re.findall(r"`(--set .*?)`", text)[0])
    said = re.findall(r"^#     (scorers.*)$", text, flags=re.M)[0]
    assert refusal("check", PATHS["10_different_lengths"], *change).endswith(said)


def test_estimates_of_nadaraya_and_watson_are_those_of_their_formula() -> None:
    data = read_document(PATHS["13a_nadaraya_watson"]).data
    x, y = ([row[0] for row in data["data"][role]] for role in ("keys", "values"))
    sigma = data["scorers"][0]["sigma"]
    for (query,), (estimate,) in zip(data["data"]["queries"], data["expect"][0]["equal"], strict=True):
        kernel = [math.exp(-((query - point) ** 2) / (2 * sigma**2)) for point in x]
        expected = math.fsum(k * value for k, value in zip(kernel, y, strict=True)) / math.fsum(kernel)
        assert estimate == pytest.approx(expected, abs=last_digit(1e-8))
