"""Every study runs and prints its tables and findings, however narrow the screen is."""

import pytest
from rich.cells import cell_len

import attncli
from attncli.engine.sweeps.views import tables_of
from attncli.show.terminal.tables import SCREEN, findings, recorded
from tests.studies.bench.small import hurry
from tests.test_python import STUDIES


@pytest.mark.parametrize("study", STUDIES)
def test_narrow_screens(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers may be cut where there is no room, but every table and every finding is printed."""
    hurry(monkeypatch)
    result = attncli.run({"study": study, **STUDIES[study]})
    for width in (1, 10, 20, 47):
        for most in (SCREEN, None):
            parts = [*tables_of(result)(width=width, most=most, csv=None)]
            text = recorded([*parts, *findings(result.findings)], width).export_text()
            assert text.count("\n") > len(parts)
            assert max(map(cell_len, text.splitlines())) <= width
