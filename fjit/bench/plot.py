"""Rows as a picture: for each case how many times longer every peer takes than fjit.

Takes rows, gives a file: .png, .svg or .pdf, or .html with the picture and all numbers in one page.
Invariant: a point compares two times of the same row; what was not timed has no point.

    save(rows, Path("bench.html"))
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from fjit.bench.runner import Row
from fjit.bench.table import shape_text, significant
from fjit.errors import FjitValueError
from fjit.report import html
from fjit.report.blocks import Figure, Heading, Paragraph, Table

PICTURES: Final = (".png", ".svg", ".pdf")
KINDS: Final = (*PICTURES, ".html")
# One colour a peer, whatever others there are (Okabe and Ito, safe for colour-blind readers).
COLOURS: Final = {
    "numpy": "#000000", "jax": "#0072b2", "torch": "#d55e00", "numba": "#009e73",
    "numexpr": "#cc79a7", "fjit disk": "#999999",
}  # fmt: skip
CAPTION: Final = "Time of each peer over that of fjit; right of the line fjit is faster."


def save(rows: Sequence[Row], file: Path) -> None:
    """Write the picture of `rows` to `file`; its ending says how.

    Raises FjitValueError for another ending, or if no row has times to compare, or if matplotlib,
    which draws it, is not installed.
    """
    if file.suffix not in KINDS:
        raise FjitValueError(f"{file} does not end in {', '.join(KINDS)}")
    compared = [row for row in rows if row.times.get("fjit") and len(row.times) > 1]
    if not compared:
        raise FjitValueError("there is nothing to draw: no case was timed with fjit and a peer")
    if file.suffix in PICTURES:
        _figure(compared).savefig(file, dpi=120)
        return
    drawn = io.StringIO()
    _figure(compared).savefig(drawn, format="svg")
    svg = drawn.getvalue()
    blocks = (
        Heading("fjit bench", 1),
        Paragraph(CAPTION),
        Figure(svg[svg.index("<svg") :], CAPTION),
        _table(rows),
    )
    file.write_text(html.page(blocks, "fjit bench"), encoding="utf-8")


def _figure(rows: Sequence[Row]) -> Any:
    """A row a case, the peers as points along a logarithmic axis."""
    try:
        figure_module = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise FjitValueError(
            "the picture needs matplotlib: pip install 'fjit[viz]', or leave --plot out"
        ) from None
    figure = figure_module.Figure(figsize=(9, 1.2 + 0.24 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    peers = list(dict.fromkeys(name for row in rows for name in row.times if name != "fjit"))
    for peer in peers:
        points = [(row.over(peer), k) for k, row in enumerate(rows) if row.times.get(peer)]
        ratios, places = zip(*points, strict=True)
        axes.scatter(ratios, places, s=24, color=COLOURS.get(peer, "#666666"), label=peer)
    axes.axvline(1.0, color="#666666", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("times as long as fjit")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.8 / (1 + len(rows) / 4)), ncols=6)
    return figure


def _label(row: Row) -> str:
    threads = "1 thread" if row.threads == "1" else "all threads"
    return f"{row.case}, {row.dtype}, {threads}"


def _table(rows: Sequence[Row]) -> Table:
    peers = list(dict.fromkeys(name for row in rows for name in (*row.times, *row.notes)))
    header = ("group", "case", "shape", "dtype", "threads", *(f"{p} (us)" for p in peers))
    lines = tuple(
        (row.group, row.case, shape_text(row.shape), row.dtype, row.threads,
         *(_time(row, peer) for peer in peers))
        for row in rows
    )  # fmt: skip
    return Table(header, lines, frozenset(range(5, len(header))))


def _time(row: Row, peer: str) -> str:
    seconds = row.times.get(peer)
    return row.notes.get(peer, "-") if seconds is None else significant(seconds * 1e6)
