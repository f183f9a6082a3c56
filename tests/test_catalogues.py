"""Every listed scorer and normaliser has an oracle, its own file, a formula with a source, and typed options."""

import importlib
import inspect
import re
from typing import Any, get_type_hints

import pytest

from attncli.normalizers import NORMALIZERS
from attncli.scorers import SCORERS
from tests import reference

CATALOGUES: dict[str, dict[str, Any]] = {"scorers": SCORERS, "normalizers": NORMALIZERS}
every_class = pytest.mark.parametrize(
    ("folder", "name"), [(folder, name) for folder, known in CATALOGUES.items() for name in known]
)


@pytest.mark.catalogue("scorers", "normalizers")
def test_each_has_an_oracle_and_every_oracle_is_of_one() -> None:
    assert list(reference.ORACLES) == list(SCORERS)
    assert list(reference.NORMALIZERS) == list(NORMALIZERS)


@every_class
def test_lives_in_a_file_of_its_own_name(folder: str, name: str) -> None:
    module = importlib.import_module(f"attncli.{folder}.{name}")
    own = [cls for _, cls in inspect.getmembers(module, inspect.isclass) if cls.__module__ == module.__name__]
    assert own == [CATALOGUES[folder][name]]


@every_class
def test_first_docstring_line_is_the_formula_with_its_source(folder: str, name: str) -> None:
    first = (CATALOGUES[folder][name].__doc__ or "").splitlines()[0]
    found = re.fullmatch(r"(.+?) \(((?:[^()]|\([^()]*\))+)\)", first)
    assert found is not None
    formula, source = found.groups()
    assert re.search({"scorers": r"[qk]", "normalizers": r"\bs(_[ij])?\b"}[folder], formula)
    assert re.search(r"\b(19|20)\d\d\b|D2L", source), "a source is a paper with its year, or the D2L book"


@every_class
def test_options_are_keyword_only_with_types_and_defaults(folder: str, name: str) -> None:
    cls = CATALOGUES[folder][name]
    parameters = inspect.signature(cls).parameters if "__init__" in vars(cls) else {}  # else it is `nn.Module`'s
    sizes = ["query_size", "key_size"] if folder == "scorers" else []
    assert [*parameters][: len(sizes)] == sizes
    for option in [*parameters.values()][len(sizes) :]:
        assert option.kind is inspect.Parameter.KEYWORD_ONLY
        assert option.default is not inspect.Parameter.empty
        assert option.name in get_type_hints(cls.__init__)
