"""What a page of a report consists of: headings, paragraphs and tables, free of any markup.

Takes nothing, gives data classes that `text` and `html` render. Invariant: cells are text already,
so both renderings show the same words and numbers.

    Table(("kernel", "read"), (("k0_exp", "64.0 KiB"),))
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heading:
    """A title; level 1 is the page's own."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a header. Columns in `numeric` are set to the right and never wrapped."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture as SVG of our own making, and its caption, which text shows instead."""

    svg: str
    caption: str


Block = Heading | Paragraph | Table | Figure


def nbytes(count: float) -> str:
    """Bytes in the largest binary unit that leaves at least one.

    >>> nbytes(65536)
    '64.0 KiB'
    """
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def duration(nanoseconds: float | None) -> str:
    """Nanoseconds in a readable unit, or a dash for None.

    >>> duration(1234.5)
    '1.23 us'
    """
    if nanoseconds is None:
        return "-"
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def number(count: float) -> str:
    """A count with thousands marked.

    >>> number(65536)
    '65,536'
    """
    return f"{count:,.0f}" if float(count).is_integer() else f"{count:,.3g}"


def amount(count: float) -> str:
    """A count to three digits, with k, M, G or T for thousands.

    >>> amount(253952)
    '254 k'
    """
    value = float(count)
    for unit in ("", " k", " M", " G"):
        if value < 999.5:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g} T"
