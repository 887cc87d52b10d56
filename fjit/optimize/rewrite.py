"""The rewriter: one forward walk over a program that applies local rules until none fits.

Takes a program and a table primitive -> rules, gives a program. A rule sees one equation, whose
operands are simplified already, and gives an atom to read instead, a Draft to put in the equation's
place, or None:

    let b = neg a; c = neg b; d = exp c in (d,)
    becomes, with the rule neg (neg x) -> x,
    let b = neg a; c = exp a in (c,)

Invariant: avals stay; the source and scope of an equation stay with what replaces it; the variable
that determines a symbolic extent keeps its identity. Equations that nobody reads any more are left
to `clean.remove_dead`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Primitive, Program, Var
from fjit.errors import FjitError, InternalError
from fjit.optimize.clean import origins, with_inputs

REWRITES_PER_EQUATION: Final = 100
MAX_DEPTH: Final = 60
"""Equations made for equations made for ...: deeper ones wait for the next round."""


class Draft(NamedTuple):
    """What an equation becomes: `primitive[params] inputs`, with the outputs it has."""

    primitive: Primitive
    inputs: tuple[Atom, ...]
    params: dict[str, object]


class Run:
    """Values written one after the other along one axis, without partial overlaps."""

    __slots__ = ("axis", "covered", "pieces", "starts")

    def __init__(self, axis: int) -> None:
        self.axis = axis
        self.covered = 0
        self.starts: list[int] = []
        self.pieces: dict[int, tuple[int, Atom]] = {}  # start to stop and value

    def write(self, start: int, size: int, value: Atom) -> bool:
        """Add or replace a piece; False if it overlaps others and is none of them."""
        stop, known = start + size, self.pieces.get(start)
        if known is None:
            at = bisect_left(self.starts, start)
            if at < len(self.starts) and self.starts[at] < stop:
                return False
            if at > 0 and self.pieces[self.starts[at - 1]][0] > start:
                return False
            self.starts.insert(at, start)
            self.covered += size
        elif known[0] != stop:
            return False
        self.pieces[start] = (stop, value)
        return True

    def values(self) -> tuple[Atom, ...]:
        """The values in order along the axis."""
        return tuple(self.pieces[start][1] for start in self.starts)


class Rewriter:
    """One walk over one program."""

    def __init__(self, program: Program, rules: Rules) -> None:
        self.program = program
        self.rules = rules
        self.eqns: list[Eqn] = []
        self.producers: dict[Atom, Eqn] = {}
        self.runs: dict[Atom, Run] = {}  # by the output of the last update, see regions.py
        self.fired: list[str] = []
        self._renamed: dict[Atom, Atom] = {}
        self._pinned = origins(program)
        self._uses: Counter[Atom] | None = None
        self._limit = REWRITES_PER_EQUATION * (len(program.eqns) + 10)
        self._depth = 0
        self._eqn: Eqn | None = None  # the equation of the program that is being simplified

    def run(self) -> Program:
        """The rewritten program, or the same object if no rule applied."""
        renamed = self._renamed
        for eqn in self.program.eqns:
            if renamed and any(a in renamed for a in eqn.inputs):
                eqn = with_inputs(eqn, tuple(renamed.get(a, a) for a in eqn.inputs))
            self._eqn = eqn
            if eqn.primitive not in self.rules:
                self._record(eqn)
                continue
            atom = self._simplified(eqn)
            if atom is not eqn.outputs[0]:
                self._rename(eqn.outputs[0], atom)
        before = self.program.eqns
        if len(before) == len(self.eqns) and all(map(_same, before, self.eqns)):
            return self.program
        outputs = tuple(renamed.get(a, a) for a in self.program.outputs)
        return Program(self.program.inputs, tuple(self.eqns), outputs)

    # ---- what rules ask and make ----------------------------------------------------------------
    def producer(self, atom: Atom, primitive: Primitive) -> Eqn | None:
        """The equation that makes `atom`, if it is one of `primitive`."""
        eqn = self.producers.get(atom)
        return eqn if eqn is not None and eqn.primitive is primitive else None

    def is_shared(self, atom: Atom) -> bool:
        """Whether `atom` may be read in more than one place."""
        if self._uses is None:
            atoms = [a for eqn in self.program.eqns for a in eqn.inputs]
            atoms.extend(self.program.outputs)
            self._uses = Counter(self._renamed.get(a, a) for a in atoms)
        return self._uses[atom] > 1

    def emit(self, primitive: Primitive, *inputs: Atom, **params: object) -> Atom:
        """A new equation before the present one, simplified; gives its output."""
        like = self._eqn
        assert like is not None, "emit outside a walk"
        aval = p.type_rule(primitive)(*[a.aval for a in inputs], **params)
        items = tuple(sorted(params.items()))
        eqn = Eqn(primitive, inputs, items, (Var(aval),), like.source, like.scope)
        self._depth += 1
        atom = self._simplified(eqn)
        self._depth -= 1
        return atom

    # ---- the walk -------------------------------------------------------------------------------
    def _record(self, eqn: Eqn) -> None:
        self.eqns.append(eqn)
        for var in eqn.outputs:
            self.producers[var] = eqn

    def _rename(self, var: Var, atom: Atom) -> None:
        self._renamed[var] = atom
        if self._uses is not None:
            self._uses[atom] += self._uses[var]

    def _simplified(self, eqn: Eqn) -> Atom:
        """Record what `eqn` becomes; the atom that holds its value."""
        while self._depth <= MAX_DEPTH:
            result = self._apply(eqn)
            if result is None:
                break
            if not isinstance(result, Draft):
                return result
            items = tuple(sorted(result.params.items()))
            eqn = Eqn(result.primitive, result.inputs, items, eqn.outputs, eqn.source, eqn.scope)
        self._record(eqn)
        return eqn.outputs[0]

    def _apply(self, eqn: Eqn) -> Atom | Draft | None:
        """The result of the first rule that fits `eqn`."""
        for rule in self.rules.get(eqn.primitive, ()):
            mark = len(self.eqns)
            result = rule(self, eqn)
            if result is None:
                continue
            if not isinstance(result, Draft) and eqn.outputs[0] in self._pinned:
                del self.eqns[mark:]
                continue
            self._check(rule, eqn, result)
            return result
        return None

    def _check(self, rule: Rule, eqn: Eqn, result: Atom | Draft) -> None:
        """Count the rule, and check that its result has the aval of what it replaces."""
        self.fired.append(rule.__name__)
        if len(self.fired) > self._limit:
            last = ", ".join(sorted(set(self.fired[-20:])))
            raise InternalError(f"the rewriter does not stop; the rules that still apply: {last}")
        aval = result.aval if not isinstance(result, Draft) else _aval(rule, result)
        if aval != eqn.outputs[0].aval:
            raise InternalError(
                f"rule {rule.__name__} turns {eqn.outputs[0].aval} of {eqn.primitive} into {aval}"
            )


Rule = Callable[[Rewriter, Eqn], Atom | Draft | None]
Rules = Mapping[Primitive, tuple[Rule, ...]]


def _same(a: Eqn, b: Eqn) -> bool:
    return a is b


def _aval(rule: Rule, draft: Draft) -> object:
    try:
        return p.type_rule(draft.primitive)(*[a.aval for a in draft.inputs], **draft.params)
    except FjitError as error:
        raise InternalError(f"rule {rule.__name__}: {error}") from error


def replaced(eqn: Eqn, *inputs: Atom, **params: object) -> Draft:
    """`eqn` with other operands and some parameters changed."""
    return Draft(eqn.primitive, inputs, {**dict(eqn.params), **params})
