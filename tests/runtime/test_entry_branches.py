"""Branches on traced values in the native entry: each path has its record, errors are Python's."""

import sys
import threading
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.runtime import entry
from fjit.testing import assert_same
from tests.runtime.test_entry import answers, warm

pytestmark = pytest.mark.skipif(bool(entry.missing()), reason=entry.missing() or "native")

X = np.arange(1.0, 9.0)


def checked(a: Any) -> Any:
    if np.any(a < 0):
        raise ValueError("negative")
    return np.sqrt(a)


def by_sign(a: Any) -> Any:
    if a.sum() > 0:
        return a * 2
    return a - 1


def by_number(a: Any, flag: Any) -> Any:
    return a * 2 if flag else a + 1


def by_both(a: Any, flag: Any) -> Any:
    if flag:
        a = a + 1
    return a * 3 if a.max() > 5 else a[a > 1]


def test_a_check_that_raises() -> None:
    f = warm(checked, X)
    for _ in range(3):
        with pytest.raises(ValueError, match="negative"):
            f(-X)
        assert answers(f, X)


def test_both_ways_have_a_record() -> None:
    f = warm(by_sign, X)
    assert not answers(f, -X)
    f(-X)
    for _ in range(3):
        assert answers(f, -X)
        assert answers(f, X)
        assert answers(f, X * np.nan)
    assert len(f.records) == 2


@pytest.mark.parametrize(
    "flags", [(True, False), (1, 0), (3, 0), (2.5, 0.0), (-0.0, float("nan")), (0, -1)]
)
def test_branches_on_numbers(flags: tuple[Any, Any]) -> None:
    f = fjit.fuse(by_number)
    for flag in flags * 3:
        assert_same(f(X, flag), by_number(X, flag))
    assert all(answers(f, X, flag) for flag in flags * 2)


def test_numbers_and_values_together() -> None:
    f = fjit.fuse(by_both)
    cases = [(X, True), (X, False), (X - 6, True), (X - 6, False), (X * 0, True)]
    for args in cases * 3:
        assert_same(f(*args), by_both(*args))
    assert all(answers(f, *args) for args in cases * 2)


def test_a_number_taken_from_an_array() -> None:
    def repeated(a: Any) -> Any:
        for _ in range(int(a[0])):
            a = a * 2
        return a

    f = fjit.fuse(repeated)
    for first in (1.0, 3.0, 1.0, 3.0, 1.0, 3.0, 2.0):
        a = X.copy()
        a[0] = first
        assert_same(f(a), repeated(a))


def test_an_error_while_a_condition_is_computed() -> None:
    def picked(a: Any, i: Any) -> Any:
        if a[i].sum() > 0:
            return a + 1
        return a - 1

    f = warm(picked, X, np.array([0, 1]))
    for _ in range(3):
        with pytest.raises(IndexError):
            f(X, np.array([0, 99]))
    assert answers(f, X, np.array([1, 1]))


def test_a_branch_before_a_write() -> None:
    def scaled(a: Any) -> Any:
        if a.max() > 100:
            raise OverflowError("too large")
        a *= 3
        return a.max()

    f, x, want = fjit.fuse(scaled), X.copy(), X.copy()
    for _ in range(3):
        want *= 3
        assert f(x) == want.max()
        assert_same(x, want)
    assert f.answered
    for _ in range(2):
        with pytest.raises(OverflowError):
            f(x)
        assert_same(x, want)


def test_more_paths_than_are_kept_is_an_error_still() -> None:
    def stepped(a: Any) -> Any:
        for _ in range(int(a[0])):
            a = a + 1
        return a

    f = fjit.fuse(stepped)
    for k in (*range(8), *range(8), *range(8)):
        assert_same(f(np.full(4, float(k))), stepped(np.full(4, float(k))))
    with pytest.raises(fjit.errors.BranchError):
        f(np.full(4, 100.0))
    assert answers(f, np.full(4, 7.0))


def test_references_stay_whichever_way() -> None:
    table = np.ones(8)

    def either(a: Any) -> Any:
        return a * table if (a + table).sum() > 8 else a - table

    f, y = fjit.fuse(either), -X
    for _ in range(3):
        f(X), f(y)
    watched = (X, y, table, X.dtype, np.dtype(bool), f, None, True, False)
    before = [sys.getrefcount(w) for w in watched]
    for _ in range(1000):
        f(X), f(y)
    assert all(abs(b - sys.getrefcount(w)) < 20 for b, w in zip(before, watched, strict=True))
    assert f.answered > 1500


def test_threads_on_different_ways() -> None:
    f = fjit.fuse(by_sign, threads=1)
    wrong: list[int] = []

    def work(sign: int) -> None:
        a = np.full(3000, float(sign))
        for _ in range(200):
            if not np.array_equal(f(a), by_sign(a)):
                wrong.append(sign)

    workers = [threading.Thread(target=work, args=(s,)) for s in (1, -1, 2, -2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong and f.answered
