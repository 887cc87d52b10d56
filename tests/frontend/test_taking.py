"""take, put, compress, nonzero, place, triangles agree with NumPy."""

from typing import Any

import numpy as np
import pytest

from fjit.frontend.tracer import FUNCTIONS
from tests.frontend.conftest import run_traced

X = np.arange(24, dtype=np.float64).reshape(2, 3, 4) - 7
I = np.array([0, 2, 1, -1, 1])  # noqa: E741
J = np.array([[1, -2], [0, 3]], np.int16)
M = np.array([True, False, True])
Q = np.arange(9.0).reshape(3, 3)

Case = tuple[Any, ...]
CASES: dict[str, Case] = {
    "take": (lambda a, i: (np.take(a, i), np.take(a, i, axis=1), a.take(i, 2)), I[:3]),
    "take_2d": (lambda a, j: (np.take(a, j, axis=2), np.take(a, j)), J),
    "take_scalar": (lambda a, i: (np.take(a, i, axis=1), np.take(a, i), np.take(a, -1)), 2),
    "take_list": (lambda a: (np.take(a, [2, 0, 0], axis=1), np.take(a, [[0, 1], [5, 7]])),),
    "take_even": (lambda a: (np.take(a, [2, 1, 0], axis=1), np.take(a, [1], axis=0)),),
    "take_wrap": (lambda a, i: np.take(a, i, axis=1, mode="wrap"), np.array([-7, 3, 8])),
    "take_clip": (lambda a, i: np.take(a, i, axis=1, mode="clip"), np.array([-7, 3, 8])),
    "take_along": (lambda a, i: np.take_along_axis(a, i, 2), np.argsort(-X, axis=2)),
    "take_along_short": (lambda a, i: np.take_along_axis(a, i, 1), np.array([[[0]], [[-1]]])),
    "take_along_flat": (lambda a, i: np.take_along_axis(a, i, None), I),
    "argmax": (lambda a: np.take_along_axis(a, np.argmax(a, 1, keepdims=True), 1),),
    "compress": (lambda a, m: (np.compress(m, a, axis=1), a.compress(m, 2), np.compress(m, a)), M),
    "compress_list": (lambda a: (np.compress([0, 1, 1], a, axis=1), np.compress([1, 0, 1], a)),),
    "extract": (lambda a: (np.extract(a > 3, a), np.extract(a.astype("i4") % 3, a)),),
    "nonzero": (lambda a: (np.nonzero(a), a.nonzero(), np.nonzero(a > 100)),),
    "flatnonzero": (lambda a: np.flatnonzero(a > 3),),
    "argwhere": (lambda a: (np.argwhere(a > 3), np.argwhere(a[0, 0])),),
    "where": (lambda a: np.where(a > 2),),
    "triu": (lambda a: (np.triu(a), np.triu(a, 1), np.triu(a, -2), np.triu(a[0, 0])),),
    "tril": (lambda a: (np.tril(a), np.tril(a, 1), np.tril(a.T, -1), np.tril(a > 0)),),
    "ix": (lambda a, i: a[0][np.ix_(i, [1, 2])], np.array([2, 0])),
    "ix_mask": (lambda a, m: a[0][np.ix_(m, m[[0, 1, 2, 2]])].sum(), M & False),
}


@pytest.mark.parametrize("name", CASES)
def test_reading(same_as_numpy: Any, name: str) -> None:
    f, *more = CASES[name]
    for x in (X, np.asfortranarray(X)):
        same_as_numpy(f, x, *more)


def test_take_from_a_captured_table() -> None:
    """NumPy asks `indices` for no override, so only the stand-in for np.take gets here."""
    got, _ = run_traced(lambda i: FUNCTIONS[np.take](X[0, 0], i), (I,))
    np.testing.assert_array_equal(got, X[0, 0][I])


def _then(write: Any) -> Any:
    def f(a: Any, *rest: Any) -> Any:
        write(a, *rest)
        return a

    return f


WRITES: dict[str, Case] = {
    "put": (lambda a, i: np.put(a, i, 7), X, I),
    "put_values": (lambda a, i: np.put(a, i, [1.5, 2.5]), X, I[:4]),
    "put_method": (lambda a, i: a.put(i, a[0, 0]), X, I[:3]),
    "put_list": (lambda a: np.put(a, [0, -1], [5, 6, 7]), X),
    "put_clip": (lambda a, i: np.put(a, i, 3, mode="clip"), X, I * 100),
    "put_along": (lambda a, i: np.put_along_axis(a, i, 9, 2), X, np.argsort(-X, axis=2)[..., :1]),
    "put_along_values": (lambda a, i: np.put_along_axis(a, i, a * 2, 2), X, np.argsort(-X)),
    "place": (lambda a: np.place(a, a > 3, [1.5, 2.5, 3.5]), X),
    "place_one": (lambda a: np.place(a, a > 3, 9), X),
    "place_view": (lambda a: np.place(a[:, 1], a[:, 1] > 0, [1, 2]), X),
    "putmask": (lambda a: np.putmask(a, a > 3, a * 2), X),
    "putmask_few": (lambda a: np.putmask(a, a > 3, [1, 2, 3, 4, 5]), X),
    "putmask_one": (lambda a: np.putmask(a, a > 3, 7), X),
    "fill_diagonal": (lambda a: np.fill_diagonal(a, 5), Q),
    "fill_diagonal_wide": (lambda a: np.fill_diagonal(a, [1, 2]), X[0]),
    "fill_diagonal_3d": (lambda a: np.fill_diagonal(a, 5), np.zeros((3, 3, 3))),
}


@pytest.mark.parametrize("name", WRITES)
def test_writing(same_as_numpy: Any, name: str) -> None:
    write, x, *more = WRITES[name]
    same_as_numpy(_then(write), x, *more)
    same_as_numpy(_then(write), np.asfortranarray(x), *more)


BAD: dict[str, Case] = {
    "take": (lambda a: np.take(a, [24]),),
    "take_float": (np.take, np.array([0.5])),
    "take_mode": (lambda a: np.take(a, [0], mode="nonsense"),),
    "take_run_time": (lambda a, i: np.take(a, i, axis=0), I),
    "along": (lambda a, i: np.take_along_axis(a, i, 0), I),
    "compress": (lambda a: np.compress([0, 0, 0, 0, 1], a, axis=1),),
    "nonzero": (lambda a: np.nonzero(a.sum()),),
    "fill_diagonal": (lambda a: np.fill_diagonal(a[0, 0], 1),),
    "fill_uneven": (lambda a: np.fill_diagonal(a, 1),),
    "put": (lambda a: np.put(a, [99], 1),),
    "place": (lambda a: np.place(a, a[0] > 0, 1),),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_raise_as_in_numpy(same_as_numpy: Any, name: str) -> None:
    f, *more = BAD[name]
    same_as_numpy(f, X, *more)
