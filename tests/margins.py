"""A plugin of pytest: how much of its bound the error of each comparison of a run takes.

`pytest --margins 0.25` prints the twenty places where an error takes most of its bound, and fails where one takes more
than a quarter: another processor, which adds in another order or with other instructions, has other errors. Counted
are comparisons with a tolerance, and assertions that a number is below a small float. Values that must be equal are
not counted, nor are bounds in `sampled(...)`.
"""

import ast
import functools
import math
import operator
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from numbers import Complex
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

SMALL = 0.01  # an upper bound below it is on an error; others are on counts, lengths, bytes and times
PRINTED = 20
# As documented for torch.testing.assert_close: relative and absolute.
TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}
TOLERANCES |= {"complex64": TOLERANCES["float32"], "complex128": TOLERANCES["float64"]}


class Sampled(float):
    """A bound on an error of sampling or of printed digits, which tests/margins.py does not count."""

    standard_error: float

    def __repr__(self) -> str:
        return f"sampled({float(self)!r}, {self.standard_error!r})"


def sampled(bound: float, standard_error: float) -> Sampled:
    """Return `bound` with the standard error of what it bounds.

    Since seeds are fixed such an error is as large on every processor, and may come closer to its bound than rounding.

    Raises:
        ValueError: The standard error is not positive, or above the bound.
    """
    if not 0 < standard_error <= bound:
        raise ValueError(f"standard error: got {standard_error}; it must be positive, and below the bound {bound}")
    result = Sampled(bound)
    result.standard_error = standard_error
    return result


def last_digit(unit: float) -> Sampled:
    """Return a bound on the error of a number that was rounded to a multiple of `unit`, for its last digit."""
    return sampled(0.6 * unit, unit / math.sqrt(12))


ARITHMETIC: dict[type, Callable[..., Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.Pow: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos},
}
NUMBERS: dict[str, Callable[..., float]] = dict.fromkeys(("tensor", "float16", "float32", "float64"), float)
NUMBERS["sampled"] = lambda bound, _: Sampled(bound)


def pytest_addoption(parser: pytest.Parser) -> None:
    text = f"print the {PRINTED} places where an error takes most of its bound; fail where one takes more than SHARE"
    parser.addoption("--margins", type=float, metavar="SHARE", help=text)


def pytest_configure(config: pytest.Config) -> None:
    share = config.getoption("margins")
    if share is None:
        return
    if not 0 < share <= 1:
        raise pytest.UsageError(f"--margins: got {share:g}; a share of a bound is above 0 and at most 1")
    config.pluginmanager.register(Margins(config, share), "margins")


@dataclass(frozen=True)
class Margin:
    """The error at one place that takes most of its bound."""

    place: str
    test: str
    error: float
    bound: float

    @property
    def share(self) -> float:
        return self.error / self.bound


class Margins:
    """The margins of a run, or of one of its workers."""

    def __init__(self, config: pytest.Config, limit: float) -> None:
        self.config = config
        self.limit = limit
        self.folders = [str(config.rootpath / folder) for folder in config.getini("testpaths") or ["."]]
        self.test = ""
        self.tightest: dict[str, Margin] = {}  # by place
        self.unread: set[str] = set()  # places of assertions with a small bound whose error pytest does not show
        self.patch = pytest.MonkeyPatch()
        watch(self, self.patch)
        # Otherwise pytest explains all assertions that hold, which takes a quarter of the time of a run.
        self.patch.setattr("_pytest.assertion.rewrite._check_if_assertion_pass_impl", is_explained)

    def record(self, place: str, error: float, bound: float) -> None:
        before = self.tightest.get(place)
        if before is None or error / bound > before.share:
            self.tightest[place] = Margin(place, self.test, float(error), float(bound))

    def caller(self, frame: FrameType | None, libraries: tuple[str, ...] = ()) -> str | None:
        """Return the place in the tests that called, also through `libraries`; None where other code did."""
        while frame and frame.f_globals.get("__name__", "").startswith(libraries or "\0"):
            frame = frame.f_back
        path = frame.f_code.co_filename if frame else ""
        # This file is seen where one run is inside another.
        if not self.test or not frame or path == __file__ or not any(map(path.startswith, self.folders)):
            return None
        return f"{Path(path).relative_to(self.config.rootpath)}:{frame.f_lineno}"

    def pytest_collection_finish(self) -> None:
        os.environ.pop("PYTEST_ADDOPTS", None)  # which this process has read; tests that run pytest have their own

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.test = nodeid

    def pytest_assertion_pass(self, item: pytest.Item, lineno: int, orig: str, expl: str) -> None:
        place = f"{item.path.relative_to(self.config.rootpath)}:{lineno}"
        source = ast.parse(orig, mode="eval").body
        read = [*small_bounds(source, parsed(expl))]
        for error, bound in read:
            if not isinstance(bound, Sampled):
                self.record(place, max(error, 0.0), bound)
        if not read and any(has_small_bound(node) for node in ast.walk(source)):
            self.unread.add(place)

    # A run on several processes

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.patch.undo()
        if output := getattr(self.config, "workeroutput", None):
            output["margins"] = [asdict(margin) for margin in self.tightest.values()]
            output["unread"] = [*self.unread]
        elif session.exitstatus == pytest.ExitCode.OK and any(self.faults()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        output = getattr(node, "workeroutput", {})
        for margin in (Margin(**fields) for fields in output.get("margins", [])):
            self.test = margin.test
            self.record(margin.place, margin.error, margin.bound)
        self.unread.update(output.get("unread", []))

    # What is reported

    def faults(self) -> Iterator[str]:
        """Yield a line for each reason why the run fails."""
        above = sum(margin.share > self.limit for margin in self.tightest.values())
        if above:
            yield f"margins: {above} place{'' if above == 1 else 's'} with an error above {self.limit:g} of its bound"
        if not self.tightest:
            yield "margins: no comparison was recorded; delete the folders __pycache__ of the tests, which may be older"
        if self.unread and self.limit < 1:
            yield "margins: pytest does not show the number below a small bound (compare a maximum in place of all): "
            yield from sorted(self.unread)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        tightest = sorted(self.tightest.values(), key=lambda margin: (-margin.share, margin.place))
        terminalreporter.section(f"margins: error / bound at {len(tightest)} places")
        for margin in tightest[:PRINTED]:
            terminalreporter.write_line(
                f"{margin.share:6.3f} {margin.error:9.2e} / {margin.bound:.2e}  {margin.place}  {margin.test}"
            )
        for fault in self.faults():
            terminalreporter.write_line(fault, red=True)


# Comparisons with a tolerance


def watch(margins: Margins, patch: pytest.MonkeyPatch) -> None:
    """Record the errors of comparisons that hold, of torch, numpy, math and pytest."""
    import numpy as np
    import torch

    def watched(owner: Any, name: str, defaults: dict[str, float | None]) -> None:
        compared = getattr(owner, name)

        @functools.wraps(compared)
        def wrapper(actual: Any, expected: Any, *positional: Any, **options_by_name: Any) -> Any:
            holds = compared(actual, expected, *positional, **options_by_name)
            place = margins.caller(sys._getframe(1))
            if place and holds in (None, True):
                options = {**defaults, **dict(zip(defaults, positional, strict=False)), **options_by_name}
                relative, absolute = (options[key] for key in defaults)
                for error, bound in errors(actual, expected, relative, absolute):
                    margins.record(place, error, bound)
            return holds

        patch.setattr(owner, name, wrapper)

    watched(torch.testing, "assert_close", {"rtol": None, "atol": None})
    for owner in (torch, torch.Tensor, np):
        watched(owner, "allclose", {"rtol": 1e-5, "atol": 1e-8})
    watched(np.testing, "assert_allclose", {"rtol": 1e-7, "atol": 0.0})
    watched(math, "isclose", {"rel_tol": 1e-9, "abs_tol": 0.0})

    approx = type(pytest.approx(0.0))  # which those of lists, dictionaries and arrays have for each number
    equal = approx.__eq__

    def equal_and_recorded(self: Any, actual: Any) -> bool:
        holds: bool = equal(self, actual)
        # Others are texts or arrays; NaN has no tolerance.
        if holds and all(isinstance(each, Complex) and math.isfinite(abs(each)) for each in (actual, self.expected)):
            place = margins.caller(sys._getframe(1), ("_pytest", __name__))
            is_sampled = any(isinstance(each, Sampled) for each in (self.rel, self.abs))
            if place and self.tolerance and not is_sampled:
                for error, bound in errors(actual, self.expected, 0.0, self.tolerance):
                    margins.record(place, error, bound)
        return holds

    patch.setattr(approx, "__eq__", equal_and_recorded)


def errors(actual: Any, expected: Any, relative: float | None, absolute: float | None) -> Iterator[tuple[float, float]]:
    """Yield the error of each tensor, array or number that takes most of its bound, and this bound."""
    import numpy as np
    import torch

    if isinstance(relative, Sampled) or isinstance(absolute, Sampled):
        return
    if isinstance(actual, Mapping):
        for key in actual:
            yield from errors(actual[key], expected[key], relative, absolute)
        return
    if isinstance(actual, list | tuple) and isinstance(expected, list | tuple):
        for one, other in zip(actual, expected, strict=True):
            yield from errors(one, other, relative, absolute)
        return
    if not all(isinstance(each, torch.Tensor | np.ndarray | Complex | list | tuple) for each in (actual, expected)):
        return  # None and texts are equal
    # A list is of float64 for numpy, of float32 for torch.
    sides = (actual, expected)
    pair = [side if isinstance(side, torch.Tensor) else torch.as_tensor(np.asarray(side)) for side in sides]
    dtypes = [str(each.dtype).removeprefix("torch.") for each in pair]
    if not any(dtype in TOLERANCES for dtype in dtypes):
        return  # integers and booleans are equal
    if relative is None or absolute is None:
        defaults = [TOLERANCES[dtype] for dtype in dtypes if dtype in TOLERANCES]
        relative, absolute = (max(tolerances) for tolerances in zip(*defaults, strict=True))
    wide = torch.complex128 if any("complex" in dtype for dtype in dtypes) else torch.float64
    one, other = (each.detach().cpu().to_dense().to(wide) for each in pair)
    error = (one - other).abs()
    bound = absolute + relative * other.abs()
    counted = error.isfinite() & (bound > 0)
    if counted.any():
        error, bound = error.expand(counted.shape)[counted], bound.expand(counted.shape)[counted]
        largest = int((error / bound).argmax())
        yield float(error[largest]), float(bound[largest])


# Assertions


def is_explained() -> bool:
    """Whether the assertion that calls has an upper bound, and pytest is to explain its numbers."""
    frame = sys._getframe(1)
    return frame.f_lineno in upper_bounds(frame.f_code.co_filename)


@functools.cache
def upper_bounds(path: str) -> frozenset[int]:
    """Return the lines of a file in assertions with `<` or `<=`."""
    asserted = [node for node in ast.walk(ast.parse(Path(path).read_bytes())) if isinstance(node, ast.Assert)]
    bounded = [node for node in asserted if any(isinstance(each, ast.Lt | ast.LtE) for each in ast.walk(node.test))]
    return frozenset(line for node in bounded for line in range(node.lineno, (node.end_lineno or node.lineno) + 1))


def parsed(explanation: str) -> ast.expr | None:
    """Return the first line of pytest's explanation, an assertion with numbers in place of names."""
    line = re.sub(r", (grad_fn=<\w+>|requires_grad=True|dtype=[\w.]+)", "", explanation.split("\n", 1)[0])
    try:
        return ast.parse(line, mode="eval").body
    except SyntaxError:
        return None


def number(node: ast.AST) -> float | None:
    """Return the value of an expression of numbers; None for others."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.UnaryOp():
            operands = [number(node.operand)]
        case ast.BinOp():
            operands = [number(node.left), number(node.right)]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in NUMBERS:
            arguments = [number(argument) for argument in node.args]
            return None if None in arguments or not arguments else NUMBERS[name](*arguments)
        case _:
            return None
    compute = ARITHMETIC.get(type(node.op))
    return None if compute is None or None in operands else compute(*operands)


def is_small(value: float | None) -> bool:
    return isinstance(value, float) and 0 < value < SMALL


def has_small_bound(node: ast.AST) -> bool:
    """Whether a comparison has a small number as its upper bound."""
    orders = zip(node.ops, node.comparators, strict=True) if isinstance(node, ast.Compare) else ()
    return any(isinstance(order, ast.Lt | ast.LtE) and is_small(number(bound)) for order, bound in orders)


def small_bounds(source: ast.AST, values: ast.AST | None) -> Iterator[tuple[float, float]]:
    """Yield what an assertion compares with small upper bounds, with them: `values` is `source` with numbers."""
    if isinstance(source, ast.BoolOp):  # of which pytest shows as much as was computed
        operands = values.values if isinstance(values, ast.BoolOp) else [values]
        for one, value in zip(source.values, operands, strict=False):
            yield from small_bounds(one, value)
    if not isinstance(source, ast.Compare) or not isinstance(values, ast.Compare):
        return
    # Of several comparisons in a row pytest shows the last. A number that is written on the left is a lower bound.
    left, right = [source.left, *source.comparators][-2:]
    error, bound = number(values.left), number(values.comparators[0])
    is_upper = isinstance(source.ops[-1], ast.Lt | ast.LtE) and (number(left) is None or number(right) is not None)
    if is_upper and error is not None and bound is not None and is_small(bound):
        yield error, bound
