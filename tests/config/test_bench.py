"""What `study: bench` says: defaults, short forms, and what does not go together."""

from pathlib import Path

import pytest

from attncli.scorers import SCORERS
from tests.config.documents import options_of, problems_of


def test_defaults(tmp_path: Path) -> None:
    options = options_of(tmp_path, "study: bench")
    assert [entry.scorer for entry in options.scorers] == list(SCORERS)
    assert (options.n, options.m, options.d, options.num_hiddens) == ([128, 256, 512, 1024], None, [64], None)
    assert (options.batch, options.heads, options.measure) == ([1], None, ["scores", "output"])
    assert (options.backward, options.compile, options.only, options.skip) == (False, False, [], [])
    assert options.baseline == "scaled_dot/textbook"


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("n: 4", "n", [4]),
        ("m: [4, 2]", "m", [4, 2]),
        ("heads: {from: 1, to: 9, factor: 3}", "heads", [1, 3, 9]),
        ("heads: null", "heads", None),
        ("num_hiddens: 8", "num_hiddens", [8]),
        ("measure: output", "measure", ["output"]),
        ("only: textbook", "only", ["textbook"]),
        ("skip: [a/b, c]", "skip", ["a/b", "c"]),
    ],
)
def test_short_forms(text: str, key: str, value: object, tmp_path: Path) -> None:
    assert getattr(options_of(tmp_path, f"study: bench\n{text}\n"), key) == value


def test_hidden_units_that_are_left_open_stay_open(tmp_path: Path) -> None:
    text = "study: bench\nscorers: [additive, 'additive:num_hiddens=8', dot]\n"
    options = options_of(tmp_path, text)
    assert [options.names_hidden(entry) for entry in options.scorers] == [False, True, True]
    assert options.unused() == {"scorers": {0: {"num_hiddens"}}}
    assert options_of(tmp_path, "study: bench\nscorer: dot").unused() == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("measure: []", "2:10: measure: got []; expected at least 1 entry"),
        ("measure: [scores, scores]", '2:19: measure[1]: got "scores" twice; expected each once'),
        ("only: ['']", '2:8: only[0]: got ""; expected text that is not empty'),
        ("baseline: 3", "2:11: baseline: got 3; expected text; put it in quotes"),
        (
            "scorer: {scorer: dot, softcap: 3}",
            "2:9: scorer[0].softcap: got 3; this study measures scores without a bound; leave it out",
        ),
        (
            "scorers: [{scorer: dot, dropout: 0.5}]",
            "2:34: scorers[0].dropout: got 0.5; this study measures attention without dropout; leave it out",
        ),
    ],
)
def test_what_does_not_go_together(text: str, message: str, tmp_path: Path) -> None:
    assert message in problems_of(tmp_path, f"study: bench\n{text}\n")
