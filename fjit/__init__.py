"""fjit: plain NumPy functions, traced, fused and compiled without a change of meaning.

@fjit.fuse
def f(x, y):
return np.tanh(x) * y + 1
"""

import importlib
from typing import TYPE_CHECKING, Any

from fjit import errors
from fjit.api import barrier, fuse, make_program, scope
from fjit.core.tree import register_dataclass

if TYPE_CHECKING:
    from fjit.compare import explain

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "barrier",
    "errors",
    "explain",
    "fuse",
    "make_program",
    "register_dataclass",
    "scope",
]

_FACES = ("cuda", "numpy", "special", "testing")
_HOMES = {"explain": "compare"}


def __getattr__(name: str) -> Any:
    """Import what not every program needs when it is first used: modules and functions."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"fjit.{_HOMES[name]}"), name)
    if name in _FACES:
        return importlib.import_module(f"fjit.{name}")
    raise AttributeError(f"module 'fjit' has no attribute {name!r}")
