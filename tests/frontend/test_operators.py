"""Operators: Python numbers stay weak, `**` has NumPy's fast paths, comparisons are exact."""

import operator

import numpy as np
import pytest

from fjit.core.show import show

F4 = np.array([1.5, -2.25, 0.0, 3.0, np.inf], "f4")
BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "lt", "le", "gt", "ge", "eq", "ne"]
BITS = ["and_", "or_", "xor", "lshift", "rshift"]


@pytest.mark.parametrize("name", BINARY)
def test_python_numbers_follow_python(name, same_as_numpy):
    f = getattr(operator, name)
    for a, b in ((7, 2), (7.5, 2), (-7, 2.5), (3, 3), (True, 2), (-7.25, 2.5)):
        same_as_numpy(f, a, b)
        same_as_numpy(lambda s, b=b: f(s, b), a)
        same_as_numpy(lambda s, a=a: f(a, s), b)
        same_as_numpy(lambda x, s, t: x * f(s, t), F4, a, b)


@pytest.mark.parametrize("name", BITS)
def test_bits_of_python_ints(name, same_as_numpy):
    f = getattr(operator, name)
    for a, b in ((12, 3), (-5, 2), (True, False), (True, 2)):
        same_as_numpy(f, a, b)


def test_unary_and_power_of_python_numbers(same_as_numpy):
    same_as_numpy(lambda s: (-s, +s, abs(s), divmod(s, 2), s**2), -7)
    same_as_numpy(lambda s: (-s, +s, abs(s), divmod(s, 2), s**2, s**0.5, s**-1), 7.5)
    same_as_numpy(lambda s: (~s, s**-1, s**3, 2**s), 6)


def test_ufuncs_of_python_numbers_are_strong(same_as_numpy):
    same_as_numpy(lambda x, s: x * np.maximum(s, 2.0), F4, 3.0)
    same_as_numpy(lambda x, s: (np.sin(s) * x, np.add(s, 1), np.multiply(s, 1.5)), F4, 3)
    same_as_numpy(lambda x, s: (x * s, x + s, x // s), F4, 3)
    same_as_numpy(lambda x, s: x * s, np.arange(3, dtype="u1"), 3)


@pytest.mark.parametrize("dtype", ["i4", "u1", "f2", "f4", "f8"])
def test_power(dtype, same_as_numpy):
    x = np.array([1, 2, 3, 5, 10], dtype)
    for exponent in (2, 2.0, 0.5, 1, 0, 3, np.float32(2), np.int64(2), -1.0, np.array(2.0)):
        same_as_numpy(lambda a, e=exponent: a**e, x, ulp=1)
        same_as_numpy(lambda a, e=exponent: np.power(a, e), x, ulp=1)
        same_as_numpy(lambda a, e=exponent: np.power(a[0], e), x, ulp=1)
    same_as_numpy(lambda a: (a**-1, 2**a), x)
    same_as_numpy(lambda a, n: a**n, x, 3)


def test_fast_powers_are_not_pow(same_as_numpy):
    texts = [show(same_as_numpy(lambda a, e=e: a**e, F4).program) for e in (2, -1, 0.5, 2.0)]
    assert not any("pow" in text for text in texts)
    assert "pow" in show(same_as_numpy(lambda a: np.power(a, 0.5), F4, ulp=1).program)


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_comparisons_with_ints_of_any_size(name, same_as_numpy):
    f = getattr(operator, name)
    signed = np.array([-(2**63), -1, 0, 1, 2**63 - 1])
    unsigned = np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], "u8")
    same_as_numpy(f, signed, unsigned)
    same_as_numpy(f, unsigned, signed)
    for x in (signed, unsigned, np.array([0, 200, 255], "u1"), np.array([-128, 5], "i1"), F4):
        for value in (300, -300, 0, 5, 2**70, -(2**70), 2**63, 255):
            same_as_numpy(lambda a, v=value: f(a, v), x)
            same_as_numpy(lambda a, v=value: f(v, a), x)
            if abs(value) < 2**62:
                same_as_numpy(f, x, value)
                same_as_numpy(f, value, x)


def test_ints_out_of_range_are_refused(same_as_numpy):
    for value in (300, -1, 2**70):
        same_as_numpy(lambda a, v=value: a + v, np.arange(3, dtype="u1"))
    same_as_numpy(lambda a: a + 2**63, np.arange(3, dtype="u8"))
    same_as_numpy(lambda a: a * (2**53 + 1), F4)


def test_booleans(same_as_numpy):
    b = np.array([True, False, True])
    same_as_numpy(lambda a: (a & True, a | a, a ^ False, ~a, a + a, a * 2, a / 2, a**2), b)
    same_as_numpy(lambda a: -a, b)
    same_as_numpy(lambda a: a - a, b)
    same_as_numpy(lambda a: a & 1.5, b)
    same_as_numpy(lambda a: a << 1, F4)


def test_layout_of_results(same_as_numpy):
    x = np.arange(24.0).reshape(2, 3, 4)
    for a in (x, np.asfortranarray(x), x.transpose(1, 0, 2).copy().transpose(1, 0, 2), x[::-1]):
        for b in (x, np.asfortranarray(x), x[:1], x[..., :1], x[0, 0]):
            same_as_numpy(lambda a, b: (a + b, a * 2, -b, a < b), a, b)
