"""fjit.special against scipy.special and mpmath: values, dtypes, limits, and inside fused code."""

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import fjit
import fjit.special as fs
from fjit.oracle.compare import distances, ulp

RNG = np.random.default_rng(7)
NORMAL = np.concatenate([RNG.standard_normal(300) * 3, np.linspace(-37.5, 37.5, 301) + 0.123])
UNIT = np.concatenate([RNG.random(300), np.logspace(-300, -1, 50), 1 - np.logspace(-15, -1, 50)])
POSITIVE = np.concatenate([RNG.random(100) * 3, np.logspace(-10, 10, 200)])


def phi(x: Any) -> Any:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def log_phi(x: Any) -> Any:
    return mpmath.log1p(-phi(-x)) if x > 0 else mpmath.log(phi(x))


EXACT: dict[str, tuple[Callable[[Any], Any], np.ndarray, float]] = {
    "erf": (mpmath.erf, NORMAL, 1.5),
    "erfc": (mpmath.erfc, NORMAL[NORMAL < 26], 1.5),
    "gammaln": (mpmath.loggamma, POSITIVE, 4),
    "digamma": (mpmath.digamma, POSITIVE, 4),
    "expit": (lambda x: 1 / (1 + mpmath.exp(-x)), NORMAL * 18, 4),
    "log_expit": (lambda x: -mpmath.log1p(mpmath.exp(-x)), NORMAL, 4),
    "logit": (lambda x: mpmath.log(x / (1 - x)), UNIT, 4),
    "ndtr": (phi, NORMAL, 4),
    "log_ndtr": (log_phi, np.concatenate([NORMAL, -POSITIVE[:200]]), 4),
    "entr": (lambda x: -x * mpmath.log(x), POSITIVE, 4),
    "silu": (lambda x: x / (1 + mpmath.exp(-x)), NORMAL * 2, 4),
    "softplus": (lambda x: mpmath.log1p(mpmath.exp(x)), NORMAL, 4),
}
UFUNCS = ("erf", "erfc", "gammaln", "digamma", "expit", "log_expit", "logit", "ndtr", "log_ndtr")


def reference(function: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    with mpmath.workdps(60):
        return np.array([float(function(mpmath.mpf(float(v)))) for v in x]).astype(x.dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", EXACT)
def test_within_the_stated_error(name: str, dtype: str) -> None:
    function, values, bound = EXACT[name]
    x = values.astype(dtype)
    if dtype == "f4":
        inside = np.abs(x) < 12 if name != "logit" else (x > 1e-30) & (x < 1)
        x = x[inside]
    far = distances(getattr(fs, name)(x), reference(function, x))
    assert far.max() <= bound, f"{name}({x[far.argmax()]!r}) is {far.max()} ulp off"


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_exact_gelu(dtype: str) -> None:
    x = NORMAL[np.abs(NORMAL) < 12].astype(dtype)
    assert ulp(fs.gelu(x, approximate=False), reference(lambda v: v * phi(v), x)) <= 4


def test_gelu_through_tanh() -> None:
    x = np.linspace(-4, 6, 301)
    want = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(fs.gelu(x), want, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("dtype", ["i4", "u1", "i8", "f4", "f8"])
@pytest.mark.parametrize("name", UFUNCS)
def test_dtypes_are_scipys(name: str, dtype: str) -> None:
    x = np.ones((2, 3), dtype)
    got, want = getattr(fs, name)(x), getattr(scipy.special, name)(x)
    assert got.dtype == want.dtype and got.shape == want.shape
    assert type(getattr(fs, name)(0.5)) is np.float64


@pytest.mark.parametrize(
    "name", ["softmax", "log_softmax", "logsumexp", "gelu", "silu", "softplus"]
)
def test_half_precision_stays(name: str) -> None:
    x = RNG.standard_normal((4, 5)).astype("f2")
    got = getattr(fs, name)(x)
    assert got.dtype == x.dtype
    assert ulp(got, getattr(fs, name)(x.astype("f8")).astype("f2")) <= 1


@pytest.mark.parametrize("name", UFUNCS)
def test_limits_are_scipys(name: str) -> None:
    x = np.array([0.0, -0.0, 1.0, 0.25, np.inf, -np.inf, np.nan, 1e308, -50.0, -2.0, 3.0])
    if name == "gammaln":
        x = x[x != -np.inf]  # inf here as in C and jax, -inf in scipy
    with np.errstate(all="ignore"):
        want = getattr(scipy.special, name)(x)
    got = getattr(fs, name)(x)
    np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-300)


def test_activations_at_the_limits() -> None:
    x = np.array([np.inf, -np.inf, np.nan, -0.0])
    for name, want in {
        "relu": [np.inf, 0, np.nan, 0],
        "silu": [np.inf, -0.0, np.nan, -0.0],
        "gelu": [np.inf, -0.0, np.nan, -0.0],
        "softplus": [np.inf, 0, np.nan, math.log(2)],
    }.items():
        np.testing.assert_array_equal(getattr(fs, name)(x), want, name)


def test_relu_keeps_integers() -> None:
    assert fs.relu(np.array([-3, 4])).dtype == np.int64


def test_xlogy_and_entr() -> None:
    x = np.array([0.0, 0.0, 0.0, 2.0, -1.0, np.nan, 3.0])
    y = np.array([0.0, np.nan, 5.0, 3.0, 2.0, 1.0, 0.0])
    np.testing.assert_allclose(fs.xlogy(x, y), scipy.special.xlogy(x, y), rtol=1e-15)
    assert fs.xlogy(np.ones(2, "f4"), 2.0).dtype == np.float32
    assert fs.xlogy(np.ones((2, 1)), np.ones(3)).shape == (2, 3)
    z = np.array([-1.0, 0.0, 0.5, np.inf, np.nan])
    np.testing.assert_allclose(fs.entr(z), scipy.special.entr(z), rtol=1e-15)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1)])
def test_along_axes(axis: Any) -> None:
    x = RNG.standard_normal((5, 7)) * 4
    for name in ("softmax", "log_softmax", "logsumexp"):
        got = getattr(fs, name)(x, axis=axis)
        want = getattr(scipy.special, name)(x, axis=axis)
        # scipy.special loses the digits of values near zero
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15, err_msg=name)
        assert type(got) is type(want)


@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp_with_factors_and_sign(keepdims: bool) -> None:
    x, b = RNG.standard_normal((2, 4, 6)) * 2
    for factors in (None, b, np.abs(b)):
        keywords: dict[str, Any] = {"axis": 1, "b": factors, "keepdims": keepdims}
        got = fs.logsumexp(x, return_sign=True, **keywords)
        want = scipy.special.logsumexp(x, return_sign=True, **keywords)
        for g, w in zip(got, want, strict=True):
            assert g.shape == w.shape
            np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-13)
    assert np.isnan(fs.logsumexp(np.zeros(2), b=np.array([1.0, -2.0])))


@pytest.mark.parametrize(
    "row", [[np.inf, 1.0], [-np.inf, -np.inf], [-np.inf, 2.0], [np.nan, 1.0], [1e3, 1e3], [0, -800]]
)
def test_logsumexp_of_extremes(row: list[float]) -> None:
    x = np.array(row)
    with np.errstate(all="ignore"):
        want = scipy.special.logsumexp(x)
    np.testing.assert_allclose(fs.logsumexp(x), want, rtol=1e-15)


def test_a_small_rest_beside_the_largest_is_kept() -> None:
    x = np.array([0.0, -40.0])
    assert fs.logsumexp(x) == math.exp(-40.0)
    assert fs.log_softmax(x)[0] == -math.exp(-40.0)


def test_inside_a_fused_function_they_join_its_kernel() -> None:
    def attention(x: Any) -> Any:
        return fs.softmax(fs.gelu(x) * 2, axis=1) + fs.erf(x)

    x = RNG.standard_normal((6, 9))
    fused = fjit.fuse(attention)
    want = fs.softmax(fs.gelu(x) * 2, axis=1) + fs.erf(x)
    np.testing.assert_allclose(fused(x), want, rtol=1e-15)
    assert len(fused.prepare(x).plan.kernels) == 1


def test_every_function_says_what_it_is() -> None:
    for name in fs.__all__:
        text = getattr(fs, name).__doc__
        assert "Args:" in text and "Returns:" in text and ">>> " in text, name
