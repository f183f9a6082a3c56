"""A page as text: tables and pictures have the metrics of the run; it loads nothing, and its size has an end."""

import base64
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import attncli
from attncli.core.numbers import MISSING
from attncli.engine.report import report, run_names
from attncli.engine.runs.loading import StoredRun, read_run
from attncli.engine.runs.stored import StoredResult
from attncli.errors import printable
from attncli.results import Result
from attncli.studies import STUDIES, load_study
from attncli.studies.attention.columns import AttentionFacts
from tests.margins import last_digit
from tests.show.page.reading import Read, numbers
from tests.test_python import STUDIES as SMALL

pytestmark = pytest.mark.usefixtures("sketches", "no_pictures")

CONFIG: dict[str, Any] = {
    "name": "small",
    "data": {"queries": {"shape": [1, 7, 4]}, "keys": {"shape": [1, 7, 4]}},
    "scorers": ["dot", "scaled_dot"],
}


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
    kinds = {rows: title for rows, title in load_study(study).titles.items() if rows != "head_comparisons"}
    if study == "train":  # its records are seeds, and its comparisons are over the seeds
        assert list(tables)[:2] == ["Summary", "Records"]
    for rows, title in kinds.items():
        records = run.result.rows[rows]
        if not records:
            assert title not in tables
            continue
        stated = {column.key: column for column in load_study(study).columns[rows]}
        shown = [key for key in records[0] if any(record[key] is not None for record in records)]
        head, *body = tables[title]
        assert len(head) == len(shown)
        assert len({cell.text for cell in head}) == len(head)
        for record, cells in zip(records, body, strict=True):
            for key, cell in zip(shown, cells, strict=True):
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
    for _, page in pages.values():
        (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
        assert str(policy.attributes["content"]).startswith("default-src 'none'; ")
        names = {name for each in page.elements for name in each.attributes}
        assert not {name for name in names if name.startswith("on") or name in ("style", "srcdoc")}
        assert all(str(link.attributes["href"]).startswith("#") for link in page.all("a"))


def test_two_scorers_of_twelve_heads_with_256_keys_have_every_cell_in_nine_megabytes() -> None:
    scores = torch.randn(2, 1, 12, 256, 256, generator=torch.Generator().manual_seed(0))
    tensors = {f"{label}/scores": scores[i] for i, label in enumerate(("dot", "additive"))}
    tensors |= {name.replace("scores", "weights"): each.softmax(-1) for name, each in tensors.items()}
    records = [{"label": label, "scorer": label} for label in ("dot", "additive")]
    inputs = {"valid": torch.ones(1, 12, 256, 256, dtype=torch.bool)}
    result = Result("attention", "x", records, inputs=inputs, tensors=tensors, facts=AttentionFacts())
    page = report([StoredRun(Path(), result, StoredResult.of(result))])
    assert len(page.encode()) < 9_000_000
    (view,) = Read(page).views()
    assert (view["n"], view["m"]) == (256, 256), "every cell is there"
    got = numbers(view, "weights", "additive", 11)[: 2 * 256]
    assert got == pytest.approx(
        tensors["additive/weights"][0, 11, :2].flatten().tolist(), rel=last_digit(2.0**-10), abs=last_digit(2.0**-24)
    )


def test_runs_share_a_page(tmp_path: Path) -> None:
    """A page may have several runs of one name, and the same result twice."""
    folders = [tmp_path / "one", tmp_path / "two", tmp_path / "results.json"]
    for folder in folders[:2]:
        attncli.run(CONFIG, out=folder)
    folders[2].write_bytes((folders[0] / "results.json").read_bytes())
    page = Read(report([read_run(folder) for folder in folders]))
    names = [each.text for each in page.all("a")]
    assert names == ["one", "two", "results.json"]
    assert page.all("h1")[0].text == ", ".join(names)
    assert page.all("h2")[0].text.startswith("one small, study attention")
    assert len(page.views()) == 2, "a results.json alone has no matrices"
    assert "no matrices and no pictures" in page.elements[0].text


def test_names_of_runs_are_their_paths_below_a_common_folder() -> None:
    began = "2026-11-22T10-06-10"
    paths = ["r1", f"outputs/d2l/{began}", "outputs/d2l/latest", "a/x", "b/x", "r3/results.json", "r4/../r5"]
    assert run_names([Path(path) for path in paths]) == [*paths[:-1], "r5"]
    assert run_names([Path(path) for path in paths[1:3]]) == [began, "latest"]


def test_what_is_long_is_cut_and_what_cannot_be_written_is_spelt_out() -> None:
    records = [{"label": "\ud800", "scorer": "dot", "d": d, "variance": 0.1} for d in range(3000)]
    result = Result("attention", "x", records)
    stored = StoredResult.of(result, environment={"torch": "\udfff"})
    page = report([StoredRun(Path(), result, stored, {})])
    assert len(page.encode()) < 1_500_000
    read = Read(page)
    notes = {each.text for each in read.all("p", **{"class": "note"})}
    assert "The first 2,000 of 3,000 rows; results.json has all." in notes
    assert len(read.tables()["Summary"]) == 1 + 2000


def test_pages_of_many_runs_are_bounded() -> None:
    scores = torch.randn(1, 4, 64, 64, generator=torch.Generator().manual_seed(0))
    inputs = {"valid": torch.ones(1, 4, 64, 64, dtype=torch.bool)}
    records = [{"label": "dot", "scorer": "dot"}]
    result = Result("attention", "x", records, inputs=inputs, tensors={"dot/scores": scores})
    run = StoredRun(Path(), result, StoredResult.of(result))
    page = report([run] * 20, 300_000)
    assert len(page.encode()) < 1_600_000
    assert len(Read(page).views()) == 20
