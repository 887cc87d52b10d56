"""Numbers that write down what is asked of them, so that a computation can be repeated for others.

Takes the numbers that a computation starts from, gives stand-ins for them. Arithmetic on a stand-in
gives another one; a comparison gives an ordinary bool and becomes a condition. `Tape.finish` gives
a `Replay`, which computes the same outputs from other numbers:

    n * 2 if n > 16 else 0, at n = 20     steps  t = n * 2     conditions  n > 16     outputs  (t,)

Invariant: where all conditions hold for the new numbers, the computation would have taken the same
way with them, so the outputs are what it would have given. A stand-in is no int, it only says that
it is one: whoever needs a true int (an index, a range) asks for it, which fixes its value. Its text
is marked and must decide nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

MARK: Final = "\N{WHITE CIRCLE}"
"""Stands before a stand-in in text."""
EXACT: Final = 16
"""Up to this size a number is like no other: plain numbers of the computation may equal it."""

Function = Callable[[Any, Any], Any]


class Step(NamedTuple):
    """Apply `function` to two values: the next value, or a condition if it must be `wanted`."""

    function: Function
    a: int
    b: int
    wanted: bool | None


class Replay(NamedTuple):
    """A finished tape: constants behind the given numbers, steps, and which values are asked for.

    `alike` are values that were looked up by their hash; `pattern` says which of them were equal.
    """

    constants: tuple[Any, ...]
    steps: tuple[Step, ...]
    alike: tuple[int, ...]
    pattern: tuple[int, ...]

    def values(self, numbers: Sequence[int]) -> list[Any] | None:
        """All values for other numbers, or None if a condition does not hold."""
        values: list[Any] = [*numbers, *self.constants]
        for function, a, b, wanted in self.steps:
            value = function(values[a], values[b])
            if wanted is None:
                values.append(value)
            elif value is not wanted:
                return None
        if _pattern([values[k] for k in self.alike]) != self.pattern:
            return None
        return values


def _pattern(values: Iterable[Any]) -> tuple[int, ...]:
    """Which values are equal, and what the small ones are."""
    first: dict[Any, int] = {}
    return tuple(
        v if -EXACT <= v <= EXACT else EXACT + 1 + first.setdefault(v, len(first)) for v in values
    )


class Tape:
    """What happened to the stand-ins of one computation, in order."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers: list[Number] = []
        self._steps: list[tuple[Function, Number, Number, Number | bool]] = []
        self._known: dict[tuple[Function, int, int], Number | bool] = {}
        self._constants: dict[tuple[type, Any], Number] = {}
        self._hashed: dict[int, Number] = {}
        self.given = tuple(self._number(value, False) for value in numbers)

    def _number(self, value: Any, fixed: bool) -> Number:
        number = Number(self, value, len(self.numbers), fixed)
        self.numbers.append(number)
        return number

    def constant(self, value: Any) -> Number:
        """The stand-in for a number that is the same whatever the given ones are."""
        key = (type(value), value)
        known = self._constants.get(key)
        if known is None:
            known = self._constants[key] = self._number(value, True)
        return known

    def apply(self, function: Function, a: Any, b: Any) -> Any:
        """`function(a, b)` for an arithmetic function or, written down once, a comparison."""
        left, right = self._operand(a), self._operand(b)
        if left is None or right is None:
            return NotImplemented
        key = (function, left.place, right.place)
        known = self._known.get(key)
        if known is not None:
            return known
        value = function(left.value, right.value)
        result: Number | bool
        if left.fixed and right.fixed:
            result = value if type(value) is bool else self.constant(value)
        else:
            result = value if type(value) is bool else self._number(value, False)
            self._steps.append((function, left, right, result))
        self._known[key] = result
        return result

    def _operand(self, value: Any) -> Number | None:
        if type(value) is Number:
            return value
        return self.constant(value) if type(value) in (int, float, bool) else None

    def fix(self, number: Number) -> Any:
        """The value of a stand-in, which is a condition from here on."""
        self.apply(operator.eq, number, number.value)
        return number.value

    def note_hash(self, number: Number) -> None:
        """Its equality with other numbers may be asked for without a comparison."""
        self._hashed[number.place] = number

    def finish(self, outputs: Iterable[Number]) -> tuple[Replay, dict[int, int]]:
        """The replay that gives `outputs`, and by their places where they are in its values.

        The tape is forgotten.
        """
        alike = list(self._hashed.values())
        needed = {n.place for n in (*outputs, *alike)}
        kept: list[tuple[Function, Number, Number, Number | bool]] = []
        for step in reversed(self._steps):
            if type(step[3]) is bool or step[3].place in needed:
                kept.append(step)
                needed |= {step[1].place, step[2].place}
        constants = [c for c in self._constants.values() if c.place in needed]
        at = {n.place: k for k, n in enumerate((*self.given, *constants))}
        steps = []
        for function, a, b, result in reversed(kept):
            wanted = result if isinstance(result, bool) else None
            steps.append(Step(function, at[a.place], at[b.place], wanted))
            if isinstance(result, Number):
                at[result.place] = len(at)
        for held in (self.numbers, self._steps, self._known, self._constants, self._hashed):
            held.clear()
        return Replay(
            tuple(c.value for c in constants),
            tuple(steps),
            tuple(at[n.place] for n in alike),
            _pattern(n.value for n in alike),
        ), at


def _way(function: Function) -> Callable[[Number, Any], Any]:
    def method(self: Number, other: Any) -> Any:
        return self.tape.apply(function, self, other)

    return method


def _back(function: Function) -> Callable[[Number, Any], Any]:
    def method(self: Number, other: Any) -> Any:
        return self.tape.apply(function, other, self)

    return method


class Number:
    """A stand-in for a number: its value now, and its place on the tape."""

    __slots__ = ("fixed", "place", "tape", "value")

    def __init__(self, tape: Tape, value: Any, place: int, fixed: bool) -> None:
        self.tape = tape
        self.value = value
        self.place = place
        self.fixed = fixed

    @property  # type: ignore[misc]  # isinstance sees this class; `type` tells the truth
    def __class__(self) -> Any:
        return type(self.value)

    __add__, __radd__ = _way(operator.add), _back(operator.add)
    __sub__, __rsub__ = _way(operator.sub), _back(operator.sub)
    __mul__, __rmul__ = _way(operator.mul), _back(operator.mul)
    __floordiv__, __rfloordiv__ = _way(operator.floordiv), _back(operator.floordiv)
    __truediv__, __rtruediv__ = _way(operator.truediv), _back(operator.truediv)
    __mod__, __rmod__ = _way(operator.mod), _back(operator.mod)
    __lt__, __gt__ = _way(operator.lt), _way(operator.gt)
    __le__, __ge__ = _way(operator.le), _way(operator.ge)
    __eq__, __ne__ = _way(operator.eq), _way(operator.ne)

    def __neg__(self) -> Any:
        return self.tape.apply(operator.sub, 0, self)

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __index__(self) -> int:
        return int(self.tape.fix(self))

    def __float__(self) -> float:
        return float(self.tape.fix(self))

    def __hash__(self) -> int:
        self.tape.note_hash(self)
        return hash(self.value)

    def __repr__(self) -> str:
        return f"{MARK}{self.value!r}"

    def __format__(self, spec: str) -> str:
        return MARK + format(self.value, spec)


def plain(value: Any) -> Any:
    """A stand-in's value now, asked for without a condition: it must decide nothing but a choice
    among ways that give the same results.
    """
    return value.value if type(value) is Number else value
