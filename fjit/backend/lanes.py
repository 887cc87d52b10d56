"""How many lanes a kernel's vector loops have: of one register, of half of one, or of several.

Takes a nest and a machine description, gives numbers. Invariant: lanes are a matter of speed alone;
where they would show in a result, in the order of a running sum, they are the same everywhere.

    x + y, float32, AVX-512     16        tanh(x)     64, with ends of 16
    5-point stencil              8        cumsum(x)    8
"""

from __future__ import annotations

from collections.abc import Iterator

from fjit.lower import nest as n
from fjit.optimize.cost import FLOPS
from fjit.target import CpuTarget

STENCIL_BITS = 256
HEAVY = 20
"""Operations of an elementary function."""
MOST_SIDE_BY_SIDE = 400
"""Most operations of a body that is computed in two: a longer one takes long to compile."""
MOST_WIDE = 100
"""Most operations of a body that is computed in four registers at a time."""
SCAN_LANES = 8
"""Lanes of loops with a running float sum or product, whatever the machine."""
FREE_SCAN_LANES = 32
"""Lanes of such loops where `reassoc` frees their order: a vector waits for the one before it.

(cumsum of float32: 0.28 ns an element with 8 lanes, 0.16 with 16, 0.10 with 32; of float64: 0.26,
0.17, 0.17.)
"""


def lanes_for(nest: n.Nest, target: CpuTarget, width: int = 0) -> int:
    """Lanes of vector loops: `width` if given, else those of one register or of several.

    A stencil gets at most 256 bits: its shifted loads cross a cache line half as often as wider
    ones, all of which do (5 points in float32: 1.0 ms against 1.2).
    """
    narrow = end_lanes(nest, target, width)
    if width or _scan_lanes(nest):
        return narrow
    return min(64, narrow * max(_side_by_side(phase.loop) for phase in nest.phases))


def end_lanes(nest: n.Nest, target: CpuTarget, width: int = 0) -> int:
    """Lanes of the ends of loops without sums: one register, where lanes are not prescribed."""
    scans = _scan_lanes(nest)
    if scans or width:
        return scans or width
    stencil = any(_is_stencil(phase.loop) for phase in nest.phases)
    bits = min(target.vector_bits, STENCIL_BITS) if stencil else target.vector_bits
    lanes = max(1, min(64, bits // 8 // max(nest.width, 1)))
    turned = [rows for phase in nest.phases if (rows := _turned_rows(phase.loop))]
    lanes = min([lanes, *turned])
    most = max(_longest(phase.loop) for phase in nest.phases)
    return min(lanes, most) if most else lanes


def _turned_rows(loop: n.Loop) -> int:
    """Rows of a tile that are unrolled and loaded across; 0 if there is none.

    More lanes than rows would be loaded one by one (transposes of bytes: 83 us, and 8 so).
    """
    for stmt in loop.body:
        if not isinstance(stmt, n.Loop):
            continue
        across = (stmt.axis, n.UNIT)
        if loop.kind == "vector" and stmt.unroll > 1:
            if any(isinstance(s, n.Load) and across in s.at.terms for s in stmt.body):
                return stmt.unroll
        elif rows := _turned_rows(stmt):
            return rows
    return 0


def _longest(loop: n.Loop) -> int:
    """The bound of the longest vector loop if all are short, and there is one; else 0."""
    inner = [s.most for s in _vectors(loop)]
    return max(inner) if inner and all(inner) else 0


def _vectors(loop: n.Loop) -> Iterator[n.Loop]:
    for stmt in loop.body:
        if isinstance(stmt, n.Loop):
            yield from (stmt,) if stmt.kind == "vector" else _vectors(stmt)


def _scan_lanes(nest: n.Nest) -> int:
    """Lanes of a nest with a float scan along a vector loop, whose order is theirs; else 0."""
    opened = [o for phase in nest.phases for o in _scans(phase.loop)]
    if any(o.fast == "reassoc" for o in opened):
        return FREE_SCAN_LANES
    return SCAN_LANES if opened else 0


def _side_by_side(loop: n.Loop) -> int:
    """How many registers a vector takes: several where elementary functions are computed.

    Their operations depend on each other, and the registers' are independent (GELU in float32: 0.62
    ns an element with 1, 0.49 with 2, 0.41 with 4). Masked ends take as long as whole vectors, so
    sums, which have no narrower ends, get 2.
    """
    inner = [s for s in loop.body if isinstance(s, n.Loop)]
    if loop.kind != "vector":
        return max(map(_side_by_side, inner), default=1)
    if inner or loop.most or any(isinstance(s, n.Append | n.Scan) for s in loop.body):
        return 1
    weights = [FLOPS.get(s.op, 1) for s in loop.body if isinstance(s, n.Let)]
    if max(weights, default=0) < HEAVY or sum(weights) > MOST_SIDE_BY_SIDE:
        return 1
    sums = any(isinstance(s, n.Update) for s in loop.body)
    return 2 if sums or sum(weights) > MOST_WIDE else 4


def _is_stencil(loop: n.Loop) -> bool:
    """Whether a vector loop reads one buffer at three places or more and computes little."""
    places: dict[int, set[n.Linear]] = {}
    heavy = False
    for stmt in loop.body:
        if isinstance(stmt, n.Loop) and _is_stencil(stmt):
            return True
        if isinstance(stmt, n.Load) and (loop.axis, n.UNIT) in stmt.at.terms:
            places.setdefault(stmt.buffer, set()).add(stmt.at)
        heavy |= isinstance(stmt, n.Let) and FLOPS.get(stmt.op, 1) >= HEAVY
    return loop.kind == "vector" and not heavy and max(map(len, places.values()), default=0) > 2


def _scans(loop: n.Loop) -> list[n.Open]:
    """The accumulators of float scans in a loop."""
    statements = list(_statements(loop))
    scanned = {s.acc for s in statements if isinstance(s, n.Scan)}
    return [s for s in statements
            if isinstance(s, n.Open) and s.acc in scanned and s.dtype.kind == "f"]  # fmt: skip


def _statements(loop: n.Loop) -> Iterator[n.Stmt]:
    for stmt in loop.body:
        yield stmt
        if isinstance(stmt, n.Loop):
            yield from _statements(stmt)
