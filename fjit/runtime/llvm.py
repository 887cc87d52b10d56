"""The one lazy door to LLVM: `binding()` imports llvmlite once and starts its native target.

Takes nothing, gives the `llvmlite.binding` module. Invariant: importing fjit loads no LLVM; the
first call of `binding()` does, once per process, whichever thread comes first.
"""

import functools
import importlib
import os
import threading
from contextlib import AbstractContextManager
from typing import Any

# One lock for every use of LLVM, taken before llvmlite's own.
LOCK = threading.RLock()
_llvmlite_locks: list[AbstractContextManager[Any]] = []


def _before_fork() -> None:
    """Hold both locks across a fork, or a child would inherit them from a thread it lacks.

    llvmlite also takes its lock when an object of LLVM's is freed, which LOCK does not cover.
    """
    LOCK.acquire()
    for lock in _llvmlite_locks:
        lock.__enter__()


def _after_fork() -> None:
    for lock in _llvmlite_locks:
        lock.__exit__(None, None, None)
    LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )


def binding() -> Any:
    """Return `llvmlite.binding` with the native target ready; `Any` because llvmlite is untyped."""
    with LOCK:
        return _load()


def all_targets() -> Any:
    """Return `llvmlite.binding` with every target ready, for code of machines we do not run on."""
    with LOCK:
        return _load_all()


@functools.cache
def _load() -> Any:
    module: Any = importlib.import_module("llvmlite.binding")
    own = getattr(module.ffi.lib, "_lock", None)
    if own is not None:
        _llvmlite_locks.append(own)
    module.initialize_native_target()
    module.initialize_native_asmprinter()
    return module


@functools.cache
def _load_all() -> Any:
    module = _load()
    module.initialize_all_targets()
    module.initialize_all_asmprinters()
    return module


def version() -> str:
    """Return LLVM's version as text, for example "22.1.0"."""
    return ".".join(str(part) for part in binding().llvm_version_info)
