"""Row buffers: what a walk over a row computed, kept for the walks that follow.

Takes the writer in the loop over the row, stores values into private memory and lets readers find
them there. Invariant: a value is kept only where computing it again would take longer.

    vector i1: %1 = exp ...          ->    vector i1: %1 = exp ... ; store b2[i1] %1
    vector i1: %2 = exp ... ; div    ->    vector i1: %2 = load b2[i1] ; div
"""

from __future__ import annotations

from fjit.core.ir import Var
from fjit.lower import order
from fjit.lower.build import Writer
from fjit.lower.nest import Linear, Load, Value
from fjit.optimize import cost, demand
from fjit.optimize.drafts import root_reads
from fjit.optimize.index import Indices
from fjit.optimize.schedule import MAX_ROW_BUFFER, Placed, Schedule


def keep_row(writer: Writer, plan: Schedule, here: list[Placed], stage: int, place: Linear) -> None:
    """Keep scans, and values of heavy operations, that later stages need again.

    `here` is what the stage computes, `place` an element's place in a row buffer.
    """
    if stage + 1 >= plan.stages or (plan.outer and plan.cascade == "block"):
        return
    assert plan.inner is not None
    extent = plan.inner.extent
    later = [q for q in plan.placed if q.stage > stage and q.level == "inner"]
    roots = [r for q in later for r in root_reads(q.root, q.at, q.guard)]
    leaves, again = demand.walk(writer.env, roots, unguarded=True)
    read = {leaf.var for leaf in leaves}
    for q in here:
        if q.cls == "scan" and q.root.var in read:
            _keep(writer, q.root.var, q.at, place, extent)
    for var, eqn in writer.env.items():
        if not cost.is_heavy(eqn) or extent * var.aval.dtype.itemsize > MAX_ROW_BUFFER:
            continue
        for at in again.get(var, ()):
            known = writer.memo.get((var, at, None))
            held = (var, at) in writer.held
            if known is not None and not held and writer.depths[known] >= writer.depth:
                _keep(writer, var, at, place, extent)


def _keep(writer: Writer, var: Var, at: Indices, place: Linear, extent: int) -> None:
    dtype = var.aval.dtype
    nbytes = order.aligned(max(extent, 1) * dtype.itemsize)
    buffer = writer.buffer("private", dtype, nbytes=nbytes)
    writer.store(buffer, place, writer.memo[(var, at, None)], dtype)

    def load() -> Value:
        out = writer.fresh(writer.depth)
        writer.place(Load(out, buffer, place, dtype), writer.depth)
        return out

    writer.held[(var, at)] = load
