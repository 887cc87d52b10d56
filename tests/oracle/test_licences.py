"""What flags add to the slack: as much as what they license may cost, elsewhere nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.core import primitives as p
from fjit.optimize.relax import FLAGS
from fjit.oracle.bounds import bounded
from fjit.oracle.licences import RULES, licence

X = np.array([0.3, -1.7, 3.1, 2.9])
UNIT = np.spacing(np.abs(X * X))


def slack(f: Callable[..., Any], *flags: str, x: Any = X) -> Any:
    (result,) = bounded(fjit.make_program(f)(x), [x], flags)
    return result.slack


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag != "approx"])
def test_each_flag_loosens_its_own_primitives(flag: str) -> None:
    for primitive in p.PRIMITIVES.values():
        is_elementwise = primitive in (p.add, p.mul, p.div, p.max_, p.hypot, p.exp, p.select)
        if is_elementwise and primitive not in RULES[flag]:
            assert licence(primitive, [X, X], X, {flag}) is None
    assert licence(p.add, [X.astype(int)] * 2, X.astype(int), FLAGS) is None
    assert licence(p.mul, [X, X], X * X, ()) is None


def test_a_product_may_go_unrounded() -> None:
    np.testing.assert_array_equal(slack(lambda x: x * x, "contract"), 2 * UNIT)
    assert slack(lambda x: x + x, "contract") is None
    cancelled = slack(lambda x: x * x - np.rint(x * x), "contract")
    assert (cancelled >= UNIT).all() and (cancelled < 10 * UNIT).all()


def test_joined_constants_cost_what_they_cancel() -> None:
    lost = slack(lambda x: (x + 1e9) - 1e9, "reassoc")
    assert (lost > 1e-7).all() and (lost < 1e-5).all()
    assert np.isinf(slack(lambda x: x * 1e200 * 1e200, "reassoc")).all()


def test_nan_and_infinity_are_free_where_they_were_ruled_out() -> None:
    odd = np.array([1.0, np.nan, np.inf])
    for flag, free in (("nnan", [0, np.inf, 0]), ("ninf", [0, 0, 0])):
        found = slack(lambda x: np.maximum(x, 2), flag, x=odd)
        np.testing.assert_array_equal(np.zeros(3) if found is None else found, free)
    assert np.isinf(slack(lambda x: x.max(), "nnan", x=odd))
    assert np.isinf(slack(lambda x: x.argmax(), "nnan", x=odd))
    assert slack(lambda x: x.max(), "nnan") is None
    assert np.isinf(slack(lambda x: np.hypot(x, 1), "ninf", x=odd)).tolist() == [False, False, True]


def test_zeros_may_lose_their_sign_and_quotients_a_unit() -> None:
    zeros = np.array([-0.0, 0.0, 1.0])
    assert (slack(lambda x: x + 0, "nsz", x=zeros) > 0).tolist() == [True, True, False]
    np.testing.assert_array_equal(slack(lambda x: x / 3, "arcp"), 2 * np.spacing(np.abs(X / 3)))
    assert np.isinf(slack(lambda x: 1 / x, "arcp", x=np.array([1e-310, 1e308, 2.0]))).tolist() == [
        True, True, False
    ]  # fmt: skip
