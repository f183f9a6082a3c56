"""`attncli report` and `--report`: the page's file and content, and wrong input."""

from pathlib import Path

import pytest

import attncli
from attncli.cli import report as command
from tests.cli import attncli as run_command
from tests.cli import experiment, good, names_in, refusal, results, run
from tests.show.page.reading import Read

pytestmark = pytest.mark.usefixtures("sketches")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with the runs `one` and `two`."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("one", "two")):
        run(experiment(tmp_path / "small.yaml"), tmp_path / name, "--seed", seed)
    return tmp_path


def test_the_page_of_a_run_goes_into_its_folder_and_is_listed(folder: Path) -> None:
    """A run with `--report` has the page that the command makes."""
    before = results("one")
    assert good("report", "one") == "one/report.html\n"
    after = results("one")
    assert after == {**before, "files": sorted([*before["files"], "report.html"])}
    assert names_in(folder / "one") == after["files"]
    printed = good("run", "small.yaml", "--report", "--no-plots", "--out", "one", "--overwrite", "--seed", 3)
    assert printed.splitlines()[-1] == "one/report.html"
    assert results("one")["files"] == names_in(folder / "one")
    page = (folder / "one/report.html").read_bytes()
    assert good("report", "one", "--quiet") == ""
    assert (folder / "one/report.html").read_bytes() == page, "a view is made again"


def test_the_page_of_several_runs_says_what_differs(folder: Path) -> None:
    """A run given twice appears once; its folder is not changed."""
    (folder / "again").symlink_to("one")
    assert good("report", "one", "two", "again") == "outputs/reports/small.html\n"
    assert good("report", "one", "two", "two", "two") == "outputs/reports/small-2.html\n"
    assert not (folder / "one/report.html").exists()
    page = Read((folder / "outputs/reports/small.html").read_text(encoding="utf-8"))
    assert [view["labels"] for view in page.views()] == [["one", "two"], ["dot"], ["dot"]]
    (section,) = page.all("section", id="comparison")
    assert attncli.compare("one", "two").sentence in section.text
    assert [each.text for each in page.all("a")] == ["What differs", "one", "two"]
    assert page.all("h1")[0].text == "one, two"
    settings = [[cell.text for cell in row] for row in page.tables()["Settings"]]
    assert settings == [["key", "one", "two"], ["seed", "0", "1"]]


def test_runs_of_other_studies_and_many_runs_are_not_all_compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good("variance", "--d", 4, "--samples", 99, "--no-plots", "--quiet", "--out", "three")
    monkeypatch.setattr(command, "MOST_COMPARED", 0)
    result = run_command("report", "one", "two", "three", "--out", "page.html")
    assert result.stderr == "0 of 1 runs are compared with one; see attncli compare\n"
    page = Read((folder / "page.html").read_text(encoding="utf-8"))
    assert page.all("section", id="comparison") == []
    assert len(page.views()) == 2
    assert [each.attributes["alt"] for each in page.all("img")] == ["Picture variance of three"] * 2


def test_a_results_json_alone_has_tables_and_a_note_in_comparisons(folder: Path) -> None:
    good("report", "one", "two/results.json", "--out", "page.html")
    page = Read((folder / "page.html").read_text(encoding="utf-8"))
    (section,) = page.all("section", id="comparison")
    assert "two/results.json is results.json alone, without tensors" in section.text
    good("report", "one/results.json", "--out", "alone.html")
    page = Read((folder / "alone.html").read_text(encoding="utf-8"))
    assert (page.views(), "Summary" in page.tables()) == ([], True)


def test_damaged_runs_are_refused_and_nothing_is_written(folder: Path) -> None:
    tensors = folder / "one/tensors.safetensors"
    whole = tensors.read_bytes()
    for damaged in (whole[:-100], whole[: len(whole) // 2], b""):
        tensors.write_bytes(damaged)
        before = names_in(folder)
        message = refusal("report", "two", "one", "--out", "page.html")
        assert message.startswith('got "one", whose files are damaged (SafetensorError: ')
        assert names_in(folder) == before
