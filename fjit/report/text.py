"""Blocks as plain text for a terminal or a file: ASCII only, no wider than asked where words allow.

Takes blocks and a width, gives text. Invariant: no word of a cell is lost; columns that do not fit
are wrapped, numbers are not, and a table that still does not fit is written row by row.

    Table(("kernel", "read"), (("k0_exp", "64 B"),))    ->    kernel  read
                                                              ------  ----
                                                              k0_exp  64 B
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable
from itertools import zip_longest

from fjit.report.blocks import Block, Figure, Heading, Paragraph, Table

GAP = "  "
LONGEST_WORD = 40


def terminal_width() -> int:
    """Columns of the terminal, or of COLUMNS; 100 where there is neither."""
    return max(40, shutil.get_terminal_size((100, 24)).columns)


def render(blocks: Iterable[Block], width: int | None = None) -> str:
    """The blocks as text of at most `width` columns (the terminal's) where words allow it."""
    columns = terminal_width() if width is None else width
    return "\n\n".join(_block(block, columns) for block in blocks) + "\n"


def ascii_only(text: str) -> str:
    r"""Text with every other character escaped.

    >>> print(ascii_only("λ"))
    \u03bb
    """
    return text.encode("ascii", "backslashreplace").decode("ascii")


def _block(block: Block, width: int) -> str:
    if isinstance(block, Heading):
        text = ascii_only(block.text)
        return f"{text}\n{('=' if block.level == 1 else '-') * min(len(text), width)}"
    if isinstance(block, Paragraph | Figure):
        text = block.text if isinstance(block, Paragraph) else block.caption
        return textwrap.fill(ascii_only(text), width)
    return _table(block, width)


def _table(table: Table, width: int) -> str:
    rows = [tuple(map(ascii_only, row)) for row in table.rows]
    header = tuple(map(ascii_only, table.header))
    widths = _widths(header, rows, table.numeric, width)
    if sum(widths) + len(GAP) * (len(widths) - 1) > width:
        return _records(header, rows, width)
    lines = _row(header, widths, table.numeric)
    lines.append(GAP.join("-" * w for w in widths))
    for row in rows:
        lines += _row(row, widths, table.numeric)
    return "\n".join(lines)


def _records(header: tuple[str, ...], rows: list[tuple[str, ...]], width: int) -> str:
    """The rows of a table that does not fit, each as a paragraph that names its cells."""
    paragraphs = []
    for row in rows:
        cells = [f"{name} {cell}" for name, cell in zip(header, row, strict=True) if cell]
        paragraphs.append(
            textwrap.fill(", ".join(cells), width, subsequent_indent="    ", break_long_words=False)
        )
    return "\n".join(paragraphs)


def _widths(
    header: tuple[str, ...], rows: list[tuple[str, ...]], numeric: frozenset[int], width: int
) -> list[int]:
    """Natural column widths, then the widest column of words gives way until the table fits."""
    cells = [header, *rows]
    widths = [max(len(row[k]) for row in cells) for k in range(len(header))]
    room = width - len(GAP) * (len(header) - 1)
    words = [k for k in range(len(header)) if k not in numeric]
    while sum(widths) > room and words:
        widest = max(words, key=lambda k: widths[k])
        least = max(_longest_word(row[widest]) for row in cells)
        if widths[widest] <= least:
            break
        others = [widths[k] for k in words if k != widest]
        next_widest = max([w for w in others if w < widths[widest]], default=least)
        needed = widths[widest] - (sum(widths) - room)
        widths[widest] = max(least, needed, min(next_widest, widths[widest] - 1))
    return widths


def _longest_word(cell: str) -> int:
    return min(LONGEST_WORD, max(map(len, cell.split()), default=1))


def _row(row: tuple[str, ...], widths: list[int], numeric: frozenset[int]) -> list[str]:
    cells = [textwrap.wrap(cell, w) or [""] for cell, w in zip(row, widths, strict=True)]
    lines = []
    for parts in zip_longest(*cells, fillvalue=""):
        padded = [
            part.rjust(w) if k in numeric else part.ljust(w)
            for k, (part, w) in enumerate(zip(parts, widths, strict=True))
        ]
        lines.append(GAP.join(padded).rstrip())
    return lines
