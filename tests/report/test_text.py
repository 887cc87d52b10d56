"""Blocks as plain text: columns, wrapping, ASCII, units."""

import pytest

from fjit.report.blocks import Heading, Paragraph, Table, amount, duration, nbytes, number
from fjit.report.text import ascii_only, render

TABLE = Table(
    ("step", "operations", "read"),
    (("k0", "exp and sum and many other words", "64.0 KiB"), ("k1", "add", "8 B")),
    frozenset({2}),
)


def test_columns_line_up() -> None:
    assert render([TABLE], 80).splitlines() == [
        "step  operations                            read",
        "----  --------------------------------  --------",
        "k0    exp and sum and many other words  64.0 KiB",
        "k1    add                                    8 B",
    ]


@pytest.mark.parametrize("width", [60, 40, 30, 26, 20])
def test_text_fits_and_loses_no_word(width: int) -> None:
    lines = render([TABLE], width).splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(lines)
    assert all(
        word in words for word in ("exp", "many", "64.0", "KiB", "words", "k1", "operations")
    )


def test_a_table_that_cannot_fit_is_written_row_by_row() -> None:
    table = Table(("a", "b"), (("1" * 20, "2" * 20),), frozenset({0, 1}))
    assert render([table], 30).splitlines() == [
        "a " + "1" * 20 + ", b",
        "    " + "2" * 20,
    ]


def test_headings_and_paragraphs() -> None:
    text = render([Heading("title", 1), Paragraph("one two three")], 8)
    assert text == "title\n=====\n\none two\nthree\n"


def test_ascii() -> None:
    assert ascii_only("λ<x>") == "\\u03bb<x>"
    assert render([Paragraph("f λ"), Heading("é")], 40).isascii()


def test_units() -> None:
    assert [nbytes(b) for b in (0, 1023, 1024, 3 << 20)] == ["0 B", "1023 B", "1.0 KiB", "3.0 MiB"]
    assert [duration(t) for t in (None, 12.0, 1500.0, 2e6, 3e9)] == [
        "-", "12 ns", "1.5 us", "2 ms", "3 s",
    ]  # fmt: skip
    assert [number(c) for c in (12, 12345, 0.5)] == ["12", "12,345", "0.5"]
    assert [amount(c) for c in (0, 999, 1000, 999_600, 2.5e9)] == [
        "0",
        "999",
        "1 k",
        "1 M",
        "2.5 G",
    ]
