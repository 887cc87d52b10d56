"""LLVM text in the older of the two dialects that libNVVM reads.

Takes a module as every emitter here writes it (opaque pointers, today's constants), gives the same
module as LLVM 7 writes it, which architectures before sm_100 want. Invariant: the meaning stays,
and every pointer is an `i8*` of its address space outside the instruction that goes through it.

    %x = load float, ptr addrspace(1) %p, align 4

becomes

    %as.1 = bitcast i8 addrspace(1)* %p to float addrspace(1)*
    %x = load float, float addrspace(1)* %as.1, align 4

What LLVM 7 lacks is written as what it has: a minimum as a comparison and a select, `fneg` as
-0.0 - x, which its code generator knows for a negation. A module is a few hundred lines; this costs
a millisecond in a compilation of twenty.
"""

import itertools
import re
from collections.abc import Callable, Iterator

from fjit.errors import InternalError

Rule = Callable[["_Module", re.Match[str]], str]

# A type, a pointer operand, the start of an instruction, the name of its result.
_TYPE = r"(?:<\d+ x [^>]+>|\[\d+ x [^\]]+\]|ptr(?: addrspace\(\d+\))?|[\w.]+)"
_PTR = r"(?P<ptr>ptr(?: addrspace\(\d+\))?) (?P<ref>[%@][\w.$]+)"
_HEAD = r"^(?P<head>\s*(?:%[\w.$]+ = )?"
_NAMED = r"^\s*(?P<name>%[\w.$]+) = "

_POINTER = re.compile(r"(?<![%@.\w$])ptr(?![.\w$])(?P<space> addrspace\(\d+\))?")
_GLOBAL = re.compile(
    rf"^(?P<name>@[\w.$]+) = .*?(?P<space>addrspace\(\d+\) )?(?:global|constant) (?P<type>{_TYPE})"
)
_GLOBAL_USE = re.compile(r"\bptr(?P<space> addrspace\(\d+\))? (?P<name>@[\w.$]+)(?!\()")
_DEFINE = re.compile(r"^define (?P<front>.*?)(?P<name>@[\w.$]+)\((?P<params>.*?)\)(?: [^)]*)?\{$")
_SPLAT = re.compile(r"splat \((?P<one>[^)]*)\)")
_VECTOR = re.compile(r"<(\d+) x ")
_MINMAX = {"smax": "sgt", "smin": "slt", "umax": "ugt", "umin": "ult"}


def typed(text: str) -> str:
    """The module `text` as LLVM 7 reads it."""
    return _Module(text).translated()


class _Module:
    """One translation: the types of its globals and functions, and a count of new names."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.globals = dict(self._addresses())
        self.functions = dict(self._signatures())
        self._numbers = itertools.count(1)

    def translated(self) -> str:
        return "\n".join(self._line(line) for line in self.lines)

    def fresh(self) -> str:
        """A register name that no emitter hands out."""
        return f"%as.{next(self._numbers)}"

    def cast(self, ptr: str, ref: str, target: str) -> tuple[str, str]:
        """The line that makes a pointer one to `target`, and the operand it makes."""
        name = self.fresh()
        space = ptr.removeprefix("ptr")
        return f"  {name} = bitcast {ptr} {ref} to {target}{space}*", f"{target}{space}* {name}"

    def _line(self, line: str) -> str:
        if line.startswith(("declare", "@", "target", "}", ";")) or not line:
            return _plain(line)
        if line.startswith("!"):
            return _plain(_GLOBAL_USE.sub(self._function, line))
        for pattern, rule in _RULES:
            match = pattern.match(line)
            if match is not None:
                line = rule(self, match)
                break
        return _plain(_GLOBAL_USE.sub(self._address, line))

    def _addresses(self) -> Iterator[tuple[str, str]]:
        for match in filter(None, map(_GLOBAL.match, self.lines)):
            space = f" {match['space'].strip()}" if match["space"] else ""
            old = f"{match['type']}{space}* {match['name']}"
            yield match["name"], f"ptr{space} bitcast ({old} to ptr{space})"

    def _signatures(self) -> Iterator[tuple[str, str]]:
        for match in filter(None, map(_DEFINE.match, self.lines)):
            types = re.findall(rf"({_TYPE})(?: [\w() ]+)? %[\w.$]+", match["params"])
            result = re.sub(r"\b(internal|private|dso_local)\b ", "", match["front"]).strip()
            yield match["name"], f"{result} ({', '.join(types)})* {match['name']}"

    def _address(self, match: re.Match[str]) -> str:
        return self.globals.get(match["name"], match[0])

    def _function(self, match: re.Match[str]) -> str:
        return self.functions.get(match["name"], match[0])


def _plain(line: str) -> str:
    """What changes wherever it stands: pointers, splats, poison."""
    line = _POINTER.sub(lambda m: f"i8{m['space'] or ''}*", line.replace("poison", "undef"))
    lanes = _VECTOR.search(line)
    if lanes is not None:
        many = int(lanes[1])
        line = _SPLAT.sub(lambda m: f"<{', '.join([m['one']] * many)}>", line)
    return line.replace(".p0.", ".p0i8.")


def _access(module: _Module, match: re.Match[str]) -> str:
    """A load, or an atomic operation on a value of a type."""
    cast, operand = module.cast(match["ptr"], match["ref"], match["type"])
    return f"{cast}\n{match['head']}{operand}{match['tail']}"


def _gep(module: _Module, match: re.Match[str]) -> str:
    """Address arithmetic; what is not in bytes goes through a pointer of its element's type."""
    kind, space = match["type"], match["ptr"].removeprefix("ptr")
    if kind == "i8":
        return match[0]
    cast, operand = module.cast(match["ptr"], match["ref"], kind)
    indices = match["tail"].count(", ")
    element = re.match(r"\[\d+ x (.+)\]$", kind)
    if indices > 1 and (element is None or indices > 2):
        raise InternalError(f"no typed form of this address: {match[0].strip()}")
    result = element[1] if indices == 2 and element is not None else kind
    moved = module.fresh()
    return (
        f"{cast}\n  {moved} = getelementptr {kind}, {operand}{match['tail']}\n"
        f"  {match['name']} = bitcast {result}{space}* {moved} to {match['ptr']}"
    )


def _alloca(module: _Module, match: re.Match[str]) -> str:
    place = module.fresh()
    return (
        f"  {place} = alloca {match['type']}{match['tail']}\n"
        f"  {match['name']} = bitcast {match['type']}* {place} to ptr"
    )


def _fneg(module: _Module, match: re.Match[str]) -> str:
    zero = "splat (" + match["one"] + " -0.0)" if match["lanes"] else "-0.0"
    return f"  {match['name']} = fsub {match['type']} {zero}, {match['rest']}"


def _minmax(module: _Module, match: re.Match[str]) -> str:
    kind, first, second = match["type"], match["first"], match["second"]
    lanes = _VECTOR.match(kind)
    mask = f"<{lanes[1]} x i1>" if lanes else "i1"
    wins = module.fresh()
    return (
        f"  {wins} = icmp {_MINMAX[match['op']]} {kind} {first}, {second}\n"
        f"  {match['name']} = select {mask} {wins}, {kind} {first}, {kind} {second}"
    )


def _absent(module: _Module, match: re.Match[str]) -> str:
    raise InternalError(f"LLVM 7 has nothing for: {match[0].strip()}")


_ORDER = r"(?:atomic |volatile |weak )*"  # words before the type of an access
_FLOAT = r"(?P<type>(?P<lanes><\d+ x )?(?P<one>float|double)>?)"
_PATTERNS: tuple[tuple[str, Rule], ...] = (
    (rf"{_HEAD}load {_ORDER}(?P<type>{_TYPE}), ){_PTR}(?P<tail>.*)$", _access),
    (rf"{_HEAD}store {_ORDER}(?P<type>{_TYPE}) .*?, ){_PTR}(?P<tail>.*)$", _access),
    (rf"{_HEAD}atomicrmw {_ORDER}\w+ ){_PTR}(?P<tail>, (?P<type>{_TYPE}) .*)$", _access),
    (rf"{_HEAD}cmpxchg {_ORDER}){_PTR}(?P<tail>, (?P<type>{_TYPE}) .*)$", _access),
    (rf"{_NAMED}getelementptr (?:inbounds )?(?P<type>{_TYPE}), {_PTR}(?P<tail>.*)$", _gep),
    (rf"{_NAMED}alloca (?P<type>{_TYPE})(?P<tail>.*)$", _alloca),
    (rf"{_NAMED}fneg {_FLOAT} (?P<rest>.*)$", _fneg),
    (
        rf"{_NAMED}call {_TYPE} @llvm\.(?P<op>[su](?:max|min))\.\w+"
        rf"\((?P<type>{_TYPE}) (?P<first>.*), (?P=type) (?P<second>.*)\)$",
        _minmax,
    ),
    (rf"{_HEAD}(?:load|store|getelementptr|atomicrmw|cmpxchg|freeze|fneg)\b)", _absent),
    (r".*@llvm\.(?:[su]max|[su]min|abs|roundeven|minimum|maximum|vector|masked)\.", _absent),
)
_RULES = tuple((re.compile(pattern), rule) for pattern, rule in _PATTERNS)
