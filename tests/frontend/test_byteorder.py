"""Byte order of results: what is copied or asked for keeps it, what is computed is native."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit

X = np.arange(6.0).reshape(2, 3)
Function = Callable[[Any], Any]
ASKED: dict[str, Function] = {
    "astype": lambda x: x.astype(">f4"),
    "astype of the same": lambda x: x.astype(">f8"),
    "astype without a copy": lambda x: x.astype(">f8", copy=False),
    "astype to native": lambda x: x.astype("f8", copy=False),
    "np.astype": lambda x: np.astype(x, np.dtype(">i2")),
    "astype of bytes": lambda x: x.astype(">i1"),
    "astype of a scalar": lambda x: x[0, 0].astype(">f4"),
    "array": lambda x: np.array(x, ">f4"),
    "array of a list": lambda x: np.array([x[0], x[1]], dtype=">f4"),
    "asarray": lambda x: np.asarray(x, ">f8"),
    "asarray to native": lambda x: np.asarray(x, float),
    "ascontiguousarray": lambda x: np.ascontiguousarray(x.T, ">f4"),
    "asfortranarray": lambda x: np.asfortranarray(x, ">f4"),
    "zeros": lambda x: np.zeros(3, ">f8"),
    "ones": lambda x: np.ones(3, dtype=">i4"),
    "full": lambda x: np.full((2, 2), x[0, 1], ">i4"),
    "zeros_like": lambda x: np.zeros_like(x, dtype=">f4"),
    "full_like": lambda x: np.full_like(x, 1, dtype=">f4"),
    "like without dtype": lambda x: np.full_like(x, 1),
    "arange": lambda x: np.arange(3, dtype=">f4"),
    "linspace": lambda x: np.linspace(0, x[1, 1], 3, dtype=">f4"),
    "linspace with its step": lambda x: np.linspace(0, 1, 3, retstep=True, dtype=">f4")[0],
    "eye": lambda x: np.eye(3, dtype=">f4"),
    "identity": lambda x: np.identity(3, ">f4"),
    "tri": lambda x: np.tri(3, dtype=">f4"),
    "indices": lambda x: np.indices((2, 2), ">i4"),
    "indices by axis": lambda x: np.indices((2, 2), ">i4", sparse=True)[1],
    "fromfunction": lambda x: np.fromfunction(lambda i: i, (3,), dtype=">f4"),
    "concatenate": lambda x: np.concatenate([x, x], dtype=">f4"),
    "stack": lambda x: np.stack([x, x], dtype=">f4"),
    "vstack": lambda x: np.vstack([x, x], dtype=">f4"),
    "hstack": lambda x: np.hstack([x, x], dtype=">f4"),
    "a view": lambda x: x.astype(">f4").T[::2],
    "a sum": lambda x: x.astype(">f4") + 1,
    "a copy": lambda x: x.astype(">f4").copy(),
    "a join": lambda x: np.concatenate([x.astype(">f4"), x.astype(">f4")]),
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("given", ["<f8", ">f8"])
def test_results_have_the_byte_order_asked_for(name: str, given: str) -> None:
    x = X.astype(given)
    want, got = ASKED[name](x), fjit.fuse(ASKED[name])(x)
    assert (got.dtype, got.dtype.byteorder) == (want.dtype, want.dtype.byteorder)
    np.testing.assert_array_equal(got, want)
    assert np.shares_memory(got, x) == np.shares_memory(want, x)


def test_an_array_made_inside_keeps_its_byte_order_when_another_is_asked_for() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(3)
        z = np.asarray(y, ">f8")
        z[0] = x[0, 1]
        return y, z

    for got, want in zip(fjit.fuse(f)(X), f(X), strict=True):
        assert got.dtype.byteorder == want.dtype.byteorder
        np.testing.assert_array_equal(got, want)
