"""Planted mistakes fit the present code; `nox -s mutants` runs the tests that must find them."""

from tests.mutants.__main__ import ROOT, mutants


def test_every_mutant_applies_to_its_file_and_names_tests() -> None:
    listed = mutants()
    for mutant in listed:
        mutant.planted((ROOT / "attncli" / mutant.file).read_text(encoding="utf-8"))
    assert len({str(mutant) for mutant in listed}) == len(listed) >= 80
    for path in {test.partition("::")[0] for mutant in listed for test in mutant.tests.split()}:
        assert (ROOT / path).exists(), path
