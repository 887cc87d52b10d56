"""How many registers the linker will give the threads of a GPU kernel, foreseen from its loops.

Takes a nest and an architecture, gives a `Pressure` a phase. Invariant: neither libNVVM nor the
linker is asked. The linker aims at a target T, so that a multiprocessor holds all its warps: below
it loads go ahead of what reads them, above it values that are live anyway need what they need.

    R = max(least, branches, min(free, T)), in words of 32 bits:
    least    = l0 + l1 * live + l2 * ahead + l3 if it sums + l4 if it calls functions
    branches = b0 + b1 * loaded if it calls functions, whose branches loads do not cross
    free     = f0 + f1 * first + f2 * ahead + f3 if it sums + f4 if it calls functions

`live` is MaxLive of the order of fewest live values, `first` that with all loads in front, `loaded`
what the elements of a thread load, `ahead` that without the first element.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fjit.backend.liveness import Body, Dtypes, dtypes_of
from fjit.backend.registers import Pressure
from fjit.backend.spread import spread_of
from fjit.backend.tiled_product import Form
from fjit.lower import nest as n
from fjit.target import GpuTarget

FUNCTIONS: Final = frozenset((
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt", "hypot", "pow",
    "erf", "erfc", "gammaln", "digamma", "div", "sqrt", "mod", "fmod", "floordiv",
))  # fmt: skip
"""Operations that are more than a few instructions, some of them with branches."""


class Fit(NamedTuple):
    """The numbers of one architecture; see the module's docstring."""

    least: tuple[float, float, float, float, float]
    branches: tuple[float, float]
    free: tuple[float, float, float, float, float]
    target: int


FITS: Final[dict[str, Fit]] = {
    "sm_75": Fit((13.56, 0.98, 1.6, 13.76, -1.87), (8.1, 0.5), (15.03, 0.83, 1.45, 11.06, 1.5), 60),
    "sm_80": Fit((6.32, 1.07, 1.35, 16.71, 4.21), (2.9, 0.3), (33.46, -0.04, 1.25, 5.5, 0.52), 32),
    "sm_86": Fit((7.06, 1.03, 1.27, 9.11, 4.14), (4.7, 0.68), (32.6, 0.22, 0.24, 0.12, 11.0), 40),
    "sm_90": Fit((9.32, 0.99, 1.28, 11.46, 3.35), (0.73, 0.9), (41.6, 0.14, 2.9, 0.0, 2.2), 32),
    "sm_100": Fit((6.51, 1.07, 1.57, 9.7, 6.62), (7.98, 1.0), (47.5, 0.5, 0.0, 5.3, 0.0), 32),
    "sm_120": Fit((4.22, 1.11, 1.3, 10.33, 0.72), (5.78, 2.17), (31.0, 0.62, 0.82, 3.6, 7.9), 40),
}  # fmt: skip
"""By `make registers` on 198 random bodies an architecture, nvJitLink 13.5: float32 and float64, 3
to 32 operands, 12 to 120 operations, some with exp and tanh, some with sums of rows."""
ALIKE: Final = {"sm_89": "sm_86"}
PRODUCT_BASE: Final = 32
"""Registers of a matrix product beside its sums, factors and loads ahead."""


class Features(NamedTuple):
    """What the formula asks of the body with the most live values; in words of 32 bits."""

    live: int = 0
    first: int = 0
    loads: int = 0
    sums: bool = False
    functions: bool = False


def features(nest: n.Nest, loop: n.Loop) -> Features:
    """The features of a phase."""
    of = dtypes_of(nest)
    found = [_features(Body(inner), of) for inner in _loops(loop)]
    return max(found, key=lambda f: (f.first, f.live), default=Features())


def _loops(loop: n.Loop) -> list[n.Loop]:
    inner = [s for s in loop.body if isinstance(s, n.Loop)]
    return [loop, *(deep for one in inner for deep in _loops(one))]


def _features(body: Body, of: Dtypes) -> Features:
    def words(value: n.Value) -> int:
        dtype = of[value]
        return 0 if dtype is None else _words(dtype)

    line = body.line
    first = line.most(words, body.loads_first())
    return Features(
        min(first, line.most(words, line.least_live(words))),
        first,
        sum(words(s.out) for s in body.stmts if isinstance(s, n.Load)),
        any(isinstance(s, n.Update) for s in body.stmts),
        any(isinstance(s, n.Let) and s.op in FUNCTIONS for s in body.stmts),
    )


def _words(dtype: np.dtype) -> int:
    """Registers of a value; conditions have registers of their own."""
    return 0 if dtype.kind == "b" else max(1, dtype.itemsize // 4)


def gpu_pressure(nest: n.Nest, loop: n.Loop, gpu: GpuTarget) -> Pressure:
    """The registers and spills of a phase."""
    found = features(nest, loop)
    unit = spread_of(nest, loop).unit
    count = round(estimate(FITS[ALIKE.get(gpu.name, gpu.name)], found, unit))
    return Pressure(min(count, gpu.max_registers), max(0, count - gpu.max_registers))


def estimate(fit: Fit, found: Features, unit: int) -> float:
    """The formula, for `unit` elements a thread."""
    ahead = (unit - 1) * found.loads
    least = _sum(fit.least, found.live, ahead, found)
    branches = fit.branches[0] + fit.branches[1] * unit * found.loads if found.functions else 0.0
    free = _sum(fit.free, found.first, ahead, found)
    return max(least, branches, min(free, fit.target))


def _sum(
    by: tuple[float, float, float, float, float], live: int, ahead: int, found: Features
) -> float:
    return by[0] + by[1] * live + by[2] * ahead + by[3] * found.sums + by[4] * found.functions


def product_pressure(form: Form) -> Pressure:
    """The registers of a matrix product: sums, two factors of each turn, and loads ahead."""
    tiling = form.tiling
    edge = tiling.tile // tiling.side
    ahead = 2 * tiling.tile * tiling.depth // tiling.threads
    words = max(1, form.dtype.itemsize // 4) * (edge * edge + 2 * edge * tiling.turn + ahead)
    return Pressure(words + PRODUCT_BASE, 0)
