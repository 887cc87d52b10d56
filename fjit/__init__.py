"""fjit: plain NumPy functions, traced, fused and compiled without a change of meaning.

@fjit.fuse
def f(x, y):
return np.tanh(x) * y + 1
"""

import importlib
from typing import Any

from fjit import errors
from fjit.api import barrier, fuse, make_program
from fjit.compare import explain
from fjit.core.tree import register_dataclass

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "barrier",
    "errors",
    "explain",
    "fuse",
    "make_program",
    "register_dataclass",
]

_FACES = ("cuda", "numpy", "special", "testing")


def __getattr__(name: str) -> Any:
    """Import a public face of fjit when it is first used: a module, so of any type."""
    if name in _FACES:
        return importlib.import_module(f"fjit.{name}")
    raise AttributeError(f"module 'fjit' has no attribute {name!r}")
