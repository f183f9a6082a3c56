"""What a sweep found, one sentence a scorer: where its metric is smallest and largest."""

from itertools import pairwise
from operator import itemgetter

from attncli.show.numbers import short
from attncli.studies.study import Finding, Record, Result, by_label
from attncli.sweeps.columns import axes_of, companions, shown
from attncli.sweeps.summary import summary, summary_names


def findings_of(result: Result) -> list[Finding]:
    """A sentence for each label, such as `dot: entropy falls from 1.2 at scale = 0.5 to 0.3 at scale = 4.`

    There is none where nothing is swept but the seed.
    """
    metric, mean = result.settings["metric"], summary_names(result)["mean"]
    axes = [(key, *companions(result, key)) for key in axes_of(result)]
    if metric is None or not axes:
        return []

    def at(row: Record) -> str:
        places = (" with ".join(f"{key} = {shown(row[key])}" for key in together) for together in axes)
        return f"{short(row[mean])} at {', '.join(places)}"

    found = list[Finding]()
    for label, group in by_label(summary(result, [metric])).items():
        rows = [row for row in group if row[mean] is not None]
        if len(rows) < 2:
            continue
        low, high = min(rows, key=itemgetter(mean)), max(rows, key=itemgetter(mean))
        steps = [b[mean] - a[mean] for a, b in pairwise(rows)]
        if short(low[mean]) == short(high[mean]):
            text = f"is {short(low[mean])} everywhere"
        elif len(axes) == 1 and (min(steps) > 0 or max(steps) < 0):
            text = f"{'rises' if steps[0] > 0 else 'falls'} from {at(rows[0])} to {at(rows[-1])}"
        else:
            text = f"is lowest, {at(low)}, and highest, {at(high)}"
        found.append(Finding(f"{label}: {metric} {text}.", label, {"lowest": low[mean], "highest": high[mean]}))
    return found
