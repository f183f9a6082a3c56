"""Every claim of docs/claims.md and docs/papers.md holds, with the numbers of the page."""

import math
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from attncli.config.document import read_document
from tests.claims import FOLDERS, HEADER, LEARNING, LONG, PATHS, markdown, result_of, table_rows
from tests.cli import refusal
from tests.combinations import others_slow

DOCS = Path(__file__).resolve().parents[1] / "docs"
TRAIN_PAGE, *PAGES = (
    (DOCS / name).read_text(encoding="utf-8") for name in ("studies/train.md", *(f"{name}.md" for name in FOLDERS))
)
TABLES = [page.partition(f"{HEADER}\n")[2].partition("\n\n")[0].splitlines()[1:] for page in PAGES]
SHOWN = [re.split(r" \| ", line[2:-2]) for table in TABLES for line in table]
CLAIMS, PAPERS = 20, 12
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-\d+)?")
OTHER = re.compile(rf"{NUMBER.pattern}(?= \()")  # the number of another row, with that row in brackets behind it
DIFFERS = {  # claims with numbers that depend on the processor
    "08_learning": "steps|accuracy",
    "09_cost": "seconds",
    "katharopoulos_2020": "seconds",
    **dict.fromkeys(LEARNING, ""),
}
ROUNDING, ERRORS = 1e-3, 0.9  # relative tolerance for other numbers, and for numbers that are rounding errors


@cache
def found_of(name: str) -> tuple[Any, list[list[str]]]:
    """Return the result of one file, and its rows of the table."""
    result, verdicts = result_of(name)
    return result, table_rows(name, verdicts)


def shown_of(name: str) -> list[list[str]]:
    """Return the rows of the page for one file."""
    return [row for row in SHOWN if row[0] == f"`{name}`"]


def same_row(old: list[str], new: list[str]) -> bool:
    """Whether claim, bounds and verdict are the same, and the numbers unless they depend on the processor."""
    fixed = [[*row[:3], OTHER.sub("", row[3]), row[5]] for row in (old, new)]
    if re.search(DIFFERS.get(new[0].strip("`"), "$^"), new[1]):
        return fixed[0] == fixed[1]
    share = ERRORS if new[3].startswith("below 1e-") else ROUNDING
    return fixed[0] == fixed[1] and alike(old[3], new[3], share) and alike(old[4], new[4], share)


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
    assert list(dict.fromkeys(row[0].strip("`") for row in SHOWN)) == list(PATHS)
    for page, table in zip(PAGES, TABLES, strict=True):
        assert markdown([re.split(r" \| ", line[2:-2]) for line in table]) in page


def test_every_paper_has_a_section_and_a_picture() -> None:
    page = PAGES[FOLDERS.index("papers")]
    for name in (name for name in PATHS if name[-4:].isdigit()):
        assert f"papers/{name}" in re.findall(r"Made by `attncli \w+ ([\w/]+)", page)


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [
        ("henry_2020", "Without a gain the right one of 512 keys gets {} of the weight", [0]),
        ("henry_2020", "and the number of keys as L, it gets {}.", [4]),
        ("henry_2020", "hardly depends on L ({} of 8 keys)", [3]),
        ("henry_2020", "the right key gets {} of 8 keys and {} of 512", [2, 1]),
        (
            "ramsauer_2021",
            "beta = 1 (weight {}). With $1/\\sqrt d$ it gets {} of 16 patterns, and {} of 4096",
            [0, 2, 1],
        ),
        ("zhai_2023", "The bound falls from {} to {} nats", [0, 2]),
    ],
)
def test_text_has_the_figures_of_the_table(name: str, text: str, rows: list[int]) -> None:
    measured = [float(shown_of(name)[row][4]) for row in rows]
    found = re.search(re.escape(text).replace(r"\{\}", f"({NUMBER.pattern})"), section_of(name))
    assert found
    for number, exact in zip(found.groups(), measured, strict=True):
        assert float(number) == pytest.approx(exact, abs=0.6 * 10.0 ** -len(number.partition(".")[2]))


def test_text_has_the_cost_of_linear_attention() -> None:
    tiles, matrix, memory = (float(row[4].replace(",", "")) for row in shown_of("katharopoulos_2020"))
    linear, _, most = (float(row[3].partition(" (")[0].split()[-1]) for row in shown_of("katharopoulos_2020"))
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


@pytest.mark.parametrize("name", [name for name in PATHS if name not in LONG] + others_slow(LONG, 0))
def test_page_has_what_comes_out(name: str) -> None:
    shown, found = shown_of(name), found_of(name)[1]
    assert [row for row in found if row[-1] != "yes"] == []
    assert len(shown) == len(found)
    assert [pair for pair in zip(shown, found, strict=True) if not same_row(*pair)] == []


@pytest.mark.slow
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


@pytest.mark.slow
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
        assert estimate == pytest.approx(expected, abs=1e-8)
