"""The arena keeps live buffers apart and stays near the optimum; the pool hands pages out again."""

import random
import threading
from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fjit.runtime.buffers import PAGE, ScratchPool, lower_bound, plan_arena

Lifetimes = list[tuple[int, int, int]]

lifetimes = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 15), st.integers(0, 6)).map(
        lambda t: (t[0], t[1], t[1] + t[2])
    ),
    max_size=25,
)


@given(lifetimes)
def test_live_buffers_never_overlap(live: Lifetimes) -> None:
    offsets, total = plan_arena(live)
    placed = [
        (offset, offset + nbytes, first, last)
        for offset, (nbytes, first, last) in zip(offsets, live, strict=True)
    ]
    assert all(offset % 64 == 0 for offset in offsets)
    assert all(stop <= total for _, stop, _, _ in placed)
    for a, b in combinations(placed, 2):
        if a[2] <= b[3] and b[2] <= a[3]:
            assert a[1] <= b[0] or b[1] <= a[0]


@given(lifetimes)
def test_no_plan_beats_the_bound(live: Lifetimes) -> None:
    assert plan_arena(live)[1] >= lower_bound(live)


def test_a_chain_needs_two_buffers() -> None:
    offsets, total = plan_arena([(1024, step, step + 1) for step in range(20)])
    assert total == 2048 and set(offsets) == {0, 1024}


def test_nothing_needs_nothing() -> None:
    assert plan_arena([]) == ((), 0)
    assert plan_arena([(0, 0, 3)]) == ((0,), 0)


def test_plans_are_usually_within_a_tenth_of_the_optimum() -> None:
    near = 0
    for seed in range(200):
        draw = random.Random(seed)
        live = []
        for _ in range(draw.randint(1, 40)):
            first = draw.randint(0, 20)
            live.append((draw.randint(1, 100_000), first, first + draw.choice([0, 1, 1, 2, 3, 8])))
        near += plan_arena(live)[1] <= 1.1 * lower_bound(live)
    assert near >= 190


def test_the_same_lifetimes_give_the_same_plan() -> None:
    live = [(100 * (i % 7 + 1), i % 5, i % 5 + i % 3) for i in range(30)]
    assert plan_arena(live) == plan_arena(list(live))


def test_buffers_are_page_aligned_and_large_enough() -> None:
    pool = ScratchPool()
    for nbytes in (0, 1, PAGE, PAGE + 1, 100_000):
        buffer = pool.take(nbytes)
        assert buffer.nbytes >= max(nbytes, 1) and buffer.ctypes.data % PAGE == 0
        assert buffer.dtype == np.uint8 and buffer.flags.writeable


def test_a_buffer_is_used_again() -> None:
    pool = ScratchPool()
    first = pool.take(50_000)
    second = pool.take(50_000)
    assert first.ctypes.data != second.ctypes.data
    pool.give(first)
    assert pool.take(40_000) is first
    pool.give(second)
    assert pool.take(10_000) is not second


def test_the_stock_is_bounded() -> None:
    pool = ScratchPool(max_bytes=4 * PAGE)
    buffers = [pool.take(PAGE) for _ in range(10)]
    for buffer in buffers:
        pool.give(buffer)
    assert pool.held_bytes() == 4 * PAGE
    assert pool.take(PAGE) is buffers[6]
    pool.give(pool.take(100 * PAGE))
    assert pool.held_bytes() <= 4 * PAGE
    pool.clear()
    assert pool.held_bytes() == 0


def test_no_buffer_is_handed_out_twice() -> None:
    pool = ScratchPool()
    clashes: list[int] = []

    def work(number: int) -> None:
        for _ in range(200):
            buffer = pool.take(PAGE)
            buffer[:] = number
            clashes.extend(np.unique(buffer[buffer != number]).tolist())
            pool.give(buffer)

    team = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    assert clashes == []
