"""Loops cut where a condition along them changes, in chunks that several threads share."""

from collections.abc import Callable

import numpy as np
import pytest

import fjit
from fjit.testing import check

LONG = 140_000  # elements of a result that is walked in chunks


@pytest.mark.parametrize("dtype", ["f4", "f8", "u1", "?"])
def test_joins_along_a_chunked_axis(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for first in (1, 7, LONG // 2 - 1, LONG - 33):
        a, b = ((rng.normal(size=k) * 3).astype(dtype) for k in (first, LONG - first))
        check(lambda a, b: np.concatenate([a, b]), a, b)
        check(lambda a, b: np.concatenate([a, b[::-1], a]), a, b)
    x = (rng.normal(size=(LONG // 3, 3)) * 3).astype(dtype)
    check(lambda x: (np.roll(x, 5, axis=0), np.concatenate([x, x + x])), x)
    check(lambda x: (np.roll(x, -1), np.pad(x.ravel(), (3, 70))), x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.concatenate([x, x]),
        lambda x: np.roll(x, 3, axis=0),
        lambda x: np.roll(x, 1),
        lambda x: np.roll(x, -5)[:, ::1],
        lambda x: np.concatenate([x.ravel()[:10], x.ravel() * 2]),
    ],
)
def test_parts_of_chunks_have_no_conditions(function: Callable[..., np.ndarray]) -> None:
    (nest,) = fjit.fuse(function).lower(np.ones((400, 400))).nests
    text = str(nest)
    assert "from s" in text
    assert not any(word in text for word in ("select", " if ", "index"))
