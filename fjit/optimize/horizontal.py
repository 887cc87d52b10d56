"""Horizontal fusion: kernels that do not depend on each other run under one launch.

Takes a plan, gives it with batches: kernels of one level (as many steps from the inputs) that stand
one behind the other in its program. Their bodies stay apart. Invariant: no member of a batch reads
what another one writes, be it a value or an argument that is written over.

    adam over 200 tensors: 200 kernels     ->     one batch of 200
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from fjit.core.ir import Eqn, Program, Var
from fjit.optimize import cost
from fjit.optimize.decisions import Choose, Decision
from fjit.optimize.plan import KernelPlan, Plan
from fjit.optimize.search import scale_of
from fjit.optimize.work import Work, work_of

SHORT_LAUNCHES: Final = 2
"""Launches that a kernel is to be shorter than for one to be worth sparing."""


def with_batches(plan: Plan, strides: Mapping[Var, tuple[int, ...]], fusion: str | Choose) -> Plan:
    """The plan with its batches; `strides` are the inputs'."""
    if fusion == "none" or len(plan.kernels) < 2 or plan.over:
        return plan  # who writes over a part of an argument waits for those who read it
    return _Batches(plan, strides, fusion).made()


class _Batches:
    """The batches of one plan."""

    def __init__(
        self, plan: Plan, strides: Mapping[Var, tuple[int, ...]], fusion: str | Choose
    ) -> None:
        self.plan, self.fusion = plan, fusion
        self.layouts = {**strides, **plan.layouts}
        self.scale = scale_of(plan.program)
        self.kernels = {k.eqn: k for k in plan.kernels if not k.by_rows and _is_static(k.eqn)}
        self.decisions: list[Decision] = []

    def made(self) -> Plan:
        """The plan, its equations by levels if that makes a batch."""
        plan = self.plan
        levels = _levels(plan.program)
        count = 1 + max(levels.values())
        by_level = [[e for e in plan.program.eqns if levels[e] == k] for k in range(count)]
        batches = [tuple(self._batch([e for e in eqns if e in self.kernels])) for eqns in by_level]
        batches = [batch for batch in batches if len(batch) > 1]
        decisions = (*plan.decisions, *self.decisions)
        if not batches:
            return replace(plan, decisions=decisions)
        eqns = _adjacent(plan.program, batches)
        place = {eqn: k for k, eqn in enumerate(replace(plan, program=eqns).steps)}
        kernels = tuple(sorted(plan.kernels, key=lambda kernel: place[kernel.eqn]))
        return replace(
            plan, program=eqns, kernels=kernels, decisions=decisions, batches=tuple(batches)
        )

    def _batch(self, eqns: list[Eqn]) -> Iterator[Eqn]:
        """Those of a level's kernels that share a launch."""
        if len(eqns) < 2:
            return
        times = {eqn: self._ns(eqn) for eqn in eqns}
        launch = SHORT_LAUNCHES * cost.FORK_JOIN_NS
        kinds = {self._is_heavy(eqn) for eqn in eqns}
        pair = (_name(eqns[0]), f"{len(eqns) - 1} that it does not depend on")
        numbers = {"kernels": 1.0 * len(eqns), "launch_ns": cost.FORK_JOIN_NS}
        worth = self.fusion == "max" or len(kinds) > 1 or min(times.values()) < launch
        if not worth:
            reason = f"each is longer than {SHORT_LAUNCHES} launches, and all wait for the same"
            self.decisions.append(Decision(pair, False, reason, numbers))
            return
        chosen = [eqns[0], *filter(self._agreed(eqns[0]), eqns[1:])]
        if len(chosen) > 1:
            reason = "independent: one launch for all"
            numbers["kernels"] = 1.0 * len(chosen)
            self.decisions.append(Decision(pair, True, reason, numbers))
            yield from chosen

    def _agreed(self, first: Eqn) -> Callable[[Eqn], bool]:
        def agreed(eqn: Eqn) -> bool:
            pair = (_name(first), _name(eqn))
            numbers = {"launch_ns": cost.FORK_JOIN_NS}
            candidate = Decision(pair, True, "independent: one launch for all", numbers)
            return not callable(self.fusion) or self.fusion(candidate)

        return agreed

    def _work(self, eqn: Eqn) -> Work:
        kernel: KernelPlan = self.kernels[eqn]
        return work_of(kernel.env, kernel.schedule, self.layouts.__getitem__)

    def _ns(self, eqn: Eqn) -> float:
        return self._work(eqn).ns(self.scale) - cost.LAUNCH_NS

    def _is_heavy(self, eqn: Eqn) -> bool:
        """Whether arithmetic takes longer than memory."""
        work = self._work(eqn)
        return work.compute_ns > (work.read + work.written) * self.scale.rate


def _is_static(eqn: Eqn) -> bool:
    """Whether a kernel neither finds extents out nor waits for another one to do so."""
    program = eqn.param("program")
    assert isinstance(program, Program)
    made = (v for e in program.eqns for v in e.outputs)
    operands = (a for a in eqn.inputs if isinstance(a, Var))
    return all(v.aval.is_static for v in (*made, *operands))


def _levels(program: Program) -> dict[Eqn, int]:
    """How many steps each equation is from the inputs, at most."""
    level: dict[Var, int] = {}
    found: dict[Eqn, int] = {}
    for eqn in program.eqns:
        before = [level[a] for a in eqn.inputs if isinstance(a, Var) and a in level]
        found[eqn] = 1 + max(before) if before else 0
        level.update(dict.fromkeys(eqn.outputs, found[eqn]))
    return found


def _adjacent(program: Program, batches: Iterable[tuple[Eqn, ...]]) -> Program:
    """The program with the members of each batch one behind the other."""
    home = {eqn: batch for batch in batches for eqn in batch}
    found: list[Eqn] = []
    pending = dict.fromkeys(program.eqns)
    ready: set[object] = set(program.inputs)
    while pending:
        eqn = next(e for e in pending if _all_ready(home.get(e, (e,)), ready))
        for member in home.get(eqn, (eqn,)):
            found.append(member)
            del pending[member]
            ready.update(member.outputs)
    return Program(program.inputs, tuple(found), program.outputs)


def _all_ready(members: Iterable[Eqn], ready: set[object]) -> bool:
    return all(a in ready for e in members for a in e.inputs if isinstance(a, Var))


def _name(eqn: Eqn) -> str:
    """A kernel in words: its first few operations."""
    program = eqn.param("program")
    assert isinstance(program, Program)
    words = dict.fromkeys(
        str(e.get("op") or e.primitive.name) for e in program.eqns if e.primitive.family != "view"
    )
    return "+".join(list(words)[:4]) or "copy"
