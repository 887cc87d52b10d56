"""Rules for elementwise primitives: what one element's value allows.

Takes an equation, gives what to read instead; every rule keeps all bits (docs/numerics.md says
which rewrites do not):

    let b = mul a 1.0; c = sub b 0.0; d = div c 8.0      becomes      let b = mul a 0.125

Measure: each rule removes an operation, or does it on fewer elements, or makes it a cheaper one.
Not here, since they change bits: `x + 0.0 -> x` (-0.0), `x * 0 -> 0`, `x - x -> 0`, `x / 3`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fjit.core import primitives as p
from fjit.core.ir import Atom, Eqn, Literal, Primitive, literal
from fjit.optimize.rewrite import Draft, Rewriter, replaced

Result = Atom | Draft | None

# Only operations whose every result is defined to the last bit: an elementary function's compiled
# value may differ from NumPy's by an ulp, and a program must see one implementation of it.
# fmt: off
EXACT: Final[frozenset[Primitive]] = frozenset((
    p.neg, p.abs_, p.sign, p.not_, p.sqrt, p.floor, p.ceil, p.trunc, p.rint, p.isnan, p.isinf,
    p.isfinite, p.signbit, p.add, p.sub, p.mul, p.div, p.max_, p.min_, p.fmax, p.fmin, p.eq, p.ne,
    p.lt, p.le, p.gt, p.ge, p.and_, p.or_, p.xor, p.shl, p.shr, p.copysign, p.nextafter, p.select,
    p.convert,
))
# fmt: on
EXACT_INTEGER: Final[frozenset[Primitive]] = frozenset((p.floordiv, p.mod, p.fmod, p.pow_))
EXTREMA: Final[frozenset[Primitive]] = frozenset((p.max_, p.min_, p.fmax, p.fmin))


# ---- helpers ------------------------------------------------------------------------------------
def known(atom: Atom) -> Literal | None:
    """The literal that an atom is, if its value may be looked at."""
    return atom if isinstance(atom, Literal) and atom.word is None else None


def same(a: Atom, b: Atom) -> bool:
    """Whether two atoms are one value: the same variable, or literals of equal bits."""
    x, y = known(a), known(b)
    if x is not None and y is not None:
        return x.aval == y.aval and x.value.tobytes() == y.value.tobytes()
    return a is b


def is_value(atom: Atom, value: float) -> bool:
    """Whether `atom` is the literal `value`, sign of zero included."""
    return known(atom) is not None and same(atom, literal(value, atom.aval.dtype))


def instead(eqn: Eqn, atom: Atom) -> Atom | Draft:
    """`atom` in place of `eqn`: itself, or repeated if it is of rank 0 and `eqn` is not."""
    aval = eqn.output.aval
    if atom.aval == aval:
        return atom
    return Draft(p.broadcast, (atom,), {"shape": aval.shape, "axes": ()})


def _constant(eqn: Eqn, value: object) -> Atom | Draft:
    return instead(eqn, literal(value, eqn.output.aval.dtype))


# ---- rules for every elementwise primitive ------------------------------------------------------
def fold(_: Rewriter, eqn: Eqn) -> Result:
    """`2.0 + 3.0 -> 5.0`, if the operation is exact and raises no floating-point warning."""
    values: list[Any] = []
    for atom in eqn.inputs:
        constant = known(atom)
        if constant is None:
            return None
        values.append(np.asarray(constant.value))
    if not _is_exact(eqn.primitive, values):
        return None
    try:
        with np.errstate(all="raise"):
            result = _evaluate(eqn, values)
    except (FloatingPointError, ValueError):
        return None
    return literal(result, eqn.output.aval.dtype)


def _evaluate(eqn: Eqn, values: list[Any]) -> Any:
    if eqn.primitive is p.convert:  # its meaning hides the warning that a cast may give
        return values[0].astype(eqn.output.aval.dtype)
    return p.meaning(eqn.primitive)(*values, **dict(eqn.meant))


def _is_exact(primitive: Primitive, values: list[Any]) -> bool:
    if primitive in EXTREMA and values[0] == values[1]:
        return bool(values[0].tobytes() == values[1].tobytes())  # which zero is left to the loops
    is_integer = values[0].dtype.kind in "iu"
    return primitive in EXACT or (is_integer and primitive in EXACT_INTEGER)


def scalar_operands(rw: Rewriter, eqn: Eqn) -> Result:
    """An operand that repeats a scalar is that scalar, if another operand has the full shape."""
    inputs, found, full = [], False, False
    for atom in eqn.inputs:
        made = rw.producer(atom, p.broadcast)
        if made is not None and not made.inputs[0].aval.shape:
            found = True
            inputs.append(made.inputs[0])
        else:
            full = full or bool(atom.aval.shape)
            inputs.append(atom)
    return replaced(eqn, *inputs) if found and full else None


def sink_views(rw: Rewriter, eqn: Eqn) -> Result:
    """Operands that are all the same broadcast or reshape: operate first, then view once."""
    view: Eqn | None = None
    sources: list[Atom] = []
    for atom in eqn.inputs:
        if not atom.aval.shape:
            sources.append(atom)
            continue
        made = rw.producer(atom, p.broadcast) or rw.producer(atom, p.reshape)
        if made is None or not _is_alike(view or made, made):
            return None
        view = made
        sources.append(made.inputs[0])
    if view is None or (view.primitive is p.broadcast and not _surely_filled(view)):
        return None
    inner = rw.emit(eqn.primitive, *sources, **dict(eqn.params))
    return replaced(view, inner)


def _is_alike(a: Eqn, b: Eqn) -> bool:
    shapes = a.inputs[0].aval.shape == b.inputs[0].aval.shape
    return a.primitive is b.primitive and a.params == b.params and shapes


def _surely_filled(view: Eqn) -> bool:
    """Whether the result has elements; else the source's could raise flags that NumPy does not."""
    return all(isinstance(e, int) and e > 0 for e in view.output.aval.shape)


# ---- neutral elements ---------------------------------------------------------------------------
def add_nothing(_: Rewriter, eqn: Eqn) -> Result:
    """`x + 0 -> x` for integers; `x + -0.0 -> x` for floats (+0.0 would turn -0.0 into 0.0)."""
    neutral = -0.0 if eqn.output.aval.dtype.kind == "f" else 0
    return _drop_either(eqn, neutral)


def subtract_nothing(_: Rewriter, eqn: Eqn) -> Result:
    """`x - 0 -> x`."""
    return _drop_second(eqn, 0)


def multiply_by_one(_: Rewriter, eqn: Eqn) -> Result:
    """`x * 1 -> x`."""
    return _drop_either(eqn, 1)


def bits_of_nothing(_: Rewriter, eqn: Eqn) -> Result:
    """`x | 0 -> x`, `x ^ 0 -> x`."""
    return _drop_either(eqn, 0)


def shift_by_nothing(_: Rewriter, eqn: Eqn) -> Result:
    """`x << 0 -> x`, `x >> 0 -> x`."""
    return _drop_second(eqn, 0)


def _drop_second(eqn: Eqn, neutral: float) -> Result:
    a, b = eqn.inputs
    return instead(eqn, a) if is_value(b, neutral) else None


def _drop_either(eqn: Eqn, neutral: float) -> Result:
    a, b = eqn.inputs
    if is_value(b, neutral):
        return instead(eqn, a)
    if is_value(a, neutral):
        return instead(eqn, b)
    return None


def divide_by_power_of_two(_: Rewriter, eqn: Eqn) -> Result:
    """`x / 1 -> x`; `x / c -> x * (1 / c)` where c and 1 / c are normal powers of two."""
    a, b = eqn.inputs
    divisor = known(b)
    if divisor is None:
        return None
    if is_value(b, 1):
        return instead(eqn, a)
    dtype = b.aval.dtype
    c = float(divisor.value)
    tiny = float(np.finfo(dtype).smallest_normal)
    if not tiny <= abs(c) <= 1 / tiny or abs(np.frexp(c)[0]) != 0.5:
        return None
    inverse = literal(1 / c, dtype)
    is_normal = np.isfinite(inverse.value) and abs(float(inverse.value)) >= tiny
    return Draft(p.mul, (a, inverse), {}) if is_normal else None


# ---- an operation and itself --------------------------------------------------------------------
def undo_twice(rw: Rewriter, eqn: Eqn) -> Result:
    """`not (not x) -> x`, `neg (neg x) -> x`."""
    made = rw.producer(eqn.inputs[0], eqn.primitive)
    return None if made is None else made.inputs[0]


def do_once(rw: Rewriter, eqn: Eqn) -> Result:
    """`abs (abs x) -> abs x`."""
    return None if rw.producer(eqn.inputs[0], eqn.primitive) is None else eqn.inputs[0]


def same_operands(_: Rewriter, eqn: Eqn) -> Result:
    """`max(x, x)`, `min(x, x)`, `x & x`, `x | x` -> x."""
    a, b = eqn.inputs
    return instead(eqn, a) if same(a, b) else None


def compare_same(_: Rewriter, eqn: Eqn) -> Result:
    """`x == x -> True` and the like, for integers (NaN differs from itself)."""
    a, b = eqn.inputs
    if not same(a, b) or a.aval.dtype.kind == "f":
        return None
    return _constant(eqn, eqn.primitive in (p.eq, p.le, p.ge))


def select_known(_: Rewriter, eqn: Eqn) -> Result:
    """`select(True, a, b) -> a`, `select(False, a, b) -> b`, `select(c, a, a) -> a`."""
    condition, a, b = eqn.inputs
    constant = known(condition)
    if constant is not None:
        return instead(eqn, a if constant.value else b)
    return instead(eqn, a) if same(a, b) else None


# ---- conversions --------------------------------------------------------------------------------
def convert_to_own(_: Rewriter, eqn: Eqn) -> Result:
    """A conversion to the dtype that the operand has."""
    (a,) = eqn.inputs
    return a if a.aval.dtype == eqn.output.aval.dtype else None


def convert_once(rw: Rewriter, eqn: Eqn) -> Result:
    """`i8 -> i32 -> i64` is `i8 -> i64`, since the first step loses nothing."""
    made = rw.producer(eqn.inputs[0], p.convert)
    if made is None:
        return None
    (a,) = made.inputs
    first, middle, last = a.aval.dtype, made.output.aval.dtype, eqn.output.aval.dtype
    if not is_lossless(first, middle) or not _is_direct(first, middle, last):
        return None
    return replaced(eqn, a)


def is_lossless(a: np.dtype[Any], b: np.dtype[Any]) -> bool:
    """Whether every value of dtype `a` is one of dtype `b`, and comes back from it."""
    if a == b or a.kind == "b":
        return True
    if b.kind == "b":
        return False
    if a.kind == "f":
        return b.kind == "f" and b.itemsize >= a.itemsize
    bits = 8 * a.itemsize - (a.kind == "i")
    if b.kind == "f":
        return bits <= np.finfo(b).nmant + 1
    if a.kind == "i" and b.kind == "u":
        return False
    return bits <= 8 * b.itemsize - (b.kind == "i")


def _is_direct(first: np.dtype[Any], middle: np.dtype[Any], last: np.dtype[Any]) -> bool:
    """Whether NumPy's `first -> last` is its `middle -> last` on the values of `first`.

    A float out of an integer's range converts by its own type's rule, and NumPy converts integers
    to float16 in two steps.
    """
    if is_lossless(first, last) or last.kind == "b":
        return True
    if middle.kind == "f" and last.kind in "iu":
        return False
    return first.kind == "f" or last != np.float16
