"""A reader's place in the tokens of a PTX text.

Takes tokens, gives them one by one. Invariant: an unexpected token is an error that names the line,
what stands there and what was expected.
"""

import struct

from fjit.backend.ptx.program import Imm
from fjit.backend.ptx.tokens import Token, tokens
from fjit.errors import EmulatorError

BASES = {"0x": 16, "0X": 16, "0b": 2, "0B": 2}


class Cursor:
    """The text's tokens and the next one's number."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.undefined: list[Token] = []
        self.tokens: list[Token] = []
        for token in tokens(text):
            (self.undefined if token.kind == "undefined" else self.tokens).append(token)
        self.place = 0

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    def take(self) -> Token:
        token = self.tokens[self.place]
        self.place += token.kind != "end"
        return token

    def accept(self, text: str) -> bool:
        """Take the next token if it is this one."""
        if self.next.text != text:
            return False
        self.place += 1
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.error(f"expected {text!r}")

    def word(self) -> str:
        if self.next.kind != "word":
            raise self.error("expected a name")
        return self.take().text

    def error(self, expected: str) -> EmulatorError:
        found = self.next.text or "the end of the text"
        return EmulatorError(f"PTX line {self.next.line}: {expected}, found {found!r}.")

    def skip_line(self) -> None:
        """Leave out what follows on the line of the token taken last."""
        line = self.tokens[self.place - 1].line
        while self.next.line == line and self.next.kind != "end":
            self.take()

    def skip_past(self, mark: str) -> None:
        while self.next.kind != "end" and self.take().text != mark:
            pass

    def skip_braces(self) -> None:
        depth = 0
        while self.next.kind != "end":
            text = self.take().text
            depth += (text == "{") - (text == "}")
            if text == "}" and depth == 0:
                return

    def number(self) -> Imm:
        """A constant, its sign included."""
        negative = self.accept("-")
        if self.next.kind not in ("int", "float"):
            raise self.error("expected a number")
        token = self.take()
        found = integer(token.text) if token.kind == "int" else floating(token.text)
        if not negative:
            return found
        sign = 1 << (found.bits - 1) if found.bits else 0
        return Imm(found.value ^ sign, found.bits) if found.bits else Imm(-found.value)

    def integer(self) -> int:
        return self.number().value


def integer(text: str) -> Imm:
    text = text.removesuffix("U")
    base = BASES.get(text[:2])
    if base is not None:
        return Imm(int(text[2:], base))
    octal = len(text) > 1 and text[0] == "0"
    return Imm(int(text, 8 if octal else 10))


def floating(text: str) -> Imm:
    """0f3F800000 and 0d3FF0000000000000 are bits; decimal constants are doubles."""
    if text[:2] in ("0f", "0F"):
        return Imm(int(text[2:], 16), 32)
    if text[:2] in ("0d", "0D"):
        return Imm(int(text[2:], 16), 64)
    return Imm(int.from_bytes(struct.pack("<d", float(text)), "little"), 64)
