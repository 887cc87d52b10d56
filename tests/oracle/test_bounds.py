"""Slack: none for exact programs, some from elementary functions and sums on, inf where it must."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.oracle.bounds import ELEMENTARY_ULP, bounded
from fjit.oracle.walk import Undetermined


def slack(f: Callable[..., Any], *arguments: Any) -> Any:
    (result,) = bounded(fjit.make_program(f)(*arguments), arguments)
    return result.slack


X = np.array([0.25, -1.5, 3.0, 2.75])
WIDE = np.random.default_rng(0).standard_normal(50)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sqrt(np.abs(x * 3 - x / 7)) + x % 2,
        lambda x: np.floor(x).astype("i4") // 3,
        lambda x: np.where(x > 0, x, -x)[::-1],
        np.argmax,
        lambda x: x.sum(),  # multiples of 1/16 add up exactly in any order
        lambda x: np.cumsum(np.rint(x)),
        lambda x: np.prod(np.rint(x)),
        lambda x: x[x > 0] * 2,
        np.count_nonzero,
        np.sort,
        lambda x: x.max(),
        lambda x: np.rint(x)[None] @ np.rint(x)[:, None],
    ],
)
def test_exact_programs_have_no_slack(f: Callable[..., Any]) -> None:
    assert slack(f, X) is None


def test_an_elementary_function_has_some_units_of_slack() -> None:
    np.testing.assert_array_equal(slack(np.exp, X), ELEMENTARY_ULP * np.spacing(np.exp(X)))


def test_slack_grows_by_condition() -> None:
    assert slack(lambda x: np.exp(x) * 4, X)[0] > 3 * slack(np.exp, X)[0]
    cancelled = slack(lambda x: np.log1p(x) - np.log1p(x * (1 + 2.0**-40)), np.array([1.0]))
    assert 1e-16 < cancelled[0] < 1e-13
    assert slack(lambda x: 1 / (np.exp(x) - 1), np.array([1e-8]))[0] > 0.1


def test_sums_are_bounded_by_their_condition() -> None:
    bound = slack(lambda x: x.sum(), WIDE)
    assert 0 < bound <= 50 * np.finfo("f8").eps * np.abs(WIDE).sum()
    rows = slack(lambda x: x.reshape(5, 10).sum(1), WIDE)
    assert rows.shape == (5,) and (rows < bound).all()
    running = slack(np.cumsum, WIDE)
    assert running.shape == (50,) and (np.diff(running) >= 0).all()


def test_infinite_and_nan_sums_are_certain() -> None:
    for bad in (np.inf, np.nan, -np.inf):
        assert slack(lambda x: x.sum(), np.array([*WIDE, bad])) is None
    assert slack(lambda x: x.sum(), np.full(9, 1e308)) == np.inf


def test_rounding_that_decides_a_jump_allows_anything() -> None:
    near = slack(lambda x: np.floor(np.exp(x)), np.array([0.0, 0.3]))
    assert near[0] > 0 and near[1] == 0
    compare = slack(lambda x: np.exp(x) > 1, np.array([0.0, 0.3]))
    assert compare.tolist() == [np.inf, 0]
    equal = slack(lambda x: np.exp(x) == np.exp(x), np.array([0.1, np.nan]))
    assert equal.tolist() == [np.inf, 0]
    flags = slack(lambda x: (np.exp(x) > 1) == (x > 5), np.array([0.0, 0.3]))
    assert flags.tolist() == [np.inf, 0]
    cast = slack(lambda x: np.exp(x).astype("i4"), np.array([0.0, 0.3]))
    assert cast.tolist() == [np.inf, 0]
    assert slack(lambda x: 1 / np.sin(x), np.array([0.0, 1.0])).tolist()[0] == np.inf
    assert slack(lambda x: np.argmax(np.exp(x)), np.array([1.0, 1.0 + 1e-16])) == np.inf
    assert slack(lambda x: np.argmax(np.exp(x)), np.array([1.0, 2.0])) is None


def test_an_unsure_condition_spoils_its_own_elements_only() -> None:
    bound = slack(lambda x: np.where(np.exp(x) > 1, x, 5.0), np.array([0.0, 0.3, -1.0]))
    assert bound.tolist() == [np.inf, 0, 0]


def test_rounding_that_decides_a_shape_is_reported() -> None:
    with pytest.raises(Undetermined, match="compress"):
        slack(lambda x: x[np.exp(x) > 1], np.array([0.0, 0.3]))
    assert slack(lambda x: x[np.exp(x) > 1], np.array([0.2, 0.3])) is None


def test_slack_moves_with_its_elements() -> None:
    def f(x: Any) -> Any:
        out = np.zeros((2, 4))
        out[1] = np.exp(x)
        return np.pad(out[::-1].T, 1)

    bound = slack(f, X)
    assert bound.shape == (6, 4)
    assert (bound[1:5, 1] > 0).all() and np.count_nonzero(bound) == 4


def test_signs_of_zero_extrema_are_open() -> None:
    zeros = np.array([0.0, -0.0])
    assert 0 < slack(lambda x: x.max(), zeros) < 1e-300
    assert slack(lambda x: 1 / x.max(), zeros) == np.inf


def test_unsigned_casts_out_of_range_are_open() -> None:
    x = np.array([3.7, -5.0, np.nan, 255.9, -0.5], "f4")
    assert slack(lambda x: x.astype("u1"), x).tolist() == [0, np.inf, np.inf, 0, 0]
    assert slack(lambda x: x.astype("i4"), x) is None


def test_matrix_products_are_bounded() -> None:
    a, b = WIDE.reshape(5, 10), WIDE.reshape(10, 5)
    bound = slack(lambda x, y: x @ y, a, b)
    np.testing.assert_allclose(bound, 20 * np.finfo("f8").eps * (np.abs(a) @ np.abs(b)))


def test_numpy_itself_stays_within_the_slack_of_single_precision() -> None:
    """Double precision is the better answer; single precision must lie within the slack of it."""

    def f(x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return np.log(e / e.sum(-1, keepdims=True))

    x = WIDE.reshape(5, 10).astype("f4")
    (result,) = bounded(fjit.make_program(f)(x), (x,))
    error = np.abs(f(x.astype("f8")) - result.value)
    assert (error <= result.slack).all() and (result.slack < 1e-4).all()


def test_sums_of_halves_are_bounded_as_sums_in_halves() -> None:
    x = WIDE.reshape(5, 10).astype("f2")
    eps = float(np.finfo("f2").eps)
    size = np.abs(x).astype("f8")
    np.testing.assert_allclose(slack(lambda x: x.sum(0), x), eps * 4 * size.sum(0))
    np.testing.assert_allclose(slack(lambda x: np.cumsum(x, 1), x), eps * 9 * np.cumsum(size, 1))
    single = slack(lambda x: x.sum(0, dtype="f4"), x)  # NumPy sums this one in float32
    assert (single <= 2**-11 * eps * size.sum(0)).all()
    assert slack(lambda x: x.max(0), x) is None
    assert slack(lambda x: np.rint(x).sum(0), x) is None


def test_sums_of_halves_that_may_overflow_on_the_way_are_open() -> None:
    x = np.array([[60000, 1], [60000, 2], [-60000, 3]], "f2")
    assert slack(lambda x: x.sum(0), x).tolist() == [np.inf, 0]


def test_numpy_stays_within_the_slack_of_halves() -> None:
    rng = np.random.default_rng(1)
    for shape in ((3, 4), (40, 7), (300, 20), (3000, 3)):
        for x in (rng.standard_normal(shape), rng.random(shape), 1e-3 * rng.random(shape)):
            narrow = x.astype("f2")
            for f in (lambda x: x.sum(0), lambda x: np.cumsum(x, 0)):
                (result,) = bounded(fjit.make_program(f)(narrow), (narrow,))
                error = np.abs(f(narrow).astype("f8") - f(narrow.astype("f8")))
                assert (error <= result.slack).all()
