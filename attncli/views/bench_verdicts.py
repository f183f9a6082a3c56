"""What is slower and what faster than the baseline, as sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attncli.studies.study import Record
from attncli.views.bench_lines import Line, baseline, is_baseline, lines_of
from attncli.views.bench_ratios import Verdict, has_ratio, verdict
from attncli.views.bench_sizes import changing, measures_of, of_measure, place, size_of

KINDS = {"slower": "slower", "faster": "faster", "same": "not measurably different", "noisy": "too noisy to tell"}


@dataclass(frozen=True)
class Found:
    """The verdict on one line at the largest size at which it has one, and where that is."""

    line: Line
    verdict: Verdict
    place: str


def verdicts(records: Sequence[Record]) -> list[str]:
    """For each measure one sentence a label with several implementations, and one for all others together."""
    keys, measures = changing(records), measures_of(records)
    lines = []
    for measure in measures:
        prefix = f"{measure}: " if len(measures) > 1 else ""
        lines += [f"{prefix}{sentence}." for sentence in _of_measure(of_measure(records, measure), keys)]
    return lines


def _of_measure(records: Sequence[Record], keys: Sequence[str]) -> Iterator[str]:
    against = baseline(records[0]).name
    labels: dict[str, list[Found]] = {}
    for line, rows in lines_of(records).items():
        known = [record for record in rows if has_ratio(record) and not is_baseline(record)]
        if known:
            last = max(known, key=size_of)
            labels.setdefault(line.title, []).append(Found(line, verdict(last), place(last, keys)))
    if not labels and len(lines_of(records)) > 1:
        yield f"nothing can be compared, as no time was measured beside one of {against}"
    for several in labels.values():
        if len(several) > 1:
            yield _one_label(several, against)
    single = [several[0] for several in labels.values() if len(several) == 1]
    if single:
        yield _together(single, against)


def _one_label(several: Sequence[Found], against: str) -> str:
    """`additive is 4.1 ± 0.3 times slower than textbook scaled_dot at n = 512; the textbook code is ...`."""
    first, *rest = several
    said = [f"{first.line.name} is {_than(first, against)} at {first.place}"]
    for found in rest:
        elsewhere = f" at {found.place}" if found.place != first.place else ""
        said.append(f"{found.line.again} {_alone(found, against)}{elsewhere}")
    return "; ".join(said)


def _than(found: Found, against: str) -> str:
    if found.verdict.kind == "same":
        return f"not measurably different from {against}"
    if found.verdict.kind == "noisy":
        return f"too noisy to tell from {against} ({found.verdict.times} times its time)"
    return f"{found.verdict.sentence} than {against}"


def _alone(found: Found, against: str) -> str:
    """As `_than`, where the sentence has named the baseline already."""
    if found.verdict.kind == "noisy":
        return f"too noisy to tell ({found.verdict.times})"
    return f"not measurably different from {against}" if found.verdict.kind == "same" else found.verdict.sentence


def _together(single: Sequence[Found], against: str) -> str:
    """All in one sentence, by what became of them."""
    places = {found.place for found in single}
    usual = max(places, key=[found.place for found in single].count)
    said = []
    for kind, words in KINDS.items():
        of_kind = [_listed(found, usual) for found in single if found.verdict.kind == kind]
        said += [f"{words}: {', '.join(of_kind)}"] if of_kind else []
    return f"against {against} at {usual}, {'; '.join(said)}"


def _listed(found: Found, usual: str) -> str:
    times = f" {found.verdict.times} times" if found.verdict.times else ""
    times = f" ({found.verdict.times})" if found.verdict.kind == "noisy" else times
    elsewhere = f" (at {found.place})" if found.place != usual else ""
    return f"{found.line.name}{times}{elsewhere}"
