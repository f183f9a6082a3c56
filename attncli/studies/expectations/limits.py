"""Which numbers an expectation accepts. Bounds are worked out in decimals, so that 0.8 is within 0.1 of 0.7."""

from collections.abc import Sequence
from decimal import Decimal

from attncli.config.expectations import Expectation, factor_of, share_of
from attncli.runs.verdicts import Limits

Amount = float | str | None


def hardest(expectation: Expectation, others: Sequence[float]) -> float:
    """The number that another must be above or below: of several rows the one that is hardest to pass."""
    if expectation.kind == "above":
        return max(others) if others else float(expectation.above)  # type: ignore[arg-type]
    return min(others) if others else float(expectation.below)  # type: ignore[arg-type]


def limits_of(expectation: Expectation, others: Sequence[float]) -> Limits | None:
    """The limits; None where a factor of a negative number is asked for, which says nothing."""
    match expectation.kind:
        case "between":
            low, high = expectation.between or (None, None)
            return Limits(low, high)
        case "about":
            return _around(expectation.about or 0.0, expectation.within)
        case "above":
            return _beyond(hardest(expectation, others), expectation.by, upwards=True)
        case _:
            return _beyond(hardest(expectation, others), expectation.by, upwards=False)


def _around(middle: float, within: Amount) -> Limits:
    share = share_of(within)
    margin = _exact(within or 0.0) if share is None else abs(_exact(middle)) * _exact(share)
    return Limits(float(_exact(middle) - margin), float(_exact(middle) + margin))


def _beyond(number: float, by: Amount, upwards: bool) -> Limits | None:
    """From a number on, up or down: by some amount at least, by a factor at least, or by anything that is not 0."""
    factor = factor_of(by)
    if factor is not None and number < 0:
        return None
    if factor is not None:
        bound = _exact(number) * _exact(factor) if upwards else _exact(number) / _exact(factor)
    else:
        bound = _exact(number) + _exact(by or 0.0) if upwards else _exact(number) - _exact(by or 0.0)
    strict = by is None or (factor is not None and number == 0)
    return Limits(float(bound), None, strict) if upwards else Limits(None, float(bound), strict)


def _exact(number: float | str) -> Decimal:
    """The number as people write it."""
    return Decimal(str(number))
