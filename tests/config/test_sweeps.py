"""What `study: variance` and `study: saturation` say: defaults, short forms, and what does not go together."""

from pathlib import Path

import pytest

from tests.config.documents import options_of, problems_of

SWEEPS = ("variance", "saturation")


@pytest.mark.parametrize(
    ("study", "labels"),
    [
        ("variance", ["dot", "scaled_dot", "scaled_dot_1_over_d"]),
        ("saturation", ["dot", "scaled_dot", "scaled_dot_1_over_d", "additive", "cosine"]),
    ],
)
def test_scorers_by_default(study: str, labels: list[str], tmp_path: Path) -> None:
    options = options_of(tmp_path, f"study: {study}")
    assert [entry.label for entry in options.scorers] == labels
    assert options.scorers[2].options == {"scale": "1/d"}


def test_numbers_by_default(tmp_path: Path) -> None:
    options = options_of(tmp_path, "study: saturation")
    assert (options.distribution, options.df, options.mean, options.std, options.rho) == ("normal", None, 0, 1, 0)
    assert (options.query_mean, options.query_std, options.key_mean, options.key_std) == (None, None, None, None)
    assert (options.keys, options.rows, options.source) == (64, 2000, None)
    assert options_of(tmp_path, "study: variance").samples is None


@pytest.mark.parametrize("key", ["scorer", "scorers"])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cosine", [("cosine", "cosine", {"scale": 1.0})]),
        ("{scorer: gaussian, sigma: 3}", [("gaussian", "gaussian", {"sigma": 3.0})]),
        ("'additive:num_hiddens=3'", [("additive", "additive_3", {"num_hiddens": 3})]),
        ("[dot, {scorer: dot, label: b}, 'dot:label=c']", [("dot", "dot", {}), ("dot", "b", {}), ("dot", "c", {})]),
    ],
)
def test_scorers_in_all_forms(
    key: str, text: str, found: list[tuple[str, str, dict[str, object]]], tmp_path: Path
) -> None:
    options = options_of(tmp_path, f"study: variance\n{key}: {text}\n")
    assert [(entry.scorer, entry.label, entry.options) for entry in options.scorers] == found


def test_degrees_of_freedom_are_written_down(tmp_path: Path) -> None:
    assert options_of(tmp_path, "study: variance\ndistribution: student_t").df == 10
    assert options_of(tmp_path, "study: variance\ndistribution: student_t\ndf: 4.5").df == 4.5


def test_tensors_are_beside_the_file(tmp_path: Path) -> None:
    options = options_of(tmp_path, "study: variance\nfrom: a/b.npz")
    assert options.source == str(tmp_path / "a" / "b.npz")
    assert options.unused() >= {"d", "distribution", "df", "mean", "std", "rho", "samples", "key_std"}
    assert not options.unused() & {"source", "scorers", "seed", "dtype", "name"}
    assert options_of(tmp_path, "study: saturation\nfrom: a.npz").unused() >= {"d", "keys", "rows"}
    assert options_of(tmp_path, "study: saturation").unused() == set()


@pytest.mark.parametrize("df", [4, 3.9, 0.1])
def test_saturation_takes_any_degrees_of_freedom(df: float, tmp_path: Path) -> None:
    text = f"distribution: student_t\ndf: {df}\nrho: 0.5"
    assert options_of(tmp_path, f"study: saturation\n{text}").df == df
    assert "needs df above 8" in problems_of(tmp_path, f"study: variance\n{text}")[0]


@pytest.mark.parametrize(
    ("more", "least"), [("rho: 0.5", 8), ("rho: 0", 4), ("scorer: gaussian", 8), ("scorer: cosine", 4)]
)
def test_the_fourth_moment(more: str, least: int, tmp_path: Path) -> None:
    text = f"study: variance\n{more}\ndistribution: student_t\ndf: "
    assert options_of(tmp_path, f"{text}{least + 0.1}").df == least + 0.1
    assert problems_of(tmp_path, f"{text}{least}")[0].startswith(f"4:5: df: got df {least}; ")


@pytest.mark.parametrize("study", SWEEPS)
@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("scorer: dot\nscorers: [dot]",
         ["2:9: scorer: got `scorer` beside `scorers`, which are the same key; expected one of the two"]),
        ("scorer: [dot, dot]", [
            '2:15: scorer[1].label: got "dot", the label of scorers[0] too; labels must differ, also without case; '
            "give one of them a label of its own, as in `dot:label=second`",
        ]),
        ("scorers: [{scorer: dot, dropout: 0.2}, {scorer: cosine, dropout: 0.5}]", [
            "2:34: scorers[0].dropout: got 0.2; this study looks at weights before dropout; leave it out",
            "2:66: scorers[1].dropout: got 0.5; this study looks at weights before dropout; leave it out",
        ]),
        ("scorers: [{scorer: dot, dropout: 2}]", ["2:34: scorers[0].dropout: got 2; expected a number below 1"]),
        ("scorers: [dot, 'dot:']", [
            '2:16: scorers[1]: got "dot:"; expected NAME, NAME:KEY=VALUE,... such as additive:num_hiddens=64, '
            "or module:Class",
        ]),
        ("df: 5",
         ["2:5: df: got df 5 for normal entries; only student_t has degrees of freedom; leave it out, or choose "
          "student_t"]),
        ("from: a.npz\nd: 4\ndf: 3", [
            "3:4: d: got d beside `from`, whose tensors decide it; expected one of the two; leave out d, or `from`",
            "4:5: df: got df beside `from`, whose tensors decide it; expected one of the two; leave out df, or `from`",
        ]),
        ("from: a.npz\ndistribution: student_t", [
            "3:15: distribution: got distribution beside `from`, whose tensors decide it; expected one of the two; "
            "leave out distribution, or `from`",
        ]),
        ("std: -1\nmean: 2e9\nrho: 1.5\nkey_std: .inf", [
            "2:6: std: got -1; expected a number of at least 0",
            "3:7: mean: got 2000000000.0; expected a number of at most 1e+09",
            "4:6: rho: got 1.5; expected a number of at most 1",
            "5:10: key_std: got Infinity; expected a finite number",
        ]),
    ],
)  # fmt: skip
def test_what_does_not_go_together(study: str, text: str, problems: list[str], tmp_path: Path) -> None:
    assert problems_of(tmp_path, f"study: {study}\n{text}\n") == problems


@pytest.mark.parametrize(("study", "more"), [("variance", "samples"), ("saturation", "keys"), ("saturation", "rows")])
def test_how_much_is_drawn_beside_tensors(study: str, more: str, tmp_path: Path) -> None:
    problem = problems_of(tmp_path, f"study: {study}\nfrom: a.npz\n{more}: 100\n")[0]
    assert problem.startswith(f"3:{len(more) + 3}: {more}: got {more} beside `from`")
