"""The state of a random program while it is written: its lines so far, and what they computed.

Takes statements as text, runs each at once with NumPy and keeps it only if it works, so that every
program is valid by construction. Invariant: `values` holds what the kept lines leave in each
variable; variables in `dynamic` have a shape that only the values of a mask decide.

    writer.let("x * 2")      adds      v0 = x * 2
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from fjit.oracle.choose import Choose

Array = Any  # NumPy arrays and scalars
LIMIT: Final = 4000  # elements of a variable, or twice those of the largest argument
RECENT: Final = 2
KINDS: Final = "biuf"


class Writer:
    """Writes one program."""

    def __init__(self, choose: Choose, values: dict[str, Any], scalars: tuple[str, ...]) -> None:
        self.choose = choose
        self.values = dict(values)
        self.scalars = scalars
        self.names = [name for name in values if name not in scalars]
        self.dynamic: dict[str, tuple[str, int]] = {}
        self.lines: list[str] = []
        self.limit = max(LIMIT, 2 * max(values[name].size for name in self.names))
        self.epoch = 0
        self._count = 0

    def run(self, text: str) -> bool:
        """Add a statement, if NumPy can run it."""
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exec(text, {"np": np}, self.values)
            except (TypeError, ValueError, IndexError, OverflowError):
                return False
        self.lines.extend(text.splitlines())
        return True

    def change(self, text: str) -> bool:
        """Add a statement that changes arrays: masks taken before and after are no longer equal."""
        self.epoch += 1
        return self.run(text)

    def let(self, expression: str, mask: tuple[str, int] | None = None) -> str | None:
        """Bind a new variable; its name, or None if the expression has no usable value.

        `mask` is the mask that decides the value's shape, if one does.
        """
        name = f"v{self._count}"
        if not self.run(f"{name} = {expression}"):
            return None
        if not usable(self.values[name], self.limit):
            self.lines.pop()
            del self.values[name]
            return None
        self._count += 1
        self.names.append(name)
        if mask is not None:
            self.dynamic[name] = mask
        return name

    # ---- choosing operands ------------------------------------------------------------------
    def array(self, wanted: Callable[[Array], bool] = lambda value: True) -> str | None:
        """A variable of known shape whose value is `wanted`; late ones first."""
        known = [n for n in self.names[::-1] if n not in self.dynamic and wanted(self.values[n])]
        if len(known) > RECENT and not self.choose.chance(3):
            known = known[:RECENT]
        return self.choose.pick(known) if known else None

    def partner(self, shape: tuple[int, ...]) -> str | None:
        """A variable that broadcasts with `shape` to a moderate size."""
        return self.array(lambda value: broadcasts(shape, value.shape, self.limit))

    def fitting(self, shape: tuple[int, ...]) -> str | None:
        """A variable that broadcasts to `shape`."""
        return self.array(lambda value: broadcasts(shape, value.shape, self.limit, into=True))

    def number(self, dtype: np.dtype) -> str:
        """A Python number that an array of `dtype` can be combined with in its own kind."""
        if self.scalars and self.choose.chance(3):
            name = self.choose.pick(self.scalars)
            if dtype.kind == "f" or isinstance(self.values[name], int):
                return name
        if dtype.kind == "f":
            return self.choose.pick(("2", "0.5", "-1.5", "3", "1e-3", "-0.0"))
        if dtype.kind == "i":
            return self.choose.pick(("2", "1", "-3", "7"))
        return self.choose.pick(("2", "1", "7")) if dtype.kind == "u" else "True"


def usable(value: Any, limit: int) -> bool:
    """Whether a value may be a variable of a program: an array or NumPy scalar, not too large."""
    if not isinstance(value, np.ndarray | np.generic) or value.size > limit:
        return False
    return value.dtype.kind in KINDS and value.dtype != np.float16 and value.ndim <= 5


def broadcasts(
    shape: tuple[int, ...], other: tuple[int, ...], limit: int, *, into: bool = False
) -> bool:
    """Whether two shapes broadcast to at most `limit` elements (with `into`: to `shape`)."""
    try:
        whole = np.broadcast_shapes(shape, other)
    except ValueError:
        return False
    return whole == shape if into else math.prod(whole) <= limit
