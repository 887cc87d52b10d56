"""Prefetches: where kernels that walk rows several times ask for the next ones."""

import numpy as np
import pytest

import fjit
from fjit.bench.mathematics import softmax
from fjit.testing import check


def prefetches(f, *args):
    text = "".join(str(nest) for nest in fjit.fuse(f).lower(*args).nests)
    return text.count("prefetch")


def centred(x, y):
    return (x - y) / (x - y).max(axis=1, keepdims=True)


@pytest.mark.parametrize(
    "f, count",
    [
        (centred, 2),
        (lambda x, y: (x * y).sum(axis=1), 0),
        (lambda x, y: x - (x * y[0]).sum(axis=1, keepdims=True), 1),  # y[0] is the same for all
        (lambda x, y: (x + y).var(), 2),
    ],
)
def test_each_operand_is_fetched_once(f, count):
    x, y = np.ones((200, 300)), np.ones((200, 300))
    assert prefetches(f, x, y) == count


def test_layouts_and_the_last_row():
    x, y = np.random.default_rng(0).normal(size=(2, 30, 40)) + 9
    for a, b in ((x, y), (x[::-1], y[:, ::-1]), (x.T, y.T), (x[::2, ::2], y[1::2, 1::2])):
        check(centred, a, b)


def test_the_second_walk_fetches_what_the_first_reads():
    x = np.ones((40, 300), "f4")
    text = str(fjit.fuse(softmax).lower(x).nests[0])
    assert text.count("prefetch") == 1
    assert text.index("exp") < text.index("prefetch") < text.index("div")


def test_rows_longer_than_the_cache_are_left_alone():
    assert prefetches(softmax, np.ones((3, 1 << 14), "f4")) == 1
    assert prefetches(softmax, np.ones((3, 1 + (1 << 14)), "f4")) == 0
