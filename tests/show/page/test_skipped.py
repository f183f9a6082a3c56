"""The last lines of a run of the tests say what was not tested, why, and what to install."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TESTS = "test_no_script or test_a_frame or test_the_same_in_several_blocks"


def test_the_last_lines_say_what_was_not_tested(tmp_path: Path) -> None:
    """In a process of pytest-xdist, as in the README's command, with neither a browser nor a compiler."""
    environment = {key: value for key, value in os.environ.items() if key != "CI" and not key.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", "-m", "", "-k", TESTS]
    done = subprocess.run(
        [*command, "tests/show/page/test_safety.py", "tests/scorers/test_additive_compiled.py"],
        cwd=ROOT,
        env={**environment, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    *lines, count = done.stdout.splitlines()
    compiler, pages = sorted(lines[-2:], key=lambda line: "the HTML pages" in line)
    assert pages.startswith("NOT TESTED (2 skipped): the HTML pages, because Chromium is not installed; on Debian ")
    assert "`apt-get install chromium-headless-shell`, elsewhere install Chromium or Chrome" in pages
    assert compiler.startswith("NOT TESTED (1 skipped): compiled scorers, because no C++ compiler is installed; ")
    assert compiler.endswith("on Debian `apt-get install g++`")
    assert count.startswith("3 skipped")
