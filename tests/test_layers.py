"""The architecture, checked: imports go down only, stand at the top of the file, and form no cycle.

A module's layer is that of its folder, or of its file for those directly in `fjit/`. The checks are
functions of a table from module name to syntax tree, so that small made-up trees show that they can
fail.
"""

import ast
import graphlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fjit"

LAYERS = (
    ("errors", "config", "target"),
    ("core",),
    ("frontend",),
    ("transform",),
    ("optimize",),
    ("lower",),
    ("backend",),
    ("runtime",),
    ("interop", "report"),
    ("planning",),
    ("forms",),
    ("entries",),
    ("arguments",),
    ("fused",),
    ("api",),
    ("oracle", "bench"),
    (
        *("numpy", "special", "random", "stream", "cuda", "testing", "compare"),
        *("__init__", "cli", "__main__"),
    ),
)
LAYER = {part: level for level, parts in enumerate(LAYERS) for part in parts}

LAZY_LOADERS = (
    "fjit.runtime.llvm", "fjit.backend.toolkit", "fjit.runtime.machines", "fjit.report.lowered",
    "fjit.runtime.executable", "fjit.fused", "fjit.entries",
)  # fmt: skip
MAY_IMPORT_PEERS_LAZILY = ("interop", "bench", "report", "cli", "oracle")

IMPORT_LIMIT_MS = 150.0

Modules = dict[str, ast.Module]


@dataclass(frozen=True)
class Import:
    """One import: who imports, what, on which line, and whether inside a function or class."""

    importer: str
    target: str
    line: int
    nested: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


# Reading


def read_package() -> Modules:
    """The modules of fjit/, each as a syntax tree; a package goes by the name of its `__init__`."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {module_name(file): ast.parse(file.read_bytes(), str(file)) for file in files}


def module_name(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts)


def part(module: str) -> str:
    """The folder or file directly in fjit/ that a module belongs to."""
    return module.split(".")[1]


def imports(modules: Modules) -> list[Import]:
    return [found for name, tree in modules.items() for found in walk(modules, name, tree, False)]


def walk(modules: Modules, importer: str, node: ast.AST, nested: bool) -> Iterator[Import]:
    for name in imported_names(modules, importer, node):
        yield Import(importer, name, getattr(node, "lineno", 0), nested)
    inside = nested or isinstance(
        node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
    )
    for child in ast.iter_child_nodes(node):
        yield from walk(modules, importer, child, inside)


def imported_names(modules: Modules, importer: str, node: ast.AST) -> list[str]:
    """The full names that this one statement or call imports, fjit's own resolved to a module."""
    match node:
        case ast.Import(names=names):
            return [resolve(modules, alias.name) for alias in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            base = ".".join([*importer.split(".")[:-level], *filter(None, [module])])
            base = base if level else str(module)
            return sorted({resolve(modules, f"{base}.{alias.name}") for alias in names})
        case ast.Call(
            func=ast.Name(id="__import__" | "import_module")
            | ast.Attribute(attr="__import__" | "import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return [resolve(modules, name)]
    return []


def resolve(modules: Modules, name: str) -> str:
    """The longest prefix of a dotted name that is a module; a name outside fjit stays as it is."""
    if name.split(".")[0] != "fjit":
        return name
    words = name.split(".")
    for length in range(len(words), 0, -1):
        prefix = ".".join(words[:length])
        if prefix in modules:
            return prefix
        if f"{prefix}.__init__" in modules:
            return f"{prefix}.__init__"
    return name


def within(found: Import) -> bool:
    return found.target.startswith("fjit.")


# Checking


def unplaced(modules: Modules) -> list[str]:
    return [name for name in modules if part(name) not in LAYER]


def upward(modules: Modules) -> list[str]:
    return [
        str(found)
        for found in imports(modules)
        if within(found) and LAYER[part(found.importer)] < LAYER[part(found.target)]
    ]


def misplaced(modules: Modules, required: set[str]) -> list[str]:
    """Imports that stand inside a function or class and may not."""
    return [
        str(found) for found in imports(modules) if found.nested and not may_nest(found, required)
    ]


def may_nest(found: Import, required: set[str]) -> bool:
    if found.importer in LAZY_LOADERS:
        return True
    first = found.target.split(".")[0]
    optional = first != "fjit" and first not in required and first not in sys.stdlib_module_names
    return optional and part(found.importer) in MAY_IMPORT_PEERS_LAZILY


def cycle(modules: Modules) -> list[str]:
    """One cycle of imports, function-level ones counted, or nothing."""
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for found in imports(modules):
        if within(found):
            graph[found.importer].add(found.target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def required_packages() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {re.split(r"[^\w.-]", wanted)[0] for wanted in project["dependencies"]}


# The package as it is


@pytest.fixture(scope="module")
def package() -> Modules:
    return read_package()


def test_every_module_has_a_layer(package: Modules) -> None:
    assert unplaced(package) == []


def test_imports_go_down_only(package: Modules) -> None:
    assert upward(package) == []


def test_imports_stand_at_the_top(package: Modules) -> None:
    assert misplaced(package, required_packages()) == []


def test_imports_form_no_cycle(package: Modules) -> None:
    assert cycle(package) == []


def test_subpackage_init_files_are_there_and_empty() -> None:
    folders = {file.parent for file in PACKAGE.rglob("*.py")} - {PACKAGE}
    inits = {folder / "__init__.py" for folder in folders}
    assert [str(init) for init in sorted(inits) if not init.exists()] == []
    assert [str(init) for init in sorted(inits) if init.read_text().strip()] == []


# Importing it

TIMED_IMPORT = """
import sys, time
import numpy
wall, own = time.perf_counter(), time.thread_time()
import fjit
wall, own = time.perf_counter() - wall, time.thread_time() - own
heavy = {"llvmlite", "cuda", "scipy", "torch", "jax", "hypothesis", "rich"} & set(sys.modules)
print(1e3 * wall, 1e3 * own, ",".join(sorted(heavy)))
"""


def timed_import() -> tuple[float, float, str]:
    """Milliseconds of `import fjit` after NumPy's by wall and processor; heavy modules loaded."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    out = subprocess.run(
        [sys.executable, "-c", TIMED_IMPORT],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env=env,
        text=True,
    ).stdout
    wall, own, heavy = out.rstrip("\n").split(" ")
    return float(wall), float(own), heavy


def test_import_is_light(record_property: Callable[[str, str], None]) -> None:
    """Judged by the importing thread's processor time at best: whatever else runs only adds."""
    timed_import()  # writes the byte code
    walls, owns, heavy = zip(*(timed_import() for _ in range(5)), strict=True)
    wall, own = min(walls), min(owns)
    figure = f"import fjit beyond numpy: {own:.1f} ms of processor, {wall:.1f} ms of wall clock"
    record_property("figure", figure)
    assert set(heavy) == {""}
    assert own < IMPORT_LIMIT_MS


# The checks themselves


def made_up(**sources: str) -> Modules:
    return {f"fjit.{name.replace('__', '.')}": ast.parse(text) for name, text in sources.items()}


@pytest.mark.parametrize(
    "source",
    [
        "import fjit.lower.nest",
        "from fjit.lower import nest",
        "from fjit.lower.nest import Loop",
        "from ..lower import nest",
        "from ..lower.nest import Loop",
        "if True:\n    from fjit.lower import nest",
        "def f():\n    from fjit.lower import nest",
        "import importlib\nimportlib.import_module('fjit.lower.nest')",
    ],
)
def test_an_upward_import_is_found(source: str) -> None:
    modules = made_up(core__ir=source, lower__nest="Loop = 1")
    assert len(upward(modules)) == 1
    assert "fjit.core.ir" in upward(modules)[0] and "fjit.lower.nest" in upward(modules)[0]


def test_downward_and_sideways_imports_pass() -> None:
    modules = made_up(
        core__ir="import numpy as np",
        core__show="from fjit.core import ir\nfrom . import ir",
        lower__nest="from fjit.core.ir import Var",
        api="from fjit.lower import nest",
    )
    assert upward(modules) == [] and cycle(modules) == []


def test_a_cycle_is_found_even_inside_functions() -> None:
    modules = made_up(core__a="from fjit.core import b", core__b="def f():\n    import fjit.core.a")
    assert set(cycle(modules)) == {"fjit.core.a", "fjit.core.b"}


@pytest.mark.parametrize(
    ("where", "name", "allowed"),
    [
        ("core__ir", "optree", False),
        ("core__ir", "matplotlib", False),
        ("runtime__llvm", "llvmlite.binding", True),
        ("runtime__llvm", "fjit.backend.cpu", True),
        ("runtime__cache", "llvmlite", False),
        ("backend__toolkit", "cuda.bindings.nvvm", True),
        ("backend__nvvm", "cuda.bindings.nvvm", False),
        ("report__html", "matplotlib.pyplot", True),
        ("report__html", "fjit.core.ir", False),
        ("report__html", "llvmlite", False),
        ("report__html", "json", False),
        ("cli", "rich.table", True),
    ],
)
def test_where_a_function_may_import(where: str, name: str, allowed: bool) -> None:
    modules = made_up(**{where: f"def f():\n    import {name}"})
    assert (misplaced(modules, {"numpy", "llvmlite", "optree"}) == []) is allowed


def test_a_module_without_a_layer_is_found() -> None:
    assert unplaced(made_up(utils="", core__ir="")) == ["fjit.utils"]
