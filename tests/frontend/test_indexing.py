"""Reading by index agrees with NumPy: values, dtype, shape, memory order, and errors."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

X = np.arange(60, dtype=np.float64).reshape(3, 4, 5)
F = np.asfortranarray(X)
T = np.arange(60, dtype=np.int32).reshape(5, 3, 4).transpose(1, 2, 0)

BASIC: list[Any] = [
    0, -1, np.int32(1), slice(1, None), slice(None, None, -1), slice(5, 1), slice(-2, None, 2),
    slice(10, None, -3), None, ..., (0, 1, 2), (-1, -1, -1), (0, ..., 1), (..., 0), (None, 0, None),
    (slice(None), 1), (slice(None), slice(3, 0, -2), -1), (..., None), (0, 1, 2, ...), (),
    (0, 1, 2, None), (slice(0, 0), 0), (..., slice(None, None, 2)),
]  # fmt: skip


@pytest.mark.parametrize("index", BASIC, ids=repr)
@pytest.mark.parametrize("x", [X, F, T], ids=["C", "F", "T"])
def test_basic(same_as_numpy: Any, x: Any, index: Any) -> None:
    same_as_numpy(lambda a: a[index], x)
    same_as_numpy(lambda a: np.ravel(a[index], order="K"), x)


@pytest.mark.parametrize(
    "index", [3, -4, (0, 0, 0, 0), (..., ...), 1.5, "a", (0, 4), (slice(None), -5)]
)
def test_bad_basic(same_as_numpy: Any, index: Any) -> None:
    same_as_numpy(lambda a: a[index], X)


def test_an_error_names_the_line_and_the_extent() -> None:
    from .conftest import run_traced

    with pytest.raises(IndexError, match=r"index 7 is out of bounds for axis 1 with size 4.*test_"):
        run_traced(lambda a: a[:, 7], (X,))
