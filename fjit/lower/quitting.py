"""any and all stop where the rest cannot change them.

Takes a schedule and the bodies of its loops, says where loops may stop early:

    b.any()    vector i0 < s1 block 8192 until a1      after each block: leave if a1 holds

Invariant: what is skipped could neither raise an error nor set a floating-point flag.
"""

from __future__ import annotations

from typing import Final

from fjit.core import dtypes
from fjit.lower import order
from fjit.lower.build import Writer
from fjit.lower.nest import Const, Let, Linear, Load, Loop, Position, Scalar, Stmt, Update, Value
from fjit.optimize.schedule import Schedule

BOOL, I64 = dtypes.BOOL, dtypes.I64
BLOCK: Final = 1 << 13
"""Elements between two looks at the accumulators."""
FIRST: Final = 1 << 16
"""Elements that one thread looks at before all threads share the rest."""

QUIET: Final = frozenset((
    "copy", "abs", "neg", "not", "and", "or", "xor", "select", "isnan", "isinf", "isfinite",
    "signbit", "eq", "ne", "lt", "le", "gt", "ge",
))  # fmt: skip
"""Operations that raise nothing."""


def may_quit(plan: Schedule) -> bool:
    """Whether all that a kernel's loops do is find out whether any or all elements hold."""
    walked = [q for q in plan.placed if q.level == "inner"]
    return plan.stages == 1 and all(
        q.cls in ("inner", "whole") and q.root.eqn is not None
        and order.op_of(q.root.eqn) in ("and", "or") for q in walked
    )  # fmt: skip


def watch(loop: Loop, flag: int | None) -> None:
    """Let a vector loop stop once all of its accumulators are decided, if nothing is missed."""
    if not all(_is_quiet(stmt) for stmt in loop.body):
        return
    loop.until = tuple(s.acc for s in loop.body if isinstance(s, Update))
    loop.block, loop.flag = BLOCK, flag


def watch_rows(loop: Loop) -> None:
    """Let a loop over rows stop where all loops in it do."""
    inner = [s for s in loop.body if isinstance(s, Loop)]
    if inner and all(s.until and s.until == inner[0].until for s in inner):
        loop.until, loop.flag = inner[0].until, inner[0].flag


def decided(writer: Writer, flag: int, op: str, value: Value) -> Value:
    """A result from what the chunks found, and the first look, which only the flag knows of."""
    held = writer.fresh(writer.depth)
    writer.place(Load(held, flag, Linear(None), I64), writer.depth)
    found = writer.let("ne", (held, writer.constant(0, I64)), (I64, I64), BOOL)
    other = found if op == "or" else writer.negation(found)
    return writer.let(op, (value, other), (BOOL, BOOL), BOOL)


def _is_quiet(stmt: Stmt) -> bool:
    if isinstance(stmt, Let):
        to_bool = stmt.op == "convert" and stmt.dtype.kind == "b"
        return stmt.op in QUIET or to_bool
    return isinstance(stmt, Const | Load | Position | Scalar | Update)
