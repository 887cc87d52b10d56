"""Reductions that walk each block twice: their order, their accuracy, and what shares their loops.

`variance_model` and `columns_model` are docs/numerics.md written in NumPy; results are compared
with them bit for bit.
"""

from functools import partial

import numpy as np
import pytest

import fjit
from fjit.testing import check

BLOCK, WALKED_TWICE, CHUNK, GROUP = 1024, 4096, 65536, 16
THREADS = (1, 2, 3, 7)
FLOATS = (np.float32, np.float64)


# ---- models -------------------------------------------------------------------------------------


def lost(a, b, total):
    """The rounding error of total = a + b."""
    t = total - a
    return (a - (total - t)) + (b - t)


def halved(values):
    """Lane k plus lane k + n/2 until one is left."""
    while len(values) > 1:
        half = len(values) // 2
        values = values[:half] + values[half:]
    return values[0]


def halved_pairs(high, low):
    """The same for lanes that carry their rounding errors."""
    while len(high) > 1:
        half = len(high) // 2
        total = high[:half] + high[half:]
        low = (low[:half] + low[half:]) + lost(high[:half], high[half:], total)
        high = total
    return high[0] + low[0]


def summed(x):
    """A stretch's sum in float64, in the order of docs/numerics.md."""
    count, target = 256 // x.itemsize, 64 // x.itemsize if x.itemsize == 8 else 16
    high, low = np.zeros(target), np.zeros(target)
    for at in range(0, len(x), BLOCK):
        block = np.zeros(BLOCK, x.dtype)
        block[: len(x) - at] = x[at : at + BLOCK]
        lanes = np.zeros(count, x.dtype)
        for row in block.reshape(-1, count):
            lanes = lanes + row
        while len(lanes) > target:
            half = len(lanes) // 2
            lanes = lanes[:half] + lanes[half:]
        total = high + lanes
        low = low + lost(high, lanes.astype(np.float64), total)
        high = total
    return halved_pairs(high, low) if x.dtype == np.float64 else halved(high)


def merged(old, new, dtype):
    """Two stretches (length, means, squares, rounding) as one, by Chan's formula."""
    before, mean, squares, rounding = old
    count, mean_b, squares_b, rounding_b = new
    both = before + count
    share = count / both
    step = mean_b - mean
    within = squares + squares_b
    between = step * (before * share) * step
    total = within + between
    error = lost(squares, squares_b, within) + lost(within, between, total)
    rounding = (error + rounding) + rounding_b
    return both, mean + step * share, total, rounding if dtype == np.float64 else 0.0


def corrected(pivot, apart, squares, count):
    """Mean and squares of a block, from sums about a number near its mean."""
    shift = apart / count
    fewer = np.maximum(squares - apart * shift, 0.0)
    return pivot.astype(np.float64) + shift, fewer


def of_stretch(x):
    """Length, mean, squares and rounding of a chunk, from its blocks."""
    words = (0.0, np.float64(0), np.float64(0), 0.0)
    for at in range(0, len(x), WALKED_TWICE):
        block = x[at : at + WALKED_TWICE]
        pivot = (summed(block) / len(block)).astype(x.dtype)
        apart = block - pivot
        mean, squares = corrected(pivot, summed(apart), summed(apart * apart), len(block))
        words = merged(words, (float(len(block)), mean, squares, 0.0), x.dtype)
    return words


def chunked(x, total, most, multiple):
    """The parts of the first axis that threads work on."""
    count = max(1, min(total // CHUNK, most, len(x)))
    length = -(-len(x) // count)
    if count > 1:
        length = -(-length // multiple) * multiple
    return [x[at : at + length] for at in range(0, len(x), length)]


def finished(parts, dtype, n):
    words = parts[0]
    if len(parts) > 1:
        words = (0.0, np.float64(0), np.float64(0), 0.0)
        for part in parts:
            words = merged(words, part, dtype)
    return np.asarray(words[2] + words[3]).astype(dtype) / dtype.type(n)


def variance_model(x):
    """x.var() of a long vector."""
    chunks = chunked(x, len(x), 32, WALKED_TWICE)
    return finished([of_stretch(c) for c in chunks], x.dtype, len(x))


def of_rows(x):
    """Length, means, squares and rounding of the columns of some rows, from groups of them."""
    words = (0.0, *np.zeros((3, x.shape[1])))
    for at in range(0, len(x), GROUP):
        rows = x[at : at + GROUP]
        total = np.zeros(x.shape[1], x.dtype)
        for row in rows:
            total = total + row
        pivot = (total.astype(np.float64) / len(rows)).astype(x.dtype)
        apart, squares = np.zeros((2, x.shape[1]), x.dtype)
        for row in rows:
            apart = apart + (row - pivot)
            squares = squares + (row - pivot) * (row - pivot)
        sums = apart.astype(np.float64), squares.astype(np.float64)
        mean, fewer = corrected(pivot, *sums, len(rows))
        words = merged(words, (float(len(rows)), mean, fewer, 0.0), x.dtype)
    return words


def columns_model(x):
    """x.var(axis=0) of a large matrix."""
    return finished([of_rows(c) for c in chunked(x, x.size, 8, GROUP)], x.dtype, len(x))


# ---- the order ----------------------------------------------------------------------------------


def normal(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 3 + 7).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [16_385, 20_000, 131_071, 131_072, 300_001])
def test_a_long_vector_is_added_in_the_order_of_the_model(dtype, size):
    x = normal(size, dtype)
    assert fjit.fuse(np.var)(x) == variance_model(x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_long_rows_are_added_one_by_one_in_the_order_of_the_model(dtype):
    x = normal((3, 20_000), dtype)
    got = fjit.fuse(lambda x: x.var(axis=1))(x)
    assert [float(v) for v in got] == [float(variance_model(row)) for row in x]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1000, 30), (4001, 130), (17, 1000), (70_000, 2)])
def test_columns_are_added_in_the_order_of_the_model(dtype, shape):
    x = normal(shape, dtype)
    assert np.array_equal(fjit.fuse(lambda x: x.var(axis=0))(x), columns_model(x))


def moments(x):
    return x.mean(), x.var(), x.mean(axis=0), x.var(axis=0), x.std(axis=1, ddof=1), x.sum(axis=1)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(600, 700), (5, 40_000), (30_000, 5)])
def test_threads_and_fusion_do_not_show(dtype, shape):
    x = normal(shape, dtype)
    first = fjit.fuse(moments, threads=1)(x)
    for threads in THREADS:
        for fusion in ("auto", "none"):
            again = fjit.fuse(moments, threads=threads, fusion=fusion)(x)
            for got, want in zip(again, first, strict=True):
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_the_mean_beside_a_variance_is_the_mean_alone(axis):
    x = normal((300, 500), np.float32)
    mean, _ = fjit.fuse(lambda x: (x.mean(axis=axis), x.var(axis=axis)))(x)
    np.testing.assert_array_equal(mean, fjit.fuse(lambda x: x.mean(axis=axis))(x))


# ---- the values ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), -1])
def test_every_axis_and_layout(dtype, axis):
    x = normal((6, 90, 130), dtype)
    for y in (x, x.transpose(2, 0, 1), x[::-1, ::2, ::-1]):
        check(lambda y: (y.var(axis=axis), y.std(axis=axis, ddof=2, keepdims=True)), y)


@pytest.mark.parametrize("given", ["i4", "u1", "?", "f2", "f4"])
def test_other_dtypes_give_float64_or_their_own(given):
    x = np.random.default_rng(0).integers(0, 2, 70_000).astype(given)
    check(np.var, x)
    check(lambda x: np.var(x, dtype=np.float64), x)


def test_float64_summed_in_float32_is_numpys_composition():
    check(lambda x: np.var(x, dtype=np.float32), normal(70_000, np.float64))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_one_that_is_not_finite(dtype, bad):
    for place in (0, 5000, 69_999):
        x = normal(70_000, dtype)
        x[place] = bad
        check(np.var, x)
        check(lambda x: x.reshape(700, 100).std(axis=0), x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_squares_that_overflow_are_infinite(dtype):
    large = np.sqrt(np.finfo(dtype).max)
    x = np.linspace(-large, large, 70_000).astype(dtype)
    x[::7] *= 100
    check(np.var, x)
    assert fjit.fuse(np.var)(x) == np.inf
    assert np.isinf(fjit.fuse(lambda x: x.reshape(700, 100).var(axis=0))(x)).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_equal_elements_have_the_variance_of_their_means_rounding(dtype):
    for value in (0.0, 0.1, 1e15):
        x = np.full(70_000, value, dtype)
        most = (4 * np.spacing(dtype(value))) ** 2
        assert fjit.fuse(np.var)(x) <= most
        assert fjit.fuse(lambda x: x.reshape(700, 100).var(axis=0))(x).max() <= most


@pytest.mark.parametrize("offset", [0.0, 3.0, 100.0, 1e4, -1e6])
def test_float32_is_within_one_ulp(offset):
    x = (np.random.default_rng(1).standard_normal(2**22) + offset).astype(np.float32)
    mean, variance = fjit.fuse(lambda x: (x.mean(), x.var()))(x)
    assert fjit.testing.ulp(mean, np.float32(x.mean(dtype=np.float64))) <= 1
    assert fjit.testing.ulp(variance, np.float32(x.var(dtype=np.float64))) <= 1


# ---- what shares the loops ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x.var(axis=0), x.argmax(axis=0)),
        lambda x: (x.var(axis=0), x.sum(axis=1), x * 2),
        lambda x: (x.var(axis=0), x.var(axis=1), x.var()),
        lambda x: (x.var(axis=0), x.sum(axis=0), x.min(axis=0), (x * x).sum(axis=0)),
        lambda x: (x - x.mean(axis=0)) / x.std(axis=0),
        lambda x: (x - x.max(axis=1, keepdims=True)).var(axis=0),
        lambda x: np.exp(x / 8).var(),
        lambda x: np.exp(x / 8).std(axis=0),
        lambda x: (x.var(), x.astype(np.float64).var(), np.cumsum(x, axis=1)),
        lambda x: np.pad(x, 3).var(),
        lambda x: np.concatenate([x, x[::-1] * 2]).std(axis=0),
        lambda x: (np.var(x[x > 6]), np.var(x, where=x > 6)),
        lambda x: x[1:, 1:].std(axis=None) + x[:-1].var(axis=0),
    ],
)
def test_programs(f):
    for dtype in FLOATS:
        check(f, normal((210, 180), dtype))


@pytest.mark.parametrize("f", [lambda x: np.tanh(x).var(axis=1), lambda x: (x / x.max()).var()])
def test_long_rows_of_what_is_computed(f):
    for dtype in FLOATS:
        check(f, normal((3, 33_000), dtype))


def test_a_variance_reads_memory_once():
    x = np.ones((2000, 300), np.float32)
    for f in (lambda x: (x.mean(), x.var()), lambda x: (x.mean(axis=0), x.std(axis=0))):
        assert len(fjit.fuse(f).explain(x, compile=False).kernels) == 1


@pytest.mark.parametrize("elements, kernels", [(16_384, False), (16_385, True)])
def test_the_rule_of_64_kib(elements, kernels):
    program = str(fjit.make_program(partial(np.var, axis=1))(np.ones((2, elements), np.float32)))
    assert ("op=deviations" in program) is kernels


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x.sum(axis=0), x.var(axis=1)),
        lambda x: (x.sum(axis=0), x - x.max(axis=1, keepdims=True)),
        lambda x: (x.sum(axis=0), x.cumsum(axis=0)),
        lambda x: (x.sum(), x.cumsum(axis=1), x.var(axis=0)),
        lambda x: (x.std(), (x / x.sum(axis=1, keepdims=True)).max(axis=1)),
        lambda x: (x.prod(axis=0), np.exp(x - x.mean(axis=1, keepdims=True)).sum(axis=1)),
    ],
)
@pytest.mark.parametrize("shape", [(600, 700), (4, 140_000)])
def test_sums_keep_their_chunks_whatever_shares_the_loops(f, shape):
    x = normal(shape, np.float64) - 7
    for got, want in zip(fjit.fuse(f)(x), fjit.fuse(f, fusion="none")(x), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1, 20000), 0), ((1, 65536), 0), ((4, 1, 16385), 1), ((1, 65536, 1), (0, 2)), ((9, 1), 1)],
)
def test_of_one_element_each(shape, axis, dtype):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    check(lambda x: (x.var(axis=axis), x.std(axis=axis), x.mean(axis=axis)), x)
