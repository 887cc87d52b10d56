"""Reading by index agrees with NumPy: values, dtype, shape, memory order, and errors."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fjit
from fjit.frontend.tracer import FUNCTIONS
from tests.frontend.conftest import run_traced

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
    with pytest.raises(IndexError, match=r"index 7 is out of bounds for axis 1 with size 4.*test_"):
        run_traced(lambda a: a[:, 7], (X,))


I = np.array([0, 2, 1, -1])  # noqa: E741
J = np.array([[1, -2], [0, 3]], np.int16)
M3, M4 = np.array([True, False, True]), np.array([False, True, True, True])
M34 = np.arange(12).reshape(3, 4) % 5 != 0
NONE = np.zeros(4, bool)

ADVANCED: dict[str, tuple[Any, ...]] = {
    "list": (lambda a: a[[2, 0, 0]],),
    "list_even": (lambda a: a[[2, 1, 0]],),
    "list_one": (lambda a: a[:, [1]],),
    "list_last": (lambda a: a[..., [2, 0]],),
    "list_mixed": (lambda a: a[0, :, [2, 0]],),
    "list_adjacent": (lambda a: a[0, [2, 0], 1:],),
    "list_nested": (lambda a: a[:, [[0, 1], [2, 3]]],),
    "list_bool": (lambda a: (a[[True, False, True]], a[:, [False, True, False, True]]),),
    "list_bool_2d": (lambda a: a[M34.tolist()],),
    "list_empty": (lambda a: (a[[]], a[:, []]),),
    "lists": (lambda a: (a[[0, 1], [1, 2]], a[[0, 1], :, [1, 2]], a[[[0], [1]], [1, 2]]),),
    "list_slice": (lambda a: a[1:, [2, 0, 1], ::-1],),
    "range": (lambda a: a[:, range(0, 4, 2)],),
    "captured": (lambda a: (a[:, I], a[I[:3], I[1:]], a[:, J]),),
    "captured_mask": (lambda a: (a[M3], a[:, M4], a[M34]),),
    "traced": (lambda a, i: (a[:, i], a[i % 3], a[:, i, i], a[i % 3, :, i]), I),
    "traced_2d": (lambda a, i: (a[:, i], a[..., i], a[i % 3, 0]), J),
    "unsigned": (lambda a, i: a[:, i], I.astype("u1") % 4),
    "scalar": (lambda a, i: (a[i], a[:, i], a[i, i], a[i, i, i], a[i, None], a[..., i]), 2),
    "scalar_negative": (lambda a, i: (a[i], a[1:, i], a[0, i, ::2]), -1),
    "numpy_scalar": (lambda a, i: (a[i], a[i, :, i]), np.int32(1)),
    "zero_d": (lambda a, i: (a[i], a[i, i, i], a[:, i], a[i, ...]), np.array(1)),
    "scalar_and_array": (lambda a, i, j: (a[i, :, j], a[i, j], a[j, i]), 1, np.array([0, 2])),
    "mask": (lambda a, m: (a[m], a[m] * 2), M3),
    "mask_middle": (lambda a, m: (a[:, m], a[1:, m, ::2], a[..., m, 0], a[:, m, None]), M4),
    "mask_integer": (lambda a, m: (a[m, 0], a[m, :, 0], a[m, 0, 1:]), M3),
    "mask_int_middle": (lambda a, m: (a[0, m], a[-1, m, 1:], a[0, m, 1]), M4),
    "mask_apart": (lambda a, m: (a[m, :, 0], a[m, :, [1]]), M3),
    "mask_2d": (lambda a, m: (a[m], a[m, 0], a[m, 1:], a[m, None]), M34),
    "mask_3d": (lambda a, m: a[m[..., None] & (a > 7)], M34),
    "mask_none": (lambda a, m: (a[:, m], a[:, m].shape[0]), NONE),
    "mask_and_list": (lambda a, m: (a[m, [2]], a[m, :, [1]]), M3),
    "mask_twice": (lambda a, m: a[:, m][:, (a[0, :, 0] > -1)[m]], M4),
    "one_mask_twice": (lambda a, m: a[:, :3][m, m], M3),
    "nonzero": (lambda a: a[np.nonzero(a > 20)],),
    "where": (lambda a: a[np.where(a[:, 0, 0] > 1)],),
    "compress_chain": (lambda a, m: (a[m] + a[m]).sum(0), M3),
    "row_of_mask": (lambda a, m: (a[:, m][0], a[m[1:]][0], a[m[1:]][-1, 0]), M4),
}  # fmt: skip


@pytest.mark.parametrize("x", [X, F, T], ids=["C", "F", "T"])
@pytest.mark.parametrize("name", ADVANCED)
def test_advanced(same_as_numpy: Any, name: str, x: Any) -> None:
    f, *more = ADVANCED[name]
    same_as_numpy(f, x, *more)


BAD_ADVANCED: dict[str, tuple[Any, ...]] = {
    "list": (lambda a: a[[0, 3]],),
    "float": (lambda a, i: a[i], np.array([1.0])),
    "float_list": (lambda a: a[[0.5]],),
    "mask": (lambda a, m: a[m], M4),
    "mask_list": (lambda a: a[[True, False]],),
    "broadcast": (lambda a: a[[0, 1], [0, 1, 2]],),
    "too_many": (lambda a, i: a[i, i, i, i], np.array([0])),
    "run_time": (lambda a, i: a[i], np.array([0, 3])),
}


@pytest.mark.parametrize("name", BAD_ADVANCED)
def test_bad_advanced(same_as_numpy: Any, name: str) -> None:
    f, *more = BAD_ADVANCED[name]
    same_as_numpy(f, X, *more)


def test_an_array_written_as_a_list_has_a_known_extent() -> None:
    make = FUNCTIONS[np.array]

    def f(a: Any) -> Any:
        mask, positions = make([True, False, True]), make([2, 0, 1, 1])
        assert a[mask].shape == (2, 4, 5)
        return a[mask], a[positions[:0]], a[:, positions], np.repeat(a, positions, axis=1)

    got, _ = run_traced(f, (X,))
    np.testing.assert_array_equal(got[0], X[M3])
    np.testing.assert_array_equal(got[2], X[:, [2, 0, 1, 1]])
    np.testing.assert_array_equal(got[3], np.repeat(X, [2, 0, 1, 1], axis=1))


def test_refusals_say_what_to_do() -> None:
    cases = [
        (lambda a, k: a[: k[0]], "static_argnames"),
        (lambda a, k: a[a[:, 0, 0] > 1][::2], "known only at run time"),
        (lambda a, k: a[True], "single bool"),
        (lambda a, k: a[a[:, 0, 0] > 1, k], "combine masks with &"),
    ]
    for f, text in cases:
        with pytest.raises((TypeError, ValueError, IndexError), match=text):
            run_traced(f, (X, I))


def test_equal_masks_share_a_symbol(same_as_numpy: Any) -> None:
    traced = same_as_numpy(lambda a, b: (a[a > 3] * b[a > 3]).sum(), X, X[::-1].copy())
    assert [e.primitive.name for e in traced.program.eqns].count("compress") == 2


# ---- random indices ---------------------------------------------------------------------------


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A valid index of an array of `shape`: every kind of part, at most one ellipsis."""
    parts: list[Any] = []
    axis, length = 0, draw(st.integers(1, 3))
    while axis < len(shape):
        n = shape[axis]
        kind = draw(st.sampled_from(["int", "slice", "slice", "array", "list", "mask", "none"]))
        if kind == "none":
            parts.append(None)
            continue
        if kind == "int":
            parts.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            parts.append(draw(st.slices(n)))
        elif kind == "mask":
            taken = draw(st.integers(1, len(shape) - axis))
            mask = np.zeros(shape[axis : axis + taken], bool)
            flat = draw(st.permutations(range(mask.size)))[:length]
            mask.ravel()[list(flat)] = True
            parts.append(mask)
            axis += taken - 1
        else:
            whole = draw(hnp.arrays(np.int64, length, elements=st.integers(-n, n - 1)))
            parts.append(whole.tolist() if kind == "list" else whole)
        axis += 1
    cut = draw(st.integers(0, len(parts)))
    if draw(st.booleans()) and not any(isinstance(p, np.ndarray) for p in parts[cut:]):
        parts[cut:] = [...]
    return tuple(parts)


def traceable(index: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    """The arrays in an index, and a function that puts traced ones in their place."""
    arrays = tuple(part for part in index if isinstance(part, np.ndarray))

    def rebuild(given: tuple[Any, ...]) -> tuple[Any, ...]:
        rest = iter(given)
        return tuple(next(rest) if isinstance(part, np.ndarray) else part for part in index)

    return arrays, rebuild


SHAPES = st.sampled_from([(5,), (3, 4), (2, 3, 4), (4, 1, 3)])


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), SHAPES, st.sampled_from(["C", "F"]))
def test_random_indices(same_as_numpy: Any, data: st.DataObject, shape: Any, order: Any) -> None:
    x = np.asarray(np.arange(np.prod(shape), dtype=np.float32).reshape(shape), order=order)
    index = data.draw(indices(shape))
    arrays, rebuild = traceable(index)
    masks = sum(a.dtype == bool for a in arrays)
    if masks and len([p for p in index if isinstance(p, np.ndarray | list)]) > 1:
        return  # a mask and another array fit only by the number of its true elements
    same_as_numpy(lambda a, *given: a[rebuild(given)], x, *arrays, layout=False)


@pytest.mark.parametrize("made", ["list", "array"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "?", "u1"])
def test_empty_indices(dtype: str, made: str) -> None:
    def select(x: Any) -> Any:
        return x[[] if made == "list" else np.array([], dtype)]

    x = np.arange(3.0) if dtype != "?" or made == "list" else np.zeros(0)
    try:
        want = select(x)
    except IndexError:
        with pytest.raises(IndexError, match="must be of integer"):
            fjit.fuse(select)(x)
    else:
        np.testing.assert_array_equal(fjit.fuse(select)(x), want)


def test_positions_of_nonzero_are_columns(same_as_numpy: Any) -> None:
    x = np.arange(6.0).reshape(2, 3)
    same_as_numpy(lambda a: [row.strides for row in np.nonzero(a)], x)
    same_as_numpy(lambda a: [row.strides for row in np.nonzero(a[0])], x)
    same_as_numpy(lambda a: [np.ravel(row) + row for row in np.nonzero(a)], x)
