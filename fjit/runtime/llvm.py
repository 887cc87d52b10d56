"""The one lazy door to LLVM: `binding()` imports llvmlite once and starts its native target.

Takes nothing, gives the `llvmlite.binding` module. Invariant: importing fjit loads no LLVM; the
first call of `binding()` does, once per process, whichever thread comes first.
"""

import functools
import importlib
import os
import threading
from typing import Any

# One lock for every use of LLVM. It is held across a fork, so a child never inherits it locked by a
# thread that no longer exists (nor llvmlite's own lock, which is only taken under this one).
LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release
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
