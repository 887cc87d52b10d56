"""What a PTX module is: functions of instructions, and variables, with every name resolved.

Takes nothing, gives frozen nouns. Invariant: registers are slots of one file for the whole module,
so that two names stand for the same slot only where they are the same register.

    @%p1 ld.global.f32 %f1, [%rd1+4];
        -> Instruction("ld", ("global",), (f32,), (Reg f1, Address(Reg rd1, 4)), guard=Reg p1)
"""

from dataclasses import dataclass

from fjit.backend.ptx.types import PRED, Type


@dataclass(frozen=True, slots=True)
class Reg:
    """A register: its name and type as declared, and its place in the register file."""

    name: str
    type: Type
    slot: int
    negated: bool = False


CARRY = Reg("the carry flag", PRED, 0)
"""The condition code register of add.cc and its like; slot 0 of every module."""


@dataclass(frozen=True, slots=True)
class Imm:
    """A constant; `bits` is the width of a floating one (0f.., 0d..), whose value is its bits."""

    value: int
    bits: int = 0


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as %tid.x."""

    name: str


@dataclass(frozen=True, slots=True)
class Sym:
    """The address of a variable, or a function's or label's name."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """The operand of a memory access: [base + offset]."""

    base: "Reg | Sym | Imm"
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Pack:
    """Several operands in braces, in parentheses, or joined by a bar."""

    items: tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a result that nobody wants."""


Operand = Reg | Imm | Special | Sym | Address | Pack | Sink


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `flags` are the parts of the opcode that are no types."""

    op: str
    flags: tuple[str, ...]
    types: tuple[Type, ...]
    operands: tuple[Operand, ...]
    guard: Reg | None
    text: str
    line: int

    @property
    def type(self) -> Type:
        return self.types[-1]

    def has(self, *flags: str) -> bool:
        return any(flag in self.flags for flag in flags)


@dataclass(frozen=True, slots=True)
class Label:
    """A place in a function's body."""

    name: str


@dataclass(frozen=True, slots=True)
class Variable:
    """Memory with a name; `size` 0 of an extern shared array is what the launch gives.

    `addresses` are the (place, symbol) pairs of the initial value that hold addresses.
    """

    name: str
    space: str
    align: int
    size: int
    type: Type
    initial: bytes | None = None
    addresses: tuple[tuple[int, Sym], ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """An entry or a device function; `limits` are its .reqntid and .maxntid."""

    name: str
    entry: bool
    results: tuple[Variable, ...]
    params: tuple[Variable, ...]
    body: tuple[Instruction | Label, ...]
    limits: tuple[tuple[str, tuple[int, ...]], ...] = ()
    tables: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed text: `registers` by slot; `undefined` are slots the compiler left undefined."""

    functions: tuple[Function, ...]
    variables: tuple[Variable, ...]
    registers: tuple[Reg, ...]
    undefined: frozenset[int] = frozenset()
