"""Blocks as plain HTML: self-contained, escaped, tables that read without a style sheet.

Takes blocks, gives a fragment for a notebook or a whole page. Invariant: no text of a block but a
figure's SVG is taken as markup, and a page loads nothing from anywhere.

    Paragraph("a < b")    ->    <p>a &lt; b</p>
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from fjit.report.blocks import Block, Figure, Heading, Paragraph, Table

STYLE = """\
.fjit { font: 14px/1.4 system-ui, sans-serif; }
.fjit table { border-collapse: collapse; margin: 0.5em 0 1.5em; }
.fjit th, .fjit td { border: 1px solid #bbb; padding: 2px 8px; text-align: left;
  vertical-align: top; }
.fjit th { background: #eee; color: #000; }
.fjit .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
"""


def fragment(blocks: Iterable[Block]) -> str:
    """The blocks as one `<div>` with its own style, as notebooks show it."""
    body = "\n".join(_block(block) for block in blocks)
    return f'<div class="fjit">\n<style>\n{STYLE}</style>\n{body}\n</div>\n'


def page(blocks: Iterable[Block], title: str) -> str:
    """The blocks as a whole HTML page."""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n</head>\n<body>\n{fragment(blocks)}</body>\n</html>\n"
    )


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{escape(block.text)}</h{block.level}>"
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Figure):
        return f"<figure>{block.svg}<figcaption>{escape(block.caption)}</figcaption></figure>"
    return _table(block)


def _table(table: Table) -> str:
    lines = ["<table>", f"<thead>{_row(table.header, table.numeric, 'th')}</thead>", "<tbody>"]
    lines += [_row(row, table.numeric, "td") for row in table.rows]
    return "\n".join([*lines, "</tbody>", "</table>"])


def _row(row: tuple[str, ...], numeric: frozenset[int], tag: str) -> str:
    cells = "".join(_cell(tag, cell, k in numeric) for k, cell in enumerate(row))
    return f"<tr>{cells}</tr>"


def _cell(tag: str, text: str, numeric: bool) -> str:
    kind = ' class="n"' if numeric else ""
    return f"<{tag}{kind}>{escape(text)}</{tag}>"
