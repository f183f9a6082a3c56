"""Expressions in the number of keys: their values, and texts that are refused."""

import math

import pytest
from pydantic import TypeAdapter, ValidationError

from attncli.errors import InputError
from attncli.scorers._expression import Expression, positive

M = 12
VALUES = {
    "m": M,
    "log2(m^2-m)": math.log2(M**2 - M),
    "1/sqrt(m)": M**-0.5,
    "2^m^0.5": 2 ** (M**0.5),  # from the right
    "-m+20": 8,
    "2*m - 3*m/4 + 1": 16,
    "1e3*m": 12000,
}


@pytest.mark.parametrize("text", VALUES)
def test_values(text: str) -> None:
    assert TypeAdapter(Expression).validate_python(text) == text
    assert positive(text, M) == pytest.approx(VALUES[text], rel=1e-12)


@pytest.mark.parametrize(
    "text", ["log2(m^2-m)", "m-1", "1-m", "1/(m-1)", "9^9^9^9*m", "(0-m)^0.5", "log(m-1)", "1e400*m"]
)
def test_no_positive_number(text: str) -> None:
    assert TypeAdapter(Expression).validate_python(text) == text
    with pytest.raises(InputError) as error:
        positive(text, 1)
    assert str(error.value) == f'got "{text}"; which is no positive number for m = 1, the number of keys; use another'


WRONG = [
    *("", "2", "n", "log(n)*m", "m m", "m;1", "m,", "m=2", "m\n+1", "m\0", "'m'", "True*m", "1j*m", "m if m else 1"),
    *("m.real", "m[0]", "m(1)", "(lambda: m)()", "[m]", "m<2", "m%2", "m//2", "~m", "not m", "m and 1", "m@m", "m:=2"),
    *("log(m, 2)", "log()+m", "log(x=m)", "log(*m)", "exp(m)", "max(m, 2)", "math.log(m)", "__import__('os').m"),
    *("+" + "m+" * 60 + "1", "(" * 90 + "m" + ")" * 90),
]


@pytest.mark.parametrize("text", WRONG)
def test_refused(text: str) -> None:
    with pytest.raises(ValidationError, match=r"an expression in m, such as log2\(m\^2-m\)"):
        TypeAdapter(Expression).validate_python(text)
