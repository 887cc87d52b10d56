"""Atomic operations, lane after lane."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.backend.emulator.kernels import run

UPDATES: dict[str, Callable[[int, int], int]] = {
    "add": lambda old, b: old + b,
    "and": lambda old, b: old & b,
    "or": lambda old, b: old | b,
    "xor": lambda old, b: old ^ b,
    "min": min,
    "max": max,
    "exch": lambda old, b: b,
    "inc": lambda old, b: 0 if old >= b else old + 1,
    "dec": lambda old, b: b if old == 0 or old > b else old - 1,
}
TYPED = [(op, name) for op in UPDATES for name in ("u32", "s32", "u64", "b32")]
FIT = [
    (op, name)
    for op, name in TYPED
    if (name == "b32") == (op in ("and", "or", "xor", "exch"))
    and not (op in ("inc", "dec") and name != "u32")
]


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize(("op", "name"), FIT)
def test_each_lane_sees_the_one_before(op: str, name: str, space: str) -> None:
    size = 8 if name == "u64" else 4
    word = "%rd" if size == 8 else "%r"
    memory = np.array([5, 3, 1 << 20, 0], f"{'i' if name[0] == 's' else 'u'}{size}")
    start = memory.tolist()
    old = np.zeros(64, memory.dtype)
    setup = f"""rem.u32 %r1, %r30, 3; mul.wide.u32 %rd1, %r1, {size}; add.s64 %rd2, %rd1, %rd30;
        mul.wide.u32 %rd3, %r30, {size}; add.s64 %rd3, %rd3, %rd31;
        mad.lo.u32 %r2, %r30, 7, 3; cvt.u64.u32 %rd5, %r2;"""
    operation = f"{word}{8}, [ADDRESS], {word}{5 if size == 8 else 2}"
    finish = f"st.global.b{8 * size} [%rd3], {word}8;"
    if space == "shared":
        copy = f"""setp.lt.u32 %p1, %r30, 3; mov.u64 %rd6, s; add.s64 %rd6, %rd6, %rd1;
            @%p1 ld.global.b{8 * size} {word}7, [%rd2]; @%p1 st.shared.b{8 * size} [%rd6], {word}7;
            bar.sync 0;"""
        back = f"""bar.sync 0; @%p1 ld.shared.b{8 * size} {word}7, [%rd6];
            @%p1 st.global.b{8 * size} [%rd2], {word}7;"""
        body = (
            setup
            + copy
            + f"atom.shared.{op}.{name} {operation.replace('ADDRESS', '%rd6')};"
            + finish
            + back
        )
    else:
        where = "" if space == "generic" else ".global"
        body = setup + f"atom{where}.{op}.{name} {operation.replace('ADDRESS', '%rd2')};" + finish
    run(body, memory, old, threads=64, before=".shared .align 8 .b8 s[32];")
    bits = 8 * size
    for lane in range(64):
        place, b = lane % 3, lane * 7 + 3
        assert int(old[lane]) % (1 << bits) == start[place] % (1 << bits)
        start[place] = UPDATES[op](start[place], b)
    assert [v % (1 << bits) for v in memory.tolist()] == [v % (1 << bits) for v in start]


def test_compare_and_swap_and_reductions() -> None:
    memory, old = np.array([0, 0], "u4"), np.zeros(64, "u4")
    body = """mul.wide.u32 %rd1, %r30, 4; add.s64 %rd1, %rd1, %rd31; add.u32 %r1, %r30, 1;
        atom.global.cas.b32 %r2, [%rd30], %r30, %r1; st.global.u32 [%rd1], %r2;
        red.relaxed.gpu.global.add.u32 [%rd30+4], 2;"""
    run(body, memory, old, threads=64)
    assert memory.tolist() == [64, 128] and old.tolist() == list(range(64))


def test_float_sums_are_in_the_order_of_lanes() -> None:
    memory = np.array([1e8], "f4")
    run("cvt.rn.f32.u32 %f1, %r30; atom.global.add.f32 %f2, [%rd30], %f1;", memory, threads=32)
    total = np.float32(1e8)
    for k in range(32):
        total += np.float32(k)
    assert memory[0] == total


def test_all_threads_of_many_blocks_count() -> None:
    counter = np.zeros(1, "u4")
    run("atom.global.add.u32 %r1, [%rd30], 1;", counter, threads=256, blocks=700)
    assert counter[0] == 256 * 700
