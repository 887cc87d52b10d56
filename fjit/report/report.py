"""The report of a plan: kernels, library calls and decisions as data, with their text and HTML.

Takes what `build` found out, gives frozen dataclasses; `str(report)` is readable in a terminal,
notebooks show its tables, `save` writes a page. Invariant: everything shown is a field.

    >>> import numpy as np, fjit
    >>> report = fjit.fuse(lambda x: np.exp(x).sum()).explain(np.ones(8))
    >>> [(k.name, k.bytes_read, k.bytes_written) for k in report.kernels]
    [('k0_exp_sum', 64, 8)]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fjit.optimize.decisions import Decision
from fjit.report import draw, html, text
from fjit.report.blocks import (
    Block,
    Figure,
    Heading,
    Paragraph,
    Table,
    amount,
    duration,
    nbytes,
    number,
)
from fjit.report.draw import Roof
from fjit.report.figure import Time, figure
from fjit.report.graph import Graph

__all__ = ["Call", "Comparison", "Decision", "Kernel", "Report"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: what it does, what it moves, what was foreseen and what came out.

    `operations` are pairs of an operation and the user's source line. `iteration_space` holds the
    extents of its loops, outermost first; an extent known only at run time counts as its bound.
    `bytes_read` counts each input array once at its own size, `bytes_written` each stored output
    once. `flops` are those the loops execute, recomputation included. Registers are vector
    registers of the loop with the most of them. `actual_*` is None without compilation,
    `measured_ns` and `roofline_fraction` without measurement: the modelled time of memory or
    arithmetic over the measured one, above 1 where operands sit in a nearer cache than modelled.
    `licensed` says what fastmath flags changed in it: "contract: 3 multiply-adds". With `members`,
    it stands for so many kernels that run under one launch: its registers are those of the member
    with the most, its iteration space is all of their elements. `scopes` are the names that
    `fjit.scope` gave its operations; `curve` pairs the statements of its fullest vector loop with
    the registers in use around each (empty on a GPU).
    """

    name: str
    operations: tuple[tuple[str, str], ...]
    iteration_space: tuple[int, ...]
    bytes_read: int
    bytes_written: int
    flops: int
    predicted_registers: int
    actual_registers: int | None
    predicted_spills: int
    actual_spills: int | None
    estimated_ns: float
    measured_ns: float | None = None
    roofline_fraction: float | None = None
    licensed: tuple[str, ...] = ()
    members: int = 1
    scopes: tuple[str, ...] = ()
    curve: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A library call (matmul, sort, ...) or a barrier, after the first `position` kernels."""

    name: str
    position: int
    operation: tuple[str, str]
    bytes_read: int
    bytes_written: int
    measured_ns: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What runs when a fused function is called, and why.

    `decisions` holds every fusion considered: `pair`, `taken`, `reason`, `numbers`. `machine` says
    for which processor registers and times were foreseen. `optimality_gap` is the proven distance
    of the plan's estimated time to the best plan's, as a fraction; None where a plan was asked for
    (`fusion` other than "auto"). `fastmath` pairs each flag that was given with what it licensed.
    """

    function: str
    machine: str
    kernels: tuple[Kernel, ...]
    calls: tuple[Call, ...]
    decisions: tuple[Decision, ...]
    optimality_gap: float | None = None
    notes: tuple[str, ...] = field(default=())
    fastmath: tuple[tuple[str, str], ...] = ()
    graph: Graph | None = None
    roof: Roof | None = None
    vector_registers: int = 0

    @property
    def bytes_read(self) -> int:
        """Bytes that kernels and library calls read, each input of each once."""
        return sum(step.bytes_read for step in self._all())

    @property
    def bytes_written(self) -> int:
        """Bytes that kernels and library calls write."""
        return sum(step.bytes_written for step in self._all())

    @property
    def estimated_ns(self) -> float:
        """Estimated time of all kernels, one after the other."""
        return sum(k.estimated_ns for k in self.kernels)

    def _all(self) -> tuple[Kernel | Call, ...]:
        return (*self.kernels, *self.calls)

    def __str__(self) -> str:
        return text.render(self.blocks())

    def _repr_html_(self) -> str:
        return html.fragment((*self.blocks(), *self.pictures()[:1]))

    def save(self, path: str | Path) -> None:
        """Write the report to `path` as a self-contained HTML page, with its pictures."""
        page = html.page((*self.blocks(), *self.pictures()), self.title)
        Path(path).write_text(page, encoding="utf-8")

    def pictures(self) -> tuple[Figure, ...]:
        """Dataflow, roofline and the registers along each kernel, as SVG with captions."""
        if self.graph is None or not self.kernels:
            return ()
        found = [draw.dataflow(self.graph)]
        if self.roof is not None:
            found.append(draw.roofline(self.points(), self.roof))
        curves = [k for k in self.kernels if k.curve][:MOST_CURVES]
        return (*found, *(draw.pressure(k.name, k.curve, self.vector_registers) for k in curves))

    def points(self) -> list[draw.Point]:
        """Each kernel in a roofline plot."""
        found = []
        for k in self.kernels:
            moved = k.bytes_read + k.bytes_written
            if moved and k.flops and k.estimated_ns:
                rate = k.flops / k.estimated_ns * 1e9
                measured = k.flops / k.measured_ns * 1e9 if k.measured_ns else None
                found.append(draw.Point(k.name, k.flops / moved, rate, measured))
        return found

    def figure(self) -> Any:  # a matplotlib Figure; the package is an extra
        """Times of the kernels and their roofline as a matplotlib figure.

        Returns:
            A `matplotlib.figure.Figure`.

        Raises:
            MissingPackageError: Without matplotlib: `pip install fjit[viz]`.
        """
        times = [Time(k.name, k.estimated_ns, k.measured_ns) for k in self.kernels]
        return figure(self.title, times, self.points(), self.roof)

    @property
    def title(self) -> str:
        """The headline."""
        return f"fusion report of {self.function}"

    def blocks(self) -> tuple[Block, ...]:
        """The page, free of markup."""
        parts: list[Block] = [Heading(self.title, 1), Paragraph(self._summary())]
        if self.kernels or self.calls:
            parts += [Heading("steps"), self._steps(), Heading("operations"), self._operations()]
        if self.fastmath:
            parts += [Heading("fastmath"), self._licences()]
        parts.append(Heading("fusions considered"))
        if self.decisions:
            parts.append(_decisions(self.decisions))
        else:
            parts.append(Paragraph("None: no two values could have shared a kernel."))
        parts += [Paragraph(note) for note in self.notes]
        return tuple(parts)

    def _summary(self) -> str:
        steps = _count(len(self.kernels), "kernel")
        if self.calls:
            steps += f" and {_count(len(self.calls), 'call')} of library functions or barriers"
        text = (
            f"{steps} for {self.machine}. Bytes read: {number(self.bytes_read)}, bytes written: "
            f"{number(self.bytes_written)}."
        )
        if self.optimality_gap is not None:
            text += f" The plan is proven to be within {self.optimality_gap:.1%} of the best one."
        return text

    def _steps(self) -> Table:
        header = ("step", "loops", "read", "written", "flops", "regs", "spills", "estimated")
        rows = [(k.name, *_kernel_cells(k)) for k in self.kernels]
        for call in reversed(self.calls):
            moved = nbytes(call.bytes_read), nbytes(call.bytes_written)
            row = (call.name, "", *moved, "", "", "", "", duration(call.measured_ns), "")
            rows.insert(call.position, row)
        numeric = frozenset(range(2, 10))
        if not self._is_measured:
            return Table(header, tuple(row[:8] for row in rows), numeric)
        return Table((*header, "measured", "roofline"), tuple(rows), numeric)

    def _licences(self) -> Table:
        """Each flag, what it licensed, and in which kernels."""
        rows = []
        for flag, what in self.fastmath:
            kernels = [
                k.name for k in self.kernels if any(w.startswith(f"{flag}:") for w in k.licensed)
            ]
            rows.append((flag, what, ", ".join(kernels)))
        return Table(("flag", "licensed", "in"), tuple(rows))

    @property
    def _is_measured(self) -> bool:
        return any(step.measured_ns is not None for step in self._all())

    def _operations(self) -> Table:
        steps = [(k.name, k.operations) for k in self.kernels]
        for call in reversed(self.calls):
            steps.insert(call.position, (call.name, (call.operation,)))
        rows: list[tuple[str, ...]] = []
        for name, operations in steps:
            for line, words in _by_line(operations):
                rows.append((name, line, ", ".join(words)))
                name = ""
        return Table(("step", "line", "operations"), tuple(rows))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Reports of one call under several plans, side by side; made by `fjit.explain`."""

    reports: dict[str, Report]

    def __str__(self) -> str:
        return text.render(self.blocks())

    def _repr_html_(self) -> str:
        return html.fragment(self.blocks())

    def save(self, path: str | Path) -> None:
        """Write the comparison to `path` as a self-contained HTML page."""
        Path(path).write_text(html.page(self.blocks(), "fusion plans compared"), encoding="utf-8")

    def __getitem__(self, label: str) -> Report:
        return self.reports[label]

    def blocks(self) -> tuple[Block, ...]:
        """One table over all plans, then each plan's steps."""
        rows = []
        for label, report in self.reports.items():
            measured = [k.measured_ns for k in report.kernels if k.measured_ns is not None]
            row = (
                label, number(len(report.kernels)), number(len(report.calls)),
                nbytes(report.bytes_read), nbytes(report.bytes_written),
                amount(sum(k.flops for k in report.kernels)),
                duration(report.estimated_ns), duration(sum(measured) if measured else None),
            )  # fmt: skip
            rows.append(row)
        header = ("plan", "kernels", "calls", "read", "written", "flops", "estimated", "measured")
        parts: list[Block] = [Heading("fusion plans compared", 1)]
        parts.append(Table(header, tuple(rows), frozenset(range(1, 8))))
        for label, report in self.reports.items():
            if report.kernels or report.calls:
                parts += [Heading(label), report._steps()]
        return tuple(parts)


def _kernel_cells(kernel: Kernel) -> tuple[str, ...]:
    fraction = kernel.roofline_fraction
    return (
        " x ".join(map(str, kernel.iteration_space)) or "1",
        nbytes(kernel.bytes_read),
        nbytes(kernel.bytes_written),
        amount(kernel.flops),
        _foreseen(kernel.predicted_registers, kernel.actual_registers),
        _foreseen(kernel.predicted_spills, kernel.actual_spills),
        duration(kernel.estimated_ns),
        duration(kernel.measured_ns),
        "-" if fraction is None else f"{fraction:.0%}",
    )


def _foreseen(predicted: int, actual: int | None) -> str:
    return str(predicted) if actual is None else f"{predicted} -> {actual}"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


MOST_CURVES: Final = 4
"""Kernels of which a page shows the registers."""
MOST_WORDS: Final = 12
"""Operations of one line that are listed one by one; of more, each kind is counted."""


def _by_line(operations: Sequence[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Operations grouped by source line, the file without its folder, in order of appearance."""
    lines: dict[str, list[str]] = {}
    for words, source in operations:
        lines.setdefault(Path(source).name if source else "-", []).append(words)
    return [(line, _counted(words)) for line, words in lines.items()]


def _counted(words: list[str]) -> list[str]:
    """Operations in words; many of them as kinds with their numbers."""
    if len(words) <= MOST_WORDS:
        return words
    kinds = Counter(word.split(" ")[0] for word in words)
    return [f"{count} x {kind}" for kind, count in kinds.items()]


def _decisions(decisions: Sequence[Decision]) -> Table:
    """Refusals first; equal ones in one row, with their number and the sums of their numbers."""
    alike: dict[tuple[bool, tuple[str, str], str], list[Decision]] = {}
    for decision in sorted(decisions, key=lambda d: d.taken):
        alike.setdefault((decision.taken, decision.pair, decision.reason), []).append(decision)
    rows = []
    for (taken, pair, reason), found in alike.items():
        numbers = Counter[str]()
        for decision in found:
            numbers.update(decision.numbers)
        words = [f"{name.replace('_', ' ')} {number(value)}" for name, value in numbers.items()]
        if len(found) > 1:
            words.insert(0, f"{len(found)} times")
        verdict = "taken" if taken else "refused"
        rows.append((verdict, *pair, reason, ", ".join(words)))
    return Table(("fusion", "of", "and", "reason", "numbers"), tuple(rows))
