"""Rows of a few elements: masked vectors without a loop, and axes that are split or counted on."""

import numpy as np
import pytest

import fjit
from fjit.testing import check

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17)


@pytest.mark.parametrize(
    ("dtype", "extent"),
    [
        *((dtype, 3) for dtype in ("f2", "i2", "i8", "u1", "?", ">f4")),
        *(("f4", k) for k in EXTENTS),
    ],
)
def test_rows_of_any_short_extent(dtype: str, extent: int) -> None:
    x = (np.random.default_rng(extent).normal(size=(37, extent)) * 9).astype(dtype)
    check(lambda x: (x * x[:, :1], x[:, ::-1] | (x > 1) if x.dtype.kind in "biu" else -x), x)
    check(lambda x: (x.sum(axis=1), x.max(axis=1), x.argmax(axis=1), x.argmin(axis=1)), x)
    check(lambda x: np.where(x > 0, x, x[0]) if x.dtype.kind != "b" else ~x, x)


@pytest.mark.parametrize("extent", EXTENTS[::2])
def test_cascades_scans_and_filters_of_short_rows(extent: int) -> None:
    x = np.random.default_rng(extent).normal(size=(40, extent)).astype("f4")
    check(lambda x: np.exp(x - x.max(axis=1, keepdims=True)) / np.exp(x).sum(), x)
    check(lambda x: (x.var(axis=1), np.cumsum(x, axis=1), x[x > 0], x[x[:, 0] > 0]), x)
    check(lambda x: (np.nanmax(x, axis=1), x.any(axis=1), (x > 0).all(axis=1), x.prod(axis=1)), x)


def test_signed_zeros_of_short_sums() -> None:
    x = np.array([[-0.0] * 3, [0.0, -0.0, -0.0], [np.inf, -np.inf, 1.0]])
    for dtype in ("f4", "f8"):
        check(lambda x: (x.sum(axis=1), x.prod(axis=1), x.max(axis=1)), x.astype(dtype))


def test_a_short_row_has_no_loop() -> None:
    def text(extent: int) -> str:
        return str(fjit.fuse(lambda x: x * x[:, :1]).lower(np.ones((50, extent))).nests[0])

    assert "of 4 at most" in text(3) and "of 8 at most" in text(5)
    assert "of 16 at most" in text(16) and "at most" not in text(17)
    assert text(5) == text(8) != text(9)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "?"])
def test_operands_that_repeat_along_an_axis(dtype: str) -> None:
    x = (np.random.default_rng(3).normal(size=(5, 6)) * 9).astype(dtype)
    check(lambda x: (np.repeat(x, 3, axis=1), np.repeat(x, 20, axis=0), np.repeat(x, 2)), x)
    check(lambda x: (np.tile(x, (2, 3)) | (np.tile(x, (2, 3)) > 0), np.tile(x, 7)), x > 1)
    check(lambda x: np.repeat(np.tile(x, (1, 2)), 3, axis=1)[:, 1:-1], x)
    check(lambda x: (np.tile(x, (2, 1)).sum(axis=0), np.repeat(x, 3, axis=1).max(axis=1)), x)
    check(lambda x: np.kron(x, np.ones((2, 3), x.dtype)), x)


def test_no_index_of_repeated_operands_is_divided() -> None:
    x = np.ones((30, 40))
    for function in (
        lambda x: np.repeat(x, 3, axis=1),
        lambda x: np.tile(x, (2, 2)) + 1,
        lambda x: np.repeat(np.repeat(x, 2, axis=0), 2, axis=1),
    ):
        text = str(fjit.fuse(function).lower(x).nests[0])
        assert "div" not in text and "mod" not in text


def test_tasks_over_several_axes_start_anywhere() -> None:
    """Workers begin in the middle of the axes, and some axes have one element or none."""
    for shape in ((7, 5, 3, 20), (1, 5, 1, 20), (64, 3, 5, 300), (0, 5, 3, 20), (5, 0, 3, 20)):
        x = np.random.default_rng(0).normal(size=shape)
        check(lambda x: x.transpose(2, 0, 1, 3) + x.max(axis=3).transpose(2, 0, 1)[..., None]
              if x.size else x + 1, x)  # fmt: skip
