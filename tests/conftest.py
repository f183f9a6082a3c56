import pytest
from hypothesis import settings

# The same examples on every machine and every run; how long one takes says nothing about whether it is right.
settings.register_profile("attncli", derandomize=True, database=None, deadline=None, max_examples=25)
settings.load_profile("attncli")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--everything", action="store_true", help="run the slow tests, too")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("everything"):
        config.option.markexpr = ""
