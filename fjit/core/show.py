"""Programs as text: stable under hash seeds, names in first-use order.

Takes a Program, gives text; invariant: equal programs (up to identity of variables) give equal
text. `lambda x: np.exp(x).sum()` prints as

    { lambda a:f64[8] .
      let b:f64[8] = exp a
          c:f64[] = reduce[axes=(0,) op=sum] b
      in (c,) }
"""

import numpy as np

from fjit.core.ir import Aval, Eqn, Literal, Program, Sym, Var

Namer = dict[object, str]


def letters(n: int) -> str:
    """Spreadsheet-like names: a, b, ..., z, aa, ab, ..."""
    text = ""
    n += 1
    while n:
        n, digit = divmod(n - 1, 26)
        text = chr(ord("a") + digit) + text
    return text


class _Printer:
    """Names variables and symbols in the order in which they are met."""

    def __init__(self, sources: bool) -> None:
        self.variables: Namer = {}
        self.symbols: Namer = {}
        self.sources = sources

    def extent(self, extent: int | Sym) -> str:
        if isinstance(extent, int):
            return str(extent)
        name = self.symbols.setdefault(extent, f"n{len(self.symbols)}")
        return f"{name}<={extent.bound}"

    def aval(self, aval: Aval) -> str:
        dtype = str(Aval((), aval.dtype))[:-2]
        return f"{dtype}[{','.join(map(self.extent, aval.shape))}]"

    def atom(self, atom: Var | Literal) -> str:
        if isinstance(atom, Literal):
            return f"{_number(atom.value)}:{str(atom.aval)[:-2]}"
        return self.variables.setdefault(atom, letters(len(self.variables)))

    def param(self, value: object, indent: str) -> str:
        if isinstance(value, Program):
            return self.program(value, indent + "    ").lstrip()
        if isinstance(value, np.dtype):
            return str(Aval((), value))[:-2]
        if isinstance(value, Sym):
            return self.extent(value)
        if isinstance(value, tuple):
            return (
                "("
                + ",".join(self.param(v, indent) for v in value)
                + (",)" if len(value) == 1 else ")")
            )
        return str(value)

    def eqn(self, eqn: Eqn, indent: str) -> str:
        params = " ".join(f"{k}={self.param(v, indent)}" for k, v in eqn.params)
        operands = " ".join(self.atom(a) for a in eqn.inputs)
        binders = " ".join(f"{self.atom(v)}:{self.aval(v.aval)}" for v in eqn.outputs)
        text = f"{binders} = {eqn.primitive.name}{f'[{params}]' if params else ''} {operands}"
        if self.sources and eqn.source is not None:
            text += f"    # {eqn.source}"
        return text.rstrip()

    def program(self, program: Program, indent: str) -> str:
        binders = " ".join(f"{self.atom(v)}:{self.aval(v.aval)}" for v in program.inputs)
        body = f"\n{indent}      ".join(self.eqn(e, indent) for e in program.eqns)
        outputs = ", ".join(self.atom(a) for a in program.outputs)
        outputs += "," if len(program.outputs) == 1 else ""
        let = f"{indent}  let {body}\n" if program.eqns else ""
        return f"{indent}{{ lambda {binders} .\n{let}{indent}  in ({outputs}) }}"


def _number(value: np.generic) -> str:
    if value.dtype.kind == "b":
        return str(bool(value))
    if value.dtype.kind in "iu":
        return str(int(value))
    return repr(value.item()) if value.dtype.kind == "c" else repr(float(value))


def show(program: Program, *, sources: bool = False) -> str:
    """The program as text; with `sources`, each equation is followed by its file and line."""
    return _Printer(sources).program(program, "")


Program.__str__ = show  # type: ignore[assignment,method-assign]  # text form of ir.Program
