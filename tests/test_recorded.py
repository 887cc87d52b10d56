"""Recorded numbers: a replay gives what the computation would give, or says that it cannot."""

import math
import operator
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fjit.core.recorded import Number, Tape


def replayed(f: Callable[..., Any], recorded: Sequence[int], new: Sequence[int]) -> Any:
    """`f` at the new numbers from a tape of it at the recorded ones, or None."""
    tape = Tape(recorded)
    result = f(*tape.given)
    replay, where = tape.finish([result] if isinstance(result, Number) else [])
    values = replay.values(new)
    if values is None:
        return None
    return values[where[result.place]] if isinstance(result, Number) else result


def test_arithmetic_is_done_again() -> None:
    def f(n: Any, m: Any) -> Any:
        return -(-n // 16) * 16 + (3 * m - n) % 7 + 2 - abs(m - n) + math.prod((n, m, 2)) + 1 / n

    assert replayed(f, (20, 300), (20, 300)) == f(20, 300)
    assert replayed(f, (20, 300), (50, 700)) == f(50, 700)
    assert replayed(f, (20, 300), (700, 50)) is None  # abs took another way


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.eq, operator.ne,
                                     operator.gt, operator.ge])  # fmt: skip
@pytest.mark.parametrize("swap", [False, True])
def test_comparisons_are_conditions(compare: Callable[[Any, Any], bool], swap: bool) -> None:
    def f(n: Any) -> Any:
        return compare(100, n) if swap else compare(n, 100)

    for recorded in (99, 100, 101):
        for new in (99, 100, 101):
            same = f(recorded) == f(new)
            assert replayed(f, (recorded,), (new,)) == (f(new) if same else None)


def test_who_needs_an_int_fixes_the_number() -> None:
    def f(n: Any) -> Any:
        return len(range(n)) + n

    assert replayed(f, (20,), (20,)) == 40
    assert replayed(f, (20,), (21,)) is None


@pytest.mark.parametrize("ask", [bool, int, float, operator.index])
def test_conversions_are_conditions(ask: Callable[[Any], Any]) -> None:
    assert replayed(lambda n: ask(n) == ask(20), (20,), (20,)) is True
    assert replayed(ask, (20,), (0,)) is None


def test_equality_by_hash_is_a_condition() -> None:
    def f(n: Any, m: Any, k: Any) -> Any:
        return len({(n, 1): "n", (m, 1): "m", (k, 1): "k", (5, 1): "five"})

    assert replayed(f, (20, 30, 40), (70, 90, 80)) == 4
    assert replayed(f, (20, 30, 40), (20, 30, 20)) is None
    assert replayed(f, (20, 30, 40), (20, 30, 5)) is None
    assert replayed(f, (20, 30, 20), (70, 80, 70)) == 3
    assert replayed(f, (20, 30, 20), (70, 80, 90)) is None


def test_a_stand_in_is_an_int_to_those_who_ask_and_shows_in_text() -> None:
    (n,) = Tape((20,)).given
    assert isinstance(n, int) and not isinstance(n / 3, int)
    assert type(n) is Number
    assert f"{n}" == str(n) == "○20"


def test_a_step_that_new_numbers_cannot_take_comes_behind_its_condition() -> None:
    def f(n: Any, m: Any) -> Any:
        return 0 if m - n == 0 else 100 // (m - n)

    assert replayed(f, (20, 30), (20, 20)) is None
    assert replayed(f, (20, 30), (20, 45)) == 4


def test_random_computations() -> None:
    rng = random.Random(4)
    operations = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod]
    agreed = 0
    for _ in range(500):
        plan = [(rng.choice(operations), rng.random(), rng.random(), rng.random() < 0.3)
                for _ in range(12)]  # fmt: skip

        def f(*given: Any, plan: Any = plan) -> Any:
            values: list[Any] = [*given, 3, 17]
            for operation, a, b, turn in plan:
                left, right = (values[int(x * len(values))] for x in (a, b))
                if turn and left < right:
                    left, right = right, left
                values.append(operation(left, right if right else 1))
            return values[-1]

        recorded, new = ([rng.randint(1, 99) for _ in range(3)] for _ in range(2))
        found = replayed(f, recorded, new)
        if found is not None:
            agreed += 1
            assert found == f(*new)
    assert agreed > 100
