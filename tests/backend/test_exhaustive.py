"""Functions of one float32 on every one of the 2**32 inputs, of one float16 on all 65,536.

Error, special values, signs of zero, and neighbours whose results are ordered the wrong way round.
The reference is float64 (references.NARROW), the unit that of the float32 nearest to the value. The
largest errors met are a table in docs/numerics.md.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.frontend import activations, special
from tests.backend import libm, references
from tests.backend.measure import Tally, narrow

CHUNK = 1 << 17  # stays in cache
BOUND = {name: 1.0 for name in (*references.ELEMENTARY, "erf", "erfc")}
OTHER_BOUND = 4.0
# Pairs of neighbours in the wrong order; compositions, not in the table, have more.
DISORDER = {**dict.fromkeys(BOUND, 0), "cosh": 4, "erf": 8526}
ONCE = 0.5 + 2.0**-8  # an error of 16 float32 units beside the rounding to float16

Array = np.ndarray[Any, Any]


def by_name(name: str) -> Callable[..., Any]:
    """NumPy's or fjit.special's function."""
    if name == "gelu":
        return lambda x: activations.gelu(x, approximate=False)
    if name in ("silu", "softplus"):
        return getattr(activations, name)  # type: ignore[no-any-return]
    if hasattr(np, name):
        return getattr(np, name)  # type: ignore[no-any-return]
    return getattr(special, name)  # type: ignore[no-any-return]


def all_inputs(name: str, **choices: Any) -> Tally:
    """The tally over all bit patterns; chunks overlap by one, for the sake of neighbours."""
    function = fjit.fuse(by_name(name), threads=1, **choices)
    total = Tally()
    for start in range(0, 1 << 32, CHUNK):
        stop = min(start + CHUNK + 1, 1 << 32)
        x = np.arange(start, stop, dtype=np.uint64).astype(np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            exact = x.astype(np.float64)
            want = references.NARROW[name](exact)
            least = references.scale(name, exact, np.float32)
            total = total.add(narrow(function(x), want, least))
    return total


@libm.missing
@pytest.mark.slow
@pytest.mark.parametrize("name", references.UNARY)
def test_every_float32(name: str, record_property: Callable[[str, object], None]) -> None:
    total = all_inputs(name)
    record_property("tally", str(total))
    assert total.error <= BOUND.get(name, OTHER_BOUND)
    assert total.special == total.zeros == 0
    if name in DISORDER:
        assert total.disorder <= DISORDER[name]


@pytest.mark.parametrize("name", [*references.ELEMENTARY, "silu", "softplus", "gelu"])
def test_every_float16_is_rounded_once(name: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    got = fjit.fuse(by_name(name))(x)
    assert got.dtype == np.float16
    with np.errstate(all="ignore"):
        check_half(got, references.NARROW[name](x.astype(np.float64)))


@pytest.mark.parametrize("name", references.BINARY)
def test_pairs_of_float16_are_rounded_once(name: str) -> None:
    bits = np.random.default_rng(1).integers(0, 1 << 16, 700, np.uint16)
    special = np.array([0, 1, 2, 0.5, 3, 1e-7, 65504, np.inf, np.nan], np.float16)
    some = np.concatenate([bits.view(np.float16), special, -special])
    some = np.where(np.isnan(some), np.float16(np.nan), some)  # glibc's hypot tells NaN apart
    x, y = (grid.ravel() for grid in np.meshgrid(some, some))
    with np.errstate(all="ignore"):
        want = references.NARROW[name](x.astype(np.float64), y.astype(np.float64))
        check_half(fjit.fuse(by_name(name))(x, y), want)


def check_half(got: Array, want: Array) -> None:
    """Within half a unit and a little of float64 values."""
    rounded = want.astype(np.float16)
    unit = np.spacing(np.minimum(np.abs(rounded), np.float16(65504))).astype(np.float64)
    near = np.isfinite(rounded) & np.isfinite(got)
    assert np.max(np.abs(got.astype(np.float64) - want)[near] / unit[near]) <= ONCE
    np.testing.assert_array_equal(got[~near], rounded[~near])
    zero = near & (rounded == 0) & (got == 0)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(rounded[zero]))


@libm.missing
@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in references.ELEMENTARY if n not in ("cbrt", "sqrt")])
def test_every_float32_of_the_approximate_form(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    total = all_inputs(name, fastmath={"approx"})
    record_property("tally", str(total))
    assert total.error <= OTHER_BOUND
    assert total.special == 0


def test_the_error_is_noticed() -> None:
    want = np.exp(np.linspace(1, 2, 1000))
    good = want.astype(np.float32)
    wrong = np.nextafter(np.nextafter(good, np.float32(9)), np.float32(9))
    assert narrow(good, want, 0.0)[0] <= 0.5 < 1.5 <= narrow(wrong, want, 0.0)[0]
    assert narrow(good, want, 0.0)[1:] == (0, 0, 0)
    wrong = good.copy()
    wrong[3], wrong[7] = np.nan, wrong[6] / 2
    assert narrow(wrong, want, 0.0)[1:] == (1, 0, 1)
    zeros = np.zeros(3, np.float32)
    assert narrow(zeros, np.array([0.0, -0.0, 1e-50]), 0.0)[2] == 1
