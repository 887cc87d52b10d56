"""Values that elementary functions give exactly, in every floating type: f(0), f(1), powers, roots.

Zeros are compared with their sign. Whole powers of two, ten and the like are tried over all of a
type's range.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.frontend import special

Array = np.ndarray[Any, Any]
INF, NAN = np.inf, np.nan
FLOATS = pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
WIDER = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def check(function: Callable[..., Any], arguments: list[Array], want: Array) -> None:
    """Exactly `want`, signs of zero too, whatever the place in a vector."""
    got = fjit.fuse(function)(*arguments)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[got == 0]))


# fmt: off
ODD = ("expm1", "log1p", "sin", "tan", "arcsin", "arctan", "sinh", "tanh", "arcsinh", "arctanh",
       "cbrt", "sqrt")
# name: {argument: value}
VALUES: dict[str, dict[float, float]] = {
    **{name: {0.0: 0.0} for name in ODD},
    "exp":     {0.0: 1, -INF: 0, INF: INF},
    "exp2":    {0.0: 1, -INF: 0, INF: INF},
    "log":     {1: 0, 0.0: -INF, INF: INF, -1: NAN},
    "log2":    {1: 0, 0.0: -INF, INF: INF, -1: NAN},
    "log10":   {1: 0, 0.0: -INF, INF: INF, -1: NAN},
    "cos":     {0.0: 1, INF: NAN},
    "arccos":  {1: 0, 2: NAN},
    "cosh":    {0.0: 1, -INF: INF, INF: INF},
    "arccosh": {1: 0, 0.5: NAN, INF: INF},
}
LIMITS: dict[str, dict[float, float]] = {
    "expm1":   {-INF: -1, INF: INF},
    "log1p":   {-1: -INF, INF: INF, -2: NAN},
    "tanh":    {-INF: -1, INF: 1},
    "arctanh": {-1: -INF, 1: INF, 2: NAN},
    "arcsinh": {-INF: -INF, INF: INF},
    "sinh":    {-INF: -INF, INF: INF},
    "sin":     {INF: NAN, -INF: NAN},
    "cbrt":    {-INF: -INF, INF: INF, -27: -3, 8: 2},
}
SPECIAL: dict[str, dict[float, float]] = {
    "erf":     {0.0: 0, INF: 1, -INF: -1},
    "erfc":    {0.0: 1, INF: 0, -INF: 2},
    "gammaln": {1: 0, 2: 0, 0.0: INF, -3: INF, INF: INF, -INF: INF, -1.5e38: INF},
    "expit":   {0.0: 0.5, -INF: 0, INF: 1},
    "logit":   {0.5: 0, 0.0: -INF, 1: INF},
    "ndtr":    {0.0: 0.5, -INF: 0, INF: 1},
    "entr":    {0.0: 0, 1: -0.0, -1: -INF},
    "log_expit": {INF: -0.0, -INF: -INF},
}
# fmt: on


@FLOATS
@pytest.mark.parametrize("name", VALUES)
def test_at_zero_and_one(name: str, dtype: type) -> None:
    table = VALUES[name] | LIMITS.get(name, {})
    x = np.array([*table, NAN], dtype)
    check(getattr(np, name), [x], np.array([*table.values(), NAN], dtype))


@FLOATS
@pytest.mark.parametrize("name", ODD)
def test_minus_zero_stays(name: str, dtype: type) -> None:
    x = np.array([-0.0, 0.0] * 20, dtype)
    check(getattr(np, name), [x], x)


@WIDER
@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions(name: str, dtype: type) -> None:
    function = getattr(special, name)
    x = np.array([*SPECIAL[name], NAN], dtype)
    check(function, [x], np.array([*SPECIAL[name].values(), NAN], dtype))


@FLOATS
def test_powers_of_two(dtype: type) -> None:
    info = np.finfo(dtype)
    k = np.arange(info.minexp - info.nmant, info.maxexp)
    powers = np.ldexp(dtype(1), k)
    check(np.exp2, [k.astype(dtype)], powers)
    check(np.log2, [powers], k.astype(dtype))
    check(lambda x: np.power(dtype(2), x), [k.astype(dtype)], powers)


@WIDER
def test_powers_of_ten(dtype: type) -> None:
    k = np.arange(23 if dtype is np.float64 else 11)
    powers = np.array([10.0**n for n in k.tolist()], dtype)
    check(np.log10, [powers], k.astype(dtype))
    check(lambda x: np.power(dtype(10), x), [k.astype(dtype)], powers)


@WIDER
def test_cubes_and_squares(dtype: type) -> None:
    digits = np.finfo(dtype).nmant + 1
    k = np.arange(-int(2 ** (digits / 3)), int(2 ** (digits / 3)) + 1).astype(dtype)
    check(np.cbrt, [k * k * k], k)
    n = np.arange(1 << (digits // 2)).astype(dtype)[:1_000_000]
    check(np.sqrt, [n * n], n)
    check(np.hypot, [3 * n, -4 * n], 5 * n)


@FLOATS
def test_powers_with_zero_and_one(dtype: type) -> None:
    x = np.array([0.0, -0.0, 1, -1, 0.3, -7, 1e4, INF, -INF, NAN], dtype)
    one = np.ones_like(x)
    for zero in (0.0, -0.0):
        check(lambda x, y: x**y, [x, np.full_like(x, zero)], one)
    check(lambda x, y: x**y, [one, x], one)
    check(lambda x, y: x**y, [x[:-1], one[:-1]], x[:-1])


@FLOATS
def test_hypot_and_arctan2_on_the_axes(dtype: type) -> None:
    x = np.array([0.0, 1, 0.3, 1e4, 6e-8, INF], dtype)
    zero, pi = np.zeros_like(x), dtype(np.pi)
    check(np.hypot, [x, zero], x)
    check(np.hypot, [-zero, -x], x)
    check(np.arctan2, [zero, x], zero)
    check(np.arctan2, [-zero, x], -zero)
    check(np.arctan2, [zero, -x], np.full_like(x, pi))
    check(np.arctan2, [-zero, -x], np.full_like(x, -pi))
    check(np.arctan2, [x[1:], zero[1:]], np.full_like(x[1:], np.pi / 2))
    check(np.arctan2, [x[1:], x[1:]], np.full_like(x[1:], np.pi / 4))
    check(np.arctan2, [-x[1:], -x[1:]], np.full_like(x[1:], -0.75 * np.pi))
