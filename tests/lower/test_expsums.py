"""logsumexp and softmax of long rows: one reduction, block by block.

`model` is docs/numerics.md written in NumPy, with fjit's own exponentials and logarithms; results
are compared with it bit for bit.
"""

import numpy as np
import pytest

import fjit
import fjit.special
from fjit.testing import check
from tests.lower.test_blocks import FLOATS, THREADS, WALKED_TWICE, chunked, normal, summed

EXP, LOG, LOG1P = (fjit.fuse(f) for f in (np.exp, np.log, np.log1p))


def finite(largest):
    return largest if np.isfinite(largest) else np.float64(0)


def rescaled(words, pivot):
    largest, ones, rest = words
    own, total = finite(largest), ones + rest
    if own == pivot:
        return ones, rest
    return np.float64(0), total * EXP(own - pivot) if total else total


def merged(old, new):
    largest = np.maximum(old[0], new[0])
    a, b = (rescaled(words, finite(largest)) for words in (old, new))
    return largest, a[0] + b[0], a[1] + b[1]


NOTHING = (np.float64(-np.inf), np.float64(0), np.float64(0))


def of_stretch(x):
    words = NOTHING
    for at in range(0, len(x), WALKED_TWICE):
        block = x[at : at + WALKED_TWICE]
        largest = np.float64(block.max())
        apart = block - x.dtype.type(finite(largest))
        ones = (apart == 0).astype(x.dtype)
        rest = np.where(apart == 0, x.dtype.type(0), EXP(apart))
        words = merged(words, (largest, summed(ones), summed(rest)))
    return words


def model(x):
    """logsumexp(x) of a long vector."""
    parts = [of_stretch(c) for c in chunked(x, len(x), 32, WALKED_TWICE)]
    words = parts[0]
    if len(parts) > 1:
        words = NOTHING
        for part in parts:
            words = merged(words, part)
    largest, ones, rest = words
    return x.dtype.type(largest) + x.dtype.type(LOG1P(rest / max(ones, 1.0)) + LOG(ones))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [16_385, 50_000, 300_001])
def test_a_long_vector_is_added_in_the_order_of_the_model(dtype, size):
    for x in (normal(size, dtype), np.sort(normal(size, dtype)), np.zeros(size, dtype)):
        assert fjit.fuse(fjit.special.logsumexp)(x) == model(x)


def both(x):
    return (
        fjit.special.logsumexp(x, axis=1),
        fjit.special.softmax(x, axis=1),
        fjit.special.log_softmax(x),
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(3, 20_000), (2, 150_000)])
def test_threads_and_fusion_do_not_show(dtype, shape):
    x = normal(shape, dtype)
    first = fjit.fuse(both, threads=1)(x)
    for threads in THREADS:
        for fusion in ("auto", "none"):
            again = fjit.fuse(both, threads=threads, fusion=fusion)(x)
            for got, want in zip(again, first, strict=True):
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [None, (0, 2)])
def test_axes_and_layouts(dtype, axis):
    x = normal((5, 70, 290), dtype)
    for y in (x, x.transpose(2, 0, 1), x[::-1, ::2, ::-1]):
        check(lambda y: (fjit.special.logsumexp(y, axis), fjit.special.softmax(y, axis)), y)


def test_other_dtypes():
    x = normal((2, 35_000), np.float64)
    check(lambda y: fjit.special.log_softmax(y, axis=1), x.astype(np.float16))
    check(lambda y: fjit.special.logsumexp(y, axis=1, keepdims=True), (x * 10).astype(np.int32))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_elements_that_are_not_finite(dtype, bad):
    x = normal((6, 30_000), dtype)
    for row, places in enumerate((0, 5000, 29_999, slice(0, 9000), slice(9000, None))):
        x[row, places] = bad
    check(both, x)
    check(both, np.full_like(x, bad))


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_element_far_above_the_others(dtype):
    for scale in (80, float(np.finfo(dtype).max) / 4):
        x = np.full(20_000, -scale, dtype)
        x[7777] = 0
        check(lambda x: (fjit.special.logsumexp(x), fjit.special.softmax(x[::-1])), x)
    x = np.full(20_000, -40.0, dtype)
    x[7777] = 0
    got = float(fjit.fuse(fjit.special.logsumexp)(x))
    assert got == pytest.approx(19_999 * np.exp(-40.0), rel=1e-6)


@pytest.mark.parametrize("offset", [0.0, -20.0, 300.0])
def test_float32_is_within_two_ulp(offset):
    x = (np.random.default_rng(1).standard_normal(2**22) + offset).astype(np.float32)
    wide = x.astype(np.float64)
    want = wide.max() + np.log(np.exp(wide - wide.max()).sum())
    assert fjit.testing.ulp(fjit.fuse(fjit.special.logsumexp)(x), np.float32(want)) <= 2


@pytest.mark.parametrize("dtype", FLOATS)
def test_programs(dtype):
    x = normal((2, 20_000), dtype)
    check(lambda x: fjit.special.softmax(np.tanh(x) * 3, axis=1) * x, x)
    check(lambda x: fjit.special.logsumexp(x[:, 100:-1], axis=1) - x.max(axis=1) + x.sum(axis=1), x)
    check(lambda x: (x.var(axis=1), fjit.special.logsumexp(x, axis=1), x.argmax(axis=1)), x)


def test_a_maximum_and_its_sum_read_memory_once():
    report = fjit.fuse(fjit.special.logsumexp).explain(np.ones((200, 300)), compile=False)
    assert len(report.kernels) == 1
    report = fjit.fuse(fjit.special.softmax).explain(np.ones((2000, 300)), compile=False)
    assert len(report.kernels) == 2


@pytest.mark.parametrize("axis, is_one", [(0, False), (1, True), (None, True)])
def test_rows_alone_are_walked_in_blocks(axis, is_one):
    program = fjit.make_program(lambda x: fjit.special.softmax(x, axis=axis))(np.ones((3, 9000)))
    assert ("op=expsum" in str(program)) is is_one
