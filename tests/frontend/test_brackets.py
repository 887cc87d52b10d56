"""np.r_ and np.c_ agree with NumPy; directives are refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.errors import UnsupportedError
from tests.frontend.conftest import assert_same

X = np.arange(3.0)
CASES: dict[str, Callable[[Any], Any]] = {
    "number, array": lambda x: np.r_[x[0], x],
    "numbers": lambda x: np.r_[x[0], 1, 2],
    "several arrays": lambda x: np.r_[x, x[::-1], [1, 2], np.arange(2)],
    "one": lambda x: np.r_[x],
    "a slice": lambda x: np.r_[0:3, x, 5:1:-2],
    "a complex step": lambda x: np.r_[0:1:3j, x],
    "rows of a matrix": lambda x: np.r_[x[:, None], x[:, None] * 2],
    "weak numbers": lambda x: np.r_[x.astype("f4"), 2.5],
    "an int for bytes": lambda x: np.r_[x.astype("i1"), 300],
    "plain": lambda x: np.r_[1, 2.5] + x[0],
    "columns": lambda x: np.c_[x, x * 2],
    "a column and numbers": lambda x: np.c_[1, x[0]],
    "a column and a slice": lambda x: np.c_[x, 0:3],
    "a matrix and a column": lambda x: np.c_[x[:, None] + x, x],
    "unequal columns": lambda x: np.c_[x, x[:2]],
    "a bool": lambda x: np.r_[x > 1, 2, True],
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
def test_as_numpy(name: str, dtype: str) -> None:
    f, x = CASES[name], X.astype(dtype)
    try:
        want = f(x)
    except (OverflowError, ValueError) as error:
        with pytest.raises((OverflowError, ValueError)) as caught:
            fjit.fuse(f)(x)
        assert isinstance(caught.value, type(error))
    else:
        assert_same(fjit.fuse(f)(x), want)


def test_directives_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"np\.column_stack"):
        fjit.fuse(lambda x: np.r_["0,2", x, x])(X)
