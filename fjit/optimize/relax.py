"""What fastmath flags license: the table of rewrite rules by flag, a row a line.

Takes an optimized program and flags, gives a program with cheaper equations. Under `contract`

    let c = mul a b; d = add c 1.0      becomes      let d = fma a b 1.0

and under `approx` an elementary function is marked for a cheaper form: `c = exp[fast=approx] b`.
Invariant: this runs on the whole program before it is planned, so that fused and unfused kernels
compute the same bits; each flag licenses its own rules and no more; what tests for NaN and infinity
has none. A mark is no part of an equation's meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, Final

import numpy as np

from fjit.core import primitives as p
from fjit.core.ir import FAST, Atom, Eqn, Literal, Primitive, Program, literal
from fjit.optimize.folding import join_reductions
from fjit.optimize.rewrite import Draft, Rewriter, Rule, replaced
from fjit.optimize.scalars import instead, is_value, known
from fjit.optimize.simplify import RULES

Result = Atom | Draft | None

APPROXIMATE: Final = (
    p.exp, p.exp2, p.expm1, p.log, p.log2, p.log10, p.log1p, p.logaddexp, p.logaddexp2,
    p.sin, p.cos, p.tan, p.asin, p.acos, p.atan, p.atan2, p.sinh, p.cosh, p.tanh, p.asinh, p.acosh,
    p.atanh, p.hypot,
)  # fmt: skip
"""Functions with a form of up to 4 units in the last place that is faster (docs/numerics.md)."""


def _is_float(eqn: Eqn) -> bool:
    return eqn.inputs[0].aval.dtype.kind == "f"


def _marked(eqn: Eqn, flag: str) -> Draft | None:
    """`eqn` with the mark of a flag; None if it has one or is not of floats."""
    return replaced(eqn, *eqn.inputs, **{FAST: flag}) if _is_float(eqn) and not eqn.fast else None


# ---- contract -----------------------------------------------------------------------------------
def multiply_add(rw: Rewriter, eqn: Eqn) -> Result:
    """`a * b + c`, `a * b - c` and `c - a * b` with one rounding, if nothing else reads `a * b`."""
    if not _is_float(eqn):
        return None
    for position, atom in enumerate(eqn.inputs):
        made = rw.producer(atom, p.mul)
        if made is None or rw.is_shared(atom) or atom.aval != eqn.output.aval:
            continue
        (a, b), other = made.inputs, eqn.inputs[1 - position]
        if eqn.primitive is p.sub and position == 0:
            other = rw.emit(p.neg, other)
        elif eqn.primitive is p.sub:
            a = rw.emit(p.neg, a)
        return Draft(p.fma, (a, b, other), {FAST: made.fast} if made.fast else {})
    return None


# ---- reassoc ------------------------------------------------------------------------------------
def join_constants(rw: Rewriter, eqn: Eqn) -> Result:
    """`(x + 1) - 3 -> x + -2` and `(x * 2) * 3 -> x * 6`: the constants' own sum or product."""
    outer = _with_constant(eqn)
    if outer is None or rw.is_shared(outer[0]):
        return None
    kind = p.mul if eqn.primitive is p.mul else p.add
    made = rw.producer(outer[0], kind)
    if made is None and kind is p.add:
        made = rw.producer(outer[0], p.sub)
    inner = None if made is None else _with_constant(made)
    if inner is None:
        return None
    with np.errstate(all="ignore"):
        joined = inner[1] * outer[1] if kind is p.mul else inner[1] + outer[1]
    if not np.isfinite(joined) or (kind is p.mul and not _is_normal(joined)):
        return None
    return Draft(kind, (inner[0], literal(joined, joined.dtype)), {FAST: "reassoc"})


def _with_constant(eqn: Eqn) -> tuple[Atom, Any] | None:
    """The operand and the constant of `x + c`, `c + x`, `x - c`, `x * c` or `c * x` of floats."""
    if not _is_float(eqn):
        return None
    a, b = eqn.inputs
    x, y = known(a), known(b)
    if y is not None and not isinstance(a, Literal):
        return a, np.negative(y.value) if eqn.primitive is p.sub else y.value
    if x is not None and not isinstance(b, Literal) and eqn.primitive is not p.sub:
        return b, x.value
    return None


def _is_normal(value: Any) -> bool:
    return bool(np.isfinite(value) and abs(value) >= np.finfo(value.dtype).smallest_normal)


def join_sums(rw: Rewriter, eqn: Eqn) -> Result:
    """A floating sum of sums, or product of products, over all their axes at once."""
    if eqn.param("op") not in ("sum", "prod") or not _is_float(eqn):
        return None
    joined = join_reductions(rw, eqn)
    return None if joined is None else joined._replace(params={**joined.params, FAST: "reassoc"})


def free_scan(_: Rewriter, eqn: Eqn) -> Result:
    """A running sum or product in longer steps."""
    return _marked(eqn, "reassoc") if eqn.param("op") in ("sum", "prod") else None


# ---- nnan, ninf ---------------------------------------------------------------------------------
def overlook_nan(_: Rewriter, eqn: Eqn) -> Result:
    """An extremum that need not hand on NaN."""
    is_extremum = eqn.get("op") in (None, "max", "min", "argmax", "argmin")
    return _marked(eqn, "nnan") if is_extremum else None


def overlook_infinity(_: Rewriter, eqn: Eqn) -> Result:
    """A length whose sides are finite; float32 has no faster form."""
    return _marked(eqn, "ninf") if eqn.output.aval.dtype == np.float64 else None


# ---- nsz ----------------------------------------------------------------------------------------
def drop_zero(_: Rewriter, eqn: Eqn) -> Result:
    """`x + 0 -> x`, `0 + x -> x`."""
    if not _is_float(eqn):
        return None
    for atom, other in (eqn.inputs, eqn.inputs[::-1]):
        constant = known(atom)
        if constant is not None and not constant.value:
            return instead(eqn, other)
    return None


def negate(_: Rewriter, eqn: Eqn) -> Result:
    """`0 - x -> -x`, `x - -0.0 -> x`."""
    a, b = eqn.inputs
    if not _is_float(eqn):
        return None
    if is_value(b, -0.0):
        return instead(eqn, a)
    constant = known(a)
    if constant is None or constant.value or b.aval != eqn.output.aval:
        return None
    return Draft(p.neg, (b,), {FAST: "nsz"})


# ---- arcp ---------------------------------------------------------------------------------------
def multiply_by_reciprocal(rw: Rewriter, eqn: Eqn) -> Result:
    """`x / s -> x * (1 / s)`, if `s` is a constant or serves many elements or divisions."""
    a, b = eqn.inputs
    one = literal(1.0, eqn.output.aval.dtype)
    divisor = known(b)
    if is_value(a, 1.0) or (isinstance(b, Literal) and (divisor is None or isinstance(a, Literal))):
        return None
    if divisor is not None:
        with np.errstate(all="ignore"):
            constant = np.divide(one.value, divisor.value)
        inverse: Atom | None = literal(constant, constant.dtype) if _is_normal(constant) else None
    else:
        inverse = _shared_reciprocal(rw, one, b, eqn)
    return None if inverse is None else Draft(p.mul, (a, inverse), {FAST: "arcp"})


def _shared_reciprocal(rw: Rewriter, one: Literal, divisor: Atom, eqn: Eqn) -> Atom | None:
    """1 / divisor, if it is computed less often than there are quotients."""
    view = rw.producer(divisor, p.broadcast)
    if view is not None and view.inputs[0].aval.bound < divisor.aval.bound:
        inner = rw.emit(p.div, one, view.inputs[0])
        return rw.emit(p.broadcast, inner, **dict(view.params))
    divisions = sum(e.primitive is p.div and e.inputs[1] is divisor for e in rw.program.eqns)
    if divisions > 1 or (eqn.output.aval.shape and not divisor.aval.shape):
        return rw.emit(p.div, one, divisor)
    return None


# ---- approx -------------------------------------------------------------------------------------
def approximate(_: Rewriter, eqn: Eqn) -> Result:
    """An elementary function in a form of up to 4 units in the last place."""
    return _marked(eqn, "approx")


EXTREMA: Final = (p.max_, p.min_, p.fmax, p.fmin, p.reduce, p.argreduce)

# fmt: off
LICENSED: Final[dict[str, dict[Primitive, tuple[Rule, ...]]]] = {
    "contract": {p.add: (multiply_add,), p.sub: (multiply_add,)},
    "reassoc":  {p.add: (join_constants,), p.sub: (join_constants,), p.mul: (join_constants,),
                 p.reduce: (join_sums,), p.cumulate: (free_scan,)},
    "nnan":     dict.fromkeys(EXTREMA, (overlook_nan,)),
    "ninf":     {p.hypot: (overlook_infinity,)},
    "nsz":      {p.add: (drop_zero,), p.sub: (negate,)},
    "arcp":     {p.div: (multiply_by_reciprocal,)},
    "approx":   dict.fromkeys(APPROXIMATE, (approximate,)),
}
# fmt: on
FLAGS: Final = tuple(LICENSED)


def rules_of(flags: Collection[str]) -> dict[Primitive, tuple[Rule, ...]]:
    """The rules of `simplify` and those that the flags license; of two marks `approx` comes first,
    and `contract` last, since what it makes no other rule knows.
    """
    rules = dict(RULES)
    for flag in reversed(FLAGS):
        if flag in flags:
            for primitive, more in LICENSED[flag].items():
                rules[primitive] = rules.get(primitive, ()) + more
    return rules


# ---- reports ------------------------------------------------------------------------------------
WORDS: Final = {"arcp": "reciprocal", "nsz": "negation"}
"""What reports call that which a flag licensed, where that is not the operation's own name."""
NOUNS: Final = ("multiply-add", *WORDS.values())


def licensed(program: Program) -> dict[str, str]:
    """What of a program, or of a kernel's, a flag licensed: "contract" -> "3 multiply-adds"."""
    found: dict[str, Counter[str]] = {}
    for eqn in program.eqns:
        if eqn.primitive is p.fma:
            found.setdefault("contract", Counter())["multiply-add"] += 1
        if eqn.fast:
            found.setdefault(eqn.fast, Counter())[_word(eqn)] += 1
    return {flag: ", ".join(map(_counted, found[flag].items())) for flag in FLAGS if flag in found}


def zeros_dropped(before: Program, after: Program) -> int:
    """How many additions of zero `before` has more than `after`, which flags made of it."""
    return sum(_adds_zero(e) for e in before.eqns) - sum(_adds_zero(e) for e in after.eqns)


def _adds_zero(eqn: Eqn) -> bool:
    if eqn.primitive not in (p.add, p.sub) or not _is_float(eqn):
        return False
    added = eqn.inputs if eqn.primitive is p.add else eqn.inputs[1:]
    constants = [known(a) for a in added]
    return any(c is not None and not c.value for c in constants)


def _word(eqn: Eqn) -> str:
    name = WORDS.get(eqn.fast) or str(eqn.get("op") or eqn.primitive.name)
    return f"running {name}" if eqn.primitive is p.cumulate else name


def _counted(item: tuple[str, int]) -> str:
    words, count = item
    return f"{count} {words}" + ("s" if words in NOUNS and count > 1 else "")
