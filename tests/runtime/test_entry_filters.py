"""Results as long as a mask selects, in the native entry: cut in place or copied, never leaked."""

import gc
import resource
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.runtime import entry
from fjit.testing import assert_same
from tests.runtime.test_entry import answers, warm

pytestmark = pytest.mark.skipif(bool(entry.missing()), reason=entry.missing() or "native")

X = np.array([0.5, -1.0, 2.0, -0.25, 3.0, 0.0, -4.0, 1.5])
FEW, MANY, NONE = X - 2.5, X + 3, X - 100

FILTERS: tuple[Callable[[Any], Any], ...] = (
    lambda a: a[a > 0],
    lambda a: a[a > 0] * 2 + 1,
    lambda a: np.compress(a > 0, a),
    lambda a: np.nonzero(a > 0),
    lambda a: np.flatnonzero(a > 0),
    lambda a: (a[a > 0], a[a <= 0], a.sum()),
    lambda a: {"kept": a[a > 0], "count": (a > 0).sum()},
    lambda a: np.extract(a > 0, a).astype("f4"),
    lambda a: a[a > 0] > 1,
)


@pytest.mark.parametrize("number", range(len(FILTERS)))
def test_filters_of_every_kind(number: int) -> None:
    f = warm(FILTERS[number], X)
    for values in (X, FEW, MANY, NONE, -NONE, X[::-1].copy(), np.full(8, np.nan)):
        assert answers(f, values)


def test_rows_and_arrays_of_several_axes() -> None:
    table = np.arange(48.0).reshape(8, 6) - 20
    f = warm(lambda a: a[a[:, 0] > 0], table)
    for values in (table, table + 100, table - 100, table * -1):
        assert answers(f, values)
    g = warm(lambda a: a[a > 0], table)
    for values in (table, table + 100, table - 100):
        assert answers(g, values)
    h = warm(lambda a: np.argwhere(a > 0), table)
    assert answers(h, table - 3)


def test_filters_in_other_memory_orders_are_right() -> None:
    rng = np.random.default_rng(2)
    base = rng.standard_normal((9, 7))
    for function in (lambda a: a[:, a[0] > 0], lambda a: a.T[a[0] > 0], lambda a: a[a[:, 0] > 0].T):
        f = fjit.fuse(function)
        for array in (base, np.asfortranarray(base), base[::-1], base[::2]):
            for scale in (1.0, -1.0, 1.0, -1.0):
                values = array * scale if array.flags.forc else array
                assert_same(f(values), function(values))


def test_empty_and_large_arrays() -> None:
    f = warm(lambda a: a[a > 0], X[:0])
    assert answers(f, X[:0])
    large = np.random.default_rng(1).standard_normal(300_000)
    g = warm(lambda a: a[a > 0], large)
    for values in (large, large - 2, large + 10, large - 100):
        result = g(values)
        assert answers(g, values) and result.flags.owndata and result.flags.writeable


def test_an_extremum_of_nothing_is_raised_by_python() -> None:
    f = warm(lambda a: (a[a > 0].max(), a[a > 0]), X)
    with pytest.raises(ValueError, match="zero-size"):
        f(NONE)
    assert answers(f, X)


def test_results_of_two_calls_are_apart() -> None:
    f = warm(lambda a: a[a > 0], X)
    kept = [f(X + k) for k in range(20)]
    for k, result in enumerate(kept):
        assert_same(result, (X + k)[X + k > 0])


def test_references_and_memory_stay() -> None:
    x = np.random.default_rng(0).standard_normal(5000)
    f = warm(lambda a: (a[a > 0], a[a > 2], np.nonzero(a > 0)[0]), x)
    watched = (x, x.dtype, np.dtype("i8"), f, None, np.ndarray)
    before = [sys.getrefcount(w) for w in watched]
    for _ in range(500):
        f(x)
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3000):
        f(x)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start < 20_000
    assert all(abs(b - sys.getrefcount(w)) < 20 for b, w in zip(before, watched, strict=True))


def test_threads_filter_at_once() -> None:
    f = fjit.fuse(lambda a: (a[a > 0] * 2, (a > 0).sum()), threads=1)
    large = np.random.default_rng(3).standard_normal(200_000)
    f(large), f(large)
    wrong: list[int] = []

    def work(shift: int) -> None:
        for step in range(10):
            values = large + shift * 0.3 + step * 0.1
            kept, count = f(values)
            if count != kept.size or not np.array_equal(kept, values[values > 0] * 2):
                wrong.append(shift)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong and f.answered
    gc.collect()
