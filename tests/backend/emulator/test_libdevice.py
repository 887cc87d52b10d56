"""libdevice's functions as libNVVM compiles them, within the errors that CUDA documents."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from fjit.backend import emulator
from tests.backend.emulator.nvvm import function_kernel

Reference = Callable[..., Any]
ARCHS = (75, 90, 100, 120)

UNARY: dict[str, tuple[Reference, float, float, float, float]] = {
    # reference, range of arguments, documented error in ulp of float32 and float64
    "exp": (mpmath.exp, -80.0, 80.0, 1, 1),
    "exp2": (lambda x: mpmath.mpf(2) ** x, -120.0, 120.0, 2, 1),
    "exp10": (lambda x: mpmath.mpf(10) ** x, -37.0, 37.0, 2, 1),
    "expm1": (mpmath.expm1, -20.0, 80.0, 1, 1),
    "log": (mpmath.log, 1e-30, 1e30, 1, 1),
    "log2": (lambda x: mpmath.log(x, 2), 1e-3, 1e3, 1, 1),
    "log10": (mpmath.log10, 1e-3, 1e3, 2, 1),
    "log1p": (mpmath.log1p, -0.9, 20.0, 1, 1),
    "sin": (mpmath.sin, -200.0, 200.0, 2, 2),
    "cos": (mpmath.cos, -200.0, 200.0, 2, 2),
    "tan": (mpmath.tan, -200.0, 200.0, 4, 2),
    "sinh": (mpmath.sinh, -80.0, 80.0, 3, 2),
    "cosh": (mpmath.cosh, -80.0, 80.0, 2, 1),
    "tanh": (mpmath.tanh, -10.0, 10.0, 2, 2),
    "asin": (mpmath.asin, -1.0, 1.0, 2, 2),
    "acos": (mpmath.acos, -1.0, 1.0, 2, 2),
    "atan": (mpmath.atan, -50.0, 50.0, 2, 2),
    "asinh": (mpmath.asinh, -50.0, 50.0, 3, 3),
    "acosh": (mpmath.acosh, 1.0, 50.0, 4, 3),
    "atanh": (mpmath.atanh, -0.99, 0.99, 3, 2),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), -100.0, 100.0, 1, 1),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), 1e-3, 1e3, 2, 1),
    "erf": (mpmath.erf, -4.0, 4.0, 2, 2),
    "erfc": (mpmath.erfc, -4.0, 8.0, 4, 5),
    "lgamma": (mpmath.loggamma, 0.1, 50.0, 6, 4),
    "tgamma": (mpmath.gamma, 0.1, 30.0, 5, 10),
}
BINARY: dict[str, tuple[Reference, float, float]] = {
    "pow": (lambda x, y: x**y, 4, 2),
    "atan2": (mpmath.atan2, 3, 2),
    "hypot": (mpmath.hypot, 3, 2),
    "fmod": (mpmath.fmod, 0, 0),
}
PRECISIONS = (("f", "float", np.float32), ("", "double", np.float64))


def apply(name: str, ty: str, arrays: list[np.ndarray], arch: int) -> np.ndarray:
    out = np.empty_like(arrays[0])
    ptx = function_kernel(name, ty, len(arrays), arch)
    emulator.launch(ptx, "k", -(-len(out) // 64), 64, [*arrays, out])
    return out


def error(got: np.floating, exact: Any) -> float:
    """In units in the last place of the exact value."""
    unit = float(np.spacing(np.abs(got.dtype.type(float(exact)))))
    return float(abs(mpmath.mpf(float(got)) - exact) / unit)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_argument(name: str, arch: int) -> None:
    reference, low, high, *bounds = UNARY[name]
    rng = np.random.default_rng(len(name))
    for (suffix, ty, dtype), bound in zip(PRECISIONS, bounds, strict=True):
        count = 128
        x = rng.uniform(low, high, count)
        x[::2] = np.sign(x[::2]) * np.exp(rng.uniform(-7, np.log(max(high, 1.01)), count // 2))
        x = np.clip(x, low, high).astype(dtype)
        got = apply(f"__nv_{name}{suffix}", ty, [x], arch)
        with mpmath.workprec(160):
            errors = [
                error(y, reference(mpmath.mpf(float(v)))) for v, y in zip(x, got, strict=True)
            ]
        assert max(errors) <= bound + 0.5, (suffix, max(errors), x[int(np.argmax(errors))])


@pytest.mark.parametrize("arch", (75, 100))
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arguments(name: str, arch: int) -> None:
    reference, *bounds = BINARY[name]
    rng = np.random.default_rng(len(name))
    for (suffix, ty, dtype), bound in zip(PRECISIONS, bounds, strict=True):
        x, y = (np.exp(rng.uniform(-3, 3, 128)).astype(dtype) for _ in "xy")
        got = apply(f"__nv_{name}{suffix}", ty, [x, y], arch)
        with mpmath.workprec(160):
            errors = [
                error(z, reference(mpmath.mpf(float(v)), mpmath.mpf(float(w))))
                for v, w, z in zip(x, y, got, strict=True)
            ]
        assert max(errors) <= bound + 0.5, (suffix, max(errors))


SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, 0.5, -2.5]


@pytest.mark.parametrize("arch", (75, 100))
@pytest.mark.parametrize(
    ("name", "function"),
    [
        *[("exp", np.exp), ("log", np.log), ("sin", np.sin), ("cos", np.cos), ("tanh", np.tanh)],
        *[("sinh", np.sinh), ("asin", np.arcsin), ("atanh", np.arctanh), ("log1p", np.log1p)],
        *[("cbrt", np.cbrt), ("expm1", np.expm1), ("sqrt", np.sqrt), ("floor", np.floor)],
        *[("rint", np.rint), ("trunc", np.trunc), ("ceil", np.ceil)],
    ],
)
def test_special_values(name: str, function: np.ufunc, arch: int) -> None:
    for suffix, ty, dtype in PRECISIONS:
        x = np.array(SPECIAL, dtype)
        got = apply(f"__nv_{name}{suffix}", ty, [np.resize(x, 64)], arch)[: len(x)]
        with np.errstate(all="ignore"):
            wanted = function(x)
        close = np.isclose(got, wanted, rtol=4 * np.finfo(dtype).eps, atol=0, equal_nan=True)
        signs = (np.signbit(got) == np.signbit(wanted)) | np.isnan(wanted)
        assert (close & signs).all(), (suffix, x[~(close & signs)], got[~close], wanted[~close])


@pytest.mark.parametrize("arch", (75, 100))
def test_large_arguments_take_the_slow_way(arch: int) -> None:
    """The reduction of large angles calls a function with memory of its own."""
    for suffix, ty, dtype in PRECISIONS:
        x = np.array([1e5, 1e8, 1e22, 3e38 if suffix else 1e300, -7e6, 123456.789] * 11, dtype)[:64]
        got = apply(f"__nv_sin{suffix}", ty, [x], arch)
        with mpmath.workprec(1300):
            errors = [
                error(y, mpmath.sin(mpmath.mpf(float(v)))) for v, y in zip(x, got, strict=True)
            ]
        assert max(errors) <= 2
