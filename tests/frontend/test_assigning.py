"""Writing by index changes what it changes in NumPy, through views and into arguments."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.frontend.conftest import run_traced
from tests.frontend.test_indexing import SHAPES, indices, traceable

X = np.arange(60, dtype=np.float64).reshape(3, 4, 5)
F = np.asfortranarray(X)
S = np.arange(480, dtype=np.float64).reshape(6, 8, 10)[::2, ::-2, 1::2]
I = np.array([0, 2, 1, -1])  # noqa: E741
M3, M4 = np.array([True, False, True]), np.array([False, True, True, True])
V4, V5 = np.array([1.5, 2.5, -3.5, 9.0]), np.arange(5) * -1.0

Case = tuple[Any, ...]


def put(index: Any, value: Any) -> Any:
    def f(a: Any, *rest: Any) -> Any:
        a[index] = value
        return a

    return f


BASIC: dict[str, Case] = {
    "int": (0, 7), "negative": (-1, 7.5), "full_int": ((1, 2, 3), 4), "slice": (slice(1, None), 0),
    "reverse": (slice(None, None, -1), X), "strided": ((..., slice(None, None, 2)), [1, 2, 3]),
    "ellipsis": (..., 1), "empty": (slice(0, 0), 5), "new": ((None, 0), X[0]), "row": ((1, 2), V5),
    "column": ((slice(None), slice(None), 0), V4), "leading_ones": (0, X[:1, None, 0]),
    "broadcast": ((slice(None), 1), V5), "tuple": ((), 3), "bool": (0, True),
    "list": ((0, 0), [1] * 5),
    "nan": (1, np.nan), "ones": ((slice(None), slice(0, 1)), X[:, :1]),
}  # fmt: skip


@pytest.mark.parametrize("x", [X, F, S], ids=["C", "F", "S"])
@pytest.mark.parametrize("name", BASIC)
def test_basic(same_as_numpy: Any, name: str, x: Any) -> None:
    same_as_numpy(put(*BASIC[name]), x)


BAD: dict[str, Case] = {
    "shape": (0, [1, 2, 3]), "ranks": ((0, 0), X), "bounds": (5, 1), "list_bounds": ([0, 9], 1),
    "mask": (M4, 1), "scatter": ((slice(None), [0, 1]), np.ones((3, 3, 5))),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad(same_as_numpy: Any, name: str) -> None:
    same_as_numpy(put(*BAD[name]), X)


def test_the_text_has_both_shapes() -> None:
    text = r"could not broadcast input array from shape \(3,\) into shape \(4,5\).*test_assigning"
    with pytest.raises(ValueError, match=text):
        run_traced(put(0, [1, 2, 3]), (X.copy(),))


@pytest.mark.parametrize("value", [2.7, -2.7, 300, -1, 3e5, np.nan, np.inf, True, 2**40])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i8", "f4", "?"])
def test_numbers_are_cast_as_numpy_casts_them(same_as_numpy: Any, value: Any, dtype: str) -> None:
    same_as_numpy(put(slice(1, None), value), np.zeros(3, dtype))
    same_as_numpy(put(np.array([True, False, True]), value), np.zeros(3, dtype))


def test_arrays_are_cast_unsafely(same_as_numpy: Any) -> None:
    def f(a: Any, v: Any) -> Any:
        a[1:] = v
        return a

    same_as_numpy(f, np.zeros(5, "i4"), V4)
    same_as_numpy(f, np.zeros(5, "?"), V4)
    same_as_numpy(f, np.zeros(5, "f4"), V4)
    same_as_numpy(f, np.zeros(5, "i2"), 3)


ADVANCED: dict[str, Case] = {
    "list": (put([2, 0], 5),),
    "list_even": (put((slice(None), [2, 1, 0]), X[:, :3]),),
    "list_last": (put((..., [2, 0]), [1, 2]),),
    "lists": (put(([0, 1], [1, 3]), X[:2, 0]),),
    "lists_apart": (put(([0, 1], slice(None), [1, 3]), X[:2, :, 0]),),
    "duplicates": (put((slice(None), [1, 1, 1]), X[:, :3] * 9),),
    "traced": (lambda a, i: put((slice(None), i), a[:, ::-1] + 100)(a), I),
    "traced_row": (lambda a, i: put((0, slice(None), i), V4[:, None])(a), I),
    "scalar": (lambda a, i: put(i, 3)(put((slice(None), i), V5)(a)), 1),
    "scalar_full": (lambda a, i: put((i, i, i), 3)(a), -2),
    "mask_scalar": (lambda a, m: put(m, 0)(a), M3),
    "mask_row": (lambda a, m: put(m, V5)(a), M3),
    "mask_one_row": (lambda a, m: put(m, X[:1] * 0.5)(a), M3),
    "mask_middle": (lambda a, m: put((slice(None), m), 3)(a), M4),
    "mask_middle_row": (lambda a, m: put((slice(None), m), V5)(a), M4),
    "mask_middle_column": (lambda a, m: put((slice(None), m, 1), V4[:3, None])(a), M4),
    "mask_int": (lambda a, m: put((0, m, slice(1, 3)), [7, 8])(a), M4),
    "mask_apart": (lambda a, m: put((m, slice(None), 0), V4)(a), M3),
    "mask_elementwise": (lambda a: put(a > 20, -1.0)(a),),
    "mask_values": (lambda a, m: put(m, a[m] * 2 + 1)(a), M3),
    "mask_values_middle": (lambda a, m: put((slice(None), m), -a[:, m])(a), M4),
    "mask_values_int": (lambda a, m: put((0, m), a[1, m] / 2)(a), M4),
    "mask_values_3d": (lambda a: put(a > 7, np.sqrt(a[a > 7]))(a),),
    "nonzero": (lambda a: put(np.nonzero(a > 20), 0)(a),),
    "nonzero_values": (lambda a: put(np.where(a > 20), a[np.where(a > 20)] * 2)(a),),
}


@pytest.mark.parametrize("x", [X, F, S], ids=["C", "F", "S"])
@pytest.mark.parametrize("name", ADVANCED)
def test_advanced(same_as_numpy: Any, name: str, x: Any) -> None:
    f, *more = ADVANCED[name]
    same_as_numpy(f, x, *more)


def test_augmented(same_as_numpy: Any) -> None:
    def f(a: Any, i: Any, m: Any) -> Any:
        a[1:] += 1
        a[0, 0, 0] *= 5
        a[:, i] -= 2
        a[m] *= 3
        a[a > 30] /= 2
        a[0] += a[1]
        return a

    for x in (X, F, S):
        same_as_numpy(f, x, I[:3], M3)


def test_through_views_of_views(same_as_numpy: Any) -> None:
    def f(a: Any) -> Any:
        rows = a[::2]
        column = rows.T[1]
        column[...] = -column[:, ::-1]
        flat = a.reshape(12, 5)[2:4]
        flat[0, [0, 2]] = 50
        flat[flat > 10] = 0
        corner = a[0, :2, :2]
        corner += 1
        return rows, column, a.sum()

    for x in (X, F):
        same_as_numpy(f, x, layout=False)


def test_a_row_by_traced_index_is_a_view(same_as_numpy: Any) -> None:
    def f(a: Any, i: int) -> Any:
        row = a[i]
        row += 10
        a[i, 0] = 1
        row[-1, -1] = 99
        return a, row * 1

    for i in (0, -1, 2):
        same_as_numpy(f, X, i)


def test_flat(same_as_numpy: Any) -> None:
    def f(a: Any) -> Any:
        a.flat[3] = 50
        a.flat[::7] = -1
        a.flat[a.flat[:] > 40] = 0
        piece = a.flat[2:9]
        piece += 5
        a[1].flat = 2
        return piece, a.flat[4], a

    for x in (X, F, S):
        same_as_numpy(f, x)


def test_overlap(same_as_numpy: Any) -> None:
    def f(a: Any) -> Any:
        a[1:] = a[:-1]
        a[:, 1:, :-1] = a[:, :-1, 1:]
        a[..., ::-1] = a
        return a

    for x in (X, F, S):
        same_as_numpy(f, x)


def test_locals_and_loops(same_as_numpy: Any) -> None:
    def f(a: Any) -> Any:
        out = np.zeros_like(a)
        for i in range(3):
            out[i] = a[2 - i] * i
            for j in range(0, 4, 2):
                out[i, j, 0] = a[i, j].sum()
        out[:, -1] = 0
        return out

    same_as_numpy(f, X)


def test_read_only(same_as_numpy: Any) -> None:
    x = X.copy()
    x.flags.writeable = False
    for f in (put(0, 1), put(M3, 1), put([0, 2], 1)):
        with pytest.raises(ValueError, match="read-only"):
            run_traced(f, (x,))
    with pytest.raises(TypeError, match="item assignment"):
        run_traced(lambda a: put(0, 1)(a.sum()), (X,))


def test_values_of_unknown_length_are_refused() -> None:
    cases = [
        (lambda a, m, v: put(m, v)(a), "known only at run"),
        (lambda a, m, v: put(m, v[v > 0])(a), "another mask"),
    ]
    for f, text in cases:
        with pytest.raises(ValueError, match=text):
            run_traced(f, (np.zeros(4), M4, V4[:3].copy()))


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), SHAPES, st.sampled_from(["C", "F"]))
def test_random_indices(same_as_numpy: Any, data: st.DataObject, shape: Any, order: Any) -> None:
    x = np.asarray(np.arange(np.prod(shape), dtype=np.float32).reshape(shape), order=order)
    index = data.draw(indices(shape))
    arrays, rebuild = traceable(index)
    masks = sum(a.dtype == bool for a in arrays)
    if masks and len([p for p in index if isinstance(p, np.ndarray | list)]) > 1:
        return  # a mask and another array fit only by the number of its true elements
    target = x[index].shape
    if not masks and data.draw(st.booleans()):
        value: Any = -np.arange(np.prod(target), dtype=np.float64).reshape(target)
        if _has_duplicates(x, index):
            value[...] = 3
    else:
        value = data.draw(st.sampled_from([7, 2.5, np.float32(1)]))

    def f(a: Any, v: Any, *given_arrays: Any) -> Any:
        a[rebuild(given_arrays)] = v
        return a

    same_as_numpy(f, x, value, *arrays)
    if not _has_duplicates(x, index):
        same_as_numpy(_doubled(rebuild), x, *arrays)


def _has_duplicates(x: Any, index: Any) -> bool:
    counts = np.arange(x.size).reshape(x.shape)[index]
    return len(np.unique(counts)) != np.size(counts)


def _doubled(rebuild: Any) -> Any:
    def f(a: Any, *given_arrays: Any) -> Any:
        index = rebuild(given_arrays)
        a[index] = a[index] * 2 + 1
        a[index] += 1
        return a

    return f
