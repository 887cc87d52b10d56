"""Every layout holds the same values; clones are laid out and overlap like their originals."""

import numpy as np
import pytest

from fjit.oracle.memory import LAYOUTS, clone, lay_out

SHAPES = [(), (0,), (1,), (5,), (3, 4), (2, 0, 3), (2, 3, 4)]


def address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", [x for x in LAYOUTS if x != "zero-stride"])
def test_layouts_keep_the_values(layout: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape)
    np.testing.assert_array_equal(lay_out(x, layout), x)


def test_layouts_are_what_they_say() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    seen = {name: lay_out(x, name) for name in LAYOUTS}
    assert seen["C"].flags.c_contiguous and seen["F"].flags.f_contiguous
    assert not seen["strided"].flags.forc and min(seen["strided"].strides) > 0
    assert max(seen["negative"].strides) < 0
    assert 0 in seen["zero-stride"].strides and not seen["zero-stride"].flags.writeable
    assert not seen["unaligned"].flags.aligned
    assert not seen["big-endian"].dtype.isnative
    assert not seen["read-only"].flags.writeable


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="good values: C, F"):
        lay_out(np.zeros(2), "diagonal")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["f4", "i8", "u1", "?"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_clone_differs_in_its_memory_only(
    layout: str, dtype: str, shape: tuple[int, ...]
) -> None:
    x = lay_out(np.random.default_rng(0).integers(0, 99, shape).astype(dtype), layout)
    (y,) = clone([x])
    np.testing.assert_array_equal(x, y)
    assert (x.dtype, x.shape, x.strides) == (y.dtype, y.shape, y.strides)
    assert str(x.flags).replace("OWNDATA : True", "OWNDATA : False") == str(y.flags)
    assert address(x) % 64 == address(y) % 64
    assert not x.size or not np.may_share_memory(x, y)


def test_clones_overlap_like_their_originals() -> None:
    base = np.arange(20)
    given = [base[2:8], base[4:12:2], base[15:], base[2:8][::-1], "text", 3]
    copies = clone(given)
    assert copies[4:] == given[4:]
    copies[0][2] = 100
    assert copies[1][0] == 100 and copies[3][3] == 100 and base[4] == 4
    assert not np.may_share_memory(copies[0], copies[2])


def test_one_object_given_twice_stays_one_object() -> None:
    x = np.ones(3)
    a, b = clone([x, x])
    assert a is b and a is not x
