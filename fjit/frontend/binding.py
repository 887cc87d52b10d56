"""How the tracer plugs into rebinding: the NumPy functions and builtins that a trace replaces.

Takes a session, gives the `Hooks` that let the user's code object run as written: creation
functions make traced buffers, captured arrays become inputs by reference, sources of fresh values
are refused.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import ModuleType
from typing import Any, Final

import numpy as np

from fjit.errors import UnsupportedError
from fjit.frontend import byteorder
from fjit.frontend import numpy as area
from fjit.frontend import special as special
from fjit.frontend.hooks import Hooks
from fjit.frontend.numpy import brackets
from fjit.frontend.numpy.creation import CREATION
from fjit.frontend.operands import DEFAULTS, convert
from fjit.frontend.paths import Path
from fjit.frontend.session import Session
from fjit.frontend.standins import Protocol, make_builtins, scalar_type
from fjit.frontend.tracer import FUNCTIONS, Tracer, fresh

for _module in pkgutil.iter_modules(area.__path__):
    importlib.import_module(f"{area.__name__}.{_module.name}")

byteorder.install()

_FRESH: Final = (
    "draws or reads a new value at every call, which a trace would freeze: compute it outside and "
    "pass the value as an argument"
)

_OUTSIDE: Final = (
    "reads or changes what lies outside of the program, which a trace would do once and freeze: do "
    "it before the call, and pass the value as an argument"
)
_FRESH_NAMES: Final[dict[ModuleType, tuple[str, ...]]] = {
    time: ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns",
           "process_time", "process_time_ns", "thread_time", "ctime", "localtime", "gmtime"),
    random: tuple(name for name in random.__all__ if not name[0].isupper()),
    os: ("urandom", "getrandom"),
    secrets: ("randbelow", "randbits", "choice", "token_bytes", "token_hex", "token_urlsafe"),
}  # fmt: skip


def is_traced(value: object) -> bool:
    """Whether a value is a traced array."""
    return isinstance(value, Tracer)


def _select(condition: object, a: object, b: object) -> object:
    """`a if condition else b`: a number of Python's, a NumPy scalar or an array as these are."""
    chosen: Tracer = FUNCTIONS[np.where](condition, a, b)
    if chosen.ndim or any(isinstance(one, Tracer) and not one.is_scalar for one in (a, b)):
        return chosen
    kinds = {one.weak if isinstance(one, Tracer) else type(one) for one in (a, b)}
    if not kinds <= DEFAULTS.keys():
        return fresh(chosen.atom)
    kind = next(k for k in (float, int, bool) if k in kinds)
    return getattr(chosen, f"__fjit_{kind.__name__}__")()


def _len(value: object) -> object:
    """len(), which for a traced array may be a traced int."""
    return value.shape[0] if isinstance(value, Tracer) and value.ndim else len(value)  # type: ignore[arg-type]


@cache
def _builtins() -> dict[str, object]:
    return {**make_builtins(Protocol(is_traced, _select)), "len": _len}


@cache
def _replacements() -> dict[int, object]:
    table: dict[int, object] = {id(f): traced for f, traced in CREATION.items()}
    table |= {id(np.r_): brackets.R, id(np.c_): brackets.C}
    for name in ("float64", "float32", "int64", "int32", "uint8", "int8", "int16", "uint16",
                 "uint32", "uint64", "bool_"):  # fmt: skip
        kind = getattr(np, name)
        table[id(kind)] = scalar_type(kind, is_traced, _conversion(np.dtype(kind)))
    return table


def _conversion(dtype: np.dtype[Any]) -> Any:
    """What np.float32(x) and the like do to a traced value: its elements in another dtype."""
    return lambda value: fresh(convert(value.atom, dtype), value.element_strides)


@cache
def _refused() -> dict[int, str]:
    table = {id(value): f"{name} {why}" for name, value, why in _sources()}
    for name in dir(np.random):
        value = getattr(np.random, name)
        if callable(value) and not name.startswith("_"):
            table[id(value)] = f"np.random.{name} {_FRESH}"
    return table


def _sources() -> Iterator[tuple[str, object, str]]:
    """Names, values and reasons: what gives something else at another call."""
    for module, names in _FRESH_NAMES.items():
        for name in names:
            if hasattr(module, name):
                yield f"{module.__name__}.{name}", getattr(module, name), _FRESH
    for name in ("environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"):
        if hasattr(os, name):
            yield f"os.{name}", getattr(os, name), _OUTSIDE
    for name in ("load", "loadtxt", "genfromtxt", "fromfile"):
        yield f"np.{name}", getattr(np, name), _OUTSIDE
    yield "input", input, _FRESH
    yield "open", open, _OUTSIDE


def hooks(
    session: Session, adapters: Mapping[type, Any], locate: Callable[[object, str], object]
) -> Hooks:
    """The hooks for one trace."""

    def lift_array(array: np.ndarray[Any, Any], path: Path) -> object:
        buffer = session.capture(array, path)
        return Tracer(session.trace, buffer)

    return Hooks(
        is_traced=is_traced,
        lift_array=lift_array,
        locate=locate,
        error=UnsupportedError,
        replacements=_replacements(),
        builtins=_builtins(),
        refuse=_refused(),
        adapters=adapters,
    )
