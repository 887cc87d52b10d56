"""Reports as HTML: self-contained, well formed, escaped."""

from html.parser import HTMLParser
from pathlib import Path

import numpy as np

import fjit
from fjit.report.blocks import Heading, Paragraph, Table
from fjit.report.html import fragment, page


class Balance(HTMLParser):
    """Checks that tags nest, and gathers text and links."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [name for name, _ in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(text: str) -> Balance:
    parser = Balance()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


def test_text_is_never_markup() -> None:
    table = Table(("<i>",), (("<script>alert(1)</script>",),))
    blocks = [Heading("<b>", 1), Paragraph("a < b & c"), table]
    text = fragment(blocks)
    assert "<b>" not in text and "<script>" not in text and "a &lt; b &amp; c" in text
    assert "<script>alert(1)</script>" in parsed(text).text


def test_numbers_stand_to_the_right() -> None:
    text = fragment([Table(("step", "read"), (("k0", "8 B"),), frozenset({1}))])
    assert '<td>k0</td><td class="n">8 B</td>' in text


def test_a_page_is_whole_and_loads_nothing() -> None:
    text = page([Heading("report", 1)], "a <title>")
    assert text.startswith("<!DOCTYPE html>") and "<title>a &lt;title&gt;</title>" in text
    assert parsed(text).links == [] and "url(" not in text and "@import" not in text


def test_a_saved_report_holds_every_kernel(tmp_path: Path) -> None:
    report = fjit.fuse(lambda x: np.sort(np.exp(x) * 2) + 1).explain(np.ones(100))
    report.save(tmp_path / "a.html")
    report.save(str(tmp_path / "b.html"))
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert text == (tmp_path / "b.html").read_text(encoding="utf-8")
    words = parsed(text).text
    assert "&lt;lambda&gt;" in text
    for step in (*report.kernels, *report.calls):
        assert step.name in words
    assert "<table>" in report._repr_html_() and "<!DOCTYPE" not in report._repr_html_()
