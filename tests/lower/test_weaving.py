"""Results whose short last axis is woven: whole vectors are stored, in the order of memory."""

from collections.abc import Callable

import numpy as np
import pytest

import fjit
from fjit.testing import check

DTYPES = ("f4", "i8", "f2", "u1", "?", ">f8")
LENGTHS = (33, 64, 100)


def _arrays(count: int, shape: tuple[int, ...], dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(len(shape) + count)
    return [(rng.normal(size=shape) * 3).astype(dtype) for _ in range(count)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [2, 3, 4, 6, 7, 9])
def test_a_stack_along_a_short_last_axis(count: int, dtype: str) -> None:
    for length in LENGTHS:
        check(lambda *xs: np.stack(xs, axis=-1), *_arrays(count, (length,), dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_elements_repeated(count: int, dtype: str) -> None:
    for shape in ((33,), (5, 40), (40, 3), (2, 3, 50)):
        (x,) = _arrays(1, shape, dtype)
        check(lambda x: (np.repeat(x, count), np.repeat(x, count, axis=-1)), x)
        check(lambda x: np.repeat(x[..., ::-1], count, axis=0), x)


@pytest.mark.parametrize("dtype", ["f4", "f8", "u1"])
def test_operands_with_offsets_gaps_and_backwards(dtype: str) -> None:
    a, b = _arrays(2, (3, 211), dtype)
    check(lambda a, b: np.stack([a[:, 1:], b[:, :-1]], axis=-1), a, b)
    check(lambda a, b: np.stack([a[:, ::-1], b[::-1]], axis=2), a, b)
    check(
        lambda a, b: np.stack([a[:, ::2], b[:, ::2], a[:, 1::2][:, :106]], -1),
        a[:, :210],
        b[:, :210],
    )
    check(lambda a, b: np.stack([a, b], axis=-1), a[:, ::3], b[::-1, 141:])


def test_parts_of_two_widths_and_constants() -> None:
    x, y = _arrays(2, (77, 2), "f4")
    check(lambda x, y: np.concatenate([x, y[:, :1], y], axis=1), x, y)
    check(lambda x: np.column_stack([x[:, 0], np.zeros(77), x[:, 1], x[:, 0] * 2]), x)
    check(lambda x: np.pad(x, ((0, 0), (1, 2)), constant_values=3), x)


def test_two_results_and_arithmetic_on_the_way() -> None:
    a, b = _arrays(2, (130,), "f8")
    check(lambda a, b: (np.stack([a + b, a - b], -1), np.stack([np.exp(a), b], -1)), a, b)
    check(lambda a, c: a[:, None] * c, a, np.array([1.0, 2.0, 3.0]))
    check(lambda a, c: a[:, None] * c > 1, a, np.array([1.0, -2.0]))


def test_rows_gathered_and_transposed() -> None:
    x, index = _arrays(1, (3, 60), "f8")[0], np.arange(60)[::-1].copy()
    check(lambda x: np.ascontiguousarray(x.T) + 1, x)
    check(lambda x, i: x.T[i] + 0.0, x, index)
    check(lambda x, i: x[i], np.ascontiguousarray(x.T), index)


def test_writes_in_place_with_a_short_last_axis() -> None:
    def scaled(x: np.ndarray, a: np.ndarray) -> None:
        x *= a[:, None]

    def spread(x: np.ndarray, a: np.ndarray) -> None:
        x[:] = np.stack([x[:, 1], x[:, 0]], axis=-1) + a[:, None]

    for f in (scaled, spread):
        check(f, *_arrays(1, (90, 2), "f8"), *_arrays(1, (90,), "f8"))


@pytest.mark.parametrize(
    ("function", "loads"),
    [
        (lambda a, b: np.stack([a, b], axis=-1), 2),
        (lambda a, b: np.stack([a, b, a, b], axis=-1), 2),
        (lambda a, b: np.repeat(a, 3), 1),
        (lambda a, b: np.repeat(a.reshape(100, 100), 2), 1),
    ],
)
def test_a_woven_result_is_one_pass_of_whole_vectors(
    function: Callable[..., np.ndarray], loads: int
) -> None:
    a = np.ones(10_000)
    lowered = fjit.fuse(function).lower(a, a.copy())
    (nest,) = lowered.nests
    text = str(nest)
    assert text.count("load ") == loads
    assert text.count("store ") == 1
    assert text.count("vector ") == 1
    assert not any(word in lowered.llvm_ir for word in ("scatter", "gather"))
