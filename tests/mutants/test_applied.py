"""Planted mistakes fit the present code; `nox -s mutants` runs the tests that must find them."""

from tests.mutants.__main__ import ROOT, applied, mutants


def test_every_mutant_applies_to_its_file_and_names_tests() -> None:
    applied()
    listed = mutants()
    assert len({str(mutant) for mutant in listed}) == len(listed) >= 80
    for path in {test.partition("::")[0] for mutant in listed for test in mutant.tests.split()}:
        assert (ROOT / path).exists(), path
