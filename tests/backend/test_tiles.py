"""Operands across the memory order of the others: tiles turned in registers, and their edges."""

import numpy as np
import pytest

import fjit
from fjit.testing import check

SHAPES = ((16, 256), (33, 50), (70, 300), (100, 17), (16, 16), (1, 400))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "u1", "?", ">f4"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_transposed_operand(shape: tuple[int, int], dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, y = ((rng.normal(size=s) * 3).astype(dtype) for s in (shape, shape[::-1]))
    check(lambda x, y: (np.where(x.T > 0, y, x.T), x.T[:, ::-1] | (y > 0)), x > 1, y)
    check(lambda x, y: x.T + y, x, y)


def test_two_dtypes_and_two_turned_operands() -> None:
    rng = np.random.default_rng(1)
    a, b, c = (
        rng.normal(size=(70, 300)),
        rng.normal(size=(70, 300)).astype("f4"),
        np.ones((300, 70)),
    )
    check(lambda a, b, c: a.T * 2 + b.T * c, a, b, c)
    check(lambda a, b, c: (a[::-1].T + c, np.sqrt(np.abs(b.T)) + c), a, b, c)


def test_the_program_of_a_tile_turns_it() -> None:
    x, y = np.ones((64, 256), "f4"), np.ones((256, 64), "f4")
    text = fjit.fuse(lambda x, y: x.T + y).lower(x, y).llvm_ir
    assert "unroll 16" in str(fjit.fuse(lambda x, y: x.T + y).lower(x, y).nests[0])
    assert text.count("shufflevector") >= 24


@pytest.mark.parametrize("dtype", ["u1", "?", "i2", "f2"])
def test_narrow_elements_are_turned_too(dtype: str) -> None:
    x = np.arange(300 * 70).reshape(300, 70).astype(dtype)
    check(lambda x: (x.T.copy(), np.rot90(x).copy(), np.flip(x).T.copy()), x)
    lowered = fjit.fuse(lambda x: x.T.copy()).lower(x)
    assert lowered.llvm_ir.count("shufflevector") >= 64
