"""Any content of a run is plain text on its page; the page fetches nothing, and needs no rights in a frame."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.cli import good
from tests.show.page.conftest import Open, report
from tests.show.page.pages import HOSTILE, attention, choose, point, settles

pytestmark = pytest.mark.usefixtures("sketches")

LABELS = ["__proto__", "constructor", "ü ✓ 'quoted' (é)", "hasOwnProperty"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / "run"
    scorers = [{"scorer": "dot", "label": label, "softcap": 1.0 + i} for i, label in enumerate(LABELS)]
    attention(folder, scorers=scorers, tokens={"queries": HOSTILE, "keys": HOSTILE[::-1]})
    return report(folder.parent / "report.html", folder)


def is_attacked(page: Page) -> bool:
    found: bool = page.evaluate("window.attacked !== undefined || {}.attacked !== undefined")
    return found


def test_hostile_tokens_are_text(open_page: Open, file: Path) -> None:
    page = open_page(file)
    escaped = {HOSTILE[3]: "\\u202eevil", HOSTILE[4]: "x" * 199 + "…", HOSTILE[8]: "\\u2028line", "": "''"}
    expected = [escaped.get(token, token) for token in HOSTILE]
    assert set(page.locator(".rows").first.locator("bdi").all_inner_texts()) < set(expected)
    for index, name in enumerate(expected):
        point(page, 0, index, 0)
        expect(page.locator("#tip bdi").first).to_have_text(f"query {index}: {name}")
    assert page.locator(".view tbody td:first-child").first.inner_text().startswith("0: ")
    expect(page.locator(".view img, iframe, b")).to_have_count(0)
    settles(page, lambda: page.evaluate("document.documentElement.scrollWidth <= innerWidth"), True)
    assert not is_attacked(page)


def test_labels_may_be_names_that_scripts_know(open_page: Open, file: Path) -> None:
    page = open_page(file)
    assert page.locator("figcaption bdi").all_inner_texts() == LABELS
    choose(page, "minus", "__proto__")
    titles = [LABELS[0], *(f"{label} − __proto__" for label in LABELS[1:])]
    expect(page.locator("figcaption bdi")).to_have_text(titles)
    assert page.locator(".view th").all_inner_texts() == ["key", *LABELS]


def test_without_scripts_the_tables_are_there(open_page: Open, file: Path) -> None:
    page = open_page(file, java_script_enabled=False)
    assert page.locator("section > details table").first.locator("td:nth-child(2)").all_inner_texts() == LABELS
    expect(page.locator("noscript p")).to_be_visible()
    expect(page.locator("figure")).to_have_count(0)


def test_a_frame_without_rights_shows_it(browser: Browser, file: Path) -> None:
    """A notebook shows the page in such a frame: with scripts, but without storage, origin and address."""
    page = browser.new_page()
    complaints = list[str]()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_content("<iframe sandbox='allow-scripts' width='1000' height='800'></iframe>")
    page.locator("iframe").evaluate("(frame, text) => (frame.srcdoc = text)", file.read_text(encoding="utf-8"))
    frame = page.frame_locator("iframe")
    expect(frame.locator(".view[data-ready]")).to_have_count(1)
    frame.locator(".bar select").first.select_option("scores")
    expect(frame.locator(".cells").first).to_have_attribute("aria-label", re.compile("scores"))
    frame.locator(".cells").first.click()
    expect(frame.locator(".panels.held")).to_have_count(1)
    assert complaints == []
    page.close()


NOTE = """# Heads & <b>tails</b>

What *is* the scale? `q . k < 1` and **bold**, [a link](https://example.org/?a=1&b=2),
[no link](javascript:window.attacked=1), ![picture](https://example.org/x.png)

<script>window.attacked=1</script> <img src=x onerror=window.attacked=1>

- one
- \u202etwo &lt;i&gt;

```html
<script>window.attacked=1</script>
```
"""


def test_a_note_and_a_title_are_text_with_few_elements(open_page: Open, file: Path, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text(NOTE, encoding="utf-8")
    words = ["--title", "<b>Mine</b>\u202e", "--note", tmp_path / "note.md"]
    good("report", file.parent / "run", "--out", tmp_path / "page.html", "--quiet", *words)
    page = open_page(tmp_path / "page.html")
    note = page.locator(".text")
    expect(page).to_have_title("<b>Mine</b>\\u202e – attncli")
    expect(page.locator("h1")).to_have_text("<b>Mine</b>\\u202e")
    expect(note.locator("h2")).to_have_text("Heads & <b>tails</b>")
    expect(note.locator("li")).to_have_text(["one", "\\u202etwo <i>"])
    expect(note.locator("code")).to_have_text(["q . k < 1", "<script>window.attacked=1</script>\n"])
    assert note.locator("a").evaluate_all("links => links.map(({ href }) => href)") == [
        "https://example.org/?a=1&b=2",
        "https://example.org/x.png",
    ]
    tags = note.evaluate("note => [...new Set([...note.querySelectorAll('*')].map(({ tagName }) => tagName))].sort()")
    assert tags == ["A", "CODE", "EM", "H2", "LI", "P", "PRE", "STRONG", "UL"]
    expect(note).to_contain_text("<img src=x onerror=window.attacked=1>")
    assert not is_attacked(page)
