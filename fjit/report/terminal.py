"""Blocks on a terminal: coloured tables through rich where it is installed, plain text otherwise.

Takes blocks, prints them. Invariant: piped output is plain, and the words are those of `text`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import find_spec

from fjit.report.blocks import Block, Heading, Paragraph, Table
from fjit.report.text import render


def show(blocks: Iterable[Block]) -> None:
    """Print blocks to standard output."""
    if sys.stdout.isatty() and find_spec("rich") is not None:
        _show_rich(blocks)
    else:
        print(render(blocks), end="")


def _show_rich(blocks: Iterable[Block]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    for block in blocks:
        if isinstance(block, Heading):
            style = "bold reverse" if block.level == 1 else "bold"
            console.print(Text(f" {block.text} ", style))
        elif isinstance(block, Table):
            table = RichTable(header_style="bold")
            for k, name in enumerate(block.header):
                numeric = k in block.numeric
                table.add_column(Text(name), justify="right" if numeric else "left",
                                 no_wrap=numeric)  # fmt: skip
            for row in block.rows:
                table.add_row(*[Text(cell) for cell in row])
            console.print(table)
        else:
            text = block.text if isinstance(block, Paragraph) else block.caption
            console.print(Text(text))
        console.print()
