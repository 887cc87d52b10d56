"""From a trace to nests; for a shape like one that came before, without planning again.

Takes a trace and the memory of its inputs, gives an `Assembly`. Traces that differ only in the
sizes of their arrays are alike. The second of them is planned and lowered with recorded numbers
(core/recorded.py) in place of its sizes, which gives a `Form`; for the others the form computes
anew what depends on sizes, if its conditions hold for theirs:

    f64[300,400] f64[300,400]    planned
    f64[301,400] f64[301,400]    planned, with n0 = 301, n1 = 400: tasks n0, slots (n0, n1, 8 * n1)
    f64[302,410] f64[302,410]    tasks 302, slots (302, 410, 3280), since n0 != n1, n1 > 16, ...

A constant that was another one in an earlier trace (`x / len(x)`) is a number that code takes at
run time from then on, so that it too can be another one with the same code. The count of a mean is
one from the start.

Invariant: the assembly is the one that planning would give.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from fjit.core import dtypes
from fjit.core import primitives as p
from fjit.core.ir import Atom, Aval, Eqn, Literal, Program, Sym, Var
from fjit.core.recorded import EXACT, MARK, Number, Replay, Tape
from fjit.core.region import Region
from fjit.frontend.function import Traced
from fjit.lower.assembly import Assembly, Kernel, assembled
from fjit.lower.memory import Memory
from fjit.lower.nest import Nest
from fjit.optimize.clean import with_inputs
from fjit.optimize.plan import Plan
from fjit.planning import Policy, calls_library, planned

MAX_KINDS: Final = 32
"""Kinds of traces of one function that are remembered; those used least recently go."""
MAX_FORMS: Final = 8
"""Forms of one kind, each for other relations between the sizes."""
# fmt: off
MAY_VARY: Final = frozenset((
    p.add, p.sub, p.mul, p.div, p.max_, p.min_, p.fmax, p.fmin, p.eq, p.ne, p.lt, p.le, p.gt, p.ge,
    p.select, p.broadcast, p.pad, p.copysign, p.hypot, p.atan2,
))
# fmt: on
"""Operations that do the same with a constant and with the number at run time, bit for bit."""


class Stages(NamedTuple):
    """A trace, its varying constants marked; lowered; its program and plan if they were made."""

    traced: Traced
    assembly: Assembly
    planned: tuple[Program, Plan] | None = None


class Constant(NamedTuple):
    """The dtype and bits of a literal."""

    dtype: np.dtype[Any]
    word: int

    def literal(self) -> Literal:
        """A literal that code takes at run time."""
        return Literal(dtypes.from_word(self.word, self.dtype), Aval((), self.dtype), self.word)


class Given(NamedTuple):
    """What a form is filled in with: the sizes of a trace, and its literals that vary."""

    sizes: tuple[int, ...]
    literals: tuple[Literal, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """All of them, literals by their bits."""
        return (*self.sizes, *(a.word for a in self.literals if a.word is not None))


class Kind:
    """Traces that are alike: their constants as they were last, those that vary, their forms."""

    def __init__(self, constants: tuple[Constant, ...], varying: set[int]) -> None:
        self.constants = constants
        self.varying = varying
        self.forms: list[Form] = []

    def meet(self, constants: tuple[Constant, ...]) -> None:
        """Note which constants are others than before: no form knows that they vary."""
        pairs = enumerate(zip(constants, self.constants, strict=True))
        changed = {k for k, (new, old) in pairs if new != old} - self.varying
        if changed:
            self.varying |= changed
            self.forms.clear()
        self.constants = constants

    def known(
        self, traced: Traced, memory: Sequence[Memory], policy: Policy, given: Given
    ) -> Stages | None:
        """A trace lowered by a form, which is made if there is room; else None."""
        inputs = traced.program.inputs
        for form in self.forms:
            assembly = form.assembly(given.numbers, inputs)
            if assembly is not None:
                return Stages(traced, assembly)
        if len(self.forms) >= MAX_FORMS:
            return None
        form = _recorded(traced, memory, policy, given)
        self.forms.insert(0, form)
        assembly = form.assembly(given.numbers, inputs)
        assert assembly is not None, "a form does not fit the sizes that it was made from"
        return Stages(traced, assembly)


class Forms:
    """The forms of one function's traces, by kind."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[tuple[Any, ...], Kind] = OrderedDict()

    def stages(self, traced: Traced, memory: Sequence[Memory], policy: Policy) -> Stages:
        """The assembly of a trace."""
        if callable(policy.fusion):  # it would see recorded numbers
            return _afresh(traced, memory, policy)
        sizes = _Sizes(traced.program)
        key = (*sizes.kind(traced, memory), policy)
        kind = self._kinds.get(key)
        if kind is None:
            self._kinds[key] = Kind(tuple(sizes.constants), sizes.varying)
            if len(self._kinds) > MAX_KINDS:
                self._kinds.popitem(last=False)
            return _afresh(traced, memory, policy)
        self._kinds.move_to_end(key)
        constants = tuple(sizes.constants)
        kind.meet(constants)
        varying = {k: constants[k].literal() for k in sorted(kind.varying)}
        instead = {a: varying[k] for a, k in sizes.literals.items() if k in varying}
        traced = replace(traced, program=_marked(traced.program, instead))
        if calls_library(traced.program):  # panels are made of plain numbers
            return _afresh(traced, memory, policy)
        given = Given(tuple(sizes.places), tuple(varying.values()))
        return kind.known(traced, memory, policy, given) or _afresh(traced, memory, policy)

    def clear(self) -> None:
        """Forget all forms."""
        self._kinds.clear()


def _afresh(traced: Traced, memory: Sequence[Memory], policy: Policy) -> Stages:
    program, made = planned(traced, memory, policy)
    return Stages(traced, assembled(made, memory, policy.fit), (program, made))


# ---- what is alike ------------------------------------------------------------------------------
class _Sizes:
    """The large numbers and the constants of a trace, as they are met; equal ones are one."""

    def __init__(self, program: Program) -> None:
        self.places: dict[int, int] = {}
        self.constants: dict[Constant, int] = {}
        self.literals: dict[Literal, int] = {}
        self.varying: set[int] = set()
        self._names: dict[object, int] = {}
        self._fixed = {a for a in program.outputs if isinstance(a, Literal)}
        for eqn in program.eqns:
            if eqn.primitive not in MAY_VARY:
                self._fixed.update(a for a in eqn.inputs if isinstance(a, Literal))

    def kind(self, traced: Traced, memory: Sequence[Memory]) -> tuple[Any, ...]:
        """All that planning looks at, with large numbers and constants by their places."""
        program = traced.program
        names = self._names
        inputs = []
        for var, place in zip(program.inputs, memory, strict=True):
            names[var] = len(names)
            strides = tuple(map(self._part, place.strides))
            shape = tuple(map(self._part, var.aval.shape))
            inputs.append((var.aval.dtype, shape, strides, place.swapped, place.scalar))
        eqns = []
        for eqn in program.eqns:
            atoms = tuple(map(self._atom, eqn.inputs))
            params = tuple((k, self._part(v)) for k, v in eqn.params)
            eqns.append((eqn.primitive, atoms, params))
            names[eqn.outputs[0]] = len(names)
        outputs = tuple(map(self._atom, program.outputs))
        orders = tuple((r.output, r.order) for r in traced.results if r.output is not None)
        writes = tuple((k, n, self._part(tuple(r or ()))) for k, n, r in traced.writes)
        return tuple(inputs), tuple(eqns), outputs, orders, writes

    def _part(self, value: Any) -> Any:
        if type(value) is int:
            if -EXACT <= value <= EXACT:
                return value
            return ("size", self.places.setdefault(value, len(self.places)))
        if type(value) is tuple:
            return tuple(map(self._part, value))
        if isinstance(value, Sym):
            return ("sym", self._names[value.origin], self._part(value.bound))
        return value

    def _atom(self, atom: Atom) -> Any:
        if not isinstance(atom, Literal):
            return self._names[atom]
        dtype = atom.aval.dtype
        if atom in self._fixed or dtype.kind == "b":
            return (dtype, atom.value.tobytes())
        number = self.literals.get(atom)
        if number is None:
            constant = Constant(dtype, dtypes.word(atom.value, dtype))
            number = self.constants.setdefault(constant, len(self.constants))
            self.literals[atom] = number
        if atom.word is not None:
            self.varying.add(number)
        return ("constant", dtype, number, atom.word is not None)


def _marked(program: Program, instead: dict[Literal, Literal]) -> Program:
    """The program with other literals."""
    if not instead:
        return program
    names: dict[Atom, Atom] = dict(instead.items())
    eqns = tuple(
        with_inputs(eqn, tuple(names.get(a, a) for a in eqn.inputs))
        if any(a in names for a in eqn.inputs)
        else eqn
        for eqn in program.eqns
    )
    return Program(program.inputs, eqns, program.outputs)


# ---- making a form ------------------------------------------------------------------------------
def _recorded(traced: Traced, memory: Sequence[Memory], policy: Policy, given: Given) -> Form:
    """The form of a trace, from planning and lowering it with recorded numbers."""
    tape = Tape(given.numbers)
    sizes = dict(zip(given.sizes, tape.given, strict=False))
    words = dict(zip(given.literals, tape.given[len(sizes) :], strict=True))
    restated = _Restated(lambda v: sizes[v] if v in sizes else tape.constant(v), words)
    program = restated.program(traced.program)
    at = [replace(m, strides=restated.part(m.strides)) for m in memory]
    writes = tuple(w._replace(region=w.region and restated.region(w.region)) for w in traced.writes)
    made = planned(replace(traced, program=program, writes=writes), at, policy)[1]
    assembly = assembled(made, at, policy.fit)
    found = _Numbers()
    _Filled(found.note).assembly(assembly, assembly.program.inputs)
    replay, where = tape.finish(found.numbers)
    for kernel in assembly.kernels:
        assert MARK not in kernel.text, f"the text of a nest holds a size:\n{kernel.text}"
    return Form(assembly, replay, where)


class _Restated:
    """A program with other numbers, its results' shapes worked out from its operands'."""

    def __init__(self, number: Callable[[int], Number], words: dict[Literal, Number]) -> None:
        self.number = number
        self.vars: dict[Atom, Atom] = {a: Literal(a.value, a.aval, n) for a, n in words.items()}  # type: ignore[arg-type]  # stands for an int
        self.symbols: dict[Sym, Sym] = {}

    def program(self, program: Program) -> Program:
        for var in program.inputs:
            self.vars[var] = Var(Aval(self.part(var.aval.shape), var.aval.dtype))
        eqns = tuple(map(self._eqn, program.eqns))
        inputs = tuple(map(self._atom, program.inputs))
        outputs = tuple(map(self._atom, program.outputs))
        return Program(inputs, eqns, outputs)  # type: ignore[arg-type]  # inputs are variables

    def part(self, value: Any) -> Any:
        """A parameter, shape or strides."""
        if type(value) is int:
            return self.number(value)
        if type(value) is tuple:
            return tuple(map(self.part, value))
        if isinstance(value, Sym):
            known = self.symbols.get(value)
            if known is None:
                origin = self.vars[value.origin]
                assert isinstance(origin, Var)
                known = self.symbols[value] = Sym(self.part(value.bound), origin)
            return known
        return value

    def region(self, region: Region) -> Region:
        """The part of an input that is written."""
        return Region(*map(self.part, region))

    def _eqn(self, eqn: Eqn) -> Eqn:
        inputs = tuple(map(self._atom, eqn.inputs))
        params = tuple((k, self.part(v)) for k, v in eqn.params)
        aval = p.type_rule(eqn.primitive)(*[a.aval for a in inputs], **dict(params))
        output = self.vars[eqn.outputs[0]] = Var(aval)
        return Eqn(eqn.primitive, inputs, params, (output,), eqn.source, eqn.scope)

    def _atom(self, atom: Atom) -> Atom:
        return self.vars.get(atom, atom) if isinstance(atom, Literal) else self.vars[atom]


class _Numbers:
    """The recorded numbers that an assembly holds."""

    def __init__(self) -> None:
        self.numbers: list[Number] = []

    def note(self, number: Number) -> int:
        self.numbers.append(number)
        return 0


# ---- using a form -------------------------------------------------------------------------------
class Form(NamedTuple):
    """An assembly with recorded numbers, and how to get theirs from the sizes of a trace."""

    recorded: Assembly
    replay: Replay
    where: dict[int, int]

    def assembly(self, sizes: Sequence[int], inputs: tuple[Var, ...]) -> Assembly | None:
        """The assembly of a trace with these sizes, or None if a condition does not hold."""
        values = self.replay.values(sizes)
        if values is None:
            return None
        where = self.where
        return _Filled(lambda n: values[where[n.place]]).assembly(self.recorded, inputs)


class _Filled:
    """An assembly with plain numbers in place of recorded ones."""

    def __init__(self, value: Callable[[Number], Any]) -> None:
        self.value = value
        self.atoms: dict[Atom, Atom] = {}
        self.avals: dict[int, Aval] = {}
        self.symbols: dict[Sym, Sym] = {}

    def assembly(self, recorded: Assembly, inputs: tuple[Var, ...]) -> Assembly:
        self.atoms.update(zip(recorded.program.inputs, inputs, strict=True))
        eqns = {eqn: self._eqn(eqn) for eqn in recorded.program.eqns}
        outputs = tuple(self.atoms.get(a, a) for a in recorded.program.outputs)
        program = Program(inputs, tuple(eqns.values()), outputs)
        kernels = tuple(
            Kernel(eqns[k.eqn], self._nest(k.nest), k.text, tuple(map(self._part, k.cells)))
            for k in recorded.kernels
        )
        memory: dict[Var, Memory] = {}
        for var, place in recorded.memory.items():
            strides = self._part(place.strides)
            memory[self.atoms[var]] = Memory(strides, place.swapped, place.scalar)  # type: ignore[index]
        over = tuple(v for a in recorded.over if isinstance(v := self.atoms[a], Var))
        batches = tuple(tuple(eqns[eqn] for eqn in batch) for batch in recorded.batches)
        return Assembly(program, kernels, memory, over=over, batches=batches)

    def _part(self, value: Any) -> Any:
        kind = type(value)
        if kind is Number:
            return self.value(value)
        if kind is tuple:
            return tuple(map(self._part, value))
        if kind is Sym:
            known = self.symbols.get(value)
            if known is None:
                origin = self.atoms.get(value.origin, value.origin)
                assert isinstance(origin, Var)
                known = self.symbols[value] = Sym(self._part(value.bound), origin)
            return known
        return self._program(value) if kind is Program else value

    def _program(self, program: Program) -> Program:
        """A kernel's program, in terms of its own inputs."""
        inputs = tuple(self.atoms[v] for v in program.inputs)
        eqns = tuple(map(self._eqn, program.eqns))
        outputs = tuple(self.atoms[a] for a in program.outputs)
        return Program(inputs, eqns, outputs)  # type: ignore[arg-type]  # inputs are variables

    def _operand(self, atom: Atom) -> Atom:
        if isinstance(atom, Literal) and atom.word is not None and atom not in self.atoms:
            word = self._part(atom.word)
            self.atoms[atom] = Literal(dtypes.from_word(word, atom.aval.dtype), atom.aval, word)
        return self.atoms.get(atom, atom)

    def _eqn(self, eqn: Eqn) -> Eqn:
        inputs = tuple(map(self._operand, eqn.inputs))
        params = tuple((k, self._part(v)) for k, v in eqn.params)
        outputs = tuple(self._var(v) for v in eqn.outputs)
        return Eqn(eqn.primitive, inputs, params, outputs, eqn.source, eqn.scope)

    def _var(self, var: Var) -> Var:
        known = self.atoms.get(var)
        if known is None:
            known = self.atoms[var] = Var(self._aval(var.aval))
        assert isinstance(known, Var)
        return known

    def _aval(self, aval: Aval) -> Aval:
        known = self.avals.get(id(aval))
        if known is None:
            known = self.avals[id(aval)] = Aval(self._part(aval.shape), aval.dtype)
        return known

    def _nest(self, nest: Nest) -> Nest:
        phases = tuple(
            replace(
                phase,
                tasks=self._part(phase.tasks),
                grain=self._part(phase.grain),
                elements=self._part(phase.elements),
            )
            for phase in nest.phases
        )
        return replace(nest, phases=phases, slots=self._part(nest.slots))
