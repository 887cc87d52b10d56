"""Floating instructions against fractions, in every rounding mode."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from fjit.backend.ptx.types import TYPES
from tests.backend.emulator.exact import operands, rounded, same
from tests.backend.emulator.kernels import evaluate

MODES = ("rn", "rz", "rm", "rp")


def compute(op: str, name: str, arrays: list[np.ndarray], result: str = "") -> np.ndarray:
    result = result or name
    out = evaluate(op, result, *[(name, array) for array in arrays])
    return out.view(TYPES[result].seen)


def expected(
    exact: Callable[..., Fraction],
    plain: Callable[..., np.ndarray],
    arrays: list[np.ndarray],
    mode: str,
) -> np.ndarray:
    """Fractions where the exact result is finite and not zero, else what IEEE arithmetic gives."""
    with np.errstate(all="ignore"):
        result = plain(*arrays).astype(arrays[0].dtype)
    for k, row in enumerate(zip(*arrays, strict=True)):
        if not all(np.isfinite(v) for v in row):
            continue
        try:
            value = exact(*(Fraction(float(v)) for v in row))
        except ZeroDivisionError:
            continue
        if value:
            result[k] = rounded(value, arrays[0].dtype, mode)
    return result


def addition_signs(mode: str, arrays: list[np.ndarray], result: np.ndarray, negate: bool) -> None:
    """Set the sign of sums that are exactly zero: -0 when rounding down, unless both are +0."""
    a, b = arrays[0], -arrays[1] if negate else arrays[1]
    with np.errstate(all="ignore"):
        zero = (a + b == 0) & (a == -b)
    both = np.signbit(a) == np.signbit(b)
    result[zero & ~both] = -0.0 if mode == "rm" else 0.0


@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("mode", MODES)
def test_sums_and_products(name: str, mode: str) -> None:
    arrays = operands(TYPES[name].seen, 2)
    wanted = expected(lambda a, b: a + b, np.add, arrays, "rn" if mode == "rn" else mode)
    addition_signs(mode, arrays, wanted, negate=False)
    got = compute(f"add.{mode}.{name}", name, arrays)
    assert same(got, wanted).all()
    wanted = expected(lambda a, b: a - b, np.subtract, arrays, mode)
    addition_signs(mode, arrays, wanted, negate=True)
    assert same(compute(f"sub.{mode}.{name}", name, arrays), wanted).all()
    wanted = expected(lambda a, b: a * b, np.multiply, arrays, mode)
    assert same(compute(f"mul.{mode}.{name}", name, arrays), wanted).all()


@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("mode", MODES)
def test_quotients(name: str, mode: str) -> None:
    arrays = operands(TYPES[name].seen, 2)
    wanted = expected(lambda a, b: a / b, np.divide, arrays, mode)
    assert same(compute(f"div.{mode}.{name}", name, arrays), wanted).all()
    wanted = expected(lambda a: 1 / a, lambda a: 1 / a, arrays[:1], mode)
    assert same(compute(f"rcp.{mode}.{name}", name, arrays[:1]), wanted).all()


def hard_sums(dtype: np.dtype) -> list[np.ndarray]:
    """Operands of fma whose sum cancels, or lies at or near a tie."""
    rng = np.random.default_rng(8)
    a, b, c = operands(dtype, 3, 600, seed=9)
    with np.errstate(all="ignore"):
        near = (-(a * b)).astype(dtype)
        c = np.where(rng.random(600) < 0.3, near, c)
        step = np.spacing(np.where(np.isfinite(c), c, 1.0).astype(dtype))
        half = rng.random(600) < 0.2
        a = np.where(half, step, a)
        b = np.where(half, dtype.type(0.5) + np.finfo(dtype).eps * rng.integers(-1, 2, 600), b)
    return [v.astype(dtype) for v in (a, b, c)]


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
@pytest.mark.parametrize("mode", MODES)
def test_fma_is_exact(name: str, mode: str) -> None:
    if name == "f16" and mode != "rn":
        return
    arrays = hard_sums(TYPES[name].seen)
    got = compute(f"fma.{mode}.{name}", name, arrays)
    for k, (a, b, c) in enumerate(zip(*arrays, strict=True)):
        if not all(np.isfinite(v) for v in (a, b, c)):
            with np.errstate(all="ignore"):
                wide = np.float64(a) * np.float64(b) + np.float64(c)
            infinite = bool(np.isinf(wide)) and name != "f64"
            assert not infinite or got[k] == wide
            assert np.isnan(wide) == np.isnan(got[k]) or name == "f64"
            continue
        value = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        if value:
            wanted = rounded(value, a.dtype, mode)
            assert got[k].tobytes() == wanted.tobytes(), (a, b, c, got[k], wanted)
        else:
            negative = np.signbit(a) != np.signbit(b)
            both = negative == np.signbit(c)
            minus = negative if both else mode == "rm"
            assert got[k] == 0 and np.signbit(got[k]) == minus, (a, b, c)


@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("mode", MODES)
def test_roots(name: str, mode: str) -> None:
    dtype = TYPES[name].seen
    (a,) = operands(dtype, 1)
    got = compute(f"sqrt.{mode}.{name}", name, [a])
    for x, y in zip(a, got, strict=True):
        if np.isnan(x) or x < 0:
            assert np.isnan(y)
        elif x == 0 or np.isinf(x):
            assert y == x and np.signbit(y) == np.signbit(x)
        else:
            assert _is_root(Fraction(float(x)), y, mode), (x, y)


def _is_root(x: Fraction, y: np.floating, mode: str) -> bool:
    below, above = (np.nextafter(y, y.dtype.type(end)) for end in (-np.inf, np.inf))
    own, low, high = (Fraction(float(v)) for v in (y, below, above))
    if mode == "rn":
        return ((own + low) / 2) ** 2 <= x <= ((own + high) / 2) ** 2
    if mode == "rp":
        return low**2 < x <= own**2
    return own**2 <= x < high**2


def test_flush_and_saturation() -> None:
    arrays = operands(np.dtype("f4"), 2)
    a, b = arrays
    tiny = np.finfo("f4").tiny

    def flush(x: np.ndarray) -> np.ndarray:
        return np.where(np.abs(x) < tiny, np.copysign(np.float32(0), x), x)

    with np.errstate(all="ignore"):
        wanted = flush(flush(a) * flush(b))
        assert same(compute("mul.ftz.f32", "f32", arrays), wanted).all()
        total = a + b
        clamped = np.where(total > 0, np.minimum(total, np.float32(1)), np.float32(0))
    assert same(compute("add.sat.f32", "f32", arrays), clamped).all()


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_minimum_and_maximum(name: str) -> None:
    arrays = operands(TYPES[name].seen, 2)
    a, b = arrays
    for op, pick in (("min", np.fmin), ("max", np.fmax)):
        wanted = pick(a, b)
        zeros = (a == 0) & (b == 0)
        negative = (
            (np.signbit(a) | np.signbit(b)) if op == "min" else (np.signbit(a) & np.signbit(b))
        )
        wanted[zeros] = np.where(negative, -0.0, 0.0)[zeros].astype(a.dtype)
        assert same(compute(f"{op}.{name}", name, arrays), wanted).all()
        if name != "f64":
            wanted = np.where(np.isnan(a) | np.isnan(b), np.array(np.nan, a.dtype), wanted)
            assert same(compute(f"{op}.NaN.{name}", name, arrays), wanted).all()


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_signs_and_tests(name: str) -> None:
    arrays = operands(TYPES[name].seen, 2)
    a, b = arrays
    assert same(compute(f"neg.{name}", name, [a]), -a).all()
    assert same(compute(f"abs.{name}", name, [a]), np.abs(a)).all()
    assert same(compute(f"copysign.{name}", name, arrays), np.copysign(b, a)).all()
    tiny = np.finfo(a.dtype).tiny
    tests = {
        "finite": np.isfinite(a),
        "infinite": np.isinf(a),
        "number": ~np.isnan(a),
        "notanumber": np.isnan(a),
        "normal": np.isfinite(a) & (np.abs(a) >= tiny),
        "subnormal": (np.abs(a) < tiny) & (a != 0),
    }
    for test, wanted in tests.items():
        got = evaluate(f"testp.{test}.{name}", "pred", (name, a))
        assert np.array_equal(got, wanted), test


APPROXIMATE: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, float]] = {
    "ex2": (np.exp2, -120.0, 120.0),
    "lg2": (np.log2, 1e-30, 1e30),
    "sin": (np.sin, -3.0, 3.0),
    "cos": (np.cos, -3.0, 3.0),
    "tanh": (np.tanh, -5.0, 5.0),
    "rcp": (lambda x: 1 / x, 1e-30, 1e30),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-30, 1e30),
    "sqrt": (np.sqrt, 1e-30, 1e30),
}


@pytest.mark.parametrize("op", APPROXIMATE)
def test_approximations(op: str) -> None:
    function, low, high = APPROXIMATE[op]
    x = np.random.default_rng(2).uniform(low, high, 300).astype("f4")
    got = compute(f"{op}.approx.f32", "f32", [x]).astype("f8")
    wanted = function(x.astype("f8"))
    assert np.all(np.abs(got - wanted) <= 2.0**-22 * np.maximum(np.abs(wanted), 2.0**-3))


@pytest.mark.parametrize("op", ["rcp", "rsqrt"])
def test_coarse_doubles_keep_their_upper_half(op: str) -> None:
    x = np.random.default_rng(2).uniform(0.1, 10.0, 300)
    got = compute(f"{op}.approx.ftz.f64", "f64", [x])
    wanted = 1 / x if op == "rcp" else 1 / np.sqrt(x)
    assert np.all(got.view("u8") & np.uint64(0xFFFFFFFF) == 0)
    assert np.all(np.abs(got / wanted - 1) < 2.0**-18)


def test_halves_in_pairs() -> None:
    a, b, c = operands(np.dtype("f2"), 3)
    pairs = [v.view("u4") for v in (a, b, c)]
    with np.errstate(all="ignore"):
        results = {"add": a + b, "mul": a * b}
    for op, wanted in results.items():
        got = compute(f"{op}.f16x2", "f16x2", pairs[:2])
        assert same(got, wanted).all()
    single = compute("fma.rn.f16", "f16", [a, b, c])
    assert same(compute("fma.rn.f16x2", "f16x2", pairs), single).all()


def test_bfloat() -> None:
    rng = np.random.default_rng(4)
    a, b, c = (
        (rng.standard_normal(400) * 2.0 ** rng.integers(-9, 9, 400)).astype("f4") for _ in "abc"
    )
    bits = [(v.view("u4") >> 16).astype("u2") for v in (a, b, c)]
    values = [(v.astype("u4") << 16).view("f4") for v in bits]
    got = (
        evaluate("fma.rn.bf16", "bf16", *[("bf16", v) for v in bits]).view("u2").astype("u4") << 16
    ).view("f4")
    for x, y, z, w in zip(*values, got, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        step = Fraction(float(abs(np.spacing(w)))) * 2**16
        assert abs(Fraction(float(w)) - exact) * 2 <= step


@pytest.mark.parametrize("narrow", ["f16", "bf16"])
def test_sums_of_two_types(narrow: str) -> None:
    """The last operand and the result are float32; nothing is rounded in between."""
    a = np.array([3.0, -1.5, 0.25, 2.0], "f4")
    c = np.array([1.5, 1e-7, 3e8, -2.0], "f4")
    bits = a.astype("f2") if narrow == "f16" else (a.view("u4") >> 16).astype("u2")
    for op, want in (("add", a + c), ("sub", a - c), ("fma", a * a + c)):
        factors = [(narrow, bits)] * (2 if op == "fma" else 1)
        got = evaluate(f"{op}.rn.f32.{narrow}", "f32", *factors, ("f32", c)).view("f4")
        assert (got == want).all(), op
