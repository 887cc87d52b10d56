"""Integer instructions against Python's integers."""

from collections.abc import Callable

import numpy as np
import pytest

from fjit.backend.ptx.types import TYPES
from tests.backend.emulator.kernels import evaluate

RNG = np.random.default_rng(5)


def numbers(name: str) -> np.ndarray:
    """Edge values of a type and random ones."""
    ty = TYPES[name]
    top = 1 << (ty.bits - 1)
    edges = [0, 1, 2, 3, 7, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 0x55, 0xAA]
    rest = [int(v) >> s & (2 * top - 1) for v in RNG.integers(0, 1 << 63, 6) for s in (0, 17, 40)]
    return np.array([v & (2 * top - 1) for v in edges + rest], ty.stored)


def grid(*names: str) -> list[np.ndarray]:
    """Operands, all pairs of edges or a sample of them."""
    arrays = [numbers(name) for name in names]
    picks = [RNG.integers(0, len(a), 900) for a in arrays]
    return [a[p] for a, p in zip(arrays, picks, strict=True)]


def as_python(name: str, array: np.ndarray) -> list[int]:
    return [int(v) for v in array.view(TYPES[name].seen)]


def check(op: str, result: str, names: tuple[str, ...], reference: Callable[..., int]) -> None:
    arrays = grid(*names)
    got = evaluate(op, result, *zip(names, arrays, strict=True)).view(TYPES[result].stored)
    values = [as_python(name, array) for name, array in zip(names, arrays, strict=True)]
    mask = (1 << TYPES[result].bits) - 1
    expected = [reference(*row) & mask for row in zip(*values, strict=True)]
    wrong = [
        (row, int(g), e)
        for row, g, e in zip(zip(*values, strict=True), got, expected, strict=True)
        if g != e
    ]
    assert not wrong, (op, wrong[:3])


def quotient(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a if b == 0 else a - b * quotient(a, b)


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "div": quotient,
    "rem": remainder,
    "min": min,
    "max": max,
}
KINDS = ("u16", "s16", "u32", "s32", "u64", "s64")


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("op", BINARY)
def test_two_operands(op: str, name: str) -> None:
    check(f"{op}.{name}", name, (name, name), BINARY[op])


@pytest.mark.parametrize("name", KINDS)
def test_products(name: str) -> None:
    bits = TYPES[name].bits
    check(f"mul.hi.{name}", name, (name, name), lambda a, b: a * b >> bits)
    check(f"mad.lo.{name}", name, (name,) * 3, lambda a, b, c: a * b + c)
    check(f"mad.hi.{name}", name, (name,) * 3, lambda a, b, c: (a * b >> bits) + c)
    if bits < 64:
        wide = f"{name[0]}{2 * bits}"
        check(f"mul.wide.{name}", wide, (name, name), lambda a, b: a * b)
        check(f"mad.wide.{name}", wide, (name, name, wide), lambda a, b, c: a * b + c)


def low24(a: int, signed: bool) -> int:
    a &= 0xFFFFFF
    return a - (1 << 24) if signed and a >> 23 else a


@pytest.mark.parametrize("name", ["u32", "s32"])
def test_products_of_24_bits(name: str) -> None:
    signed = name == "s32"

    def product(a: int, b: int) -> int:
        return low24(a, signed) * low24(b, signed)

    check(f"mul24.lo.{name}", name, (name, name), product)
    check(f"mul24.hi.{name}", name, (name, name), lambda a, b: product(a, b) >> 16)
    check(f"mad24.lo.{name}", name, (name,) * 3, lambda a, b, c: product(a, b) + c)


@pytest.mark.parametrize("name", ["s16", "s32", "s64"])
def test_signs(name: str) -> None:
    check(f"abs.{name}", name, (name,), abs)
    check(f"neg.{name}", name, (name,), lambda a: -a)


def test_the_rest() -> None:
    check("sad.s32", "s32", ("s32",) * 3, lambda a, b, c: c + abs(a - b))
    check("sad.u32", "u32", ("u32",) * 3, lambda a, b, c: c + abs(a - b))
    limit = (1 << 31) - 1
    check("add.sat.s32", "s32", ("s32",) * 2, lambda a, b: max(-limit - 1, min(limit, a + b)))
    check("sub.sat.s32", "s32", ("s32",) * 2, lambda a, b: max(-limit - 1, min(limit, a - b)))


def parts(a: int, bits: int, signed: bool) -> list[int]:
    found = [a >> bits * k & ((1 << bits) - 1) for k in range(32 // bits)]
    return [v - (1 << bits) if signed and v >> (bits - 1) else v for v in found]


@pytest.mark.parametrize(("first", "second"), [("u32", "u32"), ("s32", "u32"), ("s32", "s32")])
def test_dot_products(first: str, second: str) -> None:
    x, y = first == "s32", second == "s32"
    result = "s32" if x or y else "u32"
    check(
        f"dp4a.{first}.{second}",
        result,
        ("b32", "b32", result),
        lambda a, b, c: c + sum(p * q for p, q in zip(parts(a, 8, x), parts(b, 8, y), strict=True)),
    )
    for half, start in (("lo", 0), ("hi", 2)):
        check(
            f"dp2a.{half}.{first}.{second}",
            result,
            ("b32", "b32", result),
            lambda a, b, c, start=start: (
                c
                + parts(a, 16, x)[0] * parts(b, 8, y)[start]
                + parts(a, 16, x)[1] * parts(b, 8, y)[start + 1]
            ),
        )
