"""Pictures of a report as SVG: dataflow, roofline, and registers along each kernel.

Takes a report's data, gives `Figure`s. Invariant: the SVG is well-formed, loads nothing, escapes
every name, and is legible on light and on dark pages, since it brings its own background.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

from fjit.report.blocks import Figure
from fjit.report.graph import LINE, Graph

COLOURS: Final = (
    "#cfe3ff",
    "#d8f0d2",
    "#ffe3c2",
    "#ead7f7",
    "#ffd6de",
    "#d3f1f1",
    "#f2efc2",
    "#e2e2e2",
)
CALL: Final = "#ffffff"
MARK: Final = "#1f5fbf"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 320, 64, 16, 16, 44
"""Pixels of a plot, and of its margins."""


class Point(NamedTuple):
    """A kernel in a roofline plot: flops a byte, flops a second as estimated and as measured."""

    name: str
    intensity: float
    estimated: float
    measured: float | None


class Roof(NamedTuple):
    """What bounds kernels: flops a second, and bytes a second by the level that they come from."""

    flops: float
    bandwidths: tuple[tuple[str, float], ...]


def dataflow(graph: Graph) -> Figure:
    """Operations in regions, one a kernel; values that go through memory are drawn bold."""
    parts = [_open(graph.width, graph.height)]
    for number, region in enumerate(graph.regions):
        fill = COLOURS[number % len(COLOURS)] if region.is_kernel else CALL
        dash = "" if region.is_kernel else ' stroke-dasharray="5 3"'
        parts.append(
            f'<g><title>{escape(region.title or region.label)}</title><rect x="{region.x:g}" '
            f'y="{region.y:g}" width="{region.width:g}" height="{region.height:g}" rx="8" '
            f'fill="{fill}" stroke="#777"{dash}/>'
            + _text(region.x + 10, region.y + 16, region.label, weight="bold")
            + "</g>"
        )
    for edge in graph.edges:
        a, b = graph.boxes[edge.source], graph.boxes[edge.target]
        width, colour = (2.5, "#c0392b") if edge.crosses else (1, "#888")
        parts.append(
            f'<path d="M {a.x + a.width / 2:g} {a.y + LINE:g} L {b.x + b.width / 2:g} {b.y:g}" '
            f'stroke="{colour}" stroke-width="{width}" fill="none" opacity="0.75">'
            f"<title>{escape(edge.title)}</title></path>"
        )
    for box in graph.boxes:
        parts.append(
            f'<g><title>{escape(box.title)}</title><rect x="{box.x:g}" y="{box.y:g}" '
            f'width="{box.width:g}" height="{LINE}" rx="4" fill="#fff" stroke="#444"/>'
            + _text(box.x + 7, box.y + 15, box.label)
            + "</g>"
        )
    caption = (
        "Dataflow: a coloured region is a kernel, a dashed one a library call; red lines are "
        "values that go through memory. Point at a box for its line and live range."
    )
    return Figure("".join([*parts, "</svg>"]), caption)


def roofline(points: Sequence[Point], roof: Roof) -> Figure:
    """Kernels under the roofs of arithmetic and of each level of memory, on logarithmic axes."""
    xs = [p.intensity for p in points] + [0.05, 50.0]
    rates = [v for p in points for v in (p.estimated, p.measured) if v]
    ys = [*rates, roof.flops * 1.5, roof.flops / 300]
    plot = _Axes((min(xs) / 1.5, max(xs) * 1.5), (min(ys) / 1.5, max(ys)), log=True)
    parts = [_open(WIDTH, HEIGHT), *plot.frame("flops per byte", "flops per second")]
    for name, bandwidth in roof.bandwidths:
        ends = [plot.low[0], roof.flops / bandwidth, plot.high[0]]
        line = " L ".join(plot.at(x, min(roof.flops, bandwidth * x)) for x in ends)
        told = f"<title>{escape(name)}</title>"
        parts.append(f'<path d="M {line}" stroke="#555" fill="none">{told}</path>')
        x = max(plot.low[0], plot.low[1] / bandwidth) * 1.3
        parts.append(_text(plot.px(x) + 4, plot.py(bandwidth * x) - 4, name, size=10))
    for number, point in enumerate(points):
        parts += _marks(plot, point, number)
    caption = "Roofline: hollow points are estimates, filled ones measurements."
    return Figure("".join([*parts, "</svg>"]), caption)


def _marks(plot: _Axes, point: Point, number: int) -> list[str]:
    """A kernel's points and name; neighbours' names are at different heights."""
    parts = []
    rates = (("estimated", point.estimated, "none"), ("measured", point.measured, MARK))
    for kind, rate, fill in rates:
        if not rate:
            continue
        x, y = plot.px(point.intensity), plot.py(rate)
        told = f"{rate / 1e9:.3g} Gflop/s {kind}, {point.intensity:.3g} flops a byte"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" stroke="{MARK}" stroke-width="1.5" '
            f'fill="{fill}"><title>{escape(point.name)}: {told}</title></circle>'
        )
        parts.append(_text(x + 7, y + 4 + 11 * (number % 3 - 1), point.name[:24], size=10))
    return parts


def pressure(name: str, curve: Sequence[tuple[str, int]], limit: int) -> Figure:
    """Vector registers in use around each statement of a kernel's fullest loop, and the limit."""
    most = max([limit, *(live for _, live in curve)])
    plot = _Axes((0.0, max(len(curve), 2)), (0.0, most * 1.1 + 1), log=False)
    parts = [_open(WIDTH, HEIGHT), *plot.frame("statement", "registers")]
    step = (plot.px(1) - plot.px(0)) * 0.9
    for k, (words, live) in enumerate(curve):
        top, foot = plot.py(live), plot.py(0)
        colour = "#c0392b" if live > limit else "#4f87c7"
        parts.append(
            f'<rect x="{plot.px(k):.1f}" y="{top:.1f}" width="{max(step, 0.5):.1f}" '
            f'height="{foot - top:.1f}" fill="{colour}">'
            f"<title>{escape(words)}: {live}</title></rect>"
        )
    y = plot.py(limit)
    parts.append(
        f'<path d="M {LEFT} {y:.1f} L {WIDTH - RIGHT} {y:.1f}" stroke="#c0392b" '
        f'stroke-dasharray="6 3"/>' + _text(LEFT + 6, y - 4, f"{limit} registers", size=10)
    )
    return Figure("".join([*parts, "</svg>"]), f"Registers along {name}.")


class _Axes:
    """A plot's area, and where a pair of numbers is in it."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], *, log: bool) -> None:
        self.log = log
        self.low, self.high = (x[0], y[0]), (x[1], y[1])

    def _share(self, value: float, axis: int) -> float:
        low, high = self.low[axis], self.high[axis]
        if self.log:
            return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
        return (value - low) / (high - low)

    def px(self, x: float) -> float:
        return LEFT + self._share(x, 0) * (WIDTH - LEFT - RIGHT)

    def py(self, y: float) -> float:
        return HEIGHT - BOTTOM - self._share(y, 1) * (HEIGHT - TOP - BOTTOM)

    def at(self, x: float, y: float) -> str:
        return f"{self.px(x):.1f} {self.py(y):.1f}"

    def _ticks(self, axis: int) -> list[float]:
        low, high = self.low[axis], self.high[axis]
        if self.log:
            first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
            return [10.0**k for k in range(first, last + 1)]
        size = 10 ** math.floor(math.log10(max(high, 1)))
        size = next(s for s in (size / 5, size / 2, size, 2 * size) if high / s <= 8)
        return [k * size for k in range(int(high / size) + 1)]

    def frame(self, along: str, up: str) -> list[str]:
        """Axes, ticks and names."""
        parts = [
            f'<path d="M {LEFT} {TOP} L {LEFT} {HEIGHT - BOTTOM} L {WIDTH - RIGHT} '
            f'{HEIGHT - BOTTOM}" stroke="#333" fill="none"/>',
            _text((LEFT + WIDTH) / 2 - 40, HEIGHT - 8, along, size=11),
            _text(8, 12, up, size=11),
        ]
        for value in self._ticks(0):
            parts.append(_text(self.px(value) - 8, HEIGHT - BOTTOM + 15, f"{value:g}", size=10))
        for value in self._ticks(1):
            label = f"{value:.0e}" if value >= 1e5 else f"{value:g}"
            parts.append(_text(LEFT - 8 - 6 * len(label), self.py(value) + 4, label, size=10))
        return parts


def _open(width: float, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="monospace" font-size="12">'
        f'<rect width="100%" height="100%" fill="#fff"/>'
    )


def _text(x: float, y: float, words: str, *, size: int = 12, weight: str = "normal") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" fill="#111">'
        f"{escape(words)}</text>"
    )
