"""Distances in units in the last place, and what assert_same accepts and says."""

import math

import numpy as np
import pytest

from fjit.testing import assert_same, ulp

F32 = np.float32
NEXT = np.nextafter(F32(1), F32(2))


@pytest.mark.parametrize(
    ("got", "want", "distance"),
    [
        (F32(1), F32(1), 0),
        (NEXT, F32(1), 1),
        (np.nextafter(1.0, 2.0), 1.0, 1),
        (F32(-1.5), F32(-1.5), 0),
        (np.nan, np.nan, 0),
        (np.inf, np.inf, 0),
        (-np.inf, np.inf, math.inf),
        (np.nan, 1.0, math.inf),
        (1.0, np.nan, math.inf),
        (np.inf, 1.0, math.inf),
        (np.finfo("f8").max, np.inf, math.inf),
        (-0.0, 0.0, math.inf),
        (5e-324, 0.0, 1),
        (-5e-324, 0.0, 1),
        (5e-324, 1e-323, 1),
        (3, 7, 4),
        (True, False, 1),
        (np.uint64(2**64 - 1), np.uint64(0), 2.0**64),
    ],
)
def test_ulp_of_numbers(got: object, want: object, distance: float) -> None:
    assert ulp(got, want) == distance


def test_ulp_is_in_units_of_the_dtype_that_is_wanted() -> None:
    assert ulp(np.float64(1) + 2.0**-24, F32(1)) == 0.5
    assert ulp(F32(1), np.float64(1) + 2.0**-24) == 2.0**28


def test_ulp_of_arrays_is_the_largest() -> None:
    assert ulp(np.array([1, NEXT, 2], F32), np.array([1, 1, 2], F32)) == 1
    assert ulp(np.zeros((0, 3)), np.zeros((0, 3))) == 0
    assert ulp(np.array([1 + 1j]), np.array([1 + 1j])) == 0


def test_ulp_refuses_different_shapes() -> None:
    with pytest.raises(ValueError, match=r"\(3,\) and \(4,\)"):
        ulp(np.zeros(3), np.zeros(4))


@pytest.mark.parametrize(
    "same",
    [
        np.arange(3),
        (np.ones(2), [np.float32(3), None], {"a": np.zeros((0, 2))}),
        3.5,
        "text",
        np.array([np.nan, -0.0, np.inf]),
    ],
)
def test_equal_trees_are_the_same(same: object) -> None:
    assert_same(same, same)


@pytest.mark.parametrize(
    ("got", "want", "words"),
    [
        (np.arange(3.0), np.arange(3), "dtype float64, expected int64"),
        (np.ones(3), np.ones((3, 1)), r"shape \(3,\), expected \(3, 1\)"),
        (np.float64(1), np.ones(()), "float64, expected ndarray"),
        (1.0, np.float64(1), "a float, expected float64"),
        ((np.ones(1),), [np.ones(1)], "results are a"),
        ({"a": 1}, {"b": 1}, "results are a"),
        ("a", "b", "'a', expected 'b'"),
        (np.array([0.0]), np.array([-0.0]), r"\[0\] is np.float64\(0.0\)"),
        (np.ones(2, ">f4"), np.ones(2, "f4"), "dtype >f4"),
    ],
)
def test_different_trees_are_told_apart(got: object, want: object, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        assert_same(got, want)


def test_the_first_difference_is_shown() -> None:
    want = {"x": np.zeros((2, 3)), "y": np.arange(6, dtype="i4").reshape(2, 3)}
    got = {"x": np.zeros((2, 3)), "y": want["y"].copy()}
    got["y"][1, 1:] += 2
    with pytest.raises(AssertionError) as error:
        assert_same(got, want)
    text = str(error.value)
    assert text.startswith("['y'][1, 1] is np.int32(6), expected np.int32(4): 2 ulp apart")
    assert "2 of 6 values of int32 differ" in text


def test_bounds_are_inclusive() -> None:
    got, want = np.array([1, NEXT], F32), np.ones(2, F32)
    assert_same(got, want, ulp=1)
    with pytest.raises(AssertionError, match="1 ulp apart"):
        assert_same(got, want, ulp=0.5)
    assert_same(np.array([1e-9, 1.0]), np.array([0.0, 1.0]), rtol=1e-8)
    with pytest.raises(AssertionError, match="bound 0 ulp or 1e-10"):
        assert_same(np.array([1e-9, 1.0]), np.array([0.0, 1.0]), rtol=1e-10)


def test_a_tolerance_hides_no_nan_and_no_infinity() -> None:
    for bad in (np.nan, np.inf):
        with pytest.raises(AssertionError):
            assert_same(np.array([bad]), np.array([1.0]), ulp=100, rtol=10.0)
        with pytest.raises(AssertionError):
            assert_same(np.array([1.0]), np.array([bad]), ulp=100, rtol=10.0)


def test_axis_order_counts_on_demand() -> None:
    want = np.zeros((3, 4), order="F")
    assert_same(np.zeros((3, 4)), want)
    assert_same(np.zeros((3, 4), order="F"), want, order=True)
    with pytest.raises(AssertionError, match="strides"):
        assert_same(np.zeros((3, 4)), want, order=True)
