"""The operands and instructions of a PTX text.

Takes a cursor at an instruction and the names known there, gives the instruction. Invariant: names
are resolved here and nowhere later; what is no register and no variable is a label or a function.

    @!%p1 bra $L__BB0_3;  ->  Instruction("bra", operands=(Sym("$L__BB0_3"),), guard=Reg(negated))
"""

from dataclasses import replace

from fjit.backend.ptx.cursor import Cursor
from fjit.backend.ptx.program import (
    Address,
    Imm,
    Instruction,
    Operand,
    Pack,
    Reg,
    Sink,
    Special,
    Sym,
)
from fjit.backend.ptx.scopes import Scopes
from fjit.backend.ptx.types import TYPES

WARP_SIZE = 32


def instruction(cursor: Cursor, scopes: Scopes) -> Instruction:
    """One instruction up to its semicolon."""
    first = cursor.next
    guard = _guard(cursor, scopes) if cursor.accept("@") else None
    op, *rest = cursor.word().split(".")
    found: list[Operand] = []
    while not cursor.accept(";"):
        found.append(operand(cursor, scopes))
        if cursor.next.text != ";":
            cursor.expect(",")
    last = cursor.tokens[cursor.place - 1]
    return Instruction(
        op=op,
        flags=tuple(part for part in rest if part not in TYPES),
        types=tuple(TYPES[part] for part in rest if part in TYPES),
        operands=tuple(found),
        guard=guard,
        text=" ".join(cursor.text[first.start : last.end].split()),
        line=first.line,
    )


def _guard(cursor: Cursor, scopes: Scopes) -> Reg:
    negated = cursor.accept("!")
    found = _named(cursor, scopes)
    if not isinstance(found, Reg):
        raise cursor.error("expected a predicate in front of this")
    return replace(found, negated=negated)


def operand(cursor: Cursor, scopes: Scopes) -> Operand:
    """A register, constant, symbol, address, or a pack of them."""
    text = cursor.next.text
    if text == "[":
        return _address(cursor, scopes)
    if text in ("{", "("):
        return _pack(cursor, scopes, "}" if text == "{" else ")")
    if text == "!":
        cursor.take()
        found = _named(cursor, scopes)
        if not isinstance(found, Reg):
            raise cursor.error("expected a predicate in front of this")
        return replace(found, negated=True)
    if cursor.next.kind != "word":
        return cursor.number()
    found = _named(cursor, scopes)
    if cursor.accept("|"):
        return Pack((found, _named(cursor, scopes)))
    if isinstance(found, Sym) and cursor.next.text in ("+", "-"):
        return replace(found, offset=_offset(cursor))
    return found


def _named(cursor: Cursor, scopes: Scopes) -> Reg | Special | Sym | Sink | Imm:
    name = cursor.word()
    found = scopes.find(name)
    if isinstance(found, Reg):
        return found
    if found is not None:
        return Sym(found.name)
    if name == "_":
        return Sink()
    if name == "WARP_SZ":
        return Imm(WARP_SIZE)
    return Special(name) if name.startswith("%") else Sym(name)


def _pack(cursor: Cursor, scopes: Scopes, close: str) -> Pack:
    cursor.take()
    items: list[Operand] = []
    while not cursor.accept(close):
        items.append(operand(cursor, scopes))
        if cursor.next.text != close:
            cursor.expect(",")
    return Pack(tuple(items))


def _address(cursor: Cursor, scopes: Scopes) -> Address:
    cursor.expect("[")
    if cursor.next.kind == "word":
        base = _named(cursor, scopes)
        if not isinstance(base, Reg | Sym):
            raise cursor.error("expected a register or symbol before this as address")
    else:
        base = cursor.number()
    offset = _offset(cursor) if cursor.next.text in ("+", "-") else 0
    cursor.expect("]")
    return Address(base, offset)


def _offset(cursor: Cursor) -> int:
    cursor.accept("+")
    return cursor.integer()
