"""How a matrix product of a plan is launched on a GPU: which code, how many tiles, which words.

Takes the equation of a frame and where values live, gives a `Product`. Invariant: extents alone
decide the tiles, and no choice made here changes a bit of a result.

    c = matmul a:f32[1000,300] b:f32[300,1000]
    form      float32, tiles of 64 x 64, a along k, b not, no stack
    launch    256 blocks of 256 threads
    numbers   1000, 1000, 300 (m, n, k), 0, 0 (where a and b begin), strides in bytes
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final, NamedTuple

from fjit.backend.spread import Launch
from fjit.backend.tiled_product import LARGE, MIDDLE, SMALL, Form, Tiling, held_as
from fjit.core.ir import Eqn, Var, static_shape
from fjit.lower.memory import Memory
from fjit.optimize.frames import Matrix, frame_of

MANY: Final = 120
"""Blocks that a device is to have for all of its multiprocessors, if smaller tiles give as many."""


class Product(NamedTuple):
    """A product's code, launch, the values that it reads and writes, and its integers."""

    form: Form
    launch: Launch
    values: tuple[Var, Var, Var]
    numbers: tuple[int, ...]


class _Axis(NamedTuple):
    """An axis of the stack: its extent, and the strides of both operands and the result."""

    extent: int
    steps: tuple[int, ...]


def product(eqn: Eqn, memory: Mapping[Var, Memory]) -> Product:
    """The launch of a frame's equation."""
    size = eqn.output.aval.dtype.itemsize

    def elements(var: Var) -> tuple[int, ...]:
        return tuple(stride // var.aval.dtype.itemsize for stride in memory[var].strides)

    frame = frame_of(eqn, elements)
    out = frame.eqn.output
    shape, (left, right) = static_shape(out.aval), (frame.left, frame.right)
    result = Matrix(out, 0, elements(out), shape)
    (m, n), k = shape[-2:], left.shape[-1]
    axes = _stack((left, right, result))
    stack = prod(axis.extent for axis in axes)
    (am, ak), (bk, bn), (cm, cn) = (o.strides[-2:] for o in (left, right, result))
    tiling = tiling_of(m, n, stack, held_as(out.aval.dtype).bits // 8)
    form = Form(out.aval.dtype, tiling, _nearer(ak, am), _nearer(bk, bn), len(axes))
    tiles = -(-m // tiling.tile) * -(-n // tiling.tile)
    launch = Launch((tiles * stack, 1), (tiling.threads, 1))
    of_axes = [tuple(axis.steps[which] for axis in axes) for which in range(3)]
    steps = (am, ak, *of_axes[0], bn, bk, *of_axes[1], cm, cn, *of_axes[2])
    in_bytes = (step * size for step in (left.offset, right.offset, *steps))
    numbers = (m, n, k, *(axis.extent for axis in axes), *in_bytes)
    return Product(form, launch, (left.var, right.var, out), numbers)


def tiling_of(m: int, n: int, stack: int, size: int) -> Tiling:
    """The largest tiles that the edges do not waste and that still are enough for a device."""
    for tiling in (LARGE, MIDDLE):
        tiles = -(-m // tiling.tile) * -(-n // tiling.tile) * stack
        fits = min(m, n) > tiling.tile // 2 and not (tiling == LARGE and size > 4)
        if fits and tiles >= MANY:
            return tiling
    return SMALL


def _nearer(along: int, across: int) -> bool:
    """Whether neighbours along k are nearer in memory than those across."""
    return across == 0 or 0 < abs(along) <= abs(across)


def _stack(matrices: tuple[Matrix, ...]) -> tuple[_Axis, ...]:
    """The axes that count the matrices, those that all three walk as one joined."""
    found: list[_Axis] = []
    shape = matrices[0].shape[:-2]
    for number in reversed(range(len(shape))):
        extent, steps = shape[number], tuple(o.strides[number] for o in matrices)
        if extent == 1:
            continue
        if found and all(
            step == found[0].extent * inner
            for step, inner in zip(steps, found[0].steps, strict=True)
        ):
            found[0] = _Axis(extent * found[0].extent, found[0].steps)
        else:
            found.insert(0, _Axis(extent, steps))
    return tuple(found)
