"""Panels: a product with the kernels before and behind it, some rows at a time, while in cache.

Takes a plan, gives one whose frames (frames.py) are joined with the kernel that makes their left
operand and the one that reads their result, where these walk over the same rows:

    t = x @ w; y = relu(t + b)      a panel: 128 rows of t into private memory, then of y

Invariant: how a product is cut into panels depends on its extents and dtype alone, never on what it
is joined with, since a BLAS may add in another order where the cut is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple

from fjit.core import primitives as p
from fjit.core.ir import Eqn, Program, Var, static_shape
from fjit.optimize import cost, demand
from fjit.optimize import index as ix
from fjit.optimize.drafts import root_reads
from fjit.optimize.frames import Frame, frame_of, is_frame
from fjit.optimize.schedule import Placed, Schedule

PANEL_BYTES: Final = 1 << 19
"""Bytes of operand and result rows that a panel may have: half the second-level cache of a core,
since the kernel behind it may make as many again."""
HEIGHTS: Final = ((1 << 20, 512), (1 << 18, 256), (1 << 16, 128), (0, 64))
"""Least rows of a panel, by the elements of the right operand, which each panel packs again.

Against one call: 64 rows take 12 to 27 % longer, 128 rows 5 to 10, 256 rows 1 to 4, 512 rows 1.
"""
MOST_HEIGHT: Final = 512
MANY: Final = 8
"""Panels that a stack is cut into if its matrices are high enough."""
WORTH_CUTTING: Final = 1 << 18
"""Multiplications, some 5 to 10 us of them, below which one panel more costs more than it gives."""
FEW, WIDE, WIDTH = 4, 1024, 512
"""With fewer than FEW panels, rows of at least WIDE elements are cut into pieces of WIDTH."""
SHORTEST: Final = 32
"""Elements of a row below which a kernel walks over all rows as one axis, with fuller vectors."""
LONGEST: Final = 1 << 16
"""Elements of a row from which on its reductions are made of chunks (lower/order.py)."""


class Cut(NamedTuple):
    """How a product is cut: rows and columns of a panel, and the number of panels each way."""

    height: int
    down: int
    width: int
    across: int


def cut_of(product: Eqn) -> Cut:
    """The panels of a product, from its extents and dtype."""
    shape = static_shape(product.output.aval)
    k = static_shape(product.inputs[0].aval)[-1]
    stack, m, n = prod(shape[:-2]), shape[-2], shape[-1]
    least = next(height for size, height in HEIGHTS if k * n >= size)
    fitting = PANEL_BYTES // ((k + n) * product.output.aval.dtype.itemsize) // 32 * 32
    many = MANY // max(stack, 1) if m * k * n >= WORTH_CUTTING else 1
    height = max(least, min(fitting, MOST_HEIGHT, -(-m // max(many, 1))))
    down = max(-(-m // height), 1)
    height = -(-m // down)
    across = -(-n // WIDTH) if stack * down < FEW and n >= WIDE else 1
    return Cut(height, down, WIDTH if across > 1 else n, across)


@dataclass(frozen=True, slots=True)
class Panels:
    """An equation of a plan that runs in panels: frames and kernels, in order.

    `private` are the values that exist one panel at a time, and nowhere else.
    """

    eqn: Eqn
    stages: tuple[Eqn, ...]
    private: tuple[Var, ...]


Told = tuple[tuple[str, str], bool, str, dict[str, float]]
"""What a Decision of the plan says: the pair, whether it was taken, why, and numbers."""


class Joint(NamedTuple):
    """A plan's equations with the panels among them, and what was joined or not, and why."""

    eqns: tuple[Eqn, ...]
    panels: tuple[Panels, ...]
    decisions: tuple[Told, ...]


class Kernels(NamedTuple):
    """What the joining asks of a plan: kernels' schedules and producers, layouts, consent."""

    schedules: dict[Eqn, tuple[Schedule, dict[Var, Eqn]]]
    layouts: dict[Var, tuple[int, ...]]
    agrees: Callable[[tuple[str, str], dict[str, float]], bool]


def joined(program: Program, kernels: Kernels, inputs: dict[Var, tuple[int, ...]]) -> Joint:
    """The equations of a fused program with frames joined to their neighbours."""
    frames = [eqn for eqn in program.eqns if eqn not in kernels.schedules and is_frame(eqn)]
    if not frames:
        return Joint(program.eqns, (), ())
    walk = _Joining(program, kernels, inputs)
    for eqn in frames:
        walk.add(eqn)
    return walk.joint()


class _Joining:
    """Chains of equations that grow frame by frame."""

    def __init__(
        self, program: Program, kernels: Kernels, inputs: dict[Var, tuple[int, ...]]
    ) -> None:
        self.program = program
        self.kernels = kernels
        self.strides = {**inputs, **kernels.layouts}
        self.makers = {v: e for e in program.eqns for v in e.outputs}
        self.readers: dict[Var, list[Eqn]] = {}
        for eqn in program.eqns:
            for atom in dict.fromkeys(eqn.inputs):
                if isinstance(atom, Var):
                    self.readers.setdefault(atom, []).append(eqn)
        self.results = set(program.outputs)
        self.chains: dict[Eqn, list[Eqn]] = {}
        self.decisions: list[Told] = []

    def add(self, eqn: Eqn) -> None:
        """A chain for the frame: that of the kernel before it, or a new one; and what is behind."""
        frame = frame_of(eqn, self.strides.__getitem__)
        chain = self._before(eqn, frame)
        chain.append(eqn)
        self.chains[eqn] = chain
        self._behind(eqn, frame, chain)

    def _before(self, eqn: Eqn, frame: Frame) -> list[Eqn]:
        value = frame.left.var
        maker = self.makers.get(value)
        if maker is None or maker not in self.kernels.schedules:
            return []
        chain = self.chains.get(maker, [maker])
        reason = self._refusal(value, maker, eqn, frame) or self._misfit(chain, maker, frame)
        if not frame.left.is_plain or frame.right.var is value:
            reason = "the left operand is not read row by row"
        if not self._decide((_name(maker), "matmul"), reason, value):
            return []
        self.chains[maker] = chain
        return chain

    def _behind(self, eqn: Eqn, frame: Frame, chain: list[Eqn]) -> None:
        value = frame.eqn.output
        readers = [e for e in self.readers.get(value, ()) if e in self.kernels.schedules]
        for reader in readers:
            other = self.chains.get(reader, [reader])
            reason = self._refusal(value, reader, eqn, frame) or self._misfit(other, reader, frame)
            if not self._decide(("matmul", _name(reader)), reason, value):
                continue
            chain[:0] = other[:-1]  # another product that the kernel reads comes first
            chain.append(reader)
            self.chains.update(dict.fromkeys(chain, chain))

    def _misfit(self, chain: list[Eqn], kernel: Eqn, frame: Frame) -> str:
        """Why a frame does not join the chain that ends with `kernel`, or nothing."""
        if chain[-1] is not kernel:
            return "another product has the kernel"
        frames = [e for e in chain if e not in self.kernels.schedules]
        cuts = {cut_of(frame_of(e, self.strides.__getitem__).eqn)[:2] for e in frames}
        if cuts - {cut_of(frame.eqn)[:2]}:
            return "the two products are cut into different panels"
        return ""

    def _refusal(self, value: Var, kernel: Eqn, eqn: Eqn, frame: Frame) -> str:
        """Why a kernel and a frame do not share panels through `value`; empty if they may."""
        reading = value is frame.eqn.output
        if len(self.readers.get(value, ())) != 1 or value in self.results:
            return "another kernel or the caller needs all of the value"
        if not reading and len(kernel.outputs) != 1:
            return "the kernel makes other values, too"
        if cut_of(frame.eqn).across > 1:
            return "a panel is only a part of the rows"
        reason = _by_rows(*self.kernels.schedules[kernel], value, frame.eqn)
        if reason:
            return reason
        if self.strides[value] != cost.ordered_strides(value.aval, tuple(range(value.aval.ndim))):
            return "the value between them is not stored row by row"
        return ""

    def _decide(self, pair: tuple[str, str], reason: str, value: Var) -> bool:
        numbers = {"bytes_saved": 2.0 * value.aval.nbytes}
        if not reason and not self.kernels.agrees(pair, numbers):
            reason = "refused by the fusion function"
        told = reason or "on panels of rows, while they are in cache"
        self.decisions.append((pair, not reason, told, {} if reason else numbers))
        return not reason

    def joint(self) -> Joint:
        """The program's equations, with those of a chain as one."""
        panels: list[Panels] = []
        left: list[Eqn] = []
        for eqn in self.program.eqns:
            chain = self.chains.get(eqn)
            if chain is None:
                left.append(eqn)
            elif chain[-1] is eqn:
                panels.append(self._panels(chain))
                left.append(panels[-1].eqn)
        return Joint(tuple(left), tuple(panels), tuple(self.decisions))

    def _panels(self, chain: list[Eqn]) -> Panels:
        if len(chain) == 1:
            return Panels(chain[0], tuple(chain), ())
        inner = {v for e in chain for v in e.outputs}
        private = tuple(
            v for e in chain for v in e.outputs
            if v not in self.results and all(r in chain for r in self.readers.get(v, ()))
        )  # fmt: skip
        inputs = tuple(dict.fromkeys(a for e in chain for a in e.inputs if a not in inner))
        outputs = tuple(v for e in chain for v in e.outputs if v not in private)
        eqns = tuple(q for e in chain for q in e.param("program").eqns)  # type: ignore[attr-defined]
        eqns = tuple(dict.fromkeys(eqns))
        sub = Program(inputs, eqns, outputs)  # type: ignore[arg-type]
        eqn = Eqn(p.kernel, inputs, (("program", sub),), outputs, chain[0].source)
        return Panels(eqn, tuple(chain), private)


def _by_rows(plan: Schedule, env: dict[Var, Eqn], value: Var, product: Eqn) -> str:
    """Why a kernel's tasks are not the rows of `value`, each computed by itself, or nothing."""
    apart = "the kernel does not walk row by row over the product"
    shape, rows = static_shape(value.aval), static_shape(product.output.aval)[:-1]
    inner = plan.inner
    if shape[-1] < SHORTEST:
        return f"rows of {shape[-1]} elements: the kernel is faster over all rows as one"
    if plan.outer or inner is None or inner.extent != shape[-1] or plan.cascade == "block":
        return apart
    if any(q.cls not in ("store", "inner") or q.level not in ("inner", "row") or q.guard
           for q in plan.placed):  # fmt: skip
        return apart
    if inner.extent > LONGEST:
        return "rows are so long that their reductions are made of chunks"
    axes = iter(plan.rows)
    own = tuple(ix.ZERO if e == 1 else ix.of(next(axes, inner)) for e in shape[:-1])
    if next(axes, None) is not None or shape[:-1] != rows:
        return apart
    at = (*own, ix.of(inner))
    return "" if all(found == at for found in _places(plan.placed, env, value)) else apart


def _places(placed: Iterable[Placed], env: dict[Var, Eqn], value: Var) -> Iterable[Any]:
    """The indices at which a kernel reads or makes a value."""
    for q in placed:
        if q.root.var is value:
            yield q.at
        for leaf in demand.walk(env, root_reads(q.root, q.at, q.guard))[0]:
            if leaf.var is value:
                yield leaf.at if not leaf.guarded else None


def _name(eqn: Eqn) -> str:
    program = eqn.param("program")
    assert isinstance(program, Program)
    words = [str(e.get("op") or e.primitive.name) for e in program.eqns]
    views = [e.primitive.family == "view" for e in program.eqns]
    kept = dict.fromkeys(w for w, view in zip(words, views, strict=True) if not view)
    return "+".join(kept or dict.fromkeys(words))
