"""cvt against Python's integers and fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest

from fjit.backend.ptx.types import TYPES
from tests.backend.emulator.exact import operands, rounded, same
from tests.backend.emulator.kernels import evaluate
from tests.backend.emulator.test_integers import as_python, numbers

INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
WHOLE = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


def limits(name: str) -> tuple[int, int]:
    info = np.iinfo(TYPES[name].seen)
    return int(info.min), int(info.max)


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", INTEGERS)
def test_integers(source: str, target: str) -> None:
    array = numbers(source)
    values = as_python(source, array)
    mask = (1 << TYPES[target].bits) - 1
    got = evaluate(f"cvt.{target}.{source}", target, (source, array)).view(TYPES[target].stored)
    assert got.tolist() == [v & mask for v in values]
    low, high = limits(target)
    got = evaluate(f"cvt.sat.{target}.{source}", target, (source, array)).view(TYPES[target].seen)
    assert got.tolist() == [max(low, min(high, v)) for v in values]


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", ["f16", "f32", "f64"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_integers_to_floats(source: str, target: str, mode: str) -> None:
    array, dtype = numbers(source), TYPES[target].seen
    got = evaluate(f"cvt.{mode}.{target}.{source}", target, (source, array)).view(dtype)
    for value, result in zip(as_python(source, array), got, strict=True):
        wanted = rounded(Fraction(value), dtype, mode) if value else dtype.type(0)
        assert result == wanted, (value, result, wanted)


@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("mode", WHOLE)
def test_floats_to_integers(source: str, target: str, mode: str) -> None:
    dtype = TYPES[source].seen
    low, high = limits(target)
    (array,) = operands(dtype, 1, 200)
    edges = [low - 1, low - 0.5, low, high, high + 0.5, high + 1, 2.5, 3.5, -2.5, -0.5, 0.5]
    with np.errstate(all="ignore"):
        array = np.concatenate([array, np.array(edges).astype(dtype)])
    got = evaluate(f"cvt.{mode}.{target}.{source}", target, (source, array)).view(
        TYPES[target].seen
    )
    wide = source == "f64" or TYPES[target].bits == 64
    bits = TYPES[target].bits
    for x, y in zip(array, got.tolist(), strict=True):
        if np.isnan(x):
            missing = 1 << (bits - 1) if wide else 0
            assert y & ((1 << bits) - 1) == missing
        elif np.isinf(x):
            assert y == (high if x > 0 else low)
        else:
            assert y == max(low, min(high, WHOLE[mode](Fraction(float(x)))))


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(("source", "target"), [("f64", "f32"), ("f64", "f16"), ("f32", "f16")])
def test_floats_to_narrower_floats(source: str, target: str, mode: str) -> None:
    (array,) = operands(TYPES[source].seen, 1, 900)
    dtype = TYPES[target].seen
    with np.errstate(all="ignore"):
        near = np.array([1 + 2.0**-11, 1 + 2.0**-24, 65519.9, 65520.0, 3.4e38, 1e-8, 2.0**-25])
        array = np.concatenate([array, near.astype(array.dtype), -near.astype(array.dtype)])
    got = evaluate(f"cvt.{mode}.{target}.{source}", target, (source, array)).view(dtype)
    for x, y in zip(array, got, strict=True):
        if np.isfinite(x) and x:
            assert y.tobytes() == rounded(Fraction(float(x)), dtype, mode).tobytes(), (x, y)
        else:
            assert (y == x and np.signbit(y) == np.signbit(x)) or (np.isnan(x) and np.isnan(y))


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_to_whole_floats_and_wider_ones(name: str) -> None:
    (array,) = operands(TYPES[name].seen, 1)
    for mode, function in (
        ("rni", np.rint),
        ("rzi", np.trunc),
        ("rmi", np.floor),
        ("rpi", np.ceil),
    ):
        got = evaluate(f"cvt.{mode}.{name}.{name}", name, (name, array)).view(array.dtype)
        assert same(got, function(array)).all()
    wide = evaluate(f"cvt.f64.{name}", "f64", (name, array)) if name == "f32" else None
    assert wide is None or same(wide.view("f8"), array.astype("f8")).all()
    got = evaluate(f"cvt.sat.{name}.{name}", name, (name, array)).view(array.dtype)
    assert same(got, np.where(array > 0, np.minimum(array, 1), 0).astype(array.dtype)).all()


def test_bfloat_and_pairs() -> None:
    array = np.array([1.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.4e38, np.nan, -0.0, 1e-40], "f4")
    got = evaluate("cvt.rn.bf16.f32", "bf16", ("f32", array)).view("u2")
    assert got.tolist() == [0x3F80, 0x3F80, 0x3F82, 0x7F80, 0x7FFF, 0x8000, 0x0001]
    back = evaluate("cvt.f32.bf16", "f32", ("bf16", got)).view("f4")
    assert back[:4].tolist() == [1.0, 1.0, 1.015625, np.inf] and np.isnan(back[4])
    upper, lower = np.array([1.5, 2.0], "f4"), np.array([-1.0, 0.1], "f4")
    got = evaluate("cvt.rn.f16x2.f32", "f16x2", ("f32", upper), ("f32", lower)).view("f2")
    assert got.tolist() == [-1.0, 1.5, float(np.float16(0.1)), 2.0]
