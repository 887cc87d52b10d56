"""The dataflow of a plan as a picture's data: operations in regions, one a kernel, and where.

Takes kernels and calls with their equations, gives a `Graph` with coordinates. Invariant: no two
boxes overlap, regions neither, and every operation stands below what it reads in its region.

    region k0_exp_sum      exp      the box of exp at (20, 40), below it sum at (20, 84)
                            |
                           sum
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fjit.core.ir import Eqn, Literal, Program, Var
from fjit.report.blocks import nbytes

CHAR, LINE, PAD, GAP_X, GAP_Y = 7, 22, 12, 14, 26
"""Pixels: of a letter, a box's height, around a region, between boxes side by side and in turn."""
MOST_WIDE: Final = 12
"""Boxes side by side; a wider layer goes on in the next line."""
Named = tuple[str, Sequence[Eqn]]
"""A step's name and its equations, in the order in which they run."""


@dataclass(frozen=True, slots=True)
class Box:
    """An operation: its name, what hovering tells, its region, and its rectangle's place."""

    label: str
    title: str
    region: int
    x: float
    y: float
    width: float


@dataclass(frozen=True, slots=True)
class Region:
    """A kernel or a library call: what hovering tells, its rectangle, whether it is a kernel."""

    label: str
    title: str
    x: float
    y: float
    width: float
    height: float
    is_kernel: bool


@dataclass(frozen=True, slots=True)
class Edge:
    """A value from one box to another, by their numbers; `crosses` if it goes through memory."""

    source: int
    target: int
    title: str
    crosses: bool


@dataclass(frozen=True, slots=True)
class Graph:
    """Boxes in regions, edges between them, and the size of the whole."""

    boxes: tuple[Box, ...]
    regions: tuple[Region, ...]
    edges: tuple[Edge, ...]
    width: float
    height: float


def graph_of(
    steps: Sequence[Named], kernels: Mapping[str, str], words: Mapping[Eqn, tuple[str, str]]
) -> Graph:
    """The picture of steps; `kernels` says what hovering over one tells, `words` of an equation."""
    return _Layout(steps, kernels, words).graph()


class _Layout:
    """Boxes and regions while they are placed, from top to bottom."""

    def __init__(
        self,
        steps: Sequence[Named],
        kernels: Mapping[str, str],
        words: Mapping[Eqn, tuple[str, str]],
    ) -> None:
        self.steps, self.kernels, self.words = steps, kernels, words
        self.boxes: list[Box] = []
        self.regions: list[Region] = []
        self.of: dict[Var, int] = {}
        self.home: dict[Var, int] = {}

    def graph(self) -> Graph:
        """The whole, steps of one level side by side."""
        y = float(PAD)
        width = 0.0
        for level in self._levels():
            x, tallest = float(PAD), 0.0
            for number in level:
                region = self._region(number, x, y)
                x += region.width + 2 * PAD
                tallest = max(tallest, region.height)
            width, y = max(width, x), y + tallest + 2 * PAD
        return Graph(tuple(self.boxes), tuple(self.regions), tuple(self._edges()), width, y)

    def _levels(self) -> list[list[int]]:
        """Numbers of steps, each behind those that make what it reads."""
        home = {v: k for k, (_, eqns) in enumerate(self.steps) for e in eqns for v in e.outputs}
        level: dict[int, int] = {}
        for k, (_, eqns) in enumerate(self.steps):
            before = [home[a] for e in eqns for a in _reads(e) if home.get(a, k) != k]
            level[k] = 1 + max((level.get(b, 0) for b in before), default=-1)
        count = 1 + max(level.values(), default=-1)
        return [[k for k in level if level[k] == n] for n in range(count)]

    def _region(self, number: int, x: float, y: float) -> Region:
        name, eqns = self.steps[number]
        top = y + LINE + PAD / 2
        widest, below = float(len(name) * CHAR + 2 * PAD), top
        for layer in _layers(eqns):
            left = x + PAD
            for eqn in layer:
                label, title = self.words[eqn]
                box = Box(label, title, number, left, below, len(label) * CHAR + 14)
                self.of.update(dict.fromkeys(eqn.outputs, len(self.boxes)))
                self.home.update(dict.fromkeys(eqn.outputs, number))
                self.boxes.append(box)
                left += box.width + GAP_X
            widest = max(widest, left - GAP_X + PAD - x)
            below += LINE + GAP_Y
        height = below - GAP_Y + PAD - y
        told = self.kernels.get(name, "")
        region = Region(name, told, x, y, widest, height, name in self.kernels)
        self.regions.append(region)
        return region

    def _edges(self) -> Iterable[Edge]:
        for number, (_, eqns) in enumerate(self.steps):
            for eqn in eqns:
                for var in _reads(eqn):
                    if var in self.of:
                        title = f"{var.aval}, {nbytes(var.aval.nbytes)}"
                        crosses = self.home[var] != number
                        yield Edge(self.of[var], self.of[eqn.outputs[0]], title, crosses)


def _reads(eqn: Eqn) -> list[Var]:
    return [a for a in dict.fromkeys(eqn.inputs) if not isinstance(a, Literal)]


def _layers(eqns: Sequence[Eqn]) -> list[list[Eqn]]:
    """Equations by their depth, each near what it reads; wide layers in several lines."""
    depth: dict[Var, int] = {}
    place: dict[Var, float] = {}
    layers: dict[int, list[Eqn]] = {}
    for eqn in eqns:
        found = 1 + max((depth.get(v, 0) for v in _reads(eqn)), default=0)
        depth.update(dict.fromkeys(eqn.outputs, found))
        layers.setdefault(found, []).append(eqn)
    lines: list[list[Eqn]] = []
    for number in sorted(layers):
        layer = sorted(layers[number], key=lambda eqn: _centre(eqn, place))
        for k, eqn in enumerate(layer):
            place.update(dict.fromkeys(eqn.outputs, float(k)))
        lines += [layer[k : k + MOST_WIDE] for k in range(0, len(layer), MOST_WIDE)]
    return lines


def _centre(eqn: Eqn, place: Mapping[Var, float]) -> float:
    known = [place[v] for v in _reads(eqn) if v in place]
    return sum(known) / len(known) if known else 0.0


def equations(eqn: Eqn) -> tuple[Eqn, ...]:
    """What a step computes, in order: the equations of its sub-program, or itself."""
    program = eqn.get("program")
    return program.eqns if isinstance(program, Program) else (eqn,)
