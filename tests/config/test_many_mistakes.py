"""However many mistakes a config has, they are answered in time in proportion to their number, and on one screen."""

from cProfile import Profile
from pathlib import Path

import pytest

from attncli.config.document import read_document
from attncli.errors import MOST_PROBLEMS, InputError
from attncli.studies import options_model

DATA = "data: {queries: {shape: [2, 3, 4]}, keys: {shape: [2, 5, 4]}}\n"
GOOD = f"{DATA}scorers: [dot]\n"
KINDS = {  # before the mistakes, a mistake
    "keys": (GOOD, "wrong{i}: {{shape: [2]}}\n"),
    "scorers": (f"{DATA}scorers:\n", "  - wrong{i}\n"),
    "layers of a plan": (
        "study: swap\nmodel: m:f\ntexts: [a]\nscorers:\n  - label: mixed\n    plan:\n",
        "      layer{i}: wrong{i}\n",
    ),
}


def refused(path: Path) -> tuple[int, str]:
    """Return how many functions are called to refuse a config, and the message."""
    with Profile() as profile:
        document = read_document(path)
        model = options_model(document.study(["attention", "swap"]))
        with pytest.raises(InputError) as error:
            document.validate(model)
    return sum(entry.callcount for entry in profile.getstats()), str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_twice_as_many_mistakes_take_twice_as_long(kind: str, tmp_path: Path) -> None:
    head, mistake = KINDS[kind]
    calls = list[int]()
    for count in (30, 200, 400):  # the first loads what is loaded once
        path = tmp_path / f"{count}.yaml"
        path.write_text(head + "".join(mistake.format(i=index) for index in range(1, count + 1)), encoding="utf-8")
        number, message = refused(path)
        calls.append(number)
        lines = message.splitlines()
        assert len(lines) == MOST_PROBLEMS + 1
        assert lines[-1] == f"and {count - MOST_PROBLEMS} more problems"
        assert all("; " in line for line in lines[:-1])  # each with what is expected
    assert calls[2] <= 2.2 * calls[1]
