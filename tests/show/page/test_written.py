"""A page as text: tables and pictures have the metrics of the run; it loads nothing, and its size has an end."""

import base64
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

import attncli
from attncli.core.numbers import MISSING
from attncli.engine.report import MOST_CELLS, report, run_names
from attncli.engine.runs.loading import StoredRun, read_run
from attncli.engine.runs.stored import StoredResult
from attncli.errors import printable
from attncli.results import Result
from attncli.studies import STUDIES, load_study
from attncli.studies.attention.columns import AttentionFacts
from tests.show.page.reading import Read
from tests.test_python import STUDIES as SMALL

pytestmark = pytest.mark.usefixtures("sketches", "no_pictures")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[StoredRun, Read]]:
    """Return a run of every study, with its page."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attncli.engine.experiment.result_drawers", lambda *_: {})  # no pictures in the run folder
        for study in STUDIES:
            folder = tmp_path_factory.mktemp(study) / "run"
            attncli.run({"study": study, "name": "small", **SMALL.get(study, {})}, out=folder)
            run = read_run(folder)
            found[study] = (run, Read(report([run])))
    return found


@pytest.mark.parametrize("study", STUDIES)
def test_tables_have_the_figures_of_the_rows(study: str, pages: dict[str, tuple[StoredRun, Read]]) -> None:
    run, page = pages[study]
    tables = page.tables()
    if study == "train":  # its records are seeds, and its comparisons are over the seeds
        assert list(tables)[:2] == ["Summary", "Records"]
    for rows, title in load_study(study).titles.items():
        records = run.result.rows[rows]
        assert rows == "head_comparisons" or (title in tables) == bool(records)
        if rows == "head_comparisons" or not records:
            continue
        stated = {column.key: column for column in load_study(study).columns[rows]}
        filled = [key for key in records[0] if any(record[key] is not None for record in records)]
        head, *body = tables[title]
        assert len({cell.text for cell in head}) == len(head) == len(filled)
        for record, cells in zip(records, body, strict=True):
            for key, cell in zip(filled, cells, strict=True):
                value = record[key]
                assert cell.text == (MISSING if value is None else printable(stated[key].format(value)))
                if isinstance(value, float):
                    assert float(str(cell.attributes["data-value"])) == value


def test_how_it_was_made_and_what_holds(pages: dict[str, tuple[StoredRun, Read]]) -> None:
    run, page = pages["attention"]
    whole = page.elements[0].text
    config = (run.path / "config.yaml").read_text(encoding="utf-8")
    for text in (config.strip(), run.stored.command, run.stored.environment["torch"]):
        assert text in whole
    assert [each.text for each in page.all("li")] == [finding.text for finding in run.result.findings]


@pytest.mark.parametrize("study", STUDIES)
def test_pictures_are_the_studys_own_in_both_themes(study: str, pages: dict[str, tuple[StoredRun, Read]]) -> None:
    """They are SVG of matplotlib, in images, which run no scripts."""
    _, page = pages[study]
    images = page.all("img")
    names = [str(each.attributes["alt"]) for each in images]
    assert study == "attention" or f"Picture {study} of small" in names
    assert [each.attributes["class"] for each in images] == ["light", "dark"] * (len(images) // 2)
    for image in images:
        kind, _, content = str(image.attributes["src"]).partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert ElementTree.fromstring(base64.b64decode(content)).tag == "{http://www.w3.org/2000/svg}svg"


def test_a_page_loads_nothing_and_has_no_code_in_attributes(pages: dict[str, tuple[StoredRun, Read]]) -> None:
    """Its policy allows one script and one style, by their digests."""
    digest, others = "'sha256-[A-Za-z0-9+/]{43}='", "img-src data:; base-uri 'none'; form-action 'none'"
    for _, page in pages.values():
        (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
        allowed = f"default-src 'none'; script-src {digest}; style-src {digest}; {others}"
        assert re.fullmatch(allowed, str(policy.attributes["content"]))
        names = {name for each in page.elements for name in each.attributes}
        assert not {name for name in names if name.startswith("on") or name in ("style", "srcdoc")}
        assert all(str(link.attributes["href"]).startswith("#") for link in page.all("a"))


def test_names_of_runs_are_their_paths_below_a_common_folder() -> None:
    began = "2026-11-22T10-06-10"
    paths = ["r1", f"outputs/d2l/{began}", "outputs/d2l/latest", "a/x", "b/x", "r3/results.json", "r4/../r5"]
    assert run_names([Path(path) for path in paths]) == [*paths[:-1], "r5"]
    assert run_names([Path(path) for path in paths[1:3]]) == [began, "latest"]


@pytest.mark.parametrize(
    ("heads", "size", "runs", "most", "megabytes"), [(12, 256, 1, MOST_CELLS, 9.0), (4, 64, 20, 300_000, 1.6)]
)
def test_the_size_of_a_page_has_an_end(heads: int, size: int, runs: int, most: int, megabytes: float) -> None:
    """Two scorers of twelve heads with 256 keys have every cell."""
    scores = torch.randn(2, 1, heads, size, size, generator=torch.Generator().manual_seed(0))
    tensors = {f"{label}/scores": scores[i] for i, label in enumerate(("dot", "additive"))}
    tensors |= {name.replace("scores", "weights"): each.softmax(-1) for name, each in tensors.items()}
    records = [{"label": label, "scorer": label} for label in ("dot", "additive")]
    inputs = {"valid": torch.ones(1, heads, size, size, dtype=torch.bool)}
    result = Result("attention", "x", records, inputs=inputs, tensors=tensors, facts=AttentionFacts())
    page = report([StoredRun(Path(), result, StoredResult.of(result))] * runs, most)
    assert len(page.encode()) < megabytes * 1e6
    views = Read(page).views()
    assert len(views) == runs
    assert runs > 1 or (views[0]["n"], views[0]["m"]) == (size, size)


def test_long_tables_are_cut_and_what_cannot_be_written_is_spelt_out() -> None:
    records = [{"label": "\ud800", "scorer": "dot", "d": d, "variance": 0.1} for d in range(3000)]
    result = Result("attention", "x", records)
    stored = StoredResult.of(result, environment={"torch": "\udfff"})
    read = Read(report([StoredRun(Path(), result, stored, {})]))
    assert "\\udfff" in read.elements[0].text
    notes = {each.text for each in read.all("p", **{"class": "note"})}
    assert "The first 2,000 of 3,000 rows; results.json has all." in notes
    assert len(read.tables()["Summary"]) == 1 + 2000
