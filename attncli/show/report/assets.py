"""What a page looks like and what it does: its style sheet, and its script, which is a module of several files."""

from pathlib import Path

HERE = Path(__file__).parent
# A constant must stand before what uses it while the script starts, which the last one does.
SCRIPT = (
    *("elements", "decode", "scaling", "colours", "address"),
    *("chart", "curves", "panels", "row", "heads", "matrices", "tables", "start"),
)


def style() -> str:
    """The style sheet."""
    return (HERE / "report.css").read_text(encoding="utf-8")


def script() -> str:
    """The script, to stand in `<script type="module">`."""
    return "\n".join((HERE / "script" / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPT)
