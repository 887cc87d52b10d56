"""Each licence as a rewrite, before and after; and what it must leave alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.core import primitives as p
from fjit.core.ir import Program
from fjit.core.verify import verify
from fjit.optimize.relax import FLAGS, LICENSED, licensed

X = np.ones((3, 4), np.float32)


def program(f: Callable[..., Any], *flags: str, x: Any = X) -> Program:
    fused = fjit.fuse(f, fastmath=flags)
    result = fjit.make_program(fused)(*[x.copy() for _ in range(f.__code__.co_argcount)])
    verify(result)
    return result


def equations(f: Callable[..., Any], *flags: str, x: Any = X) -> list[str]:
    """Primitives with their marks: `exp approx`."""
    eqns = program(f, *flags, x=x).eqns
    return [f"{e.primitive} {e.fast}".strip() for e in eqns]


# fmt: off
REWRITES = [
    ("contract", lambda a, b: a * b + a, ["fma"]),
    ("contract", lambda a, b: a + a * b, ["fma"]),
    ("contract", lambda a, b: a * b - 1, ["fma"]),
    ("contract", lambda a, b: a - a * b, ["neg", "fma"]),
    ("contract", lambda a, b: a * 2 + b * 3, ["mul", "fma"]),
    ("reassoc", lambda a: (a + 1) + 2, ["add reassoc"]),
    ("reassoc", lambda a: (1 + a) - 2, ["add reassoc"]),
    ("reassoc", lambda a: a * 3 * 5 * 7, ["mul reassoc"]),
    ("reassoc", lambda a: a.sum(0).sum(), ["reduce reassoc"]),
    ("reassoc", lambda a: np.cumprod(a, 1), ["cumulate reassoc"]),
    ("nnan", lambda a, b: np.fmax(a, -b), ["neg", "fmax nnan"]),
    ("nnan", lambda a: np.clip(a, 0, 2), ["max nnan", "min nnan"]),
    ("nnan", lambda a: a.argmin(), ["argreduce nnan"]),
    ("nsz", lambda a: 0.0 + a, []),
    ("nsz", lambda a: 0 - a, ["neg nsz"]),
    ("nsz", lambda a: a - -0.0, []),
    ("arcp", lambda a: a / 7, ["mul arcp"]),
    ("arcp", lambda a: a / a[0], ["slice", "reshape", "div", "broadcast", "mul arcp"]),
    ("arcp", lambda a, b: (a / b, (a + 1) / b), ["div", "mul arcp", "add", "mul arcp"]),
    ("approx", lambda a: np.tanh(a) * 2, ["tanh approx", "mul"]),
]
KEPT = [
    ("contract", lambda a, b: (a * b + a, a * b)),           # another reads the product
    ("contract", lambda a, b: (a * b + a, a * b - a)),
    ("contract", lambda a, b: np.exp(a * b) + 1),
    ("contract", lambda a: a[0, 0] * 3 + a),                  # a product of numbers, in no loop
    ("reassoc", lambda a: (a + 1) * 2),
    ("reassoc", lambda a: 1 - a + 2),
    ("reassoc", lambda a: a * 1e30 * 1e30),                   # their product is infinite
    ("reassoc", lambda a: a * 1e-30 * 1e-30),                 # or zero
    ("reassoc", lambda a: a.sum(0)),
    ("reassoc", lambda a: np.maximum.accumulate(a, 1)),
    ("nnan", lambda a: (np.isnan(a), a != a, a.sum(), np.sign(a))),
    ("ninf", lambda a: (np.isfinite(a), np.isinf(a), a + a)),
    ("nsz", lambda a: (a + 1, a * 0, np.signbit(a))),
    ("arcp", lambda a, b: (a / b, 1 / a)),                    # one division serves one element
    ("arcp", lambda a: a / 1e-42),                            # 1 / c is infinite
    ("approx", lambda a: (np.sqrt(a), np.cbrt(a), a / 3, np.isnan(a))),
]
# fmt: on


@pytest.mark.parametrize(("flag", "f", "want"), REWRITES)
def test_what_a_flag_licenses(flag: str, f: Any, want: list[str]) -> None:
    assert sorted(equations(f, flag)) == sorted(want)


@pytest.mark.parametrize(("flag", "f"), KEPT)
def test_what_a_flag_leaves_alone(flag: str, f: Any) -> None:
    assert str(program(f, flag)) == str(program(f))


def test_integers_are_never_touched() -> None:
    def f(a: Any, b: Any) -> Any:
        return a * b + 1, np.maximum(a, b), (a + 1) + 2, 0 - a, a.sum(0).sum(), np.cumsum(a, 0)

    whole = X.astype(np.int32)
    assert str(program(f, *FLAGS, x=whole)) == str(program(f, x=whole))


def test_float32_lengths_have_no_finite_form() -> None:
    assert equations(lambda a: np.hypot(a, 2), "ninf") == ["hypot"]
    assert equations(lambda a: np.hypot(a, 2), "ninf", x=X.astype("f8")) == ["hypot ninf"]


def test_what_tests_for_nan_and_infinity_has_no_rule() -> None:
    tests = {p.isnan, p.isinf, p.isfinite, p.signbit, p.eq, p.ne, p.lt, p.le, p.gt, p.ge, p.select}
    for rules in LICENSED.values():
        assert tests.isdisjoint(rules)


def test_licences_are_counted() -> None:
    def f(a: Any, b: Any) -> Any:
        return np.maximum(a * b + 1, b) / 3, np.cumsum(b * 3 - 2, 0), np.exp(a) * np.exp(b + 1)

    assert licensed(program(f, *FLAGS)) == {
        "contract": "2 multiply-adds", "reassoc": "1 running sum", "nnan": "1 max",
        "arcp": "1 reciprocal", "approx": "2 exp",
    }  # fmt: skip
