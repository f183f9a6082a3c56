"""Mistakes of users: each gives exactly its message on stderr and exit code 2, and leaves nothing behind.

`check` finds every mistake that `run` refuses.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from attncli.catalogue.catalogue import options_of
from attncli.catalogue.scorer_entries import ENTRY_KEYS
from attncli.results import INTERVAL
from attncli.scorers import SCORERS
from attncli.studies import STUDIES, load_study
from tests.bad_input.beside import FILES, MODULES
from tests.bad_input.mistake import EXPERIMENT, GOOD, Mistake, mistakes
from tests.cli import good, names_in, refusal

RUN = ["run", "x.yaml"]
SEEN_IN_THE_WORK = {  # mistakes that `check` does not find
    *("it fails when run", "it gives another shape", "it gives no tensor", "it gives complex numbers"),
    "it writes to its queries",
    *("a negative score beside the normaliser sum", "a bias that makes scores of linear attention negative"),
    *("a normaliser that fails when run", "a normaliser that gives another shape"),
    *("a normaliser that ignores the mask", "a normaliser that divides by 0"),
    "a normaliser that writes to its scores",
    "a scale that is not positive for this number of keys",
}
UNPRINTABLE = {  # mistakes by the content of x.yaml, with characters that are invisible in a text file
    b"data:\n\tqueries: 1\n": "2:1: not valid YAML: YAML allows no tabs for indentation; use spaces",
    b"name: a\nseed:\t[1\n": "2:6: not valid YAML: got a tab; use spaces",
    b"seed: 1\nname: a\x07b\n": "2:8: not valid YAML: the character U+0007 is not allowed in YAML; remove it",
    b"name: caf\xe9\n": " got bytes that are not UTF-8 text, the first at byte 9; expected a YAML file in UTF-8",
    b"[" * 800: "1:1: nested too deeply, or an alias contains itself; an experiment needs few levels",
}
NEW_LINE = Mistake(
    "a new line in --out",
    [*RUN, "--out", "x.yaml/a\nb"],
    EXPERIMENT.format(**GOOD).encode(),
    '--out: got "HERE/x.yaml/a\\nb"; cannot write there: Not a directory; expected a writable place',
)
TOLD = [mistake for path in sorted(Path(__file__).with_name("bad_input").glob("*.txt")) for mistake in mistakes(path)]
MISTAKES = [Mistake(text, RUN, config, f"x.yaml:{text}") for config, text in UNPRINTABLE.items()]
MISTAKES += [NEW_LINE, *TOLD]

NUMBERS = dict.fromkeys(
    column.key
    for column in load_study("attention").all_columns
    if not column.text and column.kind != "place" and not column.key.endswith(INTERVAL)
)
NAMES: dict[str, Iterable[str]] = {  # words that stand for the lists of names in texts
    "SCORERS": SCORERS,
    "STUDIES": STUDIES,
    "ENTRY_KEYS": ENTRY_KEYS,
    "WITH_SCALE": [name for name, cls in SCORERS.items() if "scale" in options_of(cls)],
    "NUMBERS": [*NUMBERS, "scores", "weights", "output"],
}


@pytest.fixture(autouse=True)
def folder(here: Path, own_module: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make some folders and modules, and pretend that the machine has no GPU and 1 GiB of memory."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=2**30, total=2**33))
    for name in ("folder/notes.txt", "old/config.yaml", "old/results.json"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text('{"attncli": "1", "files": ["config.yaml", "results.json"]}')
    (here / "link").symlink_to("folder")
    for name, text in MODULES.items():
        own_module(name, text)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_mistakes(mistake: Mistake, here: Path) -> None:
    (here / "x.yaml").write_bytes(mistake.config)
    for name in FILES:
        if name in mistake.text:
            (here / name).parent.mkdir(exist_ok=True)
            (here / name).write_bytes(FILES[name])
    before = names_in(here)
    commands = [mistake.command]
    if mistake.command == RUN and mistake.name not in SEEN_IN_THE_WORK:
        commands.append(["check", "x.yaml"])
    expected = mistake.message
    for word, names in NAMES.items():
        expected = expected.replace(word, ", ".join(names))
    for command in commands:
        message = refusal(*command).replace(str(here), "HERE")
        if "SIZE" in expected:
            message = re.sub(r"needs .*; .* of memory", "needs SIZE; SIZE of memory", message)
        assert message == expected
    assert names_in(here) == before


def test_without_a_mistake_the_experiment_is_good(here: Path) -> None:
    """The experiment is good without a mistake; otherwise a mistake in it could hide all others."""
    (here / "x.yaml").write_text(EXPERIMENT.format(**GOOD))
    assert good("check", "x.yaml") == "x.yaml: good, study attention\n"


def test_every_mistake_is_another() -> None:
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES)
    assert len({(tuple(mistake.command), mistake.config) for mistake in MISTAKES}) == len(MISTAKES)
