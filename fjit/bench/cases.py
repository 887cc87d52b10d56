"""The table of cases: what is timed, on which arrays, a row a case.

Takes a group's name, gives its cases. Invariant: `function` is plain NumPy, and `make` gives the
same arrays for the same shape, dtype and generator state.

    Case("bandwidth", "sum axis 0", sum_columns, one, ((2000, 2000), (8000, 8000)))
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

import numpy as np

from fjit.bench import bandwidth as b
from fjit.bench import loops as o
from fjit.bench import mathematics as m
from fjit.bench import traces as t
from fjit.errors import FjitValueError

Shape: TypeAlias = tuple[int, ...]
Maker: TypeAlias = Callable[[Shape, Any, np.random.Generator], tuple[Any, ...]]

STEADY: Final = "steady"  # the same call again and again
SHAPES: Final = "shapes"  # each call with arrays of a new shape
FIRST: Final = "first"  # each call with a function never called before
TRACE: Final = "trace"  # tracing alone, an operation of the program
MEMORY: Final = "memory"  # bytes of memory instead of seconds


@dataclass(frozen=True, slots=True)
class Case:
    """One program with its arguments."""

    group: str
    name: str
    function: Callable[..., Any]
    make: Maker
    shapes: tuple[Shape, ...]
    tolerance: float = 1.0  # times the usual bound on the relative difference
    kind: str = STEADY
    variants: Mapping[str, Callable[..., Any]] = field(default_factory=dict)  # by peer
    expression: str = ""  # the same for numexpr, over the parameters' names


# Arguments


def normals(count: int) -> Maker:
    """`count` arrays of the shape, normally distributed."""

    def make(shape: Shape, dtype: Any, rng: np.random.Generator) -> tuple[Any, ...]:
        return tuple(rng.standard_normal(shape, dtype=dtype) for _ in range(count))

    return make


one, two = normals(1), normals(2)


def adam_state(shape: Shape, dtype: Any, rng: np.random.Generator) -> tuple[Any, ...]:
    weight, slope, first, second = normals(4)(shape, dtype, rng)
    return weight, slope, first, second * second


def with_row(count: int) -> Maker:
    """A matrix and `count` vectors as long as its rows."""

    def make(shape: Shape, dtype: Any, rng: np.random.Generator) -> tuple[Any, ...]:
        return one(shape, dtype, rng) + normals(count)(shape[1:], dtype, rng)

    return make


def with_labels(shape: Shape, dtype: Any, rng: np.random.Generator) -> tuple[Any, ...]:
    return (*one(shape, dtype, rng), rng.integers(shape[1], size=shape[0]))


def options(shape: Shape, dtype: Any, rng: np.random.Generator) -> tuple[Any, ...]:
    spot, strike, years = (rng.random(shape, dtype=dtype) for _ in range(3))
    return spot * 50 + 50, strike * 50 + 50, years * 2 + dtype(0.1)


def plane(shape: Shape, dtype: Any, rng: np.random.Generator) -> tuple[Any, ...]:
    """The real and imaginary parts of a grid over the Mandelbrot set."""
    imaginary, real = np.meshgrid(
        np.linspace(-1.25, 1.25, shape[0]), np.linspace(-2, 0.5, shape[1]), indexing="ij"
    )
    return real.astype(dtype), imaginary.astype(dtype)


def unit_interval(shape: Shape, dtype: Any, rng: np.random.Generator) -> tuple[Any, ...]:
    return (rng.random(shape, dtype=dtype),)


def bodies(shape: Shape, dtype: Any, rng: np.random.Generator) -> tuple[Any, ...]:
    return normals(3)(shape, dtype, rng) + unit_interval(shape, dtype, rng)


def tensors(shape: Shape, dtype: Any, rng: np.random.Generator) -> tuple[Any, ...]:
    """Four lists of `shape[0]` vectors of 100 to `shape[1]` elements."""
    sizes = np.geomspace(100, shape[1], shape[0]).astype(int)
    states = [adam_state((int(size),), dtype, rng) for size in sizes]
    return tuple(list(arrays) for arrays in zip(*states, strict=True))


def dense(shape: Shape, dtype: Any, rng: np.random.Generator) -> tuple[Any, ...]:
    return two(shape, dtype, rng) + one(shape[1:], dtype, rng)


# The table

_TWO: Final = ((2000, 2000), (8000, 8000))
_MATH: Final = ((4000, 1000),)
_SMALL: Final = ((10,), (1_000,), (10_000,))
_MASKS: Final = {"jax": b.positive_sum_where}
_SQUARE: Final = "x * x + y * y - 2 * x * y + 3"
_TURNS: Final = "x * cos(y) + y * sin(x) + sqrt(x * x + y * y)"

CASES: Final[tuple[Case, ...]] = (
    Case("bandwidth", "sum axis 0", b.sum_columns, one, _TWO),
    Case("bandwidth", "sum axis 1", b.sum_rows, one, _TWO),
    Case("bandwidth", "mean, var", b.mean_and_variance, one, _TWO),
    Case("bandwidth", "sum, max, min, sumsq", b.extremes, one, _TWO),
    Case("bandwidth", "row sum, max, sumsq", b.row_statistics, one, _TWO),
    Case("bandwidth", "row, column sums", b.row_and_column_sums, one, _TWO),
    Case("bandwidth", "normalise columns", b.normalise_columns, one, _TWO),
    Case("bandwidth", "logsumexp rows", b.logsumexp_rows, one, _TWO),
    Case("bandwidth", "cosine similarity", b.cosine_similarity, two, _TWO),
    Case("bandwidth", "x*y+1, x*y-1", b.two_outputs, two, _TWO),
    Case("bandwidth", "Adam step", b.adam, adam_state, _TWO),
    Case("bandwidth", "Jacobi, 5 points", b.jacobi, one, _TWO),
    Case("bandwidth", "where, clip", b.where_and_clip, two, _TWO),
    Case("bandwidth", "cumsum of x*y", b.cumulative_sum, two, _TWO),
    Case("bandwidth", "argmax of x*y", b.largest_position, two, _TWO),
    Case("bandwidth", "std", b.deviation, one, _TWO),
    Case("bandwidth", "x[x>0].sum()", b.positive_sum, one, _TWO, variants=_MASKS),
    Case("bandwidth", "x[x>0]", b.positive, one, _TWO),
    Case("bandwidth", "x.T + y", b.transposed_sum, two, _TWO),
    Case("bandwidth", "concatenate, sum", b.concatenate_and_sum, two, _TWO),
    Case("bandwidth", "pad, 3x3 box blur", b.box_blur, one, _TWO),
    Case("math", "x*x+y*y-2xy+3", m.square_of_difference, two, _MATH, expression=_SQUARE),
    Case("math", "tanh exp sin", m.tanh_exp_sin, one, _MATH, expression="tanh(exp(sin(x)))"),
    Case("math", "layernorm", m.layer_norm, with_row(2), _MATH),
    Case("math", "RMS norm", m.rms_norm, with_row(1), _MATH),
    Case("math", "softmax", m.softmax, one, _MATH),
    Case("math", "GELU (tanh)", m.gelu, one, _MATH),
    Case("math", "GELU (erf)", m.gelu_exact, one, _MATH),
    Case("math", "cross-entropy", m.cross_entropy, with_labels, _MATH),
    Case("math", "Black-Scholes", m.black_scholes, options, _MATH, 10.0),
    Case("math", "x cos y + y sin x + hypot", m.trigonometry, two, _MATH, expression=_TURNS),
    Case("math", "|x|**2.3 + |y|**0.7", m.powers, two, _MATH,
         expression="abs(x) ** 2.3 + abs(y) ** 0.7"),
    Case("loops", "Mandelbrot, 200 steps", o.mandelbrot, plane, ((1000, 1000),)),
    Case("loops", "logistic map, 100 steps", o.logistic_map, unit_interval, ((1000, 1000),)),
    Case("loops", "Kuramoto", o.kuramoto, two, ((3000,),)),
    Case("loops", "pairwise", o.pairwise, two, ((3000,),)),
    Case("loops", "n-body", o.accelerations, bodies, ((1000,),)),
    Case("horizontal", "Adam, 200 tensors", o.adam_over_tensors, tensors, ((200, 100_000),)),
    Case("matmul", "relu(x @ w + b)", o.dense_relu, dense, ((2000, 2000),)),
    Case("matmul", "attention", o.attention, normals(3), ((8, 1024, 64),)),
    Case("small", "x + y", o.add, two, _SMALL, expression="x + y"),
    Case("small", "tanh(x*y+1) - y", o.multiply_and_tanh, two, _SMALL,
         expression="tanh(x * y + 1) - y"),
    Case("shapes", "tanh(x*y+1) - y", o.multiply_and_tanh, two, ((300, 400),), kind=SHAPES),
    Case("shapes", "softmax", m.softmax, one, ((300, 400),), kind=SHAPES),
    Case("first", "chain of 30", o.chain_of_30, two, ((1000, 100),), kind=FIRST),
    Case("first", "chain of 390", o.chain_of_390, two, ((1000, 100),), 10.0, kind=FIRST),
    Case("first", "layernorm", m.layer_norm, with_row(2), ((1000, 100),), kind=FIRST),
    Case("tracing", "arithmetic", t.arithmetic, two, ((64, 64),), kind=TRACE),
    Case("tracing", "less the maximum", t.shifted, two, ((64, 64),), kind=TRACE),
    Case("tracing", "where, clip", t.selections, two, ((64, 64),), kind=TRACE),
    Case("tracing", "slices, transposes", t.views, two, ((64, 64),), kind=TRACE),
    Case("tracing", "standardise", t.statistics, two, ((64, 64),), kind=TRACE),
    Case("memory", "softmax", m.softmax, one, ((8000, 8000),), kind=MEMORY),
    Case("memory", "Adam step", b.adam, adam_state, ((8000, 8000),), kind=MEMORY),
    Case("memory", "Black-Scholes", m.black_scholes, options, ((8000, 8000),), kind=MEMORY),
)  # fmt: skip

GROUPS: Final = tuple(dict.fromkeys(case.group for case in CASES))


def select(groups: tuple[str, ...] = (), pattern: str = "") -> tuple[Case, ...]:
    """Return the cases of the groups (all if none) whose name has the pattern in it.

    `pattern` is a part of a name, or has the wildcards of a shell; case does not count. Raises
    FjitValueError for an unknown group or when nothing is left.
    """
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        raise FjitValueError(
            f"no group of cases is called {', '.join(unknown)}; the groups are {', '.join(GROUPS)}"
        )
    found = tuple(
        case for case in CASES if (not groups or case.group in groups) and _named(case, pattern)
    )
    if not found:
        raise FjitValueError(
            f"no case of {', '.join(groups or GROUPS)} matches {pattern!r}; the cases are "
            + ", ".join(repr(c.name) for c in CASES if not groups or c.group in groups)
        )
    return found


def _named(case: Case, pattern: str) -> bool:
    name, wanted = case.name.lower(), pattern.lower()
    return wanted in name or fnmatchcase(name, wanted)
