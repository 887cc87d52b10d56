"""The sign of a computed NaN is nobody's promise; that of a NaN that is read or moved is kept."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.oracle.signs import sign_slack
from fjit.oracle.walk import Undetermined
from fjit.testing import check

NAN = np.array([np.nan, -np.nan, 1.0, -1.0, 0.0, -0.0, np.inf, -np.inf])

COMPUTED: dict[str, Callable[[Any], Any]] = {
    "0 / 0": lambda x: (x * 0) / (x * 0),
    "inf - inf": lambda x: (x - x) + (np.exp(x * 0 + 999) - np.exp(x * 0 + 999)),
    "0 * inf": lambda x: x * 0 * np.exp(x * 0 + 999),
    "sqrt": lambda x: np.sqrt(-1 - np.abs(x)),
    "log": lambda x: np.log(-1 - np.abs(x)),
    "remainder": lambda x: np.abs(x) % (x * 0),
    "mean of none": lambda x: np.mean(x[x > np.inf]) + x,
    "mean of none of few": lambda x: np.mean((x > 9)[x > np.inf]) * x,
    "sum": lambda x: x.sum() + x,
    "running sum": np.cumsum,
    "two of them": lambda x: x + (x * 0 / x),
    "maximum": lambda x: np.maximum(x, -x),
    "narrowed": lambda x: x.astype(np.float32).astype(np.float64),
    "least": lambda x: np.minimum(x.min(), x),
    "power": lambda x: x**0.5,
    "sorted": lambda x: np.sort(x)[::-1],
    "chosen": lambda x: np.where(x > 0, x * 0 / 0.0, x),
    "variance": lambda x: x + x[:0].var(),
}
READ: dict[str, Callable[[Any], Any]] = {
    "signbit": np.signbit,
    "copysign": lambda y: np.copysign(2.0, y),
    "counted": lambda y: np.signbit(y).sum(),
    "summed": lambda y: (np.copysign(1.5, y) * 0.1).sum() + y,
    "any": lambda y: (np.any(np.signbit(y)), np.argmax(np.copysign(1, y))),
    "where": lambda y: np.where(np.signbit(y), 1.0, 2.0),
    "negated": lambda y: np.copysign(1.0, -y)[::-1],
    "running": lambda y: np.cumsum(np.copysign(1.0, y)),
    "product": lambda y: np.copysign(1.0, y)[None] @ np.copysign(1.0, y)[:, None],
    "sorted": lambda y: np.sort(np.copysign(np.arange(8.0), y)),
}


def slack(f: Callable[..., Any], *arguments: Any) -> Any:
    (result,) = sign_slack(fjit.make_program(f)(*arguments), arguments)
    return result


@pytest.mark.parametrize("how", COMPUTED)
@pytest.mark.parametrize("read", ["signbit", "copysign", "summed", "negated", "sorted"])
def test_the_sign_of_a_computed_nan_may_differ_between_paths(how: str, read: str) -> None:
    check(lambda x: READ[read](COMPUTED[how](x)), NAN)


@pytest.mark.parametrize("how", COMPUTED)
def test_a_computed_nan_leaves_open_what_reads_its_sign_and_nothing_else(how: str) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unknown = np.isnan(COMPUTED[how](NAN))
    if how == "chosen":
        unknown &= NAN > 0  # the others are the argument's own
    for read in (np.signbit, lambda y: np.copysign(2.0, y)):
        found = slack(lambda x, read=read: read(COMPUTED[how](x)), NAN)
        assert unknown.any() and (found == np.where(unknown, np.inf, 0.0)).all()


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize(
    "move",
    [
        lambda x: x,
        lambda x: -x,
        np.abs,
        lambda x: x[(np.arange(8) * 3) % 8],
        lambda x: np.pad(x, 1, mode="edge")[1:9],
        lambda x: np.where(x > 0, -x, x),
        lambda x: np.copysign(x, -x),
        lambda x: np.concatenate([x, x])[4:12],
        lambda x: np.copysign(x * 0 / 0.0, x),
        lambda x: np.abs(x * 0 / 0.0),
    ],
)
def test_the_sign_of_a_nan_that_is_moved_is_exact(move: Callable[[Any], Any], read: str) -> None:
    check(lambda x: READ[read](move(x)), NAN)
    if read in ("signbit", "copysign"):
        assert slack(lambda x: READ[read](move(x)), NAN) is None


def test_what_is_open_spoils_only_what_is_made_of_it() -> None:
    def f(x: Any) -> Any:
        return np.copysign(1.0, x / x)

    x = np.array([[1.0, 0.0], [2.0, 3.0]])
    assert slack(lambda x: f(x).sum(1), x).tolist() == [np.inf, 0]
    assert slack(lambda x: f(x).sum(0), x).tolist() == [0, np.inf]
    assert slack(lambda x: np.cumsum(f(x), 0), x).tolist() == [[0, np.inf], [0, np.inf]]
    assert slack(lambda x: np.cumsum(f(x), 1), x).tolist() == [[0, np.inf], [0, 0]]
    assert slack(lambda x: np.sort(f(x), 1), x).tolist() == [[np.inf, np.inf], [0, 0]]
    assert slack(lambda x: np.argmax(f(x), 1), x).tolist() == [np.inf, 0]
    assert slack(lambda x: f(x) @ x, x).tolist() == [[np.inf, np.inf], [0, 0]]
    assert slack(lambda x: x.T @ f(x), x).tolist() == [[0, np.inf], [0, np.inf]]
    assert slack(lambda x: np.where(x > 0, x, f(x)), x).tolist() == [[0, np.inf], [0, 0]]
    assert slack(lambda x: np.where(f(x) > 0, x, 5), x).tolist() == [[0, np.inf], [0, 0]]
    assert slack(lambda x: np.where(x > 0, f(x), 5), x) is None
    assert slack(lambda x: x / x + np.signbit(x), x) is None


def test_a_shape_or_a_position_that_a_sign_decides_is_reported() -> None:
    def mask(x: Any) -> Any:
        return x[np.signbit(x / x)]

    with pytest.raises(Undetermined, match="compress"):
        slack(mask, NAN)
    check(mask, NAN)
    check(lambda x: x[np.signbit(x / x).astype(np.int64)], NAN)


def test_everything_else_beside_it_is_compared_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is wrong where no sign decides is caught, beside an element that is open."""
    call = fjit.api.Fused.__call__

    def wrong(self: Any, *arguments: Any) -> Any:
        result = call(self, *arguments)
        if self.choices.width == 8:
            result[2] = -result[2]
        return result

    monkeypatch.setattr(fjit.api.Fused, "__call__", wrong)
    with pytest.raises(AssertionError, match=r"8 lanes.*result\[2\]"):
        check(lambda x: np.copysign(1.0, x / x), NAN)
