"""Declarations of variables in PTX, with their initial values.

Takes a cursor behind the state space's name, gives a Variable. Invariant: the initial value is as
long as the variable.

    .global .align 4 .u32 t[2] = {1, 2};  ->  Variable("t", "global", 4, 8, u32, initial of 8 bytes)
"""

from fjit.backend.ptx.cursor import Cursor
from fjit.backend.ptx.program import Imm, Sym, Variable
from fjit.backend.ptx.types import TYPES, Type

MAX_EXTENT = 2**31 - 1
Values = list[Imm | Sym]


def variable(cursor: Cursor, space: str) -> Variable:
    """The variable declared next, without what separates it from the one behind it."""
    align, ty, lanes = _attributes(cursor)
    name = cursor.word()
    count = _extent(cursor) * lanes
    size = count * ty.size
    values: Values = []
    if cursor.accept("="):
        _values(cursor, values)
    data, addresses = _initial(values, ty)
    size = size or len(data)
    return Variable(
        name=name,
        space=space,
        align=align or ty.size * lanes,
        size=size,
        type=ty,
        initial=data.ljust(size, b"\0") if values else None,
        addresses=addresses,
    )


def _attributes(cursor: Cursor) -> tuple[int, Type, int]:
    """Alignment (0 if not given), element type and length of a vector."""
    align, ty, lanes = 0, None, 1
    while cursor.next.text.startswith("."):
        word = cursor.word().removeprefix(".")
        if word == "align":
            align = cursor.integer()
        elif word == "ptr":
            _pointer(cursor)
        elif word in ("v2", "v4"):
            lanes = int(word[1])
        elif word == "attribute":
            cursor.skip_past(")")
        elif word in TYPES:
            ty = TYPES[word]
        else:
            raise cursor.error(f"a variable's .{word} is not handled; before this")
    if ty is None:
        raise cursor.error("expected a type")
    return align, ty, lanes


def _pointer(cursor: Cursor) -> None:
    """Leave out what a pointer parameter says of its target: `.ptr .global .align 16`."""
    while cursor.next.text in (".global", ".const", ".local", ".shared", ".align", ".generic"):
        if cursor.take().text == ".align":
            cursor.integer()


def _extent(cursor: Cursor) -> int:
    count, empty = 1, False
    while cursor.accept("["):
        if cursor.accept("]"):
            empty = True
            continue
        extent = cursor.integer()
        if not 0 <= extent <= MAX_EXTENT:
            raise cursor.error(f"an extent of {extent}: 0 to {MAX_EXTENT} are; before this")
        count *= extent
        cursor.expect("]")
    return 0 if empty else count


def _values(cursor: Cursor, found: Values) -> None:
    if cursor.accept("{"):
        while not cursor.accept("}"):
            _values(cursor, found)
            cursor.accept(",")
    elif cursor.next.kind != "word":
        found.append(cursor.number())
    elif cursor.accept("generic"):
        cursor.expect("(")
        _values(cursor, found)
        cursor.expect(")")
    else:
        name = cursor.word()
        found.append(Sym(name, cursor.integer() if cursor.accept("+") else 0))


def _initial(values: Values, ty: Type) -> tuple[bytes, tuple[tuple[int, Sym], ...]]:
    data = b""
    addresses: list[tuple[int, Sym]] = []
    for value in values:
        if isinstance(value, Sym):
            addresses.append((len(data), value))
            value = Imm(0)
        data += (value.value & ((1 << ty.width) - 1)).to_bytes(ty.size, "little")
    return data, tuple(addresses)
