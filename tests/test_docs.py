"""The documentation runs: its Python blocks, in order, and its output blocks are what they print.

A `python` block is executed, all blocks of a page in one namespace. A `text` block that follows it
with nothing in between is its output; a line `...` stands for any lines. Blocks of other languages
are for the eye. `make golden` rewrites outputs without `...`; review the difference like code.
"""

import contextlib
import io
import linecache
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fjit.backend import scalar
from fjit.core import primitives

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```$(?:\n\n```text\n(?P<output>.*?)^```$)?", re.M | re.S
)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")
ELLIPSIS = "...\n"


class Block(NamedTuple):
    """A block of code, where it starts, and what it should print (None: anything)."""

    code: str
    line: int
    output: str | None
    span: tuple[int, int]


def blocks(text: str) -> Iterator[Block]:
    """The Python blocks of a page, in order."""
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("code"))
        yield Block(match["code"], line, match["output"], match.span("output"))


def printed(block: Block, page: Path, names: dict[str, object]) -> str:
    """What a block prints; its lines are those of the page, in errors and in sources."""
    name, source = id_of(page), "\n" * block.line + block.code
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        exec(compile(source, name, "exec"), names)
    return stream.getvalue()


def matches(expected: str, seen: str) -> bool:
    """Whether `seen` is `expected`, where a line `...` stands for any lines."""
    parts = re.split(r"^\.\.\.\n", expected, flags=re.M)
    return re.fullmatch("(?:.*\n)*".join(map(re.escape, parts)), seen) is not None


@pytest.fixture(autouse=True)
def tables() -> Iterator[None]:
    """Take out again what a page adds to the tables of primitives."""
    known: list[dict[Any, Any]] = [
        primitives.PRIMITIVES, primitives.TYPE_RULES, primitives.MEANINGS, scalar.ROWS
    ]  # fmt: skip
    before = [dict(table) for table in known]
    yield
    for table, rows in zip(known, before, strict=True):
        table.clear()
        table.update(rows)


def id_of(page: Path) -> str:
    """The page's path in the project, the same on every machine."""
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=id_of)
def test_page(page: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = before = page.read_text(encoding="utf-8")
    update = request.config.getoption("--golden-update")
    names: dict[str, object] = {"__name__": "__main__"}
    for number in range(len(list(blocks(text)))):
        block = list(blocks(text))[number]  # outputs above it may have moved it
        seen = printed(block, page, names)
        if block.output is None:
            continue
        if update and ELLIPSIS not in block.output:
            start, end = block.span
            text = text[:start] + seen + text[end:]
        else:
            assert matches(block.output, seen), f"{page.name}:{block.line} prints\n{seen}"
    if text != before:
        page.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=id_of)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M)
    assert sorted(listed) == sorted(page.name for page in PAGES if page.parent.name == "docs")


def test_outputs_are_compared() -> None:
    text = "```python\nprint(1)\nprint(2)\nprint(3)\n```\n\n```text\n1\n...\n```\n"
    (block,) = blocks(text)
    assert printed(block, ROOT / "page.md", {}) == "1\n2\n3\n"
    assert matches("1\n...\n", "1\n2\n3\n") and matches("...\n3\n", "1\n2\n3\n")
    assert not matches("2\n...\n", "1\n2\n3\n") and not matches("1\n2\n", "1\n2\n3\n")
