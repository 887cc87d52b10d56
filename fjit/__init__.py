"""fjit: plain NumPy functions, traced, fused and compiled without a change of meaning.

    @fjit.fuse
    def f(x, y):
        return np.tanh(x) * y + 1
"""

from fjit.api import barrier, fuse, make_program
from fjit.compare import explain
from fjit.core.tree import register_dataclass

__version__ = "0.1.0"

__all__ = ["__version__", "barrier", "explain", "fuse", "make_program", "register_dataclass"]
