"""Programs that random testing once found wrong, made small; each stays right."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fjit.testing import check


def selected_twice(a: Any, mask: Any) -> Any:
    kept = np.where(a[mask] > 3, a[mask], -1.5)
    return np.sum(kept), kept


def reversed_update(a: Any) -> Any:
    b = a.copy()
    b[-2:] = -1.5
    return b[::-1].copy()


def masked_update(a: Any) -> Any:
    a[a == a] += 2
    return a


def gathered_twice(a: Any) -> Any:
    rows = np.take(a, [0, 3, 2, -1], axis=0)
    return np.concatenate([rows, rows])


def scan_beside_its_filter(a: Any) -> Any:
    kept = a[a > 1]
    return np.cumsum(kept) + kept


def whole_backwards(a: Any) -> Any:
    mask = a > 1
    mask[::-1] = a < 7
    return mask


def mean_of_one(a: Any) -> Any:
    total = np.sum(a, axis=(0, 1), keepdims=True)
    return np.mean(total[total > -3])


def rolled_gathers(a: Any) -> Any:
    rows = np.take(a, [0, 3, 2, -1], axis=0)
    return np.roll(np.take(rows, [0, 0, 0, -1], axis=1), 2, 1)


def gather_written_backwards(a: Any) -> Any:
    rows = np.take(a, [0, 0, 0, -1], axis=0)
    rows[::-2] += 2
    return rows


def product_of_gathers(a: Any) -> Any:
    rows = np.take(np.take(a, [0, 16, 8, -1], axis=0), np.arange(8)[::-1], axis=1)
    scaled = rows * 4.1 + 3
    return np.prod(scaled), np.sum(scaled), np.prod(scaled[scaled > 2])


def scan_beside_a_total(a: Any) -> Any:
    return np.cumsum(a, axis=0), a.sum()


def scan_written_into_a_part(a: Any) -> Any:
    """The scan is read under a guard, in a later loop over its row."""
    out = np.full(a.shape, 3.0)
    out[1:] = (np.cumsum(a, axis=0) * np.any(a))[1:]
    return out, np.pad(np.cumsum(a, axis=0) - a.max(), 1)


def turned_mask(b: Any) -> Any:
    wide = np.broadcast_to(b, (2, 1, 3))
    return ~((wide + wide) > 2).transpose(1, 2, 0)


def first_of_equals(a: Any) -> Any:
    return np.argmax(a), np.argmin(a), [np.argmax(a, axis=k) for k in range(a.ndim)]


def columns_of_elementary_functions(a: Any) -> Any:
    b = np.hypot(a, a)
    c = np.arctan2(b > 1, np.arctan(b))
    d = np.exp(c - c.max(axis=1, keepdims=True))
    return d / d.sum(axis=1, keepdims=True), np.cbrt(b)


TIES = np.random.default_rng(0).integers(0, 2, (4, 3, 4, 5))
ZERO_STRIDES = np.broadcast_to(np.arange(9, dtype="u1").reshape(1, 3, 3), (4, 3, 3))


def end_of_a_join_with_a_sorted_part(a: Any) -> Any:
    b = a + 1
    return (np.concatenate([np.sort(b), b * 2]) * 3)[len(a) :]


def ends_of_joins_with_calls(a: Any) -> Any:
    b = a + 1
    whole = np.concatenate([np.sort(b), b @ b[:, None], np.argsort(b), b * 2]) * 3
    return whole[len(a) + 1 :], whole[-len(a) :] + b, whole[:2]


FOUND: dict[str, tuple[Any, ...]] = {
    "scan of a converted filter": (lambda b: np.cumsum(b[b > 2]), np.arange(8, dtype="u1")),
    "initial of an empty filter": (lambda a: np.max(a[a > 9], initial=1.0), np.ones(3)),
    "gather at a reversed range": (lambda a: np.take(a, np.arange(17)[::-1]), np.arange(17)),
    "filter and its count": (
        lambda b: (np.count_nonzero(b[b > 1]), b[b > 1]),
        np.arange(17, dtype="i4"),
    ),
    "filter and its sum": (selected_twice, np.ones((2, 3), "f4"), np.ones((2, 3), bool)),
    "two passes over a scan": (lambda b: np.var(np.cumprod(b)), np.ones(17, "f4")),
    "mean of nothing": (lambda a: np.mean(a[:, :0]), np.ones((4, 3))),
    "scan of nothing": (
        lambda a: np.cumsum(a[1:-1, ::-1, -1], axis=-1),
        np.ones((2, 1, 5, 4)),
    ),
    "order of a broadcast operand": (
        lambda a: np.square(np.broadcast_to(a, (2, 4))),
        np.arange(4),
    ),
    "reversed update": (reversed_update, np.arange(5.0)),
    "order of a result that is the argument": (lambda a: a | a, ZERO_STRIDES),
    "order of a reduction with zero strides": (lambda a: a.sum(1), ZERO_STRIDES),
    "order of a join with zero strides": (lambda a: np.stack([a, a], 2), ZERO_STRIDES),
    "scan beside a reduction": (
        lambda b: np.copysign(np.cumsum(b), np.exp(b - b.max())),
        np.ones(2, "f4"),
    ),
    "filter of one element": (mean_of_one, np.ones((1, 2), "i8")),
    "scan at any number of lanes": (lambda a: np.cumsum(np.tanh(a)), np.linspace(-2, 2, 37)),
    "masked update, unfused": (masked_update, np.arange(4, dtype="i4")),
    "gather under a join": (gathered_twice, np.ones((4, 7), "u4")),
    "scan beside its filter": (scan_beside_its_filter, np.arange(34, dtype="i4").reshape(17, 2)),
    "whole written backwards": (whole_backwards, np.arange(10, dtype="i1")),
    "two gathers, rolled": (rolled_gathers, np.arange(96.0).reshape(4, 4, 2, 3)),
    "gather written backwards": (gather_written_backwards, np.array([[3.0, 4.0]])),
    "order of a product of gathers": (
        product_of_gathers,
        np.random.default_rng(0).random((17, 8)) * 3,
    ),
    "scan beside a total": (
        scan_beside_a_total,
        np.asfortranarray(np.random.default_rng(0).normal(size=(40, 37))),
    ),
    "scan under a guard": (scan_written_into_a_part, np.arange(33)[:, None]),
    "row of a scan under a guard": (scan_written_into_a_part, np.arange(33)),
    "order of a turned mask": (turned_mask, np.arange(3, dtype="u4")[None]),
    "first of equals, columns first": (first_of_equals, np.asfortranarray(TIES)),
    "first of equals, turned": (first_of_equals, TIES.transpose(2, 0, 3, 1).astype("f4")),
    "first NaN, columns first": (first_of_equals, np.asfortranarray(np.where(TIES, np.nan, 1.0))),
    "columns with narrow ends": (
        columns_of_elementary_functions,
        np.random.default_rng(0).normal(size=(4, 5, 1, 3)).astype("f4"),
    ),
    "columns with wide and narrow ends": (
        columns_of_elementary_functions,
        np.random.default_rng(0).normal(size=(2, 5, 1, 150)),
    ),
    "a sorted part that nothing reads": (end_of_a_join_with_a_sorted_part, np.ones(1)),
    "sorted parts that nothing reads": (end_of_a_join_with_a_sorted_part, np.arange(5.0)[::-1]),
    "calls that nothing reads": (ends_of_joins_with_calls, np.array([3.0, 1.0, 2.0])),
    "cosines beside a huge argument": (
        np.cos,
        np.random.default_rng(0).normal(size=2000).astype("f4") * 3000,
    ),
}


def empty_end(a: Any) -> Any:
    b = a.copy()
    b[1:] += 1
    return (b * 2)[:0]


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    function: Callable[..., Any]
    function, *arguments = FOUND[name]
    check(function, *arguments)


def test_nothing_of_an_update() -> None:
    check(empty_end, np.arange(7.0))


def test_arrays_without_elements_are_not_read_along_their_strides() -> None:
    """Loads that no loop needs are hoisted: they stay within what stands for an empty array."""
    none = np.lib.stride_tricks.as_strided(np.zeros(0, "f4"), (4, 99, 0), (1 << 40, 1 << 30, 4))
    check(lambda a, b: (a + b[1]).sum(2), none, none)
    check(lambda a, b: a * b[0], none, none[::-1, ::-1])


@pytest.mark.parametrize("bad", [5, -6, -11, 2**40])
@pytest.mark.parametrize("name", ["get", "set", "add", "put"])
def test_indices_out_of_range_on_either_side(name: str, bad: int) -> None:
    """One below the range is not counted from the end twice."""

    def access(x: Any, i: Any) -> Any:
        if name == "get":
            return x[i]
        if name == "set":
            x[i] = 0
        elif name == "add":
            np.add.at(x, i, 1)
        else:
            np.put(x, i, 0)
        return x.sum()

    check(access, np.arange(5.0), np.array([0, bad, 1]))
