"""What the names of a PTX text stand for, block by block in braces.

Takes declarations in the order of the text, gives registers and variables. Invariant: an inner
block's name hides an outer one, and every register and every variable has an identity of its own.

    .reg .b32 %r<9>; { .reg .b32 t; ... }  ->  %r3 is slot 1 from its first mention on, t slot 2
"""

import re
from dataclasses import dataclass, field, replace

from fjit.backend.ptx.program import CARRY, Reg, Variable
from fjit.backend.ptx.types import Type

NUMBERED = re.compile(r"(.*?)(\d+)$")


@dataclass(slots=True)
class Scope:
    """One block: names that stand for themselves, and ranges such as %r<9>."""

    names: dict[str, Reg | Variable] = field(default_factory=dict)
    ranges: dict[str, tuple[int, Type]] = field(default_factory=dict)


class Scopes:
    """The blocks open at a place of the text, and all that was declared so far."""

    def __init__(self) -> None:
        self.open: list[Scope] = [Scope()]
        self.registers: list[Reg] = [CARRY]
        self.variables: list[Variable] = []

    def enter(self) -> None:
        self.open.append(Scope())

    def leave(self) -> None:
        self.open.pop()

    @property
    def depth(self) -> int:
        return len(self.open)

    def register(self, name: str, ty: Type) -> Reg:
        """A new register in the innermost block."""
        return self._register(self.open[-1], name, ty)

    def _register(self, scope: Scope, name: str, ty: Type) -> Reg:
        reg = Reg(name, ty, len(self.registers))
        self.registers.append(reg)
        scope.names[name] = reg
        return reg

    def numbered(self, prefix: str, count: int, ty: Type) -> None:
        """Registers prefix0, prefix1, ..., each made when it is first mentioned."""
        self.open[-1].ranges[prefix] = (count, ty)

    def variable(self, found: Variable) -> Variable:
        """A new variable; those inside functions get a name that no other has."""
        if self.depth > 1:
            renamed = replace(found, name=f"{found.name}#{len(self.variables)}")
        else:
            renamed = found
        self.open[-1].names[found.name] = renamed
        self.variables.append(renamed)
        return renamed

    def find(self, name: str) -> Reg | Variable | None:
        """What a name stands for here, or None for one declared nowhere."""
        match = NUMBERED.match(name)
        for scope in reversed(self.open):
            if name in scope.names:
                return scope.names[name]
            if match is not None and match.group(1) in scope.ranges:
                count, ty = scope.ranges[match.group(1)]
                if int(match.group(2)) < count:
                    return self._register(scope, name, ty)
        return None
