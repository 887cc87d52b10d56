"""Masks of the lanes for which NumPy warns about or refuses integer operands."""

import ctypes

import numpy as np
import pytest

from fjit.backend.emitter import I8, PTR, Emitter, Ty, Val
from fjit.backend.faults import RULES, faults
from fjit.backend.scalar import ROWS, register_type
from fjit.runtime import jit
from fjit.runtime.host import host

I4, U4, F4 = np.dtype(np.int32), np.dtype(np.uint32), np.dtype(np.float32)


def names(op: str, dtype: np.dtype, last: int | None = None) -> list[str]:
    ty = register_type(dtype, 4)
    em = Emitter()
    args = [Val(ty, "%a"), Val(ty, "%b") if last is None else em.const(ty.element, last)]
    found = faults(em, op, (dtype, dtype), tuple(args[-1:] if op == "reciprocal" else args))
    assert bool(em.lines) == bool(found)
    return [name for name, _ in found]


@pytest.mark.parametrize(
    ("op", "dtype", "last", "expected"),
    [
        ("floordiv", I4, None, ["divide", "over"]),
        ("floordiv", U4, None, ["divide"]),
        ("floordiv", I4, 3, []),
        ("floordiv", I4, 0, ["divide"]),
        ("floordiv", I4, -1, ["over"]),
        ("mod", I4, None, ["divide"]),
        ("fmod", U4, None, ["divide"]),
        ("reciprocal", I4, None, ["divide", "invalid"]),
        ("pow", I4, None, ["negative_power"]),
        ("pow", I4, -2, ["negative_power"]),
        ("pow", I4, 2, []),
        ("pow", U4, None, []),
        ("add", I4, None, []),
        ("floordiv", F4, None, []),
    ],
)
def test_only_operations_that_can_fault_are_tested(
    op: str, dtype: np.dtype, last: int | None, expected: list[str]
) -> None:
    assert names(op, dtype, last) == expected


def test_rules_are_for_primitives() -> None:
    assert set(RULES) <= set(ROWS)


def flagged(op: str, a: np.ndarray, b: np.ndarray) -> dict[str, list[bool]]:
    """The masks of `op` on eight int32 lanes."""
    em, ty = Emitter(), Ty("i", 32, 8)
    args = (em.load(ty, Val(PTR, "%a")), em.load(ty, Val(PTR, "%b")))
    found = faults(em, op, (I4, I4), args)
    for k, (_, mask) in enumerate(found):
        em.store(em.zext(mask, I8), em.gep(Val(PTR, "%out"), em.const(Ty("i", 64), 8 * k)))
    em.ret()
    text = em.function("k", [(PTR, "a"), (PTR, "b"), (PTR, "out")])
    module = jit.compile_module(text, target=host(), cache=False)
    out = np.zeros((len(found), 8), np.bool_)
    kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(module.address("k"))
    kernel(a.ctypes.data, b.ctypes.data, out.ctypes.data)
    return {name: row.tolist() for (name, _), row in zip(found, out, strict=True)}


@pytest.mark.parametrize(
    ("op", "ufunc"),
    [("floordiv", np.floor_divide), ("mod", np.remainder), ("fmod", np.fmod), ("pow", np.power)],
)
def test_masks_hold_where_numpy_complains(op: str, ufunc: np.ufunc) -> None:
    least = np.iinfo(I4).min
    a = np.array([1, 0, least, least, least, 5, -1, 7], I4)
    b = np.array([0, 0, -1, 0, 1, -1, -1, 2], I4)
    seen = {name: [complains(ufunc, name, x, y) for x, y in zip(a, b, strict=True)]
            for name in flagged(op, a, b)}  # fmt: skip
    assert flagged(op, a, b) == seen
    assert any(any(row) for row in seen.values())


def complains(ufunc: np.ufunc, name: str, x: np.int32, y: np.int32) -> bool:
    setting = {"all": "ignore"} if name == "negative_power" else {"all": "ignore", name: "raise"}
    try:
        with np.errstate(**setting):
            ufunc(np.array([x]), np.array([y]))
    except (FloatingPointError, ValueError):
        return True
    return False
