"""Rows that are walked several times fetch the next one: where, and where not."""

import numpy as np
import pytest

import fjit
from fjit.bench.mathematics import layer_norm, softmax
from fjit.testing import check

X = np.random.default_rng(0).normal(size=(40, 300)).astype("f4")


def fetched(function: object, *args: object) -> int:
    """Prefetches among the statements of a function's kernels."""
    return "".join(map(str, fjit.fuse(function).lower(*args).nests)).count("prefetch")


def test_the_second_walk_fetches_what_the_first_reads() -> None:
    assert fetched(softmax, X) == 1
    assert fetched(layer_norm, X, X[0], X[1]) == 1  # weights lie in cache
    assert fetched(lambda x, y: x * y / (x + y).max(axis=1, keepdims=True), X, X + 1) == 2
    text = str(fjit.fuse(softmax).lower(X).nests[0])
    assert text.index("prefetch") > text.index("exp")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: x.sum(axis=1),
        lambda x: x[:, ::2] - x[:, ::2].max(axis=1, keepdims=True),
        lambda x: x - x.max(axis=0),
    ],
)
def test_nothing_to_fetch(function: object) -> None:
    assert fetched(function, X) == 0


def test_rows_longer_than_the_cache_are_left_alone() -> None:
    assert fetched(softmax, np.ones((3, 1 << 14), "f4")) == 1
    assert fetched(softmax, np.ones((3, 1 + (1 << 14)), "f4")) == 0


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", ">f8"])
def test_the_last_row_has_none_behind_it(dtype: str) -> None:
    """The last rows of memory that ends there: a fetch beyond must not be an access."""
    x = (X * 8).astype(dtype)
    check(lambda x: x - x.max(axis=1, keepdims=True), x)
    check(lambda x: x - x.max(axis=1, keepdims=True), x[::-1])
    check(lambda x: x - x.max(axis=1, keepdims=True), x[-1:])
    check(lambda x: x - x.max(axis=-1, keepdims=True), np.stack([x, x])[:, ::2])
