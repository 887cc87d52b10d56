"""The elementary functions by name, a row a line.

Takes a name, gives the function that writes it: `MATH["exp"](e, x)` appends instructions to `e`
and returns the value. Every function is the meaning of a primitive, as inlined vector code over
float32 or float64 of any number of lanes.

    MATH["hypot"](e, x, y)   ->   %v1 = call <8 x double> @llvm.fabs.v8f64(<8 x double> %x) ; ...

Functions with a loop or a cold path put helpers in `e.helpers`; those marked `alwaysinline` want
LLVM's always-inline pass, which every standard pipeline runs.
"""

from collections.abc import Callable

from fjit.backend.emitter import Val
from fjit.backend.math import (
    approximate,
    error,
    exponential,
    hyperbolic,
    inverse,
    logarithm,
    pow,
    power,
    special,
    trigonometric,
)

MathFunction = Callable[..., Val]  # (Emitter, Val) or (Emitter, Val, Val)


# fmt: off
MATH: dict[str, MathFunction] = {
    "exp":        exponential.exp,
    "exp2":       exponential.exp2,
    "expm1":      exponential.expm1,
    "log":        logarithm.log,
    "log2":       logarithm.log2,
    "log10":      logarithm.log10,
    "log1p":      logarithm.log1p,
    "logaddexp":  logarithm.logaddexp,
    "logaddexp2": logarithm.logaddexp2,
    "sin":        trigonometric.sin,
    "cos":        trigonometric.cos,
    "tan":        trigonometric.tan,
    "asin":       inverse.asin,
    "acos":       inverse.acos,
    "atan":       inverse.atan,
    "atan2":      inverse.atan2,
    "sinh":       hyperbolic.sinh,
    "cosh":       hyperbolic.cosh,
    "tanh":       hyperbolic.tanh,
    "asinh":      hyperbolic.asinh,
    "acosh":      hyperbolic.acosh,
    "atanh":      hyperbolic.atanh,
    "pow":        pow.pow,
    "cbrt":       power.cbrt,
    "hypot":      power.hypot,
    "fmod":       power.fmod,
    "erf":        error.erf,
    "erfc":       error.erfc,
    "gammaln":    special.gammaln,
    "digamma":    special.digamma,
}

# Forms that `fastmath={"approx"}` licenses: errors of up to 4 units in the last place, less time.
APPROXIMATE: dict[str, MathFunction] = {
    "exp":        approximate.exp,
    "exp2":       approximate.exp2,
    "expm1":      approximate.expm1,
    "log":        approximate.log,
    "log2":       approximate.log2,
    "log10":      approximate.log10,
    "log1p":      approximate.log1p,
    "logaddexp":  approximate.logaddexp,
    "logaddexp2": approximate.logaddexp2,
    "sin":        approximate.sin,
    "cos":        approximate.cos,
    "tan":        approximate.tan,
    "asin":       approximate.asin,
    "acos":       approximate.acos,
    "atan":       approximate.atan,
    "atan2":      approximate.atan2,
    "sinh":       approximate.sinh,
    "cosh":       approximate.cosh,
    "tanh":       approximate.tanh,
    "asinh":      approximate.asinh,
    "acosh":      approximate.acosh,
    "atanh":      approximate.atanh,
    "hypot":      approximate.hypot,
}

# Forms that `fastmath={"ninf"}` licenses.
FINITE: dict[str, MathFunction] = {
    "hypot":      power.hypot_finite,
}
# fmt: on
