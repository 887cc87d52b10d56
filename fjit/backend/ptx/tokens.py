"""PTX text cut into tokens.

Takes text, gives tokens with their places. Invariant: comments vanish, except that "implicit-def"
ones name registers that the compiler leaves undefined on purpose.

    ld.global.v2.f32 {%f1,%f2}, [%rd1+8];  ->  word ld.global.v2.f32, {, word %f1, ',', ...
"""

import re
from typing import NamedTuple

from fjit.errors import EmulatorError

PATTERN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][-+]?\d+)?)
      | (?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
      | (?P<word>[A-Za-z_$%.](?:[\w$%.]|::)*)
      | (?P<text>"[^"]*")
      | (?P<mark>[-{}()\[\];:,|!@+=<>])""",
    re.VERBOSE | re.DOTALL,
)
UNDEFINED = re.compile(r"//\s*implicit-def:\s*(%?[\w$]+)")


class Token(NamedTuple):
    """A word, number, string or mark, with its line and the place of its ends in the text."""

    kind: str
    text: str
    line: int
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """The tokens of a PTX text, with one of kind "end" behind the last."""
    found: list[Token] = []
    place, line = 0, 1
    while place < len(text):
        match = PATTERN.match(text, place)
        if match is None:
            raise EmulatorError(f"PTX line {line}: cannot read {text[place : place + 20]!r}.")
        kind, word = str(match.lastgroup), match.group()
        undefined = UNDEFINED.match(word) if kind == "space" else None
        if undefined is not None:
            found.append(Token("undefined", undefined.group(1), line, place, match.end()))
        elif kind != "space":
            found.append(Token(kind, word, line, place, match.end()))
        line += word.count("\n")
        place = match.end()
    found.append(Token("end", "", line, place, place))
    return found
