"""Bodies of many elementary functions, whose code is written once, masked."""

import functools

import numpy as np
import pytest

import fjit


def chain(x: np.ndarray, sines: int) -> np.ndarray:
    """Three operations a sine."""
    for k in range(sines):
        x = np.sin(x) * (1 + k / 1000) + x
    return x


@pytest.mark.parametrize(
    ("shape", "dtype"), [((10,), "f4"), ((1,), "f8"), ((17,), "f8"), ((1003,), "f8"), ((0,), "f8")]
)
def test_all_of_an_array_is_computed(shape: tuple[int, ...], dtype: str) -> None:
    x = np.linspace(-2.0, 2.0, int(np.prod(shape))).reshape(shape).astype(dtype)
    fused = fjit.fuse(functools.partial(chain, sines=60))(x)
    np.testing.assert_array_equal(fused, fjit.fuse(chain, fusion="none")(x, 60))


@pytest.mark.parametrize("extent", [10, 1000])
def test_the_body_is_written_once(extent: int) -> None:
    def lines(sines: int) -> int:
        lowered = fjit.fuse(functools.partial(chain, sines=sines)).lower(np.ones(extent))
        return lowered.llvm_ir.count("\n")

    each = (lines(70) - lines(60)) / 10
    assert lines(60) < 61 * each + 400
    assert lines(40) > 1.7 * 40 * each
