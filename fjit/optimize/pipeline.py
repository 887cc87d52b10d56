"""The optimizer: one ordered tuple of passes, repeated until none changes the program.

Takes the program as traced, gives the program to plan.

    let b = mul a 1.0; c = exp b; d = neg a in (c,)
    becomes
    let b = exp a in (b,)

Invariant: the optimized program gives the same bits; the driver is bounded, and an error names the
pass and the rules that would not stop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from fjit.core.ir import Program
from fjit.core.show import show
from fjit.core.verify import verify as verify_program
from fjit.errors import InternalError
from fjit.optimize.clean import merge_common, remove_dead
from fjit.optimize.relax import rules_of
from fjit.optimize.rewrite import Rewriter, Rules
from fjit.optimize.simplify import applicable, simplify

Pass = Callable[[Program], Program]

PASSES: Final[tuple[tuple[str, Pass], ...]] = (
    ("remove_dead", remove_dead),
    ("simplify", simplify),
    ("merge_common", merge_common),
)
MAX_ROUNDS: Final = 16
"""Rounds beside one per equation: a merge may be what the next simplification waits for."""


def optimize(program: Program, fastmath: Collection[str] = (), *, verify: bool = False) -> Program:
    """`program` after all passes; with `verify`, it is checked before and after each of them.

    The flags in `fastmath` license more rules, which see the program when the exact ones are done.
    """
    program = run(PASSES, program, verify=verify)
    if not fastmath:
        return program
    relax = partial(_rewritten, rules_of(fastmath))
    return run((*PASSES, ("relax", relax)), program, verify=verify)


def _rewritten(rules: Rules, program: Program) -> Program:
    return Rewriter(program, rules).run()


def run(passes: tuple[tuple[str, Pass], ...], program: Program, *, verify: bool = False) -> Program:
    """Apply `passes` in turn until a whole round changes nothing."""
    if verify:
        verify_program(program)
    rounds = MAX_ROUNDS + len(program.eqns)
    for _ in range(rounds):
        before = program
        changed = ""
        for name, apply in passes:
            after = apply(program)
            if after is program:
                continue
            program, changed = after, name
            if verify:
                _verified(name, program)
        if program is before:
            return program
    rules = ", ".join(applicable(program)) or "none of the rules of simplify"
    raise InternalError(
        f"the optimizer did not stop in {rounds} rounds: {changed} still changes the program "
        f"({rules} would apply)\n{show(program)}"
    )


def _verified(name: str, program: Program) -> None:
    try:
        verify_program(program)
    except InternalError as error:
        raise InternalError(f"after pass {name}: {error}") from error
