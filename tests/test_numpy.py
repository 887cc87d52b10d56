"""fjit.numpy: NumPy's own objects under NumPy's names, traced inside a fused function."""

from typing import Any

import numpy as np
import pytest

import fjit
import fjit.numpy as fnp
from fjit.frontend.tracer import FUNCTIONS, UFUNCS


def test_names_are_numpys_own() -> None:
    assert set(fnp.__all__) == set(dir(fnp)) <= set(np.__all__)
    for name in fnp.__all__:
        assert getattr(fnp, name) is getattr(np, name), name


def test_every_registered_function_is_there() -> None:
    registered = {id(function) for function in FUNCTIONS} | {id(getattr(np, u)) for u in UFUNCS}
    for name in np.__all__:
        if id(getattr(np, name)) in registered:
            assert name in fnp.__all__, name


def test_constants_and_dtypes() -> None:
    assert fnp.pi == np.pi and fnp.newaxis is None and np.isnan(fnp.nan) and fnp.inf == np.inf
    for name in ("bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64"):
        assert getattr(fnp, name) is getattr(np, name)
    assert not hasattr(fnp, "object_") and not hasattr(fnp, "datetime64")


def test_a_missing_name_says_what_to_do() -> None:
    with pytest.raises(AttributeError, match=r"numpy\.loadtxt.*call it outside"):
        fnp.loadtxt
    with pytest.raises(AttributeError, match=r"numpy\.median.*use s = np\.sort"):
        fnp.median
    with pytest.raises(AttributeError, match="neither has numpy"):
        fnp.no_such_function


def test_star_import() -> None:
    space: dict[str, Any] = {}
    exec("from fjit.numpy import *", space)
    assert space["tanh"] is np.tanh and "loadtxt" not in space


def test_outside_of_a_trace_it_is_numpy() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert type(fnp.sum(x)) is np.float64
    np.testing.assert_array_equal(
        fnp.concatenate([x, fnp.zeros((1, 3))]), np.vstack([x, x[:1] * 0])
    )


def with_namespace(x: Any) -> Any:
    out = fnp.zeros((x.shape[0], 2), dtype=fnp.float32)
    out[:, 0] = fnp.sum(x, axis=1)
    out[:, 1] = fnp.where(x[:, 0] > fnp.pi, fnp.inf, fnp.linalg.norm(x))
    return fnp.concat([out, fnp.ones_like(out)], axis=1)


def test_inside_of_a_trace_it_is_traced() -> None:
    x = np.arange(12.0).reshape(3, 4)
    got = fjit.fuse(with_namespace)(x)
    want = with_namespace(x)
    assert got.dtype == want.dtype == np.float32
    np.testing.assert_allclose(got, want, rtol=1e-7)
