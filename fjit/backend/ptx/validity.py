"""What a device's assembler or driver would refuse: texts and launches that cannot be.

Takes the functions of an entry, or the numbers of a launch, gives nothing or an EmulatorError.
Invariant: the error says what was given and what is allowed.

    ld.global.v3.f32     an access is of 1, 2 or 4 elements
    bar.sync 16;         barriers are numbered 0 to 15
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np

from fjit.backend.ptx.blocks import instructions, symbols
from fjit.backend.ptx.program import Address, Function, Imm, Instruction, Label, Pack, Sym, Variable
from fjit.errors import EmulatorError

MAX_GRID: Final = (2**31 - 1, 65_535, 65_535)
MAX_BLOCK: Final = (1024, 1024, 64)
MAX_THREADS: Final = 1024
MAX_STATIC_SHARED: Final = 48 << 10
MAX_SHARED: Final = 227 << 10
MAX_LOCAL: Final = 512 << 10
MAX_PARAMETERS: Final = 32_764
BARRIERS: Final = 16
VECTORS: Final = {"v2": 2, "v4": 4, "v8": 8}
LEAVES: Final = ("ret", "exit", "bra", "brx", "trap")
"""Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; PTX ISA.
"""


# ---- texts --------------------------------------------------------------------------------------
def check_functions(functions: dict[str, Function], variables: Sequence[Variable]) -> None:
    """Refuse functions that no assembler would take."""
    sizes = {v.name: v for v in variables}
    for function in functions.values():
        labels = [item.name for item in function.body if isinstance(item, Label)]
        twice = next((name for name in labels if labels.count(name) > 1), None)
        if twice is not None:
            raise EmulatorError(f"the label {twice} stands twice in {function.name}.")
        known = {*labels, *functions, *sizes, *(name for name, _ in function.tables)}
        for ins in instructions(function):
            _check_instruction(ins, known, sizes)
        _check_end(function)


def _check_end(function: Function) -> None:
    """The last instruction has to lead somewhere."""
    last = function.body[-1] if function.body else None
    op = last.op if isinstance(last, Instruction) and last.guard is None else ""
    if op not in LEAVES:
        raise EmulatorError(
            f"{function.name} runs past its end: its last instruction has to be ret, exit, trap or "
            "a branch without a guard."
        )


def _check_instruction(
    ins: Instruction, known: Collection[str], sizes: dict[str, Variable]
) -> None:
    where = f"{ins.text} (PTX line {ins.line}): "
    if ins.op in ("ld", "ldu", "st"):
        _check_vector(ins, where)
        _check_parameter(ins, where, sizes)
    if ins.op in ("bar", "barrier") and not ins.has("warp"):
        first = ins.operands[0] if ins.operands else None
        if isinstance(first, Imm) and not 0 <= first.value < BARRIERS:
            raise EmulatorError(f"{where}barriers are numbered 0 to {BARRIERS - 1}.")
    if ins.op == "call":
        return  # prototypes and callees are looked at when the call is decoded
    for operand in ins.operands:
        for name in symbols(operand):
            if name not in known:
                raise EmulatorError(f"{where}nothing named {name} is declared here.")


def _check_vector(ins: Instruction, where: str) -> None:
    counts = [len(operand.items) for operand in ins.operands if isinstance(operand, Pack)]
    words = [flag for flag in ins.flags if flag[:1] == "v" and flag[1:].isdigit()]
    wanted = VECTORS.get(words[0], 0) if words else 1
    if (counts or [1])[0] != wanted:
        raise EmulatorError(f"{where}an access is of 1 element, or of what its .v2 or .v4 says.")


def _check_parameter(ins: Instruction, where: str, sizes: dict[str, Variable]) -> None:
    """A parameter is read within its bytes."""
    for operand in ins.operands:
        if not (isinstance(operand, Address) and isinstance(operand.base, Sym)):
            continue
        found = sizes.get(operand.base.name)
        if found is None or not ins.has("param") or not ins.types:
            continue
        packs = [o for o in ins.operands if isinstance(o, Pack)]
        end = operand.offset + ins.type.size * (len(packs[0].items) if packs else 1)
        if operand.offset < 0 or end > found.size:
            raise EmulatorError(
                f"{where}bytes {operand.offset} to {end} of a parameter of {found.size}."
            )


# ---- launches -----------------------------------------------------------------------------------
def whole(what: str, value: object, least: int) -> int:
    """A number of a launch."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise EmulatorError(f"{what} is {value!r}: give a whole number of at least {least}.")
    if value < least:
        raise EmulatorError(f"{what} is {value}: give a whole number of at least {least}.")
    return int(value)


def extents(what: str, given: object, most: tuple[int, int, int]) -> tuple[int, int, int]:
    """The extents of a grid or block."""
    listed = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    values: Sequence[Any] = given if listed else (given,)  # type: ignore[assignment]
    good = all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in values)
    if not 1 <= len(values) <= 3 or not good or any(v < 1 for v in values):
        raise EmulatorError(f"{what} is {given!r}: give one to three positive extents.")
    x, y, z = (int(value) for value in (*values, 1, 1)[:3])
    if any(value > limit for value, limit in zip((x, y, z), most, strict=True)):
        raise EmulatorError(f"{what} is {(x, y, z)}: at most {most} is launched.")
    return x, y, z


def check_memory(static: int, dynamic: int, local: int) -> None:
    """Refuse more scratch memory than a device has."""
    if static > MAX_STATIC_SHARED:
        raise EmulatorError(
            f"{static:,} bytes of declared shared memory: at most {MAX_STATIC_SHARED:,} are."
        )
    if static + dynamic > MAX_SHARED:
        raise EmulatorError(f"{static + dynamic:,} bytes of shared memory: at most {MAX_SHARED:,}.")
    if local > MAX_LOCAL:
        raise EmulatorError(f"{local:,} bytes of local memory a thread: at most {MAX_LOCAL:,}.")
