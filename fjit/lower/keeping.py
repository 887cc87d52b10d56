"""Buffers of a row or a block, in which a worker keeps values for the next walk over it.

Takes values that a loop over the vector axis has, stores them, and lets later loops load them.

    softmax(x)    vector: e = exp(x - max); buffer[i] = e; update a1 e    vector: out = buffer / sum

Invariant: what is kept is what would be computed again; the bits are the same.
"""

from __future__ import annotations

from fjit.core.ir import Atom, Var
from fjit.lower import order
from fjit.lower.build import Writer
from fjit.lower.nest import UNIT, Linear, Load, Slot, Value
from fjit.optimize import cost, demand
from fjit.optimize.drafts import root_reads
from fjit.optimize.index import Axis, Indices
from fjit.optimize.schedule import MAX_ROW_BUFFER, Placed, Schedule


def keep_row(
    writer: Writer, env: demand.Env, plan: Schedule, here: list[Placed], stage: int
) -> None:
    """Keep values of heavy operations that later stages compute again in a row buffer."""
    inner = plan.inner
    if inner is None or stage + 1 >= plan.stages or (plan.outer and plan.cascade == "block"):
        return
    later = [q for q in plan.placed if q.stage > stage and q.level == "inner"]
    roots = [r for q in later for r in root_reads(q.root, q.at, q.guard)]
    again = demand.walk(env, roots, unguarded=True)[1]
    read = {leaf.var for leaf in demand.walk(env, roots)[0]}
    for q in here:
        if q.cls == "scan" and q.root.var in read:
            _keep(writer, inner, q.root.var, q.at, writer.memo[(q.root.var, q.at, None)])
    for var, eqn in env.items():
        if not cost.is_heavy(eqn):
            continue
        for at in again.get(var, ()):
            known = writer.memo.get((var, at, None))
            held = (var, at) in writer.held
            if known is None or held or writer.depths[known] < writer.depth:
                continue
            if inner.extent * var.aval.dtype.itemsize <= MAX_ROW_BUFFER:
                _keep(writer, inner, var, at, known)


def _keep(writer: Writer, inner: Axis, var: Var, at: Indices, value: Value) -> None:
    place = Linear(None, ((f"i{inner.number}", UNIT),))
    _hold(writer, (var, at), place, max(inner.extent, 1), value)


def keep_block(writer: Writer, env: demand.Env, axis: Axis, q: Placed) -> None:
    """Keep a block's elements of the operand of a reduction that walks twice, if heavy to make."""
    operand = q.root.operand
    if not isinstance(operand, Var) or (operand, q.at) in writer.held:
        return
    computed = demand.walk(env, [(operand, q.at)])[1]
    if not any(cost.is_heavy(env[var]) for var in computed):
        return
    size = operand.aval.dtype.itemsize
    back = writer.extent_slot(("back", "block", size), -order.WALKED_TWICE * size)
    terms: tuple[tuple[str, Slot | int], ...] = ((f"i{axis.number}", UNIT), ("block", back))
    value = writer.value(operand, q.at)
    _hold(writer, (operand, q.at), Linear(None, terms), order.WALKED_TWICE, value)


def _hold(
    writer: Writer, key: tuple[Atom, Indices], place: Linear, elements: int, value: Value
) -> None:
    dtype = key[0].aval.dtype
    buffer = writer.buffer("private", dtype, nbytes=order.aligned(elements * dtype.itemsize))
    writer.store(buffer, place, value, dtype)

    def load() -> Value:
        out = writer.fresh(writer.depth)
        writer.place(Load(out, buffer, place, dtype), writer.depth)
        return out

    writer.held[key] = load  # type: ignore[index]
