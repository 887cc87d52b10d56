"""Instructions into steps.

Takes an instruction that does not branch, gives a function of the group that executes it.
Invariant: an instruction that no table knows, or not with its types, is an error that names it.

    add.f32 %f1, %f2, 0f3F800000  ->  read f2, add [1.0], write f1
"""

from collections.abc import Callable
from typing import TypeVar

from fjit.backend.ptx import (
    atomics,
    bits,
    compare,
    convert,
    floats,
    integers,
    memory,
    warps,
)
from fjit.backend.ptx.access import Reader, Writer, reader, writer
from fjit.backend.ptx.lanes import Group
from fjit.backend.ptx.memory import Step
from fjit.backend.ptx.operation import Operation
from fjit.backend.ptx.program import CARRY, Instruction, Operand, Pack, Special
from fjit.backend.ptx.special import known
from fjit.backend.ptx.types import PRED
from fjit.errors import EmulatorError

RULES = (floats.RULES, integers.RULES, bits.RULES, compare.RULES, convert.RULES)
STEPS = {**memory.STEPS, **atomics.STEPS, **warps.STEPS}
Made = TypeVar("Made")


def named(make: Callable[[Instruction], Made], ins: Instruction) -> Made:
    """What `make` makes of an instruction; its errors name the instruction."""
    try:
        return make(ins)
    except EmulatorError as error:
        raise EmulatorError(f"{ins.text} (PTX line {ins.line}): {error}") from None
    except (IndexError, KeyError):
        raise EmulatorError(
            f"{ins.text} (PTX line {ins.line}): the emulator does not know this "
            "instruction, or not with these types and operands."
        ) from None


def decode(ins: Instruction) -> Step:
    """The step of an instruction that is no branch."""
    for operand in ins.operands:
        _check(operand)
    step = _plain(ins)
    if ins.guard is None:
        return step
    guard = reader(ins.guard, PRED)

    def guarded(group: Group) -> None:
        active = group.where(guard(group))
        if active is not None:
            step(active)

    return guarded


def _check(operand: Operand) -> None:
    if isinstance(operand, Special) and not known(operand.name):
        raise EmulatorError(f"no register {operand.name} is declared, and no special one is known.")
    if isinstance(operand, Pack):
        for item in operand.items:
            _check(item)


def _plain(ins: Instruction) -> Step:
    name = warps.qualified(ins)
    if name in STEPS:
        return STEPS[name](ins)
    for table in RULES:
        found = table[name](ins) if name in table and ins.types else None
        if found is not None:
            return _step(ins, found)
    raise KeyError(name)


def _step(ins: Instruction, what: Operation) -> Step:
    """Read, compute, write."""
    write = writer(ins.operands[0], what.result)
    sources = ins.operands[1:]
    if len(sources) != len(what.sources):
        raise IndexError(ins.text)
    readers = [reader(item, ty) for item, ty in zip(sources, what.sources, strict=True)]
    if what.reads_carry:
        readers.append(reader(CARRY, PRED))
    compute = what.compute
    if what.writes_carry:
        return _carrying(what, write, readers)
    if len(readers) == 1:
        first = readers[0]
        return lambda group: write(group, compute(first(group)))
    if len(readers) == 2:
        first, second = readers
        return lambda group: write(group, compute(first(group), second(group)))
    return lambda group: write(group, compute(*[read(group) for read in readers]))


def _carrying(what: Operation, write: Writer, readers: list[Reader]) -> Step:
    """As above, with the carry as a second result."""
    write_carry, compute = writer(CARRY, PRED), what.compute

    def step(group: Group) -> None:
        value, carry = compute(*[read(group) for read in readers])
        write(group, value)
        write_carry(group, carry)

    return step
