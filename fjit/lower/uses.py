"""Which values a statement of a nest reads: operands, guards, positions and indices in addresses.

Takes a statement, gives the numbers of values, one as often as it is read.

%3 = load b0[i0*unit + %1*s2] f32 if %2      ->      [2, 1]
"""

from __future__ import annotations

from fjit.lower.nest import Stmt, Value


def uses(stmt: Stmt) -> list[Value]:
    """Values that a statement reads."""
    found: list[Value] = []
    for name in ("args", "parts", "more"):
        found += getattr(stmt, name, ())
    for name in ("value", "guard", "position", "choose"):
        value = getattr(stmt, name, None)
        if isinstance(value, int):
            found.append(value)
    linears = [getattr(stmt, "at", None), getattr(stmt, "linear", None)]
    other = getattr(stmt, "other", None)
    linears.append(None if other is None else other[1])
    for linear in linears:
        if linear is not None:
            found += [int(term[1:]) for term, _ in linear.terms if term[0] == "%"]
    return found
