"""The command line: doctor, explain, cache, bench.

Takes arguments, prints, gives an exit code: 0 when all is well, 1 when what was asked for failed, 2
for a command that cannot be understood. Output is plain when piped; bad input is one line on
standard error.

    python -m fjit explain physics:energy --args 'f64[4096,3]' 0.5
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from fjit.api import FLAGS, FUSIONS, TARGETS, Fused, fuse
from fjit.compare import explain
from fjit.core import dtypes
from fjit.report import doctor, terminal
from fjit.report.blocks import nbytes
from fjit.report.report import Comparison
from fjit.runtime.cache import default_cache

BENCH_MODULES = ("fjit.bench.main", "fjit.bench")
_ARRAY = re.compile(r"^([a-z]+\d*)\[([\d,\s]*)\]$")


class CommandError(Exception):
    """What was asked for makes no sense; the text is shown as one line."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    if words[:1] == ["bench"]:
        return _guarded("bench", lambda: _bench(words[1:]))
    parser = _parser()
    options = parser.parse_args(words)
    if options.run is None:
        parser.print_help()
        return 2
    return _guarded(options.command, lambda: int(options.run(options)))


def _guarded(command: str, run: Callable[[], int]) -> int:
    """The command's exit code; its errors, and those of the user's function, as one line."""
    try:
        return run()
    except CommandError as error:
        return _complain(command, str(error), 2)
    except BrokenPipeError:
        # The reader went away (`| head`); keep Python from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # a command line shows no traceback
        return _complain(command, f"{type(error).__name__}: {error}", 1)


def _complain(command: str, text: str, code: int) -> int:
    print(f"fjit {command}: error: {' '.join(text.split())}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fjit", description="Fused kernels from NumPy functions.")
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    found = commands.add_parser(
        "doctor", help="what fjit finds here, and what to do about the rest"
    )
    found.set_defaults(run=_doctor)
    _add_explain(commands.add_parser("explain", help="the fusion report of a call"))
    cache = commands.add_parser("cache", help="the machine code kept on disk")
    cache.add_argument("action", choices=("list", "size", "clear"))
    cache.set_defaults(run=_cache)
    commands.add_parser("bench", help="time cases against every installed peer", add_help=False)
    return parser


def _add_explain(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("function", metavar="MODULE:FUNCTION", help="a module or file, and a function in it")
    add("--args", nargs="*", default=[], metavar="ARG",
        help="arguments: f32[4096,1024] makes an array; 3.0, 'text' mean themselves")  # fmt: skip
    add("--target", choices=TARGETS, help="what to compile for")
    add("--fusion", choices=FUSIONS, help="how to decide what shares a kernel")
    add("--fastmath", nargs="+", choices=FLAGS, metavar="FLAG",
        help="what may be traded for speed: " + ", ".join(FLAGS))  # fmt: skip
    add("--compare", nargs="+", default=[], metavar="PLAN", help="plans to show side by side")
    add("--measure", action="store_true", help="time each kernel by itself")
    add("--no-compile", action="store_true", help="predict only, without LLVM")
    add("--html", metavar="FILE", help="also write the report as a page")
    for name, what in _STAGES.items():
        add(f"--{name}", action="store_true", help=f"also print {what}")
    parser.set_defaults(run=_explain)


EXPLAINED = ("target", "fusion", "fastmath")
_STAGES = {
    "program": "the traced program",
    "nest": "the loop tree of each kernel",
    "llvm": "the LLVM IR",
    "asm": "the assembly",
}


# ---- doctor and cache ---------------------------------------------------------------------------
def _doctor(options: argparse.Namespace) -> int:
    found = doctor.findings()
    terminal.show(doctor.blocks(found))
    return int(any(finding.fatal for finding in found))


def _cache(options: argparse.Namespace) -> int:
    cache = default_cache()
    entries = cache.entries()
    if options.action == "list":
        for entry in entries:
            used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
            print(f"{entry.key}  {nbytes(entry.nbytes):>10}  {used}")
    elif options.action == "size":
        print(f"{nbytes(cache.size())} in {len(entries)} entries in {cache.directory}")
    else:
        print(f"removed {cache.clear()} entries from {cache.directory}")
    problem = cache.stats().problem
    if problem:
        print(f"fjit cache: {problem}", file=sys.stderr)
    return int(problem is not None)


def _bench(words: list[str]) -> int:
    for name in BENCH_MODULES:
        if importlib.util.find_spec(name) is not None:
            run = getattr(importlib.import_module(name), "main", None)
            if callable(run):
                return int(run(words) or 0)
    raise CommandError("this installation has no benchmark (no fjit.bench)")


# ---- explain ------------------------------------------------------------------------------------
def _explain(options: argparse.Namespace) -> int:
    function = load(options.function)
    arguments = [argument(text, k) for k, text in enumerate(options.args)]
    chosen = {k: getattr(options, k) for k in EXPLAINED if getattr(options, k)}
    if not isinstance(function, Fused):
        function = fuse(function, **chosen)
    elif chosen:
        function = fuse(function.function, **chosen)
    if options.compare and any(getattr(options, name) for name in _STAGES):
        raise CommandError("--compare shows reports only: leave out " + _flags(_STAGES))
    report = explain(
        function, *arguments, compare=options.compare, compile=not options.no_compile,
        measure=options.measure,
    )  # fmt: skip
    terminal.show(report.blocks())
    if not isinstance(report, Comparison):
        _stages(function, arguments, options)
    if options.html:
        report.save(options.html)
        print(f"wrote {options.html}", file=sys.stderr)
    return 0


def _flags(names: Sequence[str] | dict[str, str]) -> str:
    return ", ".join(f"--{name}" for name in names)


def _stages(function: Fused, arguments: list[Any], options: argparse.Namespace) -> None:
    wanted = [name for name in _STAGES if getattr(options, name)]
    if not wanted:
        return
    lowered = function.lower(*arguments)
    texts: dict[str, Callable[[], str]] = {
        "program": lambda: str(lowered.program),
        "nest": lambda: "\n".join(
            f"# kernel {name}\n{nest}"
            for name, nest in zip(lowered.names, lowered.nests, strict=True)
        ),
        "llvm": lambda: lowered.llvm_ir,
        "asm": lambda: lowered.asm,
    }
    for name in wanted:
        print(f"\n{texts[name]().rstrip()}")


def load(text: str) -> Any:
    """The function that MODULE:FUNCTION names; MODULE may be a dotted name or a .py file."""
    module_name, colon, path = text.partition(":")
    if not (module_name and colon and path):
        raise CommandError(f"{text!r} is not MODULE:FUNCTION, as in physics:energy")
    value: Any = _module(module_name)
    for name in path.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            raise CommandError(f"{module_name} has no {path!r}") from None
    if not callable(value):
        raise CommandError(f"{text} is no function but {type(value).__name__}")
    return value


def _module(name: str) -> ModuleType:
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return _from_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except FileNotFoundError:
        raise CommandError(f"there is no file {name}") from None
    except ModuleNotFoundError as error:
        if error.name and name.split(".")[0] == error.name.split(".")[0]:
            raise CommandError(f"there is no module {name}") from None
        raise CommandError(f"{name} cannot be imported: {error}") from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(path)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def argument(text: str, seed: int = 0) -> Any:
    """The value that a word of `--args` stands for.

    >>> argument("i32[3]"), argument("0.5")
    (array([0, 1, 2], dtype=int32), 0.5)
    """
    match = _ARRAY.match(text.strip())
    if match is None:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise CommandError(
                f"{text!r} is no argument: write an array as f32[4096,1024], a number as 3.0, "
                "text as \"'sum'\""
            ) from None
    dtype = dtypes.BY_NAME.get(match[1])
    if dtype is None:
        raise CommandError(f"{match[1]!r} is no dtype; those are {', '.join(dtypes.BY_NAME)}")
    extents = [word.strip() for word in match[2].split(",")] if match[2].strip() else []
    if "" in extents:
        raise CommandError(f"{text!r} lacks an extent: write f32[4096,1024]")
    return _array(tuple(map(int, extents)), dtype, seed)


def _array(shape: tuple[int, ...], dtype: np.dtype, seed: int) -> Any:
    """The same values for the same shape, dtype and position: normal, counting, or mixed."""
    if dtype.kind in "fc":
        return np.asarray(np.random.default_rng(seed).standard_normal(shape)).astype(dtype)[()]
    count = int(np.prod(shape, dtype=np.int64))
    values = (np.arange(count) % (2 if dtype.kind == "b" else 100)).reshape(shape)
    return values.astype(dtype)[()]
