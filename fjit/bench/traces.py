"""Programs whose tracing is timed: many small operations of several kinds, in plain NumPy.

Takes arrays `x` and `y` of one shape, gives an array. Invariant: as in `bandwidth`.

    shifted(x, y)    ==    40 times x - max of the rows, times y
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
ROUNDS = 40


def arithmetic(x: Array, y: Array) -> Any:
    for _ in range(ROUNDS):
        x = np.tanh(x * y + 1.0 - y)
    return x


def shifted(x: Array, y: Array) -> Any:
    for _ in range(ROUNDS):
        x = (x - x.max(axis=1, keepdims=True)) * y
    return x


def selections(x: Array, y: Array) -> Any:
    for _ in range(ROUNDS):
        x = np.clip(np.where(x > 0, x, y), -1, 1)
    return x


def views(x: Array, y: Array) -> Any:
    for _ in range(ROUNDS):
        x = (x.T[::-1] + y.T).T
    return x


def statistics(x: Array, y: Array) -> Any:
    for _ in range(ROUNDS):
        x = (x - x.mean(axis=0)) / x.std(axis=0) * y
    return x
