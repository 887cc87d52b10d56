"""What arrays() draws: every dtype, shape, layout and kind of value it promises."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import find, given, settings

from fjit.oracle.choose import seeded
from fjit.oracle.memory import LAYOUTS
from fjit.oracle.strategies import DTYPES, choose_array
from fjit.testing import arrays

MANY = [choose_array(seeded(seed)) for seed in range(1500)]


def test_every_dtype_number_of_axes_and_layout_is_drawn() -> None:
    assert {x.dtype.name for x in MANY} == set(DTYPES)
    assert {x.ndim for x in MANY} == {0, 1, 2, 3, 4}
    assert any(x.size == 0 for x in MANY) and any(1 in x.shape for x in MANY)
    assert any(not x.flags.writeable for x in MANY)
    assert any(not x.dtype.isnative for x in MANY)
    assert any(not x.flags.aligned for x in MANY)
    assert any(0 in x.strides for x in MANY if x.size > 1)
    assert any(min(x.strides, default=1) < 0 for x in MANY)
    assert any(x.flags.f_contiguous and not x.flags.c_contiguous for x in MANY)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_floats_are_drawn(dtype: str) -> None:
    values = np.concatenate([x.ravel() for x in MANY if x.dtype.name == dtype])
    tiny = np.finfo(dtype).tiny
    assert np.isnan(values).any()
    assert (values == np.inf).any() and (values == -np.inf).any()
    assert ((values == 0) & np.signbit(values)).any()
    assert ((np.abs(values) < tiny) & (values != 0)).any()


@pytest.mark.parametrize("dtype", [d for d in DTYPES if "int" in d])
def test_ends_of_integers_are_drawn(dtype: str) -> None:
    values = np.concatenate([x.ravel() for x in MANY if x.dtype.name == dtype])
    assert {np.iinfo(dtype).min, np.iinfo(dtype).max} <= set(values.tolist())


@settings(max_examples=30)
@given(arrays(dtypes=["int8", "bool"], shapes=[(2, 3), (4,)], layouts=["F", "strided"]))
def test_choices_hold(x: np.ndarray) -> None:
    assert x.dtype.name in ("int8", "bool")
    assert x.shape in ((2, 3), (4,))
    assert x.flags.f_contiguous or not x.flags.c_contiguous


def test_arrays_shrink_to_small_plain_ones() -> None:
    x = find(arrays(), lambda x: x.size > 2)
    assert x.dtype == np.float64 and x.shape == (3,) and x.flags.c_contiguous


def test_hypothesis_is_loaded_by_the_first_call_only() -> None:
    code = (
        "import sys, fjit.testing; assert 'hypothesis' not in sys.modules;"
        "assert 'llvmlite' not in sys.modules;"
        "fjit.testing.arrays(); assert 'hypothesis' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_drawn_on_demand(layout: str) -> None:
    assert choose_array(seeded(1), layouts=[layout], shapes=[(3, 2)]).shape == (3, 2)
