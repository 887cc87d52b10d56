"""any and all that stop early: the same results wherever the deciding element is."""

from itertools import product

import numpy as np
import pytest

import fjit
from fjit.testing import check

SIZE = 200_000
PLACES = (None, 0, 8191, 8192, 65_535, 65_536, 131_072, SIZE - 1)
THREADS = (1, 2, 3, 7)


def truth(x):
    return x.any(), x.all(), (~x).any(), np.logical_and.reduce(x)


def one_that_differs(shape, place, dtype, ground):
    x = np.full(shape, ground, dtype)
    if place is not None:
        x.reshape(-1)[place] = not ground
    return x


@pytest.mark.parametrize("dtype", ["?", "u1", "f4", "f8"])
@pytest.mark.parametrize("shape", [(SIZE,), (2, 100_000), (400, 500), (100_000, 2)])
def test_wherever_it_is(dtype, shape):
    fused = [fjit.fuse(np.any, threads=t) for t in THREADS]
    every = [fjit.fuse(np.all, threads=t) for t in THREADS]
    for place, ground in product(PLACES, (False, True)):
        x = one_that_differs(shape, place, dtype, ground)
        assert {bool(f(x)) for f in fused} == {bool(x.any())}
        assert {bool(f(x)) for f in every} == {bool(x.all())}


@pytest.mark.parametrize("place", PLACES)
def test_several_at_once_stop_when_all_are_decided(place):
    for ground in (False, True):
        check(truth, one_that_differs((SIZE,), place, bool, ground))


@pytest.mark.parametrize("axis", [0, 1, (0, 1), (0, 2), (1, 2), None])
def test_axes_and_layouts(axis):
    x = np.random.default_rng(0).integers(0, 300, (6, 70, 330)) == 0
    for y in (x, x.transpose(2, 0, 1), x[::-1, ::2, ::-1], np.zeros_like(x)):
        check(lambda y: (y.any(axis=axis), y.all(axis=axis), (~y).all(axis=axis)), y)


def test_nothing_and_nan():
    check(truth, np.zeros(0, bool))
    check(lambda x: (x.any(axis=1), x.all(axis=1)), np.zeros((3, 0), bool))
    x = np.zeros(SIZE)
    x[150_000] = np.nan
    check(lambda x: (x.any(), x.all(), np.isnan(x).any(), (x > 0).any(), (x <= 0).all()), x)


def test_an_index_out_of_range_behind_a_hit_is_an_error():
    table, index = np.ones(10, bool), np.zeros(SIZE, np.int64)
    index[-1] = 10
    with pytest.raises(IndexError):
        fjit.fuse(lambda t, i: t[i].any())(table, index)


def test_beside_other_reductions_and_results():
    x = np.random.default_rng(0).normal(size=(500, 400))
    check(lambda x: ((x > 3).any(), x.sum(), (x > 3).any(axis=1)), x)
    check(lambda x: np.where((x > 9).any(), x, 2 * x), x)
    check(lambda x: (x[x > 1] > 4).any(), x)
    check(lambda x: (np.concatenate([x, -x]) > 3).any(), x)
    check(lambda x: np.allclose(x, x + 1e-9), x)


def loops(f, *args):
    return "".join(str(nest) for nest in fjit.fuse(f).lower(*args).nests)


@pytest.mark.parametrize(
    "f, stops",
    [
        (lambda x: (x > 3).any(), True),
        (lambda x: np.isnan(x).all(axis=1), True),
        (lambda x: (1 / x > 3).any(), False),  # a division by zero behind a hit is a warning
        (lambda x: ((x > 3).any(), x.max()), False),
        (lambda x: (x > 3).any(axis=0), False),
    ],
)
def test_loops_that_could_miss_something_go_on(f, stops):
    assert ("until" in loops(f, np.ones((600, 700)))) is stops
