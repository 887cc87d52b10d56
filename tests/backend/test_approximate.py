"""The forms that `approx` licenses: 4 units in the last place, NumPy's special values, every width.

The inputs are those of the exact forms' tests; only the bound is another. A form that is not faster
has no place, which a slow test measures.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fjit.backend.emitter import Ty
from fjit.backend.math.table import APPROXIMATE
from fjit.optimize import relax
from tests.backend.test_math import (
    BINARY,
    FLOATS,
    LANES,
    SPECIAL,
    UNARY,
    WIDE,
    Array,
    Row,
    check,
    compile_function,
    exact_values,
    pairs,
    random_bits,
    samples,
    ulps,
)

BOUND = 4.0
ONE = [name for name in APPROXIMATE if name in UNARY]
TWO = [name for name in APPROXIMATE if name in BINARY]
TYPES = pytest.mark.parametrize(("element", "dtype"), FLOATS, ids=["f32", "f64"])


def compiled(name: str, ty: Ty) -> Callable[..., Array]:
    return compile_function(name, ty, 1 + (name in BINARY), APPROXIMATE)


def row_of(name: str) -> Row:
    return (UNARY | BINARY)[name]


def numpy_values(row: Row, dtype: Any, *arrays: Array) -> Array:
    assert row.numpy is not None
    with np.errstate(all="ignore"):
        return row.numpy(*[a.astype(WIDE[dtype]) for a in arrays])


@TYPES
@pytest.mark.parametrize("name", [name for name in ONE if row_of(name).numpy])
def test_unary_against_a_wider_type(name: str, element: Ty, dtype: type) -> None:
    row = row_of(name)
    x = samples(row, dtype, 200_000 if dtype is np.float32 else 60_000, 1)
    got = compiled(name, element.with_lanes(64 * 8 // element.bits))(x)
    check(ulps(got, numpy_values(row, dtype, x)), BOUND, x, got)


@TYPES
@pytest.mark.parametrize("name", ONE)
def test_unary_against_mpmath(name: str, element: Ty, dtype: type) -> None:
    row = row_of(name)
    x = np.random.default_rng(2).uniform(row.low, row.high, 300).astype(dtype)
    if name in ("sin", "cos", "tan"):
        multiples = (np.arange(1, 60) ** 5 * np.pi / 2).astype(dtype)
        hard = np.array([6381956970095103 * 2.0**797, 16367173 * 2.0**72, 1e22], np.float64)
        with np.errstate(over="ignore"):
            x = np.concatenate([x, multiples, hard.astype(dtype), random_bits(dtype, 100, 3)])
    x = x[np.isfinite(x)]
    got = compiled(name, element.with_lanes(8))(x)
    check(ulps(got, exact_values(row.exact, dtype, x)), BOUND, x, got)


@TYPES
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_near_multiples_of_half_pi(name: str, element: Ty, dtype: type) -> None:
    """Where the result is small beside the angle, up to the limit of the common path."""
    top = 1900 if dtype is np.float32 else 6.0e7
    turns = np.unique(np.rint(np.geomspace(1, top, 300)))
    near = (turns * np.pi / 2).astype(dtype)
    x = np.concatenate([near, np.nextafter(near, dtype(0)), -np.nextafter(near, dtype(np.inf))])
    got = compiled(name, element.with_lanes(8))(x)
    check(ulps(got, exact_values(row_of(name).exact, dtype, x)), BOUND, x, got)


@TYPES
@pytest.mark.parametrize("name", TWO)
def test_binary_against_a_wider_type(name: str, element: Ty, dtype: type) -> None:
    x, y = pairs(row_of(name), dtype, 40_000 if dtype is np.float32 else 15_000)
    got = compiled(name, element.with_lanes(8))(x, y)
    scale = None
    if "logadd" in name:
        larger = np.maximum(np.abs(x), np.abs(y))
        scale = np.where(np.isfinite(larger), larger, 0).astype(WIDE[dtype])
    check(ulps(got, numpy_values(row_of(name), dtype, x, y), scale), BOUND, x, y, got)


@TYPES
@pytest.mark.parametrize("name", ["atan2", "hypot"])
def test_sides_of_every_size(name: str, element: Ty, dtype: type) -> None:
    rng = np.random.default_rng(13)
    span = np.finfo(dtype).maxexp + np.finfo(dtype).nmant
    low = -np.finfo(dtype).maxexp - 20
    exponents = rng.integers(low, span + low, (2, 20_000))
    exponents[1, ::2] = exponents[0, ::2] + rng.integers(-60, 60, 10_000)
    signs = rng.choice([-1, 1], exponents.shape)
    with np.errstate(all="ignore"):
        y, x = (np.ldexp(rng.uniform(1, 2, exponents.shape), exponents) * signs).astype(dtype)
    got = compiled(name, element.with_lanes(8))(y, x)
    check(ulps(got, numpy_values(row_of(name), dtype, y, x)), BOUND, y, x, got)


@TYPES
@pytest.mark.parametrize("name", APPROXIMATE)
def test_special_values_are_the_exact_form_s(name: str, element: Ty, dtype: type) -> None:
    """Zeros with their signs, infinities, NaN, poles, ends of domains, overflow."""
    with np.errstate(over="ignore"):
        values = np.array([*SPECIAL, *(-v for v in SPECIAL), np.nan, 1.0000001, -1.0000001], dtype)
    args = [g.ravel() for g in np.meshgrid(*[values] * (1 + (name in BINARY)))]
    got = compiled(name, element.with_lanes(8))(*args)
    want = compile_function(name, element.with_lanes(8), len(args))(*args)
    special = ~np.isfinite(want) | (want == 0)
    np.testing.assert_array_equal(got[special], want[special])
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
    zeros = special & (want == 0) & (name not in ("logaddexp", "logaddexp2"))
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@TYPES
@pytest.mark.parametrize("name", APPROXIMATE)
def test_lanes_do_not_depend_on_their_neighbours(name: str, element: Ty, dtype: type) -> None:
    row = row_of(name)
    args = [samples(row, dtype, 4000, seed) for seed in range(1 + (name in BINARY))]
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        args = [a * (10.0 ** rng.integers(0, 4, a.size)).astype(dtype) for a in args]
    args = [rng.permutation(a) for a in args]
    results = [compiled(name, element.with_lanes(lanes))(*args) for lanes in LANES]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@pytest.mark.slow
@TYPES
@pytest.mark.parametrize("name", APPROXIMATE)
def test_every_form_is_faster(
    name: str, element: Ty, dtype: type, record_property: Callable[[str, object], None]
) -> None:
    """The best of many turns; the times met are the table in docs/numerics.md."""
    rng = np.random.default_rng(0)
    row, arity = row_of(name), 1 + (name in BINARY)
    args = [rng.uniform(max(row.low, -9), min(row.high, 9), 8192).astype(dtype)] * arity
    ty = element.with_lanes(4 * 512 // element.bits)
    exact, fast = compile_function(name, ty, arity), compiled(name, ty)
    turns = [(best_ns(exact, args), best_ns(fast, args)) for _ in range(20)]
    before, after = (min(times) for times in zip(*turns, strict=True))
    record_property("ns", f"{before:.3f} {after:.3f}")
    print(f"{name} {np.dtype(dtype)}: {before:.2f} -> {after:.2f} ns an element")
    assert after < before


def best_ns(function: Callable[..., Array], args: list[Array]) -> float:
    """Nanoseconds an element of the compiled loop alone."""
    out, size = np.empty_like(args[0]), args[0].size
    pointers = [a.ctypes.data for a in (*args, out)]
    taken = []
    for _ in range(20):
        start = time.perf_counter_ns()
        function.native(*pointers, size)  # type: ignore[attr-defined]
        taken.append(time.perf_counter_ns() - start)
    return min(taken) / size


def test_the_optimizer_and_the_back_end_know_the_same_forms() -> None:
    assert {primitive.name for primitive in relax.APPROXIMATE} == set(APPROXIMATE)
