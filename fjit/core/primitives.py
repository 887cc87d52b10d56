"""The closed set of primitives, a row a line: name, family, type rule, NumPy meaning.

Takes avals or arrays, gives avals or arrays. Type rules refuse; promotion and broadcasting live in
the frontend. Elementwise operands have one shared shape or rank 0. Every meaning is written in
plain NumPy and is the reference that the code generators are held to.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fjit.core import dtypes, meanings, rules
from fjit.core.ir import Primitive
from fjit.errors import InternalError

Rule = Callable[..., Any]  # (*avals, **params) -> aval, or a tuple of avals for kernels
Meaning = Callable[..., Any]  # (*arrays, **params) -> array; arrays are NumPy's own Any

PRIMITIVES: Final[dict[str, Primitive]] = {}
TYPE_RULES: Final[dict[Primitive, Rule]] = {}
MEANINGS: Final[dict[Primitive, Meaning]] = {}


def _row(name: str, family: str, rule: Rule, meaning: Meaning) -> Primitive:
    primitive = Primitive(name, family)
    assert name not in PRIMITIVES, name
    PRIMITIVES[name] = primitive
    TYPE_RULES[primitive] = rule
    MEANINGS[primitive] = meaning
    return primitive


def _same(kinds: str, arity: int) -> Rule:
    return rules.elementwise(kinds, arity, None)


def _test(kinds: str, arity: int) -> Rule:
    return rules.elementwise(kinds, arity, dtypes.BOOL)


# fmt: off
E, V = "elementwise", "view"
# name                      family  type rule             NumPy meaning
copy       = _row("copy",       E, _same("biuf", 1),      meanings.copy)
neg        = _row("neg",        E, _same("iuf", 1),       np.negative)
abs_       = _row("abs",        E, _same("iuf", 1),       np.absolute)
sign       = _row("sign",       E, _same("iuf", 1),       np.sign)
not_       = _row("not",        E, _same("biu", 1),       np.invert)
reciprocal = _row("reciprocal", E, _same("iu", 1),        np.reciprocal)
sqrt       = _row("sqrt",       E, _same("f", 1),         np.sqrt)
floor      = _row("floor",      E, _same("f", 1),         np.floor)
ceil       = _row("ceil",       E, _same("f", 1),         np.ceil)
trunc      = _row("trunc",      E, _same("f", 1),         np.trunc)
rint       = _row("rint",       E, _same("f", 1),         np.rint)
isnan      = _row("isnan",      E, _test("f", 1),         np.isnan)
isinf      = _row("isinf",      E, _test("f", 1),         np.isinf)
isfinite   = _row("isfinite",   E, _test("f", 1),         np.isfinite)
signbit    = _row("signbit",    E, _test("f", 1),         np.signbit)
exp        = _row("exp",        E, _same("f", 1),         np.exp)
exp2       = _row("exp2",       E, _same("f", 1),         np.exp2)
expm1      = _row("expm1",      E, _same("f", 1),         np.expm1)
log        = _row("log",        E, _same("f", 1),         np.log)
log2       = _row("log2",       E, _same("f", 1),         np.log2)
log10      = _row("log10",      E, _same("f", 1),         np.log10)
log1p      = _row("log1p",      E, _same("f", 1),         np.log1p)
sin        = _row("sin",        E, _same("f", 1),         np.sin)
cos        = _row("cos",        E, _same("f", 1),         np.cos)
tan        = _row("tan",        E, _same("f", 1),         np.tan)
asin       = _row("asin",       E, _same("f", 1),         np.arcsin)
acos       = _row("acos",       E, _same("f", 1),         np.arccos)
atan       = _row("atan",       E, _same("f", 1),         np.arctan)
sinh       = _row("sinh",       E, _same("f", 1),         np.sinh)
cosh       = _row("cosh",       E, _same("f", 1),         np.cosh)
tanh       = _row("tanh",       E, _same("f", 1),         np.tanh)
asinh      = _row("asinh",      E, _same("f", 1),         np.arcsinh)
acosh      = _row("acosh",      E, _same("f", 1),         np.arccosh)
atanh      = _row("atanh",      E, _same("f", 1),         np.arctanh)
cbrt       = _row("cbrt",       E, _same("f", 1),         np.cbrt)
erf        = _row("erf",        E, _same("f", 1),         meanings.erf)
erfc       = _row("erfc",       E, _same("f", 1),         meanings.erfc)
gammaln    = _row("gammaln",    E, _same("f", 1),         meanings.gammaln)
digamma    = _row("digamma",    E, _same("f", 1),         meanings.digamma)
add        = _row("add",        E, _same("biuf", 2),      np.add)
sub        = _row("sub",        E, _same("iuf", 2),       np.subtract)
mul        = _row("mul",        E, _same("biuf", 2),      np.multiply)
div        = _row("div",        E, _same("f", 2),         np.divide)
floordiv   = _row("floordiv",   E, _same("iuf", 2),       np.floor_divide)
mod        = _row("mod",        E, _same("iuf", 2),       np.remainder)
fmod       = _row("fmod",       E, _same("iuf", 2),       np.fmod)
pow_       = _row("pow",        E, _same("iuf", 2),       np.power)
max_       = _row("max",        E, _same("biuf", 2),      np.maximum)
min_       = _row("min",        E, _same("biuf", 2),      np.minimum)
fmax       = _row("fmax",       E, _same("f", 2),         np.fmax)
fmin       = _row("fmin",       E, _same("f", 2),         np.fmin)
eq         = _row("eq",         E, _test("biuf", 2),      np.equal)
ne         = _row("ne",         E, _test("biuf", 2),      np.not_equal)
lt         = _row("lt",         E, _test("biuf", 2),      np.less)
le         = _row("le",         E, _test("biuf", 2),      np.less_equal)
gt         = _row("gt",         E, _test("biuf", 2),      np.greater)
ge         = _row("ge",         E, _test("biuf", 2),      np.greater_equal)
and_       = _row("and",        E, _same("biu", 2),       np.bitwise_and)
or_        = _row("or",         E, _same("biu", 2),       np.bitwise_or)
xor        = _row("xor",        E, _same("biu", 2),       np.bitwise_xor)
shl        = _row("shl",        E, _same("iu", 2),        np.left_shift)
shr        = _row("shr",        E, _same("iu", 2),        np.right_shift)
atan2      = _row("atan2",      E, _same("f", 2),         np.arctan2)
hypot      = _row("hypot",      E, _same("f", 2),         np.hypot)
copysign   = _row("copysign",   E, _same("f", 2),         np.copysign)
nextafter  = _row("nextafter",  E, _same("f", 2),         np.nextafter)
logaddexp  = _row("logaddexp",  E, _same("f", 2),         np.logaddexp)
logaddexp2 = _row("logaddexp2", E, _same("f", 2),         np.logaddexp2)
fma        = _row("fma",        E, _same("f", 3),         meanings.fma)
select     = _row("select",     E, rules.select,          np.where)
convert    = _row("convert",    E, rules.convert,         meanings.convert)
broadcast  = _row("broadcast",  V, rules.broadcast,       meanings.broadcast)
transpose  = _row("transpose",  V, rules.transpose,       meanings.transpose)
reshape    = _row("reshape",    V, rules.reshape,         meanings.reshape)
slice_     = _row("slice",      V, rules.slice_,          meanings.slice_)
pad        = _row("pad",        V, rules.pad,             meanings.pad)
concat     = _row("concatenate", V, rules.concatenate,    meanings.concatenate)
update     = _row("update",     V, rules.update,          meanings.update)
diagonal   = _row("diagonal",   V, rules.diagonal,        meanings.diagonal)
gather     = _row("gather",     V, rules.gather,          meanings.gather)
iota       = _row("iota",       V, rules.iota,            meanings.iota)
expand     = _row("expand",     V, rules.expand,          meanings.expand)
reduce     = _row("reduce",     "reduction",  rules.reduce,     meanings.reduce)
argreduce  = _row("argreduce",  "reduction",  rules.argreduce,  meanings.argreduce)
cumulate   = _row("cumulate",   "cumulative", rules.cumulate,   meanings.cumulate)
compress   = _row("compress",   "filter",     rules.compress,   meanings.compress)
scatter    = _row("scatter",    "scatter",    rules.scatter,    meanings.scatter)
repeat     = _row("repeat",     "library",    rules.repeat,     meanings.repeat)
sort       = _row("sort",       "library",    rules.sort,       meanings.sort)
argsort    = _row("argsort",    "library",    rules.argsort,    meanings.argsort)
searchsorted = _row("searchsorted", "library", rules.searchsorted, meanings.searchsorted)
matmul     = _row("matmul",     "library",    rules.matmul,     meanings.matmul)
barrier    = _row("barrier",    "barrier",    rules.identity,   meanings.identity)
kernel     = _row("kernel",     "kernel",     rules.kernel,     meanings.kernel)
# fmt: on


def type_rule(primitive: Primitive) -> Rule:
    """The type rule of `primitive`; a missing row is an InternalError."""
    try:
        return TYPE_RULES[primitive]
    except KeyError:
        raise InternalError(f"{primitive.name}: no row in core/primitives.TYPE_RULES") from None


def meaning(primitive: Primitive) -> Meaning:
    """The NumPy meaning of `primitive`; a missing row is an InternalError."""
    try:
        return MEANINGS[primitive]
    except KeyError:
        raise InternalError(f"{primitive.name}: no row in core/primitives.MEANINGS") from None
