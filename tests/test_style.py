"""Rules of style that a formatter does not know: docstrings where readers look, short files."""

import ast
import inspect
from pathlib import Path

import pytest

import fjit

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "fjit").rglob("*.py"))
MAX_LINES = 600


def label(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_there_is_something_to_check() -> None:
    assert FILES and fjit.__all__


@pytest.mark.parametrize("file", FILES, ids=label)
def test_module_says_what_it_is_and_is_short(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    if text.strip() or file.name != "__init__.py":
        assert ast.get_docstring(ast.parse(text)), f"{label(file)} has no module docstring"
    lines = len(text.splitlines())
    assert lines < MAX_LINES, f"{label(file)} has {lines} lines: one concept per file"


def test_public_names_exist_and_are_documented() -> None:
    bare = []
    for name in fjit.__all__:
        value = getattr(fjit, name)
        if (inspect.isroutine(value) or inspect.isclass(value)) and not (
            value.__doc__ or ""
        ).strip():
            bare.append(name)
    assert bare == [], "public names without a docstring"
