"""An entry made ready to run: its blocks, and places for its variables.

Takes a PTX text and an entry's name, gives Code, kept for the next launch. Invariant: every
instruction that can be reached was decoded, and one that the emulator does not know was named.

    .shared .align 4 .b8 s[256]; .shared .align 8 .b8 t[8];  ->  shared {s: 0, t: 256}, 264 bytes
"""

import functools
from dataclasses import dataclass, field

from fjit.backend.ptx.blocks import Block, blocks, instructions, symbols
from fjit.backend.ptx.control import Copy, callee
from fjit.backend.ptx.decode import named
from fjit.backend.ptx.memory import space_name
from fjit.backend.ptx.parse import parse
from fjit.backend.ptx.program import Function, Instruction, Module, Variable
from fjit.backend.ptx.validity import check_functions
from fjit.errors import EmulatorError

WIDEST = 8
MALFORMED = (LookupError, ValueError, TypeError, OverflowError, RecursionError, MemoryError)
"""What reading a text of nonsense may come to."""


@dataclass(slots=True)
class Layout:
    """Offsets in one kind of scratch memory, and its bytes."""

    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    size: int = 0

    def add(self, variable: Variable) -> None:
        start = -(-self.size // variable.align) * variable.align
        self.places[variable.name] = (start, variable.size)
        self.size = start + variable.size


@dataclass(frozen=True, slots=True)
class Code:
    """All that is known of an entry before a launch.

    `cell` is the size of the smallest access to scratch memory, `global_cell` to global memory;
    `globals` have addresses of their own.
    """

    module: Module
    entry: Function
    blocks: list[Block]
    returns: dict[int, tuple[Copy, ...]]
    shared: Layout
    local: Layout
    frame: Layout
    globals: tuple[Variable, ...]
    cell: int
    global_cell: int
    reads_constants: bool


@functools.lru_cache(maxsize=128)
def code(text: str, name: str) -> Code:
    """The code of one entry of a PTX text."""
    try:
        return _code(text, name)
    except MALFORMED as error:
        raise EmulatorError(f"the PTX cannot be made sense of: {error!r}.") from error


def _code(text: str, name: str) -> Code:
    module = parse(text)
    every = {function.name: function for function in module.functions}
    if name not in every or not every[name].entry:
        entries = ", ".join(function.name for function in module.functions if function.entry)
        raise EmulatorError(f"the PTX has no entry {name!r}, only: {entries or 'none'}.")
    functions = _reachable(every, every[name])
    check_functions(functions, module.variables)
    shared, local, frame = _layouts(module, functions)
    returns: dict[int, tuple[Copy, ...]] = {}
    accesses = [ins for function in functions.values() for ins in instructions(function)]
    return Code(
        module=module,
        entry=every[name],
        blocks=blocks(functions, frame.places, returns),
        returns=returns,
        shared=shared,
        local=local,
        frame=frame,
        globals=tuple(v for v in module.variables if v.space in ("global", "const")),
        cell=_smallest(accesses, but=("global", "const")),
        global_cell=_smallest(accesses, but=("shared", "local", "param")),
        reads_constants=any(ins.has("nc") for ins in accesses),
    )


def _smallest(instructions: list[Instruction], but: tuple[str, ...]) -> int:
    """The size of the smallest access to other state spaces than some."""
    accesses = [ins for ins in instructions if ins.op in ("ld", "st", "atom", "red") and ins.types]
    return min([WIDEST, *(ins.type.size for ins in accesses if space_name(ins) not in but)])


def _reachable(every: dict[str, Function], entry: Function) -> dict[str, Function]:
    """The entry and all that it calls; a function that calls itself is refused."""
    found: dict[str, Function] = {}

    def visit(function: Function, callers: tuple[str, ...]) -> None:
        found.setdefault(function.name, function)
        for ins in instructions(function):
            if ins.op == "call":
                called = named(lambda ins: _called(ins, every, callers), ins)
                visit(called, (*callers, called.name))

    visit(entry, (entry.name,))
    return found


def _called(ins: Instruction, every: dict[str, Function], callers: tuple[str, ...]) -> Function:
    name = callee(ins)
    if name not in every or not every[name].body:
        raise EmulatorError(f"no function {name} is defined in the PTX.")
    if name in callers:
        raise EmulatorError("recursion is not handled.")
    return every[name]


def _layouts(module: Module, functions: dict[str, Function]) -> tuple[Layout, Layout, Layout]:
    """Places of the shared, local and parameter variables that the functions use."""
    used = {
        name
        for function in functions.values()
        for ins in instructions(function)
        for operand in ins.operands
        for name in symbols(operand)
    }
    kernel = {v.name for function in module.functions if function.entry for v in function.params}
    formal = {v.name for f in functions.values() for v in (*f.params, *f.results)}
    layouts = {"shared": Layout(), "local": Layout(), "param": Layout()}
    wanted = [v for v in module.variables if v.name in used | formal and v.name not in kernel]
    for variable in sorted(wanted, key=lambda v: v.size == 0):  # dynamic shared memory comes last
        if variable.space in layouts:
            layouts[variable.space].add(variable)
    return layouts["shared"], layouts["local"], layouts["param"]
