"""Shuffles, votes, matches and reductions of warps."""

import numpy as np
import pytest

from fjit.errors import EmulatorError
from tests.backend.emulator.kernels import run

PLACE = "mul.wide.u32 %rd1, %r30, 8; add.s64 %rd2, %rd1, %rd30;\n"
LANES = np.arange(64)
WARP, LANE = LANES // 32, LANES % 32


def per_lane(body: str, threads: int = 64) -> np.ndarray:
    """Two words per thread, from %r1 and %r2."""
    out = np.zeros((threads, 2), "u4")
    run(PLACE + body + "st.global.v2.u32 [%rd2], {%r1, %r2};", out, threads=threads)
    return out


def source(mode: str, by: int, clamp: int) -> tuple[np.ndarray, np.ndarray]:
    segment, limit = clamp >> 8 & 31, clamp & 31
    least = LANE & segment
    most = least | (limit & ~segment)
    wanted = {
        "up": LANE - by,
        "down": LANE + by,
        "bfly": LANE ^ by,
        "idx": least | (by & ~segment & 31),
    }[mode]
    valid = wanted >= most if mode == "up" else wanted <= most
    return np.where(valid, wanted, LANE), valid


@pytest.mark.parametrize(
    ("mode", "by", "clamp"),
    [
        *[("up", 1, 0), ("up", 3, 0), ("down", 16, 31), ("down", 5, 31), ("bfly", 16, 31)],
        *[("idx", 7, 31), ("idx", 0, 31), ("bfly", 1, 31)],
        *[("down", 2, 0x181F), ("up", 2, 0x1800), ("idx", 3, 0x181F)],
    ],
)
def test_shuffles(mode: str, by: int, clamp: int) -> None:
    out = per_lane(
        f"mul.lo.u32 %r3, %r30, 3; shfl.sync.{mode}.b32 %r1|%p1, %r3, {by}, {clamp}, -1;"
        "selp.u32 %r2, 1, 0, %p1;"
    )
    lane, valid = source(mode, by, clamp)
    assert np.array_equal(out[:, 0], (WARP * 32 + lane) * 3)
    assert np.array_equal(out[:, 1] != 0, valid)


def test_votes() -> None:
    out = per_lane(
        "and.b32 %r3, %r30, 3; setp.eq.u32 %p1, %r3, 1; setp.lt.u32 %p2, %r30, 32;"
        "vote.sync.ballot.b32 %r1, %p1, -1; vote.sync.all.pred %p3, %p2, -1;"
        "vote.sync.any.pred %p4, %p1, -1; vote.sync.uni.pred %p5, %p1, -1;"
        "vote.sync.uni.pred %p6, !%p2, -1; selp.u32 %r2, 1, 0, %p3; selp.u32 %r4, 2, 0, %p4;"
        "selp.u32 %r5, 4, 0, %p5; selp.u32 %r6, 8, 0, %p6; or.b32 %r2, %r2, %r4;"
        "or.b32 %r2, %r2, %r5; or.b32 %r2, %r2, %r6;"
    )
    assert set(out[:, 0].tolist()) == {0x22222222}
    assert out[:, 1].tolist() == [11] * 32 + [10] * 32


def test_lanes_that_come_one_by_one_meet() -> None:
    out = per_lane(
        "and.b32 %r3, %r30, 1; setp.eq.u32 %p1, %r3, 0; mov.u32 %r4, 0xAAAAAAAA; @%p1 bra EVEN;"
        "mov.u32 %r5, 7; bra.uni JOIN; EVEN: mov.u32 %r5, 9; mov.u32 %r4, 0x55555555;"
        "JOIN: shfl.sync.bfly.b32 %r2, %r5, 1, 31, -1; vote.sync.ballot.b32 %r1, 1, %r4;"
    )
    assert np.array_equal(out[:, 1], np.where(LANE % 2, 9, 7))
    assert np.array_equal(out[:, 0], np.where(LANE % 2, 0xAAAAAAAA, 0x55555555))


def test_matches_and_reductions() -> None:
    out = per_lane(
        "and.b32 %r3, %r30, 7; match.any.sync.b32 %r1, %r3, -1; redux.sync.add.s32 %r2, %r30, -1;"
    )
    assert np.array_equal(out[:, 0], 0x01010101 << (LANE % 8))
    assert np.array_equal(out[:, 1], np.where(WARP == 0, sum(range(32)), sum(range(32, 64))))
    out = per_lane(
        "shr.u32 %r3, %r30, 5; match.all.sync.b32 %r1|%p1, %r3, -1; mov.u32 %r4, -5;"
        "add.s32 %r4, %r4, %r30; redux.sync.min.s32 %r2, %r4, -1; @!%p1 trap;"
    )
    assert set(out[:, 0].tolist()) == {0xFFFFFFFF}
    assert np.array_equal(out[:, 1].view("i4"), WARP * 32 - 5)


def test_masks_of_parts_of_a_warp() -> None:
    out = per_lane(
        "setp.lt.u32 %p1, %r30, 8; mov.u32 %r1, 0; mov.u32 %r2, 0; @!%p1 bra OUT;"
        "redux.sync.max.u32 %r1, %r30, 0xFF; elect.sync %r2|%p2, 0xFF; OUT:"
    )
    assert out[:8, 0].tolist() == [7] * 8 and not out[8:].any() and not out[:8, 1].any()


def test_special_registers() -> None:
    out = per_lane("mov.u32 %r1, %laneid; mov.u32 %r2, %warpid;")
    assert np.array_equal(out, np.stack([LANE, WARP], axis=1))
    bit = 1 << LANE.astype("u8")
    out = per_lane("mov.u32 %r1, %lanemask_lt; mov.u32 %r2, %lanemask_ge;")
    assert np.array_equal(out[:, 0], bit - 1) and np.array_equal(out[:, 1], 2**32 - bit)
    out = per_lane("mov.u32 %r1, %lanemask_le; mov.u32 %r2, %lanemask_gt;")
    assert np.array_equal(out[:, 0], 2 * bit - 1) and np.array_equal(out[:, 1], 2**32 - 2 * bit)


def test_what_shuffles_may_not_do() -> None:
    half = "setp.lt.u32 %p1, %r30, 16; @!%p1 bra OUT;"
    with pytest.raises(EmulatorError, match=r"shfl.*\(16, 0, 0\).*not in its own member mask"):
        per_lane("shfl.sync.bfly.b32 %r1, %r30, 1, 31, 0xFFFF; mov.u32 %r2, 0;")
    with pytest.raises(EmulatorError, match=r"shfl.*deadlock.*\(16, 0, 0\) of block .* has exited"):
        run(
            "setp.lt.u32 %p1, %r30, 16; @!%p1 exit; shfl.sync.bfly.b32 %r1, %r30, 1, 31, -1;",
            np.zeros(1),
            threads=32,
        )
    with pytest.raises(EmulatorError, match="reads from lane 16 of its warp, which takes no part"):
        per_lane(half + "shfl.sync.bfly.b32 %r1, %r30, 16, 31, 0xFFFF; OUT: mov.u32 %r2, 0;")
