"""Options that are expressions in m, the number of keys, such as `log2(m^2-m)`."""

import ast
import math
import operator
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from attncli.errors import InputError, got

LONGEST = 100  # characters, so that nothing is nested too deeply
FUNCTIONS: dict[str, Callable[[float], float]] = {"log": math.log, "log2": math.log2, "sqrt": math.sqrt}
OPERATORS: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
    ast.USub: operator.neg,
}


def positive(text: str, m: int) -> float:
    """Return the value of an expression for m keys, or raise an InputError if it is not positive and finite."""
    try:
        value = _value(_parsed(text), float(m))
    except (ArithmeticError, ValueError):  # such as the logarithm of 0
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError.of(got(text, f"which is no positive number for m = {m}, the number of keys", "use another"))
    return value


def _checked(text: Any) -> Any:
    try:
        if not isinstance(text, str) or "m" not in text or len(text) > LONGEST:
            raise SyntaxError
        _value(_parsed(text), 100.0)
    except SyntaxError:
        expected = "Input should be an expression in m, such as log2(m^2-m)"
        raise PydanticCustomError("expression", expected) from None
    except (ArithmeticError, ValueError):
        pass  # for other m there may be a value
    return text


def _parsed(text: str) -> ast.expr:
    return ast.parse(text.strip().replace("^", "**"), mode="eval").body


def _value(node: ast.expr, m: float) -> float:
    """Return the value of a parsed expression; raise SyntaxError if it has anything but arithmetic with m."""
    match node:
        case ast.Constant(value=float() | int() as number) if not isinstance(number, bool):
            return float(number)
        case ast.Name(id="m"):
            return m
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(operand, m))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(left, m), _value(right, m))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](_value(argument, m))
    raise SyntaxError


Expression = Annotated[str, BeforeValidator(_checked)]
