"""Filters of rows and columns: every way to use what a mask keeps, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fjit.testing import check

X = (np.arange(30) % 7 - 3.0).reshape(5, 6)
ROWS, COLUMNS, NONE = X[:, 0] > 0, X[0] > 0, X[:, 0] > 99

BY_ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "rows": lambda x, m: x[m],
    "transposed": lambda x, m: x[m].T,
    "row sums": lambda x, m: x[m].sum(1),
    "row means": lambda x, m: x[m].mean(1),
    "row maxima": lambda x, m: (x[m] * 2).max(1),
    "column sums": lambda x, m: x[m].sum(0),
    "centred": lambda x, m: x[m] - x[m].mean(0),
    "times row sums": lambda x, m: x[m] * x[m].sum(1)[:, None],
    "deviation": lambda x, m: x[m].std(),
    "norms": lambda x, m: np.linalg.norm(x[m], axis=1),
    "products": lambda x, m: x[m] @ x[m].T,
    "clipped": lambda x, m: np.where(x[m] > 0, x[m], 0).sum(1),
    "one column": lambda x, m: x[m][:, 2],
    "part": lambda x, m: x[m, 1:3],
    "beside all": lambda x, m: np.concatenate([x[m].sum(0), x.sum(0)]),
    "filtered again": lambda x, m: x[m][x[m] > 0],
    "by position": lambda x, m: x[np.nonzero(m)[0]],
}


@pytest.mark.parametrize("mask", [ROWS, NONE, ~NONE], ids=["some", "none", "all"])
@pytest.mark.parametrize("name", BY_ROWS)
def test_rows(name: str, mask: Any) -> None:
    if name in ("centred", "deviation", "row maxima") and not mask.any():
        pytest.skip("NumPy warns of means of nothing, and has no extremum of it")
    check(BY_ROWS[name], X, mask)


def test_the_first_of_the_rows() -> None:
    check(lambda x, m: x[m][0], X, ROWS)


@pytest.mark.parametrize("x", [X, np.asfortranarray(X), X[::-1]], ids=["C", "F", "reversed"])
def test_columns(x: Any) -> None:
    check(lambda x, m: x[:, m], x, COLUMNS)
    check(lambda x, m: (x[:, m] + 1, x[:, m].sum(0), x[:, m].sum(1)), x, COLUMNS)


def test_rows_then_columns() -> None:
    check(lambda x, m, n: x[m][:, n], X, ROWS, COLUMNS)


def test_elements() -> None:
    check(lambda x: (x[x > 0].reshape(-1, 1) * 2, np.stack([x[x > 0], x[x > 0] ** 2])), X)
    check(lambda x: np.nonzero(x > 0), X)


def test_positions() -> None:
    x = np.arange(6).reshape(2, 3) % 4
    for f in (np.argwhere, lambda x: np.stack(np.nonzero(x)).T, lambda x: np.argwhere(x).T):
        check(f, x)


TWICE: dict[str, Callable[[Any], Any]] = {
    "outer": lambda v: v[:, None] * v,
    "np.outer": lambda v: np.outer(v, v),
    "differences": lambda v: v[None] - v[:, None],
    "einsum": lambda v: np.einsum("i,j->ij", v, v),
    "sum of the outer": lambda v: (v[:, None] * v).sum(),
    "dot": lambda v: v @ v,
    "first": lambda v: v[0],
    "last": lambda v: v[-1],
    "at the largest": lambda v: v[np.argmax(v)],
    "taken": lambda v: np.take(v, [0, 2]),
    "one row": lambda v: v.reshape(1, -1),
    "stacked": lambda v: np.stack([v, v]),
    "member": lambda v: np.isin(v, [3, 4]),
}


@pytest.mark.parametrize("name", TWICE)
def test_a_run_time_extent_twice_or_by_position(name: str) -> None:
    check(lambda x: TWICE[name](x[x > 2]), np.arange(12.0))


@pytest.mark.parametrize(
    "shape", [(3, 2, 2), (5, 3, 16), (4, 3, 2, 5), (2, 1, 3), (3, 4, 1), (40, 33, 17)]
)
def test_masks_over_leading_axes_keep_all_behind_them(shape):
    x = np.arange(float(np.prod(shape))).reshape(shape)
    rows = np.arange(shape[0]) % 2 == 1
    check(lambda x, m: (x[m], x[m] * 2, x[m].sum(), x[m].sum(axis=0)), x, rows)
    check(lambda x, m: (x[m] + 1, x.sum(axis=0), x.sum(axis=1)), x, rows)
    check(lambda x: (x[x[:, 0].sum(axis=-1) > 3], x[x > 3]), x)
    pairs = x.reshape(*shape[:2], -1).sum(axis=2) % 3 > 0
    check(lambda x, m: (x[m], x[m].sum(axis=0)), x, pairs)
