"""np.r_ and np.c_: joins written as an index, of arrays, numbers and slices.

Takes what stands between the brackets, gives one array; without a traced value among them it is
NumPy's own. Directives (np.r_["0,2", ...]) are refused.

    np.r_[x[0], x]      records      concatenate[axis=0] of x[:1] and x
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fjit.core.trace import where
from fjit.errors import unsupported_function
from fjit.frontend import operands as ops
from fjit.frontend.numpy import arrays
from fjit.frontend.numpy.creation import CREATION
from fjit.frontend.numpy.joining import join
from fjit.frontend.tracer import Tracer


class Brackets:
    """Stands for np.r_ (`columns` false) or np.c_ (true)."""

    __slots__ = ("columns", "real")

    def __init__(self, real: Any, columns: bool) -> None:
        self.real = real
        self.columns = columns

    def __getitem__(self, key: Any) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if not any(map(ops.holds_tracer, items)):
            return self.real[key]
        values = [self._value(item) for item in items]
        dtype = ops.common_dtype([ops.lift(value) for value in values])
        parts = [self._part(value, dtype) for value in values]
        return join(parts, parts[0].ndim - 1 if self.columns else 0, dtype)

    def _value(self, item: Any) -> Any:
        """An item as an operand; Python numbers stay weak."""
        if isinstance(item, str):
            name = "np.c_" if self.columns else "np.r_"
            raise unsupported_function(
                f"{name} with the directive {item!r}",
                "use np.concatenate, np.stack or np.column_stack",
                where(),
            )
        if not isinstance(item, slice):
            return item
        start, step = 0 if item.start is None else item.start, item.step
        if isinstance(step, complex):
            return CREATION[np.linspace](start, item.stop, int(abs(step)))
        return CREATION[np.arange](start, item.stop, 1 if step is None else step)

    def _part(self, value: Any, dtype: np.dtype[Any]) -> Tracer:
        """A value with as many axes as the join has; a vector is a column of np.c_."""
        operand = ops.lift(value)
        part = arrays.array(ops.cast(operand, dtype), operand.strides)
        if part.ndim == 0:
            return arrays.expand_view(part, (0, 1) if self.columns else (0,))
        return arrays.expand_view(part, (1,)) if self.columns and part.ndim == 1 else part


R: Final = Brackets(np.r_, columns=False)
C: Final = Brackets(np.c_, columns=True)
