import pytest
from hypothesis import settings

from attncli.commands import progress

# The same examples on every machine and every run; how long one takes says nothing about whether it is right.
settings.register_profile("attncli", derandomize=True, database=None, deadline=None, max_examples=25)
settings.load_profile("attncli")

# No line of progress on stderr, however busy the machine is: tests of progress have a patience of their own.
progress.PATIENCE = 1e6


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--everything", action="store_true", help="run the slow tests, too")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("everything"):
        config.option.markexpr = ""
