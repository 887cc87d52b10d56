"""Counts of sectors and bank conflicts, on hand-written kernels."""

import numpy as np
import pytest

from fjit.backend import emulator
from fjit.backend.ptx.traffic import Traffic

LOAD = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 p) {{
  .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %d<9>; .reg .pred %p<9>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, {stride};
  add.s64 %rd3, %rd1, %rd2;
  setp.lt.u32 %p1, %r1, {lanes};
  @%p1 {load}
  ret;
}}
"""
SHARED = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry k() {{
  .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .f64 %d<9>;
  .shared .align 16 .b8 s[8192];
  mov.u32 %r1, %tid.x;
  mul.lo.u32 %r2, %r1, {stride};
  mov.u32 %r3, s;
  add.u32 %r4, %r3, %r2;
  {store}
  ret;
}}
"""


def loads(load: str, *, stride: int = 4, lanes: int = 32, threads: int = 32) -> Traffic:
    memory = np.zeros(1 << 13, np.float32)
    text = LOAD.format(load=load, stride=stride, lanes=lanes)
    with emulator.counting() as counts:
        emulator.launch(text, "k", 1, threads, [memory])
    return counts


@pytest.mark.parametrize(
    ("load", "stride", "sectors", "asked"),
    [
        ("ld.global.f32 %f1, [%rd3];", 4, 4, 128),
        ("ld.global.f32 %f1, [%rd3];", 8, 8, 128),
        ("ld.global.f32 %f1, [%rd3];", 32, 32, 128),
        ("ld.global.f32 %f1, [%rd3];", 128, 32, 128),
        ("ld.global.f32 %f1, [%rd3+4];", 4, 5, 128),
        ("ld.global.f32 %f1, [%rd1];", 4, 1, 4),  # all lanes the same
        ("ld.global.f64 %d1, [%rd3];", 8, 8, 256),
        ("ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%rd3];", 16, 16, 512),
        ("ld.f32 %f1, [%rd3];", 4, 4, 128),
        ("st.global.f32 [%rd3], 0f00000000;", 4, 4, 128),
    ],
)
def test_sectors_of_a_warp(load: str, stride: int, sectors: int, asked: int) -> None:
    counts = loads(load, stride=stride)
    assert (counts.sectors, counts.bytes) == (sectors, asked)
    assert counts.ratio == sectors * 32 / asked


def test_lanes_that_are_off_ask_for_nothing() -> None:
    assert loads("ld.global.f32 %f1, [%rd3];", lanes=8).sectors == 1
    assert loads("ld.global.f32 %f1, [%rd3];", lanes=9).sectors == 2


def test_warps_count_apart() -> None:
    counts = loads("ld.global.f32 %f1, [%rd1];", threads=96)
    assert (counts.sectors, counts.bytes) == (1, 4)  # 32 lanes of the first warp are on
    counts = loads("ld.global.f32 %f1, [%rd1];", threads=96, lanes=96)
    assert (counts.sectors, counts.bytes) == (3, 12)


@pytest.mark.parametrize(
    ("store", "stride", "passes", "conflicts"),
    [
        ("st.shared.f32 [%r4], 0f00000000;", 4, 1, 0),
        ("st.shared.f32 [%r4], 0f00000000;", 8, 2, 1),
        ("st.shared.f32 [%r4], 0f00000000;", 128, 32, 31),
        ("st.shared.f32 [%r4], 0f00000000;", 132, 1, 0),  # a row of 33 words
        ("st.shared.f32 [s], 0f00000000;", 0, 1, 0),  # one word for all lanes
        ("st.shared.f64 [%r4], 0d0000000000000000;", 8, 2, 0),  # half a warp a pass
        ("st.shared.f64 [%r4], 0d0000000000000000;", 128, 32, 30),
        ("st.shared.v4.f32 [%r4], {%f1,%f1,%f1,%f1};", 16, 4, 0),
    ],
)
def test_passes_through_the_banks(store: str, stride: int, passes: int, conflicts: int) -> None:
    text = SHARED.format(store="mov.f32 %f1, 0f00000000; " + store, stride=stride)
    with emulator.counting() as counts:
        emulator.launch(text, "k", 1, 32, [], checks=False)
    assert (counts.passes, counts.conflicts) == (passes, conflicts)


def test_nothing_is_counted_outside_and_blocks_nest() -> None:
    with emulator.counting() as outer:
        with emulator.counting() as inner:
            loads("ld.global.f32 %f1, [%rd3];")
        assert inner.sectors == 0  # the innermost block counts, which was `loads`' own
    loads("ld.global.f32 %f1, [%rd3];")
    assert outer.sectors == 0
    assert Traffic().ratio == 1.0
