"""Every error fjit raises, in one hierarchy; each also is the Python error a NumPy user expects.

Takes nothing, gives exception classes. Invariant: the text says what was asked, what was seen, the
user's file and line where one is known, and what to write instead.
"""

from collections.abc import Callable, Iterable


class FjitError(Exception):
    """Base class of all errors raised by fjit."""


RECORDERS: list[Callable[[BaseException], None]] = []
"""Called with each Refusal made: a trace keeps the first, so that user code cannot hide it."""


class Refusal(FjitError):
    """An error about the trace itself, raised again at its end even if the function caught it."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        for record in RECORDERS:
            record(self)


class FjitTypeError(FjitError, TypeError):
    """An operand's type or dtype does not fit the operation."""


class FjitValueError(FjitError, ValueError):
    """A value, such as an axis, a shape or an option, does not fit the operation."""


class FjitIndexError(FjitError, IndexError):
    """An index is outside the array it selects from."""


class FjitAttributeError(FjitError, AttributeError):
    """A name that fjit does not have, with what to use instead."""


class ShapeError(FjitValueError):
    """Shapes of operands do not fit each other."""


class ReadOnlyError(FjitValueError):
    """A write into an argument that is marked read-only."""


class BranchError(Refusal, FjitTypeError, FjitValueError):
    """Python control flow or conversion needs the value of a traced array."""


class LeakedTracerError(Refusal):
    """A traced value was used after the trace that made it had ended."""


class UnsupportedError(Refusal, FjitTypeError):
    """A dtype, function or argument that fjit does not handle, with what to use instead."""


class DriverError(FjitError, RuntimeError):
    """A GPU was asked for, and its driver is not there or refused."""


class MissingPackageError(FjitError, ImportError):
    """An optional package is needed for what was asked, and is not installed."""


class EmulatorError(FjitError, RuntimeError):
    """A GPU program did what no GPU program may do, or what the emulator does not know."""


class InternalError(FjitError):
    """A bug in fjit: an invariant of the program, plan or code generator does not hold."""


STATIC_ADVICE = "Arguments that steer Python code can be named in static_argnames."
BRANCH_ADVICE = (
    "Write it without a branch: np.where(condition, a, b) or np.select(...) picks per element; "
    f"sums and masks replace loops with a condition. {STATIC_ADVICE}"
)
NUMBER_ADVICE = (
    "A function of Python numbers was given a traced value: write NumPy's function of arrays, "
    f"np.sqrt(x) for math.sqrt(x). {STATIC_ADVICE}"
)
INTEGER_ADVICE = (
    "A traced value was used as a Python integer, as the bound of a slice or of range() is: write "
    "a mask, such as np.where(np.arange(len(x)) < n, x, 0), or an index array. "
    f"{STATIC_ADVICE}"
)
LENGTH_ADVICE = "A mask decides this length: np.count_nonzero(mask) is it as a traced value."
OUTSIDE_ADVICE = "Return the traced value, and do this with the result, outside the fused function."


def branch_error(what: str, aval: str, where: str, advice: str = BRANCH_ADVICE) -> BranchError:
    """The error for Python code that asks a traced array for its value.

    `what` is the conversion asked for ("bool()", "int()"), `aval` the printed type of the traced
    value, `where` the user's file and line, `advice` what to write instead.
    """
    return BranchError(
        f"{what} of a traced array {aval} at {where}: its value is not known while the function "
        f"is traced. {advice}"
    )


def leaked_error(where: str) -> LeakedTracerError:
    """The error for a traced value that outlived its trace."""
    return LeakedTracerError(
        f"a traced array leaked out of the fused function that made it (made at {where}): it has "
        "no value of its own. Return it from the function instead of storing it elsewhere."
    )


def shape_text(shape: Iterable[object]) -> str:
    """A shape as NumPy prints it in messages: `(3,)`, `(2,3)`."""
    extents = tuple(map(str, shape))
    return "(" + ",".join(extents) + ("," if len(extents) == 1 else "") + ")"


def broadcast_error(shapes: tuple[tuple[object, ...], ...], where: str) -> ShapeError:
    """The error for operands whose shapes do not broadcast."""
    text = " ".join(map(shape_text, shapes))
    return ShapeError(
        f"operands could not be broadcast together with shapes {text} at {where}: sizes must be "
        "equal or 1 on every axis, counted from the last. Add an axis with x[:, None] or reshape."
    )


def dtype_error(dtype: object, what: str) -> UnsupportedError:
    """The error for an array of a dtype outside fjit's set."""
    if getattr(dtype, "kind", "") == "c":
        return complex_error(f"{what} has dtype {dtype}")
    return UnsupportedError(
        f"{what} has dtype {dtype}, which fjit does not handle: use bool, a fixed-width integer or "
        "a float dtype (structured, object, string and datetime arrays and masked arrays stay "
        "outside fused functions; convert with x.astype(...) or x.filled(...))."
    )


def complex_error(what: str) -> UnsupportedError:
    """The error for complex numbers; `what` says which."""
    return UnsupportedError(
        f"{what}: complex numbers are not fused yet. Compute with real and imaginary parts as two "
        "arrays (z.real and z.imag, np.cos(t) and np.sin(t) for np.exp(1j * t)), or outside the "
        "fused function."
    )


def unsupported_function(name: str, instead: str, where: str) -> UnsupportedError:
    """The error for a NumPy function that cannot be traced."""
    return UnsupportedError(f"{name} at {where} is not supported in a fused function: {instead}")
