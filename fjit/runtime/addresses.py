"""The address of an array's memory, as fast as the interpreter allows.

Takes an array, gives an int. Invariant: where NumPy's layout of an array is not the one known, its
public attribute is asked.

    address_of(np.zeros(3))    ->    94182737465344
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable
from typing import Any

import numpy as np


def _probe() -> Callable[[Any], int]:
    """How to read an array's address: from NumPy's public struct where its place is as expected."""
    sample = np.empty(1)
    offset = 2 * ctypes.sizeof(ctypes.c_void_p)
    word = ctypes.c_size_t.from_address

    def fast(array: Any) -> int:
        return word(id(array) + offset).value

    def slow(array: Any) -> int:
        return int(array.__array_interface__["data"][0])

    known = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
    return fast if known and fast(sample) == slow(sample) else slow


address_of = _probe()
NOTHING = np.zeros(64, np.uint8)
"""What the addresses of empty arrays point to: loads that no loop needs may still be hoisted."""
