"""Counts of what filters keep, where an extremum of nothing is an error.

Takes a schedule, gives it with a count beside each extremum over a filtered axis, and the error's
code for each count:

    x[x > 0].max()    max over x > 0, count over x > 0; a count of 0 raises NumPy's error
"""

from __future__ import annotations

from dataclasses import replace

from fjit.core import primitives as p
from fjit.core.ir import Eqn, Var, literal
from fjit.lower import order
from fjit.lower.build import EMPTY_REDUCTION, EMPTY_SEARCH, I64, Writer
from fjit.lower.nest import Checked, Value
from fjit.optimize.drafts import Root
from fjit.optimize.schedule import Placed, Schedule


def counted(plan: Schedule) -> tuple[Schedule, dict[Var, int]]:
    """Add a count to each extremum over a filtered axis: of nothing it is an error."""
    added: list[Placed] = []
    checks: dict[Var, int] = {}
    for q in plan.placed:
        eqn = q.root.eqn
        if eqn is None or q.cls not in order.ENDS or eqn.get("checked") is False:
            continue
        dynamic = bool(q.guard) or any(a.sym is not None for a in q.reduced)
        if not dynamic or order.op_of(eqn) in ("sum", "prod", "and", "or"):
            continue
        one = literal(1, I64)
        var = Var(replace(q.root.var.aval, dtype=I64))
        count = Eqn(p.reduce, (one,), (("axes", eqn.param("axes")), ("op", "sum")), (var,))
        search = order.op_of(eqn).startswith("arg")
        checks[var] = EMPTY_SEARCH if search else EMPTY_REDUCTION
        added.append(q._replace(root=Root(var, count)))
    return plan._replace(placed=(*plan.placed, *added)) if added else plan, checks


def check_count(writer: Writer, count: Value, code: int) -> None:
    """Set the error flag `code` where a count is 0."""
    one = writer.constant(1, I64)
    more = writer.let("sub", (count, one), (I64, I64), I64)
    extent = writer.extent_slot("any count", (1 << 63) - 1)
    checked = Checked(writer.fresh(writer.depth), more, extent, None, code)
    writer.place(checked, writer.depth)
