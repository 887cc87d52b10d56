"""Programs whose time is that of moving their arrays, in plain NumPy.

Takes arrays `x` and `y` of one shape, gives what each name says. Invariant: nothing here knows of
fjit or of any peer; `np` is the only global, so that a peer may run the same source with a NumPy of
its own.

    row_and_column_sums(x)    ==    x.sum(axis=1), x.sum(axis=0)
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]  # float32 or float64: a case runs at both


def sum_columns(x: Array) -> Any:
    return x.sum(axis=0)


def sum_rows(x: Array) -> Any:
    return x.sum(axis=1)


def mean_and_variance(x: Array) -> Any:
    return x.mean(), x.var()


def extremes(x: Array) -> Any:
    return x.sum(), x.max(), x.min(), (x * x).sum()


def row_statistics(x: Array) -> Any:
    return x.sum(axis=1), x.max(axis=1), (x * x).sum(axis=1)


def row_and_column_sums(x: Array) -> Any:
    return x.sum(axis=1), x.sum(axis=0)


def normalise_columns(x: Array) -> Any:
    return (x - x.mean(axis=0)) / x.std(axis=0)


def logsumexp_rows(x: Array) -> Any:
    top = x.max(axis=1, keepdims=True)
    return np.log(np.exp(x - top).sum(axis=1)) + top[:, 0]


def cosine_similarity(x: Array, y: Array) -> Any:
    norms = np.sqrt((x * x).sum(axis=1)) * np.sqrt((y * y).sum(axis=1))
    return (x * y).sum(axis=1) / norms


def two_outputs(x: Array, y: Array) -> Any:
    return x * y + 1, x * y - 1


def adam(weight: Array, slope: Array, first: Array, second: Array) -> Any:
    first = 0.9 * first + 0.1 * slope
    second = 0.999 * second + 0.001 * slope * slope
    return weight - 0.001 * first / (np.sqrt(second) + 1e-8), first, second


def jacobi(x: Array) -> Any:
    return 0.2 * (x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])


def where_and_clip(x: Array, y: Array) -> Any:
    bounded = np.clip(x, -1.0, 1.0)
    return np.where(bounded > y, bounded * 2.0, np.clip(y, -0.5, 0.5) + bounded)


def cumulative_sum(x: Array, y: Array) -> Any:
    return np.cumsum(x * y, axis=1)


def largest_position(x: Array, y: Array) -> Any:
    return np.argmax(x * y, axis=1)


def deviation(x: Array) -> Any:
    return x.std()


def positive_sum(x: Array) -> Any:
    return x[x > 0].sum()


def positive_sum_where(x: Array) -> Any:
    """The same for peers whose shapes may not depend on values."""
    return np.where(x > 0, x, 0).sum()


def positive(x: Array) -> Any:
    return x[x > 0]


def transposed_sum(x: Array, y: Array) -> Any:
    return x.T + y


def concatenate_and_sum(x: Array, y: Array) -> Any:
    return np.concatenate((x, y), axis=0).sum(axis=0)


def box_blur(x: Array) -> Any:
    rows, columns = x.shape
    framed = np.pad(x, 1)
    total = framed[:rows, :columns]
    for down, right in ((0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)):
        total = total + framed[down : down + rows, right : right + columns]
    return total / 9
