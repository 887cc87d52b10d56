"""PTX text into a module.

Takes the text that libNVVM or a person wrote, gives a Module. Invariant: every directive is either
understood or named in an error; text for debuggers is left out.

    .visible .entry k(.param .u64 p) { .reg .b32 %r<2>; mov.u32 %r1, %tid.x; ret; }
        ->  Module(functions=(Function("k", entry=True, params=(p,), body=(mov, ret)),), ...)
"""

import functools

from fjit.backend.ptx import operands
from fjit.backend.ptx.cursor import Cursor
from fjit.backend.ptx.declare import variable
from fjit.backend.ptx.program import Function, Instruction, Label, Module, Reg, Variable
from fjit.backend.ptx.scopes import Scopes
from fjit.backend.ptx.types import TYPES

LINKAGE = (".visible", ".weak", ".extern", ".common")
WHOLE_LINE = (".version", ".target", ".address_size", ".loc", ".file")
MAX_REGISTERS = 1 << 20
SPACES = (".global", ".const", ".shared", ".local", ".param")


@functools.lru_cache(maxsize=128)
def parse(text: str) -> Module:
    """The module that a PTX text describes."""
    return Parser(text).module()


class Parser:
    """The state of one parse."""

    def __init__(self, text: str) -> None:
        self.cursor = Cursor(text)
        self.scopes = Scopes()
        self.functions: dict[str, Function] = {}
        self.undefined: set[int] = set()

    def module(self) -> Module:
        while self.cursor.next.kind != "end":
            self._top_level()
        return Module(
            functions=tuple(self.functions.values()),
            variables=tuple(self.scopes.variables),
            registers=tuple(self.scopes.registers),
            undefined=frozenset(self.undefined),
        )

    def _top_level(self) -> None:
        cursor = self.cursor
        text = cursor.next.text
        if text in LINKAGE:
            cursor.take()
        elif text in WHOLE_LINE:
            cursor.take()
            cursor.skip_line()
        elif text == ".section":
            cursor.skip_braces()
        elif text in (".entry", ".func"):
            self._function()
        elif text in SPACES:
            self._variables()
        elif text == ".pragma":
            cursor.skip_past(";")
        else:
            raise cursor.error("expected a directive that the emulator knows")

    # Functions

    def _function(self) -> None:
        cursor = self.cursor
        entry = cursor.take().text == ".entry"
        self.scopes.enter()
        results = () if entry else self._parameters()
        name = cursor.word()
        params = self._parameters()
        limits = self._limits()
        if cursor.accept(";"):
            self.functions.setdefault(name, Function(name, entry, results, params, ()))
        else:
            body, tables = self._body()
            self.functions[name] = Function(name, entry, results, params, body, limits, tables)
        self.scopes.leave()

    def _parameters(self) -> tuple[Variable, ...]:
        cursor = self.cursor
        found: list[Variable] = []
        if not cursor.accept("("):
            return ()
        while not cursor.accept(")"):
            if cursor.next.text != ".param":
                raise cursor.error("expected a .param (parameters in registers are not handled)")
            cursor.take()
            found.append(self.scopes.variable(variable(cursor, "param")))
            cursor.accept(",")
        return tuple(found)

    def _limits(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        cursor = self.cursor
        found: list[tuple[str, tuple[int, ...]]] = []
        while cursor.next.text not in ("{", ";"):
            name = cursor.word()
            values: list[int] = []
            while cursor.next.kind == "int":
                values.append(cursor.integer())
                cursor.accept(",")
            found.append((name, tuple(values)))
        return tuple(found)

    def _body(
        self,
    ) -> tuple[tuple[Instruction | Label, ...], tuple[tuple[str, tuple[str, ...]], ...]]:
        body: list[Instruction | Label] = []
        tables: list[tuple[str, tuple[str, ...]]] = []
        depth = self.scopes.depth
        self.cursor.expect("{")
        self.scopes.enter()
        while self.scopes.depth > depth:
            self._statement(body, tables)
        return tuple(body), tuple(tables)

    def _statement(
        self,
        body: list[Instruction | Label],
        tables: list[tuple[str, tuple[str, ...]]],
    ) -> None:
        cursor = self.cursor
        token = cursor.next
        if token.kind == "end":
            raise cursor.error("expected '}' at the end of a function")
        if cursor.accept("{"):
            self.scopes.enter()
        elif cursor.accept("}"):
            self._note_undefined(token.start)
            self.scopes.leave()
        elif token.kind == "word" and cursor.tokens[cursor.place + 1].text == ":":
            self._label(body, tables)
        elif token.text.startswith("."):
            self._directive()
        else:
            body.append(operands.instruction(cursor, self.scopes))

    def _label(
        self,
        body: list[Instruction | Label],
        tables: list[tuple[str, tuple[str, ...]]],
    ) -> None:
        cursor = self.cursor
        name = cursor.word()
        cursor.expect(":")
        if cursor.next.text == ".branchtargets":
            cursor.take()
            targets = [cursor.word()]
            while cursor.accept(","):
                targets.append(cursor.word())
            cursor.expect(";")
            tables.append((name, tuple(targets)))
        elif cursor.next.text in (".callprototype", ".calltargets"):
            cursor.skip_past(";")
        else:
            body.append(Label(name))

    def _directive(self) -> None:
        cursor = self.cursor
        text = cursor.next.text
        if text == ".reg":
            cursor.take()
            self._registers()
        elif text in SPACES:
            self._variables()
        elif text == ".pragma":
            cursor.skip_past(";")
        elif text in WHOLE_LINE:
            cursor.take()
            cursor.skip_line()
        else:
            raise cursor.error("expected an instruction or a directive that the emulator knows")

    # Declarations

    def _registers(self) -> None:
        cursor = self.cursor
        name = cursor.word().removeprefix(".")
        if name not in TYPES:
            raise cursor.error(f"registers of type .{name} are not handled; before this")
        while True:
            register = cursor.word()
            if cursor.accept("<"):
                count = cursor.integer()
                if not 0 < count <= MAX_REGISTERS:
                    raise cursor.error(f"{count} registers: 1 to {MAX_REGISTERS} are; before this")
                self.scopes.numbered(register, count, TYPES[name])
                cursor.expect(">")
            else:
                self.scopes.register(register, TYPES[name])
            if cursor.accept(";"):
                return
            cursor.expect(",")

    def _variables(self) -> None:
        cursor = self.cursor
        space = cursor.take().text.removeprefix(".")
        while True:
            self.scopes.variable(variable(cursor, space))
            if cursor.accept(";"):
                return
            cursor.expect(",")

    def _note_undefined(self, end: int) -> None:
        """Find the registers that comments above `end` call undefined, while their names hold."""
        notes = self.cursor.undefined
        while notes and notes[0].start < end:
            found = self.scopes.find(notes.pop(0).text)
            if isinstance(found, Reg):
                self.undefined.add(found.slot)
