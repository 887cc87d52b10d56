"""Methods and attributes of ndarray: the parts of a number, partitions, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.errors import UnsupportedError

Function = Callable[[Any], Any]


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1", "?"])
def test_parts_of_a_real_number(dtype: str, same_as_numpy: Any) -> None:
    x = np.array([[1, 0, 3], [2, 1, 0]]).astype(dtype)
    for y in (x, x.T, x[0, 0], np.array(x[0, 0])):
        same_as_numpy(lambda a: (a.real, a.imag, a.conj(), a.conjugate()), y)
        same_as_numpy(lambda a: (np.real(a), np.imag(a), np.conj(a), np.real_if_close(a)), y)
    same_as_numpy(lambda a: (a.real is a, a.conj() is a, a.imag.flags.writeable), x)


@pytest.mark.parametrize("value", [2.5, 3])
def test_parts_of_a_python_number(value: Any, same_as_numpy: Any) -> None:
    same_as_numpy(lambda v: (v.real, v.imag, v.conjugate()), value)


def test_writing_into_parts(same_as_numpy: Any) -> None:
    def write(a: Any) -> Any:
        a.real = 3
        a.conj()[0] = 5
        return a * 2

    same_as_numpy(write, np.ones(3))
    with pytest.raises(ValueError, match="read-only"):
        fjit.fuse(lambda a: a.imag.fill(1))(np.ones(3))


def test_partitions_and_choices(same_as_numpy: Any) -> None:
    x = np.array([[3.0, 1.0, 2.0], [9.0, 8.0, 7.0]])

    def smallest(a: Any) -> Any:
        b = a.copy()
        b.partition(0)
        return b[:, 0], np.take_along_axis(a, a.argpartition(0), 1)[:, 0]

    same_as_numpy(smallest, x)
    same_as_numpy(lambda i: i.choose([i, i + 5], mode="clip"), np.array([0, 1, 3]))
    same_as_numpy(lambda a: a.device, x)


REFUSED: dict[str, tuple[Function, str]] = {
    "shape": (lambda x: setattr(x, "shape", (6,)), r"x\.reshape"),
    "resize": (lambda x: x.resize(6), r"x\.reshape"),
    "resize with a check": (lambda x: x.resize((2, 2), refcheck=False), r"x\.reshape"),
    "tobytes": (lambda x: x.tobytes(), "outside"),
    "tofile": (lambda x: x.tofile("numbers"), "outside"),
    "byteswap": (lambda x: x.byteswap(), "astype"),
    "setflags": (lambda x: x.setflags(write=False), "read-only"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_methods_say_what_to_write_instead(name: str) -> None:
    function, advice = REFUSED[name]
    with pytest.raises(UnsupportedError, match=advice):
        fjit.fuse(function)(np.ones((2, 3)))
