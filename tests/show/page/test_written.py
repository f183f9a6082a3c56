"""A page as text: tables and curves have the metrics of the run, and no content of a run can act as code."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import attncli
from attncli.core.numbers import MISSING
from attncli.engine.report import report, run_names
from attncli.engine.runs.loading import StoredRun, read_run
from attncli.engine.runs.stored import StoredResult
from attncli.errors import printable
from attncli.results import Result
from attncli.show.page.page import embedded
from attncli.studies import STUDIES, load_study
from attncli.studies.attention.columns import AttentionFacts
from tests.margins import last_digit
from tests.show.page.pages import HOSTILE
from tests.show.page.reading import Read, numbers
from tests.test_python import STUDIES as SMALL

pytestmark = pytest.mark.usefixtures("sketches", "no_pictures")

CONFIG: dict[str, Any] = {
    "name": "small",
    "data": {"queries": {"shape": [1, 7, 4]}, "keys": {"shape": [1, 7, 4]}},
    "scorers": ["dot", "scaled_dot"],
}


def page_of(config: dict[str, Any], folder: Path) -> Read:
    attncli.run(config, out=folder)
    return Read(report([read_run(folder)]))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[StoredRun, Read]]:
    """Return a run of every study, with its page."""
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attncli.engine.experiment.result_drawers", lambda *_: {})  # no pictures in the run folder
        for study in STUDIES:
            folder = tmp_path_factory.mktemp(study) / "run"
            page = page_of({"study": study, "name": "small", **SMALL.get(study, {})}, folder)
            found[study] = (read_run(folder), page)
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


def test_the_policy_allows_this_script_and_this_style_alone(pages: dict[str, tuple[StoredRun, Read]]) -> None:
    for _, page in pages.values():
        (policy,) = page.all("meta", **{"http-equiv": "Content-Security-Policy"})
        (style,), (script,) = page.all("style"), page.all("script", type="module")
        rules = dict(rule.split(" ", 1) for rule in str(policy.attributes["content"]).split("; "))
        assert rules == {
            "default-src": "'none'",
            "script-src": f"'{digest(script.text)}'",
            "style-src": f"'{digest(style.text)}'",
            "img-src": "data:",
            "base-uri": "'none'",
            "form-action": "'none'",
        }
        names = {name for each in page.elements for name in each.attributes}
        assert not {name for name in names if name.startswith("on") or name in ("style", "srcdoc")}
        assert all(str(image.attributes["src"]).startswith("data:image/svg+xml;base64,") for image in page.all("img"))
        assert all(str(link.attributes["href"]).startswith("#") for link in page.all("a"))


def digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_json_that_is_embedded_has_nothing_that_ends_it() -> None:
    value = {"a": [*HOSTILE, float("nan"), float("inf"), 1.5, None, True], "</script>": "é"}
    text = embedded(value)
    assert not set("<>&") & set(text)
    assert text.isascii()
    assert json.loads(text) == {"a": [*HOSTILE, None, None, 1.5, None, True], "</script>": "é"}


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
