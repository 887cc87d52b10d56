"""The NumPy functions that can be fused, under NumPy's names, as a namespace.

Takes nothing, gives NumPy's own objects: a function called on plain arrays is NumPy's, and inside a
fused function it is traced, exactly as with `np`. What is missing here cannot be fused yet.

    import fjit.numpy as fnp      fnp.exp is np.exp; fnp.median: AttributeError, saying what to do
"""

import builtins as _builtins
from typing import TYPE_CHECKING, Any, Final

import numpy as _np

from fjit.core.dtypes import COMPILED as _COMPILED
from fjit.errors import FjitAttributeError as _FjitAttributeError
from fjit.frontend import binding as _binding  # registers every traced function
from fjit.frontend.foreign import instead_of as _instead_of
from fjit.frontend.tracer import FUNCTIONS as _FUNCTIONS
from fjit.frontend.tracer import UFUNCS as _UFUNCS

if TYPE_CHECKING:
    from numpy import *

# Names that mean the same for traced arrays because they ask for no values.
_PLAIN: Final = (
    "broadcast_shapes", "dtype", "e", "errstate", "euler_gamma", "finfo", "floating", "generic",
    "iinfo", "index_exp", "inexact", "inf", "integer", "isdtype", "isscalar", "issubdtype",
    "iterable", "linalg", "nan", "ndarray", "newaxis", "number", "pi", "promote_types", "s_",
    "signedinteger", "unsignedinteger",
)  # fmt: skip


_SCALARS: Final = {dtype.type for dtype in _COMPILED}


def _is_fusible(name: str, value: Any) -> _builtins.bool:
    if isinstance(value, _np.ufunc):
        return value.__name__ in _UFUNCS
    if isinstance(value, type) and issubclass(value, _np.generic):
        return name in _PLAIN or value in _SCALARS
    return name in _PLAIN or (callable(value) and value in _FUNCTIONS)


_NAMES: Final = {name: vars(_np)[name] for name in _np.__all__ if name in vars(_np)}

__all__ = sorted(name for name, value in _NAMES.items() if _is_fusible(name, value))  # noqa: PLE0605
globals().update({name: _NAMES[name] for name in __all__})


def __getattr__(name: str) -> Any:  # whatever NumPy's namespace holds
    if name in _NAMES:
        raise _FjitAttributeError(
            f"fjit.numpy has no {name}, as numpy.{name} cannot be fused: "
            f"{_instead_of(_NAMES[name])}"
        )
    raise _FjitAttributeError(f"fjit.numpy has no {name}, and neither has numpy")


def __dir__() -> list[str]:
    return __all__
