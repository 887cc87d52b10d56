"""The planner: which equations share a kernel, with a reason for every fusion taken or refused.

Takes an optimized program, gives an equal program whose equations are kernels (equations that hold
sub-programs) and library calls, and the decisions behind it:

    let b = exp a; c = reduce[sum] b in (c,)
    becomes
    let c = kernel[program={ lambda a . let b = exp a; c = reduce[sum] b in (c,) }] a in (c,)

Invariant: the fused program means what the program means; neither names nor statement order change
the number of kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Literal, Program, Var
from fjit.core.show import show
from fjit.optimize import cost, questions, store
from fjit.optimize.account import account
from fjit.optimize.capped import Limit, capped
from fjit.optimize.decisions import Choose, Decision, Found
from fjit.optimize.emission import ordered
from fjit.optimize.greedy import Greedy
from fjit.optimize.grouping import Grouping
from fjit.optimize.groups import Group
from fjit.optimize.index import Holds
from fjit.optimize.panels import Kernels, Panels, joined
from fjit.optimize.schedule import Schedule
from fjit.optimize.search import Search, scale_of


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """One kernel of a plan: its equation in the fused program and the loops it will have."""

    eqn: Eqn
    schedule: Schedule
    env: dict[Var, Eqn]
    by_rows: bool = False  # part of panels, whose tasks are rows


@dataclass(frozen=True, slots=True)
class Plan:
    """The fused program, its kernels by equation, the decisions, and products in panels."""

    program: Program
    kernels: tuple[KernelPlan, ...]
    decisions: tuple[Decision, ...]
    layouts: dict[Var, tuple[int, ...]]
    panels: tuple[Panels, ...] = ()
    over: tuple[Var, ...] = ()  # results that lie in the part of an input that they replace
    batches: tuple[tuple[Eqn, ...], ...] = ()  # kernels, one behind the other, under one launch
    gap: float | None = None  # how much longer than the best plan it may take, as a fraction

    @property
    def steps(self) -> tuple[Eqn, ...]:
        """The equations in the order in which they run, those of panels one by one."""
        inside = {panels.eqn: panels.stages for panels in self.panels}
        return tuple(e for eqn in self.program.eqns for e in inside.get(eqn, (eqn,)))

    @property
    def private(self) -> set[Var]:
        """Values that exist one panel at a time."""
        return {var for panels in self.panels for var in panels.private}

    def __str__(self) -> str:
        lines = [show(self.program)]
        lines += [f"{len(batch)} kernels under one launch" for batch in self.batches]
        for d in self.decisions:
            verdict = "fused" if d.taken else "apart"
            lines.append(f"{verdict}: {d.pair[0]} | {d.pair[1]}: {d.reason}")
        return "\n".join(lines)


class Cap(NamedTuple):
    """Most registers of a kernel, and how many one is foreseen to need, by itself."""

    registers: int
    foreseen: Callable[[KernelPlan, cost.Layout], int]


class Planner:
    """Plans one program."""

    def __init__(
        self,
        program: Program,
        strides: dict[Var, tuple[int, ...]],
        orders: dict[Var, tuple[int, ...]],
        fusion: str | Choose,
        panels: bool,
        cap: Cap | None,
    ) -> None:
        self.program, self.cap = program, cap
        self.fusion, self.panels = fusion, panels
        self.grouping = Grouping(program, strides, orders)
        self.producers, self.orders = self.grouping.producers, self.grouping.orders
        self.places = self.grouping.places
        self.decisions: tuple[Decision, ...] = ()
        self.gap: float | None = None

    def plan(self) -> Plan:
        """The plan."""
        groups, self.decisions, self.gap = self._found()
        if self.cap is not None:
            limit = Limit(self.cap.registers, self._needed)
            groups, cuts = capped(self.grouping, groups, limit)
            self.decisions = (*self.decisions, *cuts)
        return self._assemble(groups)

    def _needed(self, group: Group) -> int:
        """Registers that a group's kernel is foreseen to need."""
        assert self.cap is not None
        return self.cap.foreseen(self._kernel(group), self.orders.layout)

    def _found(self) -> Found:
        """The groups, by a user's answers, by rule or by search."""
        grouping, scale = self.grouping, scale_of(self.program)
        if callable(self.fusion):
            return questions.answered(grouping, self.fusion, scale)
        if self.fusion == "auto":
            best, gap = Search(grouping).best()
            told = (*best.decisions, *account(grouping, best.groups, scale))
            return Found(best.groups, told, gap)
        greedy = Greedy(grouping, self.fusion)
        groups = greedy.groups()
        return Found(groups, (*greedy.decisions, *account(grouping, groups, scale)))

    # ---- the fused program ----------------------------------------------------------------
    def _assemble(self, groups: list[Group]) -> Plan:
        kernels: list[KernelPlan] = []
        for group in groups:
            kernels.append(self._kernel(group))
        calls = [e for e in self.program.eqns if e.primitive.family in store.CALLS]
        expands = [e for v in self.grouping.stored if self.grouping.is_call(e := self.producers[v])
                   and e.primitive is p.expand]  # fmt: skip
        eqns = in_order([k.eqn for k in kernels] + calls + expands, self.program.inputs)
        program = Program(self.program.inputs, eqns, self.program.outputs)
        layouts = {v: self.orders.layout(v) for e in eqns for v in e.outputs}
        order = {e: k for k, e in enumerate(eqns)}
        kernels.sort(key=lambda k: order[k.eqn])
        apart = Plan(program, tuple(kernels), self.decisions, layouts, gap=self.gap)
        return self._joined(apart) if self.panels else apart

    def _joined(self, plan: Plan) -> Plan:
        """The plan with matrix products in panels, where it has any."""
        known = Kernels({k.eqn: (k.schedule, k.env) for k in plan.kernels}, plan.layouts,
                        self._agrees)  # fmt: skip
        inputs = {v: self.orders.layout(v) for v in self.program.inputs}
        joint = joined(plan.program, known, inputs)
        if not joint.panels:
            return plan
        inside = {e for panels in joint.panels for e in panels.stages}
        program = Program(plan.program.inputs, joint.eqns, plan.program.outputs)
        told = [Decision(*d) for d in joint.decisions] if self.fusion != "none" else []
        kernels = tuple(replace(k, by_rows=k.eqn in inside) for k in plan.kernels)
        decisions = (*plan.decisions, *told)
        after = Plan(program, kernels, decisions, plan.layouts, joint.panels, gap=plan.gap)
        order = {eqn: k for k, eqn in enumerate(after.steps)}
        return replace(after, kernels=tuple(sorted(kernels, key=lambda k: order[k.eqn])))

    def _agrees(self, pair: tuple[str, str], numbers: dict[str, float]) -> bool:
        """Whether the caller lets a product and a kernel share panels."""
        if callable(self.fusion):
            return self.fusion(Decision(pair, True, "on panels of rows", numbers))
        return self.fusion != "none"

    def _kernel(self, group: Group) -> KernelPlan:
        env = self.grouping.env_of(group.roots)
        inside = self.grouping.inside(group, self.grouping.computed(group))
        eqns = ordered([e for e in self.program.eqns if e.outputs[0] in inside], self.places)
        outputs = tuple(r.var for r in group.roots if r.eqn is None)
        made = {v for e in eqns for v in e.outputs}
        inputs: dict[Var, None] = {}
        guards = [c.atom for q in group.schedule.placed for c in q.guard if isinstance(c, Holds)]
        for atom in (*guards, *[a for e in eqns for a in e.inputs]):
            if isinstance(atom, Var) and atom not in made:
                inputs[atom] = None
        program = Program(tuple(inputs), eqns, outputs)
        eqn = Eqn(p.kernel, tuple(inputs), (("program", program),), outputs, eqns[-1].source)
        inner = {v: e for e in eqns for v in e.outputs if v in env}
        return KernelPlan(eqn, group.schedule, inner)


def in_order(eqns: list[Eqn], inputs: tuple[Var, ...]) -> tuple[Eqn, ...]:
    """Equations in dependency order, otherwise in the order given."""
    ready: set[Atom] = set(inputs)
    pending, done = list(eqns), []
    while pending:
        left = []
        for eqn in pending:
            if all(isinstance(a, Literal) or a in ready for a in eqn.inputs):
                done.append(eqn)
                ready.update(eqn.outputs)
            else:
                left.append(eqn)
        assert len(left) < len(pending), "kernels depend on each other in a circle"
        pending = left
    return tuple(done)


def plan(
    program: Program,
    strides: dict[Var, tuple[int, ...]],
    orders: dict[Var, tuple[int, ...]],
    fusion: str | Choose = "auto",
    *,
    panels: bool = True,
    cap: Cap | None = None,
) -> Plan:
    """Partition `program` into kernels and library calls.

    `strides` gives element strides of the inputs, `orders` the axis order of outputs; `fusion` is
    "auto", "max", "none" or a function from a candidate Decision to bool; `panels` says whether
    framed products share panels of rows with kernels; kernels that need more registers than `cap`
    allows are cut.
    """
    return Planner(program, strides, orders, fusion, panels, cap).plan()
