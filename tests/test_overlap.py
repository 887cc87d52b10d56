"""Arguments that share memory: a write through one is seen through the others, as in NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit

Views = Callable[[Any], tuple[Any, Any]]


def add_then_read(a: Any, b: Any) -> Any:
    a += 1
    return b * 2, a


def reverse_into(a: Any, b: Any) -> Any:
    a[...] = b[::-1]
    b *= 3
    return a.sum(), b


def shift_rows(a: Any, b: Any) -> Any:
    b[1:] = a[:-1]
    return a + b


PAIRS: dict[str, Views] = {
    "same": lambda x: (x, x),
    "equal views": lambda x: (x[1:], x[1:]),
    "shifted": lambda x: (x[:-1], x[1:]),
    "interleaved": lambda x: (x[::2], x[1::2]),
    "apart": lambda x: (x[:6], x[6:]),
    "transposed": lambda x: (x[:9].reshape(3, 3), x[:9].reshape(3, 3).T),
    "reversed": lambda x: (x, x[::-1]),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("function", [add_then_read, reverse_into, shift_rows])
def test_overlapping_arguments(function: Callable[..., Any], pair: str) -> None:
    fused = fjit.fuse(function)
    for _ in range(2):  # cold, warm
        x, y = np.arange(12.0), np.arange(12.0)
        got, want = fused(*PAIRS[pair](x)), function(*PAIRS[pair](y))
        np.testing.assert_array_equal(x, y)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g, w)


def test_one_trace_for_each_way_to_overlap() -> None:
    fused = fjit.fuse(add_then_read)
    for pair in (PAIRS["shifted"], PAIRS["same"], PAIRS["apart"], PAIRS["shifted"]):
        x, y = np.arange(12.0), np.arange(12.0)
        got, want = fused(*pair(x)), add_then_read(*pair(y))
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(got[0], want[0])


def test_a_result_is_the_argument_itself() -> None:
    x = np.arange(4.0)
    assert fjit.fuse(lambda a, b: b)(x, x) is x


def test_overlap_of_different_dtypes_is_refused_and_changes_nothing() -> None:
    x = np.arange(4.0)
    with pytest.raises(TypeError, match="share memory as arrays of different dtypes"):
        fjit.fuse(add_then_read)(x, x.view(np.int64))
    np.testing.assert_array_equal(x, np.arange(4.0))


def test_an_argument_that_overlaps_itself() -> None:
    def first_row(x: Any) -> None:
        x[0] += 5

    def all_rows(x: Any) -> Any:
        x += 1
        return x.sum()

    for function in (first_row, all_rows):
        fused = fjit.fuse(function)
        for _ in range(2):
            memory, other = np.zeros(6), np.zeros(6)
            windows = [np.lib.stride_tricks.as_strided(m, (4, 3), (8, 8)) for m in (memory, other)]
            assert fused(windows[0]) == function(windows[1])
            np.testing.assert_array_equal(memory, other)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
def test_views_of_record_fields(dtype: str) -> None:
    def fields() -> Any:
        records = np.zeros((7, 5), [("a", "i1"), ("b", dtype)])
        records["b"] = np.arange(35).reshape(7, 5)
        return records["b"]

    def reshaped(x: Any) -> Any:
        x.reshape(-1)[0] = 99
        return x.sum()

    def raveled(x: Any) -> Any:
        x.ravel()[0] = 99
        return x.sum()

    for function in (reshaped, raveled):
        x, y = fields(), fields()
        assert fjit.fuse(function)(x) == function(y)
        np.testing.assert_array_equal(x, y)
