"""Elementary functions: within their bound of the true value, NumPy's special values, every width.

One table gives the bound of each function. Random bit patterns and the useful range are compared
with a wider NumPy type; hard cases with mpmath. Where a function crosses zero by cancellation
(gammaln and digamma of negative numbers, logaddexp), its unit is that of 1 or a larger term.
"""

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import mpmath
import numpy as np
import pytest

from fjit.backend.emitter import F32, F64, I64, PTR, Emitter, Ty, Val
from fjit.backend.math.table import APPROXIMATE, FINITE, MATH
from fjit.core.primitives import PRIMITIVES

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

LANES = (1, 4, 8, 16)
WIDE = {np.float32: np.float64, np.float64: np.longdouble}
Array = np.ndarray[Any, Any]


class Row(NamedTuple):
    """Bounds for float32 and float64, the useful range, the reference in NumPy and in mpmath."""

    bound32: float
    bound64: float
    low: float
    high: float
    numpy: Callable[..., Array] | None
    exact: Callable[..., Any]


def real(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *x: mpmath.re(f(*x))


def true_gammaln(x: Any) -> Any:
    return mpmath.log(abs(mpmath.gamma(x))) if abs(x) < 1e3 else mpmath.re(mpmath.loggamma(x))


# fmt: off
# name: bounds f32, f64; range; NumPy; mpmath
UNARY = {
    "exp":     Row(1.0, 1.0, -88, 88, np.exp, mpmath.exp),
    "exp2":    Row(1.0, 1.0, -126, 127, np.exp2, lambda x: mpmath.mpf(2) ** x),
    "expm1":   Row(1.0, 1.0, -20, 88, np.expm1, mpmath.expm1),
    "log":     Row(1.0, 1.0, 0, 10, np.log, mpmath.log),
    "log2":    Row(1.0, 1.0, 0, 10, np.log2, lambda x: mpmath.log(x, 2)),
    "log10":   Row(1.0, 1.0, 0, 10, np.log10, mpmath.log10),
    "log1p":   Row(0.9, 1.0, -1, 10, np.log1p, mpmath.log1p),
    "sin":     Row(1.0, 1.0, -100, 100, np.sin, mpmath.sin),
    "cos":     Row(1.0, 1.0, -100, 100, np.cos, mpmath.cos),
    "tan":     Row(1.0, 1.0, -100, 100, np.tan, mpmath.tan),
    "asin":    Row(1.0, 1.0, -1, 1, np.arcsin, mpmath.asin),
    "acos":    Row(1.0, 1.0, -1, 1, np.arccos, mpmath.acos),
    "atan":    Row(1.0, 1.0, -5, 5, np.arctan, mpmath.atan),
    "sinh":    Row(1.0, 1.0, -89, 89, np.sinh, mpmath.sinh),
    "cosh":    Row(1.0, 1.0, -89, 89, np.cosh, mpmath.cosh),
    "tanh":    Row(1.0, 1.0, -10, 10, np.tanh, mpmath.tanh),
    "asinh":   Row(0.9, 1.0, -100, 100, np.arcsinh, mpmath.asinh),
    "acosh":   Row(0.9, 1.0, 1, 100, np.arccosh, mpmath.acosh),
    "atanh":   Row(0.9, 1.0, -1, 1, np.arctanh, mpmath.atanh),
    "cbrt":    Row(1.0, 1.0, -100, 100, np.cbrt, lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x))),
    "erf":     Row(1.0, 1.5, -4, 4, None, mpmath.erf),
    "erfc":    Row(0.6, 1.5, -4, 26, None, mpmath.erfc),
    "gammaln": Row(4.0, 4.0, -20, 30, None, true_gammaln),
    "digamma": Row(4.0, 4.0, -20, 30, None, mpmath.digamma),
}
BINARY = {
    "atan2":      Row(1.0, 1.0, -9, 9, np.arctan2, mpmath.atan2),
    "hypot":      Row(1.0, 1.0, -9, 9, np.hypot, mpmath.hypot),
    "pow":        Row(1.0, 1.5, -9, 9, np.power, real(mpmath.power)),
    "logaddexp":  Row(1.0, 1.0, -9, 9, np.logaddexp, None),
    "logaddexp2": Row(1.0, 1.0, -9, 9, np.logaddexp2, None),
    "fmod":       Row(0.0, 0.0, -9, 9, np.fmod, None),
}
# fmt: on
SPECIAL = (0.0, 1.0, 2.0, 0.5, 3.0, 1.5, 7.0, 0.1, 5e-324, 1e-310, 1e-45, 1e-40, 1e-38, 1e-300)
SPECIAL += (2.0**24, 2.0**24 + 2, 2.0**53, 2.0**53 + 2, 1e22, 1e38, 3.4e38, 1e308, 1.7e308, np.inf)
SPECIAL += (3.141592653589793, 1.5707963267948966, 11.0, 22.0, 355.0, 710.4758600739439, 88.72)


def compile_function(
    name: str, ty: Ty, arity: int, table: dict[str, Callable[..., Val]] = MATH
) -> Callable[..., Array]:
    """Compile a loop over whole vectors; inputs are padded with one."""
    e = Emitter()
    e.br("loop")
    e.label("loop")
    step = e.fresh("next")
    i = e.phi(I64, (Val(I64, "0"), "0"), (Val(I64, step), "loop_end"))
    offset = e.mul(i, e.const(I64, ty.bits // 8))
    args = [e.load(ty, e.gep(Val(PTR, f"%p{k}"), offset)) for k in range(arity)]
    e.store(table[name](e, *args), e.gep(Val(PTR, "%out"), offset))
    e.br("loop_end")
    e.label("loop_end")
    e.stmt(f"{step} = add i64 {i.ref}, {ty.lanes}")
    e.cond_br(e.icmp("slt", Val(I64, step), Val(I64, "%n")), "loop", "done")
    e.label("done")
    e.ret()
    params = [(PTR, f"p{k}") for k in range(arity)] + [(PTR, "out"), (I64, "n")]
    module = llvm.parse_assembly(e.function("k", params, "nounwind"))
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=1
    )
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(1))
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    address = engine.get_function_address("k")
    native = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)(address)

    def run(*arrays: Array) -> Array:
        size = arrays[0].size
        padded = [np.append(a, np.ones(-size % ty.lanes, a.dtype)) for a in arrays]
        out = np.empty_like(padded[0])
        native(*[a.ctypes.data for a in padded], out.ctypes.data, out.size)
        return out[:size]

    run.engine = engine  # type: ignore[attr-defined]  # keeps the code alive
    run.native = native  # type: ignore[attr-defined]  # for timing
    return run


def random_bits(dtype: type, size: int, seed: int) -> Array:
    width = np.dtype(dtype).itemsize * 8
    words = np.random.default_rng(seed).integers(0, 2**width, size, np.uint64)
    return words.astype(f"u{width // 8}").view(dtype)


def samples(row: Row, dtype: type, size: int, seed: int) -> Array:
    """Half random bits, half the useful range, a third of that near zero, and special values."""
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        special = np.array(SPECIAL, dtype)
    useful = rng.uniform(row.low, row.high, size // 3)
    unit = rng.uniform(max(row.low, -1), min(row.high, 2), size // 6)
    close = (1 + np.arange(-50, 50) * np.finfo(dtype).eps / 2).astype(dtype)
    parts = [useful, unit, special, -special, [np.nan], close, np.arange(-20, 20)]
    return np.concatenate(
        [random_bits(dtype, size // 2, seed), *(np.asarray(p, dtype) for p in parts)]
    )


def ulps(got: Array, want: Array, scale: Array | None = None) -> Array:
    """Distance in units in the last place of `want` (or `scale`); inf if special values differ."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        size = np.abs(want) if scale is None else np.maximum(np.abs(want), scale)
        exponent = np.maximum(np.frexp(size)[1] - 1, info.minexp)
        unit = np.ldexp(want.dtype.type(1), exponent - info.nmant)
        distance = np.abs(got.astype(want.dtype) - want) / unit
        edge = np.isinf(got) | np.isinf(rounded)
        nearly = (np.abs(want) > info.max) & (np.abs(got) == info.max)
        distance = np.where(edge, np.where((got == rounded) | nearly, 0, np.inf), distance)
        distance = np.where(np.isnan(got) & np.isnan(want), 0, distance)
        distance = np.where(np.isnan(got) != np.isnan(want), np.inf, distance)
    flipped = (got == 0) & (rounded == 0) & (np.signbit(got) != np.signbit(rounded))
    return np.where(flipped, np.inf, distance)


def check(distance: Array, bound: float, *columns: Array) -> None:
    worst = int(np.argmax(distance))
    assert distance[worst] <= bound, (distance[worst], [c[worst] for c in columns])


def exact_values(f: Callable[..., Any], dtype: type, *arrays: Array) -> Array:
    """True values in the wider type, from enough digits for the largest arguments."""
    wide = WIDE[dtype]
    values = []
    for numbers in zip(*arrays, strict=True):
        with mpmath.workprec(1200):
            value = f(*[mpmath.mpf(float(v)) for v in numbers])
            head = float(value)
            values.append(wide(head) + wide(float(value - head)) if np.isfinite(head) else head)
    return np.array(values, wide)


FLOATS = [(F32, np.float32), (F64, np.float64)]


@pytest.mark.parametrize(("element", "dtype"), FLOATS, ids=["f32", "f64"])
@pytest.mark.parametrize("name", [n for n, row in UNARY.items() if row.numpy])
def test_unary_against_a_wider_type(name: str, element: Ty, dtype: type) -> None:
    row = UNARY[name]
    x = samples(row, dtype, 200_000 if dtype is np.float32 else 60_000, 1)
    got = compile_function(name, element.with_lanes(64 * 8 // element.bits), 1)(x)
    with np.errstate(all="ignore"):
        want = row.numpy(x.astype(WIDE[dtype]))
    check(ulps(got, want), row.bound32 if dtype is np.float32 else row.bound64, x, got, want)


@pytest.mark.parametrize(("element", "dtype"), FLOATS, ids=["f32", "f64"])
@pytest.mark.parametrize("name", UNARY)
def test_unary_against_mpmath(name: str, element: Ty, dtype: type) -> None:
    row = UNARY[name]
    x = np.random.default_rng(2).uniform(row.low, row.high, 200).astype(dtype)
    if name in ("sin", "cos", "tan"):
        multiples = (np.arange(1, 60) ** 5 * np.pi / 2).astype(dtype)
        hard = np.array([6381956970095103 * 2.0**797, 16367173 * 2.0**72, 1e22], np.float64)
        huge = random_bits(dtype, 100, 3)
        with np.errstate(over="ignore"):
            x = np.concatenate([x, multiples, hard.astype(dtype), huge])
    if name in ("gammaln", "digamma"):  # zeros at 1, 2 and 1.46, and where the methods meet
        x = np.concatenate([x, np.linspace(0.05, 9, 400).astype(dtype)])
    x = x[np.isfinite(x)]
    got = compile_function(name, element.with_lanes(8), 1)(x)
    want = exact_values(row.exact, dtype, x)
    scale = np.where(x < 0, 1, 0) if name in ("gammaln", "digamma") else None
    bound = row.bound32 if dtype is np.float32 else row.bound64
    check(ulps(got, want, scale), bound, x, got, want)


@pytest.mark.parametrize(("element", "dtype"), FLOATS, ids=["f32", "f64"])
def test_gammaln_near_its_negative_zeros_and_poles(element: Ty, dtype: type) -> None:
    rng = np.random.default_rng(12)
    whole = rng.integers(1, 18, 400)
    distance = 10.0 ** -rng.uniform(0, 14, 400)
    beside = whole + rng.choice([-1, 1], 400) / np.array([mpmath.fp.gamma(k + 1) for k in whole])
    x = -np.concatenate([whole + distance, whole - distance, beside]).astype(dtype)
    x = x[(x < 0) & (x != np.rint(x))]
    got = compile_function("gammaln", element.with_lanes(8), 1)(x)
    check(ulps(got, exact_values(true_gammaln, dtype, x), np.ones_like(x)), 1.5, x, got)


def pairs(row: Row, dtype: type, size: int) -> tuple[Array, Array]:
    """Random pairs, near pairs, whole exponents, and all pairs of special values."""
    rng = np.random.default_rng(4)
    a, b = samples(row, dtype, size, 5), samples(row, dtype, size, 6)
    near = rng.uniform(row.low, row.high, size).astype(dtype)
    close = (near * (1 + rng.normal(size=size) * 1e-3)).astype(dtype)
    with np.errstate(over="ignore"):
        special = np.array([*SPECIAL, *(-v for v in SPECIAL), np.nan], dtype)
    left, right = (grid.ravel() for grid in np.meshgrid(special, special))
    x = [a, near, np.abs(near), left]
    y = [b, close, np.rint(rng.uniform(-300, 300, size)).astype(dtype), right]
    return np.concatenate(x), np.concatenate(y)


@pytest.mark.parametrize(("element", "dtype"), FLOATS, ids=["f32", "f64"])
@pytest.mark.parametrize("name", BINARY)
def test_binary_against_a_wider_type(name: str, element: Ty, dtype: type) -> None:
    row = BINARY[name]
    x, y = pairs(row, dtype, 40_000 if dtype is np.float32 else 15_000)
    got = compile_function(name, element.with_lanes(8), 2)(x, y)
    wide = dtype if name == "fmod" else WIDE[dtype]
    with np.errstate(all="ignore"):
        want = row.numpy(x.astype(wide), y.astype(wide))
        scale = np.maximum(np.abs(x), np.abs(y)).astype(wide) if "logadd" in name else None
        scale = None if scale is None else np.where(np.isfinite(scale), scale, 0)
    check(ulps(got, want, scale), row.bound32 if dtype is np.float32 else row.bound64, x, y, got)


@pytest.mark.parametrize(("element", "dtype"), FLOATS, ids=["f32", "f64"])
@pytest.mark.parametrize("name", [n for n, row in BINARY.items() if row.exact])
def test_binary_against_mpmath(name: str, element: Ty, dtype: type) -> None:
    row = BINARY[name]
    rng = np.random.default_rng(7)
    x = np.exp(rng.uniform(-3, 3, 200)).astype(dtype)
    y = rng.uniform(-25, 25, 200).astype(dtype)
    got = compile_function(name, element.with_lanes(4), 2)(x, y)
    want = exact_values(row.exact, dtype, x, y)
    check(ulps(got, want), row.bound32 if dtype is np.float32 else row.bound64, x, y, got)


@pytest.mark.parametrize(("element", "dtype"), FLOATS, ids=["f32", "f64"])
def test_atan2_of_far_apart_and_subnormal_sides(element: Ty, dtype: type) -> None:
    rng = np.random.default_rng(13)
    span = np.finfo(dtype).maxexp + np.finfo(dtype).nmant
    tiny, sizes = -np.finfo(dtype).maxexp - 20, (2, 20_000)
    exponents = rng.integers(tiny, span + tiny, sizes)
    exponents[1, ::2] = exponents[0, ::2] + rng.integers(-60, 60, 10_000)
    with np.errstate(all="ignore"):
        y, x = (np.ldexp(rng.uniform(1, 2, sizes), exponents) * rng.choice([-1, 1], sizes)).astype(
            dtype
        )
        want = np.arctan2(y.astype(WIDE[dtype]), x.astype(WIDE[dtype]))
    got = compile_function("atan2", element.with_lanes(8), 2)(y, x)
    check(ulps(got, want), 1.0, y, x, got)


@pytest.mark.parametrize(("element", "dtype"), FLOATS, ids=["f32", "f64"])
def test_pow_with_results_of_every_size(element: Ty, dtype: type) -> None:
    rng = np.random.default_rng(8)
    near_one = 1 + rng.normal(size=40_000) * 2.0 ** -rng.integers(1, 50, 40_000)
    spread = [np.exp(rng.uniform(-700, 700, 40_000)), rng.uniform(0.7, 1.42, 40_000), near_one]
    with np.errstate(all="ignore"):
        x = np.abs(np.concatenate(spread)).astype(dtype)
        top = np.log(float(np.finfo(dtype).max)) * 1.06  # beyond overflow and into subnormals
        y = (rng.uniform(-top, top, x.size) / np.log(x.astype(WIDE[dtype]))).astype(dtype)
        want = np.power(x.astype(WIDE[dtype]), y.astype(WIDE[dtype]))
    got = compile_function("pow", element.with_lanes(8), 2)(x, y)
    check(ulps(got, want), 1.0 if dtype is np.float32 else 1.5, x, y, got)


@pytest.mark.parametrize(("element", "dtype"), FLOATS, ids=["f32", "f64"])
@pytest.mark.parametrize("name", MATH)
def test_lanes_do_not_depend_on_a_neighbour_on_the_cold_path(
    name: str, element: Ty, dtype: type
) -> None:
    row = (UNARY | BINARY)[name]
    rng = np.random.default_rng(9)
    with np.errstate(over="ignore"):
        odd = np.array([-2.5, np.nan, *SPECIAL, 1e4, 1e6, 1e9, 1e15], dtype)
    arity = 1 + (name in BINARY)
    args = [rng.uniform(row.low, row.high, (odd.size, 8, 8)).astype(dtype) for _ in range(arity)]
    function = compile_function(name, element.with_lanes(8), arity)
    alone = function(*[a.ravel() for a in args]).reshape(args[0].shape)
    lanes = np.arange(8)
    args[0][:, lanes, lanes] = odd[:, None]
    beside = function(*[a.ravel() for a in args]).reshape(args[0].shape)
    alone[:, lanes, lanes] = beside[:, lanes, lanes]
    np.testing.assert_array_equal(beside, alone)


@pytest.mark.parametrize(("element", "dtype"), FLOATS, ids=["f32", "f64"])
@pytest.mark.parametrize("name", MATH)
def test_every_width_gives_the_same_bits(name: str, element: Ty, dtype: type) -> None:
    """In an order that mixes the ranges in which a function goes different ways."""
    row = (UNARY | BINARY)[name]
    args = [samples(row, dtype, 4000, seed) for seed in range(1 + (name in BINARY))]
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        scaled = [a * (10.0 ** rng.integers(0, 4, a.size)).astype(dtype) for a in args]
    args = [rng.permutation(a) for a in scaled]
    results = [compile_function(name, element.with_lanes(k), len(args))(*args) for k in LANES]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize(("element", "dtype"), FLOATS, ids=["f32", "f64"])
@pytest.mark.parametrize(
    ("name", "x", "want"),
    [
        ("exp", [0.0, -0.0, -np.inf, np.inf], [1.0, 1.0, 0.0, np.inf]),
        ("exp2", [0.0, 3.0, -3.0, 10.0], [1.0, 8.0, 0.125, 1024.0]),
        ("log", [1.0, 0.0, -0.0, np.inf, -1.0], [0.0, -np.inf, -np.inf, np.inf, np.nan]),
        ("log2", [8.0, 0.25, 1024.0], [3.0, -2.0, 10.0]),
        ("log10", [1.0, 10.0, 1000.0, 1e10], [0.0, 1.0, 3.0, 10.0]),
        ("cbrt", [-27.0, 8.0, 1e9, 0.001953125], [-3.0, 2.0, 1000.0, 0.125]),
        ("erf", [0.0, np.inf, -np.inf, 10.0], [0.0, 1.0, -1.0, 1.0]),
        ("erfc", [0.0, np.inf, -np.inf, -10.0], [1.0, 0.0, 2.0, 2.0]),
        ("gammaln", [1.0, 2.0, 0.0, -1.0, -3.0, np.inf, -np.inf], [0, 0, *[np.inf] * 5]),
        ("digamma", [0.0, -0.0, -1.0, np.inf], [-np.inf, np.inf, np.nan, np.inf]),
    ],
)
def test_exact_cases(
    name: str, x: list[float], want: list[float], element: Ty, dtype: type
) -> None:
    got = compile_function(name, element.with_lanes(4), 1)(np.array([*x, np.nan], dtype))
    np.testing.assert_array_equal(got, np.array([*want, np.nan], dtype))


def test_every_function_is_that_of_a_primitive() -> None:
    assert set(MATH) <= set(PRIMITIVES) and {*APPROXIMATE, *FINITE} <= set(MATH)


@pytest.mark.parametrize("name", ["sin", "tan", "asin", "atan", "sinh", "tanh", "expm1", "erf"])
def test_odd_functions_keep_the_sign_of_zero(name: str) -> None:
    for element, dtype in FLOATS:
        got = compile_function(name, element.with_lanes(4), 1)(np.array([0.0, -0.0], dtype))
        assert got.tolist() == [0, 0]
        assert np.signbit(got).tolist() == [False, True]


def test_fmod_of_the_widest_quotient() -> None:
    x, y = np.array([1e308, -1.7e308, 1e308, 3e-323]), np.array([1e-300, 5e-324, 3e-320, 5e-324])
    got = compile_function("fmod", F64.with_lanes(4), 2)(x, y)
    np.testing.assert_array_equal(got, np.fmod(x, y))


def test_no_function_calls_a_library() -> None:
    for name in MATH:
        e = Emitter()
        MATH[name](e, *[Val(F64.with_lanes(8), f"%x{k}") for k in range(1 + (name in BINARY))])
        assert all(callee.startswith("llvm.") for callee in e.declares)


def test_the_tables_cover_each_other() -> None:
    assert set(MATH) == set(UNARY) | set(BINARY)
