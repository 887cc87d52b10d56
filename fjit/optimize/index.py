"""Index arithmetic: where a value's element comes from, as affine forms over loop axes.

Takes indices of a view's result, gives indices of its operand. An `Index` is `const + sum(coef *
atom)`; atoms are loop axes, and for what is not affine, quotients, remainders, gathered values and
positions in lockstep with a filter. Invariant: within its axes' extents an index is exact.
"""

from __future__ import annotations

from typing import NamedTuple

from fjit.core.ir import Atom, Sym


class Axis(NamedTuple):
    """A loop axis. `extent` is its size (its bound where `sym` says that it is dynamic)."""

    number: int
    extent: int
    sym: Sym | None = None


class Div(NamedTuple):
    """Floor of `inner / by`, for a non-negative index. `op` keeps it unequal to a Mod."""

    inner: Index
    by: int
    op: str = "div"


class Mod(NamedTuple):
    """Remainder of `inner` by `by`, for a non-negative index. `op` keeps it unequal to a Div."""

    inner: Index
    by: int
    op: str = "mod"


class Gathered(NamedTuple):
    """An element of an index array, checked against 0 <= value < extent at run time."""

    atom: Atom
    at: tuple[Index, ...]
    extent: int


class Lockstep(NamedTuple):
    """Position along a filter's result while a loop runs over element `at` of its mask."""

    sym: Sym
    at: tuple[Index, ...]


Term = Axis | Div | Mod | Gathered | Lockstep


class Index(NamedTuple):
    """const + sum(coef * term)."""

    const: int
    terms: tuple[tuple[Term, int], ...] = ()


Indices = tuple[Index, ...]
ZERO = Index(0)


class Inside(NamedTuple):
    """Condition low <= inner < high."""

    inner: Index
    low: int
    high: int


class Holds(NamedTuple):
    """Condition that a bool value holds at an element."""

    atom: Atom
    at: Indices
    negated: bool = False


Condition = Inside | Holds
Guard = tuple[Condition, ...]


def of(term: Term) -> Index:
    """The index that is just `term`."""
    return Index(0, ((term, 1),))


def affine(index: Index, scale: int, shift: int) -> Index:
    """index * scale + shift."""
    if scale == 1 and shift == 0:
        return index
    terms = tuple((t, c * scale) for t, c in index.terms) if scale else ()
    return Index(index.const * scale + shift, terms)


def plus(a: Index, b: Index) -> Index:
    """a + b, terms merged in first-use order."""
    if not b.terms:
        return Index(a.const + b.const, a.terms)
    merged: dict[Term, int] = dict(a.terms)
    for term, coef in b.terms:
        merged[term] = merged.get(term, 0) + coef
    return Index(a.const + b.const, tuple((t, c) for t, c in merged.items() if c))


def bare_axis(index: Index) -> Axis | None:
    """The axis if the index is exactly one axis."""
    if index.const == 0 and len(index.terms) == 1:
        term, coef = index.terms[0]
        if coef == 1 and isinstance(term, Axis):
            return term
    return None


def span(index: Index) -> tuple[int, int] | None:
    """Smallest and largest value over all axes' extents; None where a term is unbounded."""
    low = high = index.const
    for term, coef in index.terms:
        if isinstance(term, Axis):
            top = max(term.extent - 1, 0)
        elif isinstance(term, Mod):
            top = term.by - 1
        elif isinstance(term, Gathered):
            top = max(term.extent - 1, 0)
        elif isinstance(term, Div):
            inner = span(term.inner)
            if inner is None or inner[0] < 0:  # the division is unsigned
                return None
            top = inner[1] // term.by
        else:
            return None
        low, high = (low, high + coef * top) if coef > 0 else (low + coef * top, high)
    return low, high


def _parts(index: Index, by: int) -> tuple[Index, Index] | None:
    """index = by * quotient + rest with 0 <= rest < by, if it splits that way."""
    rest = Index(index.const % by, tuple((t, c) for t, c in index.terms if c % by))
    bounds = span(rest)
    if bounds is None or bounds[0] < 0 or bounds[1] >= by:
        return None
    whole = tuple((t, c // by) for t, c in index.terms if c % by == 0)
    return Index(index.const // by, whole), rest


def quotient(index: Index, by: int) -> Index:
    """floor(index / by), simplified where the parts separate."""
    if by <= 1:
        return index if by == 1 else ZERO
    parts = _parts(index, by)
    return parts[0] if parts else of(Div(index, by))


def remainder(index: Index, by: int) -> Index:
    """index mod by, simplified where the parts separate."""
    if by <= 1:
        return ZERO
    parts = _parts(index, by)
    return parts[1] if parts else of(Mod(index, by))


def merge_splits(totals: dict[Term, int]) -> int:
    """(x div n) * n*k + (x mod n) * k = x * k, of whose constant part the value is given."""
    const, pending = 0, list(totals)
    while pending:
        term = pending.pop(0)
        rest = Mod(term.inner, term.by) if isinstance(term, Div) else None
        step = None if rest is None else totals.get(rest)
        if rest is None or step is None or totals.get(term) != step * rest.by:
            continue
        const += rest.inner.const * step
        del totals[term], totals[rest]
        for inner, coef in rest.inner.terms:
            totals[inner] = totals.get(inner, 0) + coef * step
        pending = list(totals)  # what was merged may be the other part of a quotient
    return const


def joined(index: Index) -> Index:
    """An index with axes that were joined walked as the one that they are: no division is left."""
    totals = dict(index.terms)
    const = merge_splits(totals)
    return Index(index.const + const, tuple((t, c) for t, c in totals.items() if c))


def steps(at: Indices, strides: tuple[int, ...]) -> dict[Term, int]:
    """How far an address goes with each term, joined axes walked as the one that they are."""
    totals: dict[Term, int] = {}
    for index, stride in zip(at, strides, strict=True):
        for term, coef in index.terms:
            totals[term] = totals.get(term, 0) + coef * stride
    merge_splits(totals)
    return totals


def inside(index: Index, low: int, high: int) -> Inside:
    """The condition low <= index < high; for x div n it is one on x, which needs no division."""
    index = joined(index)
    if len(index.terms) == 1:
        term, coef = index.terms[0]
        if isinstance(term, Div) and coef == 1:
            return inside(term.inner, (low - index.const) * term.by, (high - index.const) * term.by)
    return Inside(index, low, high)


def always(condition: Condition) -> bool | None:
    """True or False where the axes' extents decide the condition, else None."""
    if isinstance(condition, Holds):
        return None
    bounds = span(condition.inner)
    if bounds is None:
        return None
    if condition.low <= bounds[0] and bounds[1] < condition.high:
        return True
    if bounds[1] < condition.low or bounds[0] >= condition.high:
        return False
    return None


def axes_of(indices: Indices) -> set[Axis]:
    """All loop axes that the indices depend on."""
    found: set[Axis] = set()
    stack: list[Index] = list(indices)
    while stack:
        for term, _ in stack.pop().terms:
            if isinstance(term, Axis):
                found.add(term)
            elif isinstance(term, (Div, Mod)):
                stack.append(term.inner)
            else:
                stack.extend(term.at)
    return found


def substitute(at: Indices, names: dict[Axis, Index]) -> Indices:
    """`at` with axes replaced by indices."""
    return tuple(_replaced(index, names) for index in at)


def _replaced(index: Index, names: dict[Axis, Index]) -> Index:
    total = Index(index.const)
    for term, coef in index.terms:
        if isinstance(term, Axis):
            part = names.get(term, of(term))
        elif isinstance(term, Div):
            part = quotient(_replaced(term.inner, names), term.by)
        elif isinstance(term, Mod):
            part = remainder(_replaced(term.inner, names), term.by)
        elif isinstance(term, Lockstep):
            part = of(Lockstep(term.sym, substitute(term.at, names)))
        else:
            part = of(term._replace(at=substitute(term.at, names)))
        total = plus(total, affine(part, coef, 0))
    return total


def substitute_guard(guard: Guard, names: dict[Axis, Index]) -> Guard:
    """A guard with axes replaced by indices."""
    return tuple(
        c._replace(at=substitute(c.at, names))
        if isinstance(c, Holds)
        else inside(_replaced(c.inner, names), c.low, c.high)
        for c in guard
    )
