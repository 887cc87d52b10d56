"""Builtins and scalar types that let traced values through."""

import numpy as np
import pytest

from fjit.frontend.standins import scalar_type
from tests.frontend.rebind_tracer import FLOAT64, Run, Tr, is_traced, text


def test_builtins_of_traced_and_plain_values():
    def f(x):
        assert isinstance(x, np.ndarray) and type(x) is np.ndarray
        assert not isinstance(x, float | int) and issubclass(type(x), np.ndarray)
        assert isinstance(3.0, float) and not isinstance(3, float) and isinstance(True, bool)
        assert np.isnan(float("nan")) and float.fromhex("0x1p0") == 1.0 and int("12", 16) == 18
        three = 3.0
        assert type(three) is float and {float: 1}[type(three)] == 1 and type(float(1)) is float
        assert min(3, 2) == 2 and max([1, 5], key=lambda v: -v) == 1 and max([], default=9) == 9
        assert sum([1, 2]) == 3 and any([0, 1]) and all([]) and bool([]) is False
        assert np.dtype(float) == np.float64 and np.float64(3.0) == 3.0
        assert np.ones(1).dtype == np.float64 and isinstance(np.ones(1)[0], np.float64)
        assert np.ones(2, dtype=np.float64).dtype == float and np.zeros(2, bool) is not None
        return float(x[0]) + int(x[1])

    assert text(f) == "add(float(x[0]), int(x[1]))"


def test_min_and_max_keep_pythons_order():
    lower = "select(less(x[1], x[0]), x[1], x[0])"
    assert text(lambda x: min(x[0], x[1])) == lower
    assert text(lambda x: max(x[0], 0.0)) == "select(less(x[0], 0.0), 0.0, x[0])"
    assert text(lambda x: min([x[0], x[1]])) == lower
    assert text(lambda x: max([x[0], x[1]], key=abs)) == (
        "select(greater(abs(x[1]), abs(x[0])), x[1], x[0])"
    )


def test_classes_made_inside_may_derive_from_the_builtins():
    def f(x):
        class Meta(type):
            pass

        class Meters(float):
            pass

        class Made(metaclass=Meta):
            pass

        return isinstance(Meters(2), float) and type(Made) is Meta and not isinstance(1, Meters)

    assert Run(f)(Tr("x")) is True


@pytest.mark.parametrize("real", [float, int, complex, np.float32, np.int64, np.bool_])
def test_a_scalar_type_answers_for_the_real_one(real):
    standin = scalar_type(real, is_traced, lambda v: Tr("made"))
    assert standin == real and hash(standin) == hash(real) and repr(standin) == repr(real)
    assert {real: 1}[standin] == 1 and standin.__name__ == real.__name__
    assert np.dtype(standin) == np.dtype(real) and np.zeros(1, standin).dtype == np.dtype(real)
    assert type(standin(1)) is real and isinstance(real(1), standin) and issubclass(real, standin)
    assert standin(Tr("x")).text == "made" and (standin | None) is not None


def test_numpy_takes_scalar_types_wherever_a_dtype_goes():
    x = np.ones(3, "f4")
    assert x.astype(FLOAT64).dtype == "f8" and np.result_type(FLOAT64, x.dtype) == np.float64
    assert np.dtype(float) in (FLOAT64,) and np.dtype("f8") == FLOAT64 and FLOAT64 != 3
    assert np.issubdtype(FLOAT64, np.floating) and np.finfo(FLOAT64).bits == 64
    assert np.can_cast(np.float32, FLOAT64) and np.asarray([1], dtype=FLOAT64).dtype == FLOAT64


def test_any_and_all_of_a_traced_vector():
    def f(x):
        return any(x)

    assert text(f) == "bool(any(x))"
    assert text(lambda x: bool(x[0])) == "bool(x[0])"


def test_sum_and_the_protocols_of_python():
    assert text(lambda x: sum([x[0], x[1]])) == "add(add(0, x[0]), x[1])"
    assert text(lambda x: abs(round(x, 2))) == "abs(round(x, 2))"
    assert Run(lambda x: [len(x), list(enumerate(x))[1][0], len(list(zip(x, x, strict=True)))])(
        Tr("x")
    ) == [3, 1, 3]


def test_bool_and_type_stand_back_where_a_real_type_is_needed():
    def f(x):
        flags = np.ones(2, dtype=bool)
        kinds: dict[type | None, bool | int] = {bool: 1, type(None): 2}
        Made = type("Made", (), {"k": 3})
        return (
            flags.dtype == bool,
            kinds[bool],
            Made.k,
            issubclass(bool, int),
            type.__name__,
            isinstance(bool, type),
            sorted([3, 1], key=float),
        )

    assert Run(f)(Tr("x")) == (True, 1, 3, True, "type", True, [1, 3])
