"""Result arrays own their data like any other, use freed pages again, and survive threads, forks
and the end of the process."""

import contextlib
import ctypes
import os
import pickle
import queue
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fjit.errors import FjitValueError
from fjit.runtime import results
from fjit.runtime.host import host
from fjit.runtime.jit import compile_module
from fjit.runtime.result_pool_ir import POOLED_BYTES, SLOTS

ROOT = Path(__file__).parents[2]
U1, F8 = np.dtype("u1"), np.dtype("f8")
MIB = 1 << 20
handler_name = np._core.multiarray.get_handler_name

pytestmark = pytest.mark.skipif(
    not results.status().pooled, reason=f"no pool here: {results.status()}"
)


@pytest.fixture(autouse=True)
def empty_pool() -> Iterator[None]:
    results.clear()
    yield
    results.clear()


@contextlib.contextmanager
def limit(nbytes: int) -> Iterator[None]:
    word = ctypes.c_int64.from_address(results._process.module.address("fjit_limit"))
    before, word.value = word.value, nbytes
    try:
        yield
    finally:
        word.value = before


def block(nbytes: int) -> np.ndarray:
    return results.empty((nbytes,), U1)


def at(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def freed(nbytes: int) -> int:
    """Allocate and free so many bytes; where they were."""
    return at(block(nbytes))


def run(script: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **env},
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


# Ordinary arrays


def test_an_array_is_an_ordinary_one() -> None:
    array = results.empty((300, 500, 2), F8)
    assert type(array) is np.ndarray
    assert array.flags.owndata and array.base is None
    assert array.flags.c_contiguous and array.flags.writeable and array.flags.aligned
    assert array.shape == (300, 500, 2) and array.dtype == F8
    assert handler_name(array) == "fjit"


@pytest.mark.parametrize("nbytes", [POOLED_BYTES, MIB, 4 * MIB, 5 * MIB + 8])
def test_blocks_are_aligned_to_lines_and_do_not_share_an_offset(nbytes: int) -> None:
    places = [at(array) for array in [block(nbytes) for _ in range(6)]]
    assert {place % 64 for place in places} == {0}
    assert len({place % 4096 for place in places}) == 6
    if nbytes >= 4 * MIB:
        assert max(place % (2 * MIB) for place in places) < 4096


def test_other_makers_use_the_pool() -> None:
    pattern = np.lib.stride_tricks.as_strided(np.empty(1), (300, 500), (8, 2400))
    array = results.pooled(np.empty_like, pattern)
    assert array.flags.owndata and array.flags.f_contiguous and handler_name(array) == "fjit"
    little = results.pooled(lambda: np.arange(10))
    assert handler_name(little) == "fjit" and little.tolist() == list(range(10))
    zeros = results.pooled(np.zeros, 10)
    zeros.resize(100_000)
    assert not zeros.any()
    freed(MIB)
    assert not results.pooled(np.zeros, MIB, U1).any()
    with pytest.raises(ZeroDivisionError):
        results.pooled(lambda: 1 // 0)
    assert handler_name() == "default_allocator"


def test_small_arrays_are_numpys_own() -> None:
    assert handler_name(block(POOLED_BYTES - 1)) == "default_allocator"
    assert results.empty((), F8).shape == () and results.empty((0, 5), F8).size == 0
    assert results.empty((1 << 40, 0), F8).nbytes == 0


def test_numpys_handler_is_back_after_a_call_and_after_an_error() -> None:
    block(MIB)
    assert handler_name() == "default_allocator"
    with pytest.raises(MemoryError):
        results.empty((1 << 46,), F8)
    assert handler_name() == "default_allocator"
    assert handler_name(np.empty(MIB)) == "default_allocator"


@pytest.mark.parametrize("shape", [(1 << 46,), (1 << 62,), (-1, -(1 << 40)), (-3,), (1 << 70,)])
def test_errors_are_numpys(shape: tuple[int, ...]) -> None:
    with pytest.raises((ValueError, MemoryError)) as wanted:
        np.empty(shape, F8)
    with pytest.raises(wanted.type) as seen:
        results.empty(shape, F8)
    assert str(seen.value) == str(wanted.value)


def test_arrays_of_objects_start_empty() -> None:
    freed(8 * 50_000)
    assert set(results.empty((50_000,), np.dtype(object)).tolist()) == {None}


def test_copies_are_numpys_own_and_equal(rng: np.random.Generator) -> None:
    array = results.empty((200, 1000), F8)
    array[...] = rng.random(array.shape)
    for other in (array.copy(), pickle.loads(pickle.dumps(array)), np.array(array)):
        np.testing.assert_array_equal(other, array)
        assert not np.shares_memory(other, array)
    view = array[::2, ::3]
    expected = view.copy()
    del array
    freed(200 * 1000 * 8)
    np.testing.assert_array_equal(view, expected)


def test_setstate_gives_the_block_back() -> None:
    array = block(MIB)
    array.__setstate__((1, (3,), U1, False, b"abc"))
    assert array.tobytes() == b"abc" and results.held_bytes() == MIB


# The pool


def test_a_freed_block_is_used_again() -> None:
    first = freed(8 * MIB)
    assert results.held_bytes() == 8 * MIB
    again = block(8 * MIB)
    assert at(again) == first and results.held_bytes() == 0
    assert at(block(8 * MIB)) != first


def test_a_block_fits_within_a_quarter() -> None:
    place = freed(5 * MIB)
    assert at(block(4 * MIB - 1)) != place
    results.clear()
    place = freed(5 * MIB)
    assert at(block(4 * MIB)) == place


def test_the_best_fit_and_the_last_freed_are_taken() -> None:
    arrays = [block(n) for n in (1200 * 1024, 1100 * 1024, MIB + 4096, MIB + 4096)]
    places = [at(array) for array in arrays]
    while arrays:
        del arrays[0]
    again = [block(MIB) for _ in places]
    assert [at(array) for array in again] == places[::-1]


def test_the_pool_is_bounded_and_drops_the_oldest() -> None:
    with limit(4 * MIB):
        arrays = [block(MIB) for _ in range(6)]
        places = [at(array) for array in arrays]
        while arrays:
            del arrays[0]
            assert results.held_bytes() <= 4 * MIB
        assert {at(array) for array in [block(MIB) for _ in range(4)]} == set(places[2:])
        freed(4 * MIB + 1)
        assert results.held_bytes() == 4 * MIB


def test_the_pool_has_no_more_blocks_than_slots() -> None:
    arrays = [block(MIB) for _ in range(SLOTS + 8)]
    arrays.clear()
    assert results.held_bytes() == SLOTS * MIB
    results.clear()
    assert results.held_bytes() == 0


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_nothing_leaks(rng: np.random.Generator) -> None:
    address = results._process.module.address("fjit_capsule")
    capsule = ctypes.cast(ctypes.c_void_p.from_address(address), ctypes.py_object).value
    references, before = sys.getrefcount(capsule), resident()
    for nbytes in rng.integers(POOLED_BYTES, 8 * MIB, 300).tolist():
        array = block(nbytes)
        array.fill(1)
        array.resize(nbytes // 3)
    del array
    with contextlib.suppress(MemoryError):
        results.empty((1 << 46,), F8)
    results.clear()
    assert sys.getrefcount(capsule) == references
    assert resident() - before < 16 * MIB


# Resizing


@pytest.mark.parametrize("new", [1, 1000, 131_072, 200_000, 262_144, 1_000_000, 3_000_000])
@pytest.mark.parametrize("old", [131_072, 262_144, 1_000_000])
def test_resize_keeps_the_values(old: int, new: int) -> None:
    array = results.empty((old,), np.dtype("i4"))
    array[...] = np.arange(old)
    for size in (new, old, 0, 10):
        expected = array.copy()
        expected.resize(size)
        array.resize(size)
        np.testing.assert_array_equal(array, expected)
        assert array.flags.owndata


def test_a_shrunken_array_keeps_its_block_down_to_half() -> None:
    array = block(8 * MIB)
    place = at(array)
    array.resize(4 * MIB)
    assert at(array) == place
    del array
    assert results.held_bytes() == 8 * MIB
    array = block(8 * MIB)
    array.resize(4 * MIB - 1)
    assert at(array) != place and results.held_bytes() == 8 * MIB


def test_a_failed_resize_leaves_the_array() -> None:
    array = block(MIB)
    array.fill(7)
    with pytest.raises(MemoryError):
        array.resize(1 << 46)
    assert array.shape == (MIB,) and (array == 7).all()


def test_random_histories_never_mix_arrays(rng: np.random.Generator) -> None:
    live: list[tuple[np.ndarray, int]] = []
    for step in range(1500):
        kind = rng.random()
        if kind < 0.45 or not live:
            array = block(int(rng.integers(POOLED_BYTES // 2, MIB)))
        else:
            array, mark = live.pop(int(rng.integers(len(live))))
            assert array[0] == array[-1] == mark and (array[:: len(array) // 16] == mark).all()
            if kind < 0.8:
                continue
            array.resize(int(rng.integers(1, 2 * MIB)), refcheck=False)
        array.fill(step % 251)
        live.append((array, step % 251))
        del array
        if step % 300 == 0:
            results.clear()


# Other tools, other threads, other processes


def test_tracemalloc_sees_the_arrays() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        array = block(4 * MIB)
        during = tracemalloc.get_traced_memory()[0]
        array.resize(3 * MIB)
        shrunk = tracemalloc.get_traced_memory()[0]
        del array
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 4 * MIB <= during - before < 4.1 * MIB
    assert 3 * MIB <= shrunk - before < 3.1 * MIB
    assert after - before < 0.1 * MIB


def hammer(seed: int, rounds: int, inbox: queue.Queue, outbox: queue.Queue) -> None:
    """Make arrays, mark both ends, and send them to another thread, which checks and frees them."""
    sizes = np.random.default_rng(seed).integers(POOLED_BYTES, 4 * POOLED_BYTES, rounds).tolist()
    for count, nbytes in enumerate(sizes):
        array = block(nbytes)
        mark = (seed * 31 + count) % 251
        array[0] = array[nbytes // 2] = array[-1] = mark
        outbox.put((array, mark))
        del array
        if count >= 4:
            other, mark = inbox.get()
            assert other[0] == other[len(other) // 2] == other[-1] == mark
            del other


def test_many_threads_allocate_and_free_each_others_arrays() -> None:
    count, rounds, errors = 8, 2000, []
    boxes: list[queue.Queue] = [queue.Queue() for _ in range(count)]

    def work(number: int) -> None:
        try:
            hammer(number, rounds, boxes[number], boxes[(number + 1) % count])
        except BaseException as error:
            errors.append(error)

    with limit(8 * MIB):
        team = [threading.Thread(target=work, args=(number,)) for number in range(count)]
        for thread in team:
            thread.start()
        for thread in team:
            thread.join()
        assert errors == []
        boxes.clear()
        assert 0 < results.held_bytes() <= 8 * MIB
        results.clear()
        assert results.held_bytes() == 0


STRESS = """
; Keeps eight blocks; each round checks both ends of one, frees it and makes another of 256 to 271
; KiB. Returns how often an end had changed.
define i64 @stress(ptr %malloc, ptr %free, i64 %seed, i64 %rounds) {
entry:
  %blocks = alloca [8 x ptr]
  %sizes = alloca [8 x i64]
  %marks = alloca [8 x i64]
  call void @llvm.memset.p0.i64(ptr %blocks, i8 0, i64 64, i1 false)
  br label %round
round:
  %k = phi i64 [ 0, %entry ], [ %k.next, %fresh ]
  %state = phi i64 [ %seed, %entry ], [ %state.next, %fresh ]
  %bad = phi i64 [ 0, %entry ], [ %bad.next, %fresh ]
  %slot = and i64 %k, 7
  %block.at = getelementptr ptr, ptr %blocks, i64 %slot
  %size.at = getelementptr i64, ptr %sizes, i64 %slot
  %mark.at = getelementptr i64, ptr %marks, i64 %slot
  %old = load ptr, ptr %block.at
  %first = icmp eq ptr %old, null
  br i1 %first, label %fresh, label %check
check:
  %old.size = load i64, ptr %size.at
  %old.mark = load i64, ptr %mark.at
  %old.end = getelementptr i8, ptr %old, i64 %old.size
  %old.last = getelementptr i8, ptr %old.end, i64 -8
  %a = load i64, ptr %old, align 1
  %b = load i64, ptr %old.last, align 1
  %a.bad = icmp ne i64 %a, %old.mark
  %b.bad = icmp ne i64 %b, %old.mark
  %either = or i1 %a.bad, %b.bad
  %more.bad = zext i1 %either to i64
  call void %free(ptr null, ptr %old, i64 %old.size)
  br label %fresh
fresh:
  %found = phi i64 [ 0, %round ], [ %more.bad, %check ]
  %bad.next = add i64 %bad, %found
  %mixed = mul i64 %state, 6364136223846793005
  %state.next = add i64 %mixed, 1442695040888963407
  %high = lshr i64 %state.next, 50
  %size = add i64 %high, 262144
  %data = call ptr %malloc(ptr null, i64 %size)
  %end = getelementptr i8, ptr %data, i64 %size
  %last = getelementptr i8, ptr %end, i64 -8
  store i64 %state.next, ptr %data, align 1
  store i64 %state.next, ptr %last, align 1
  store ptr %data, ptr %block.at
  store i64 %size, ptr %size.at
  store i64 %state.next, ptr %mark.at
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, %rounds
  br i1 %more, label %round, label %drop
drop:
  %i = phi i64 [ 0, %fresh ], [ %i.next, %drop ]
  %left.at = getelementptr ptr, ptr %blocks, i64 %i
  %left = load ptr, ptr %left.at
  call void %free(ptr null, ptr %left, i64 0)
  %i.next = add i64 %i, 1
  %again = icmp ult i64 %i.next, 8
  br i1 %again, label %drop, label %done
done:
  ret i64 %bad.next
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


@pytest.mark.parametrize("most", [2 * MIB, 512 * MIB])
def test_the_native_pool_needs_no_python_lock(most: int) -> None:
    """NumPy calls the handler under Python's lock; here threads enter it at the same time."""
    handler = results._process.module.address("fjit_handler")
    malloc, _, _, free = (ctypes.c_int64 * 4).from_address(handler + 136)
    module = compile_module(STRESS, target=host())
    stress = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(module.address("stress"))
    bad: list[int] = []
    team = [
        threading.Thread(target=lambda seed=seed: bad.append(stress(malloc, free, seed, 250_000)))
        for seed in range(4)
    ]
    with limit(most):
        for thread in team:
            thread.start()
        for thread in team:
            thread.join()
        assert bad == [0] * 4
        assert 0 < results.held_bytes() <= most
        results.clear()
        assert results.held_bytes() == 0


FORKS = """
import os, sys, threading, warnings
import numpy as np
from fjit.runtime import results
warnings.simplefilter("ignore")
U1 = np.dtype("u1")
stop = threading.Event()

def work():
    while not stop.is_set():
        kept = [results.empty((300_000 + 50_000 * k,), U1) for k in range(6)]
        kept.clear()

team = [threading.Thread(target=work) for _ in range(3)]
for thread in team:
    thread.start()
for _ in range(25):
    child = os.fork()
    if child == 0:
        for k in range(100):
            array = results.empty((300_000 + 5_000 * k,), U1)
            array[0] = array[-1] = k
            assert array[0] == array[-1] == k
        del array
        held = results.held_bytes()
        results.clear()
        os._exit(0 if held > 0 and results.held_bytes() == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in team:
    thread.join()
print("done")
"""


def test_forks_while_threads_allocate() -> None:
    assert run(FORKS) == "done"


LATE = """
import atexit, builtins, sys, threading
import numpy as np
from fjit.runtime import results
U1 = np.dtype("u1")
builtins.late = results.empty((1 << 20,), U1)
sys.late = [results.empty((5 << 20,), U1), results.empty]
cycle = [results.empty((1 << 20,), U1)]
cycle.append(cycle)
sys.modules["late"] = cycle
atexit.register(lambda: results.empty((1 << 20,), U1).fill(1))
class Last:
    def __init__(self):
        self.array, self.make = results.empty((1 << 20,), U1), results._process.allocate
        self.numpy = np.empty
    def __del__(self):
        self.array = self.make(self.numpy, (1 << 20,), U1)
        self.array.fill(1)
builtins.last = Last()
threading.Thread(target=lambda: [results.empty((1 << 20,), U1) for _ in range(500)]).start()
print("done")
"""


def test_arrays_may_outlive_the_interpreter() -> None:
    assert run(LATE) == "done"


PRESSURE = """
import resource
import numpy as np
from fjit.runtime import results
U1, MIB = np.dtype("u1"), 1 << 20
arrays = [results.empty((20 * MIB,), U1) for _ in range(8)]
arrays.clear()
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + 100 * MIB, resource.RLIM_INFINITY))
array = results.empty((200 * MIB,), U1)
array[::4096] = 1
print(results.held_bytes())
"""


def test_the_pool_yields_before_memory_runs_out() -> None:
    assert run(PRESSURE, FJIT_RESULT_POOL=str(512 * MIB)) == "0"


# Settings

STATUS = """
import numpy as np
from fjit.runtime import results
array = results.empty((1 << 20,), np.dtype("u1"))
print(np._core.multiarray.get_handler_name(array), "/", results.status(), "/", end=" ")
del array
results.clear()
print(results.held_bytes())
"""


def test_the_pool_can_be_turned_off_and_sized() -> None:
    assert run(STATUS, FJIT_RESULT_POOL="0") == (
        "default_allocator / results are not pooled: FJIT_RESULT_POOL=0 / 0"
    )
    assert run(STATUS, FJIT_RESULT_POOL="1048576") == "fjit / results are pooled, up to 1 MiB / 0"


@pytest.fixture
def undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_process", results._Process())


@pytest.mark.usefixtures("undecided")
def test_a_setting_that_is_no_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FJIT_RESULT_POOL", "1GB")
    with pytest.raises(FjitValueError, match=r"FJIT_RESULT_POOL='1GB' is not a number of bytes"):
        block(MIB)


@pytest.mark.usefixtures("undecided")
@pytest.mark.parametrize(
    ("where", "value", "reason"),
    [
        ("platform.system", "Darwin", "64-bit Linux"),
        ("platform.python_implementation", "PyPy", "global lock"),
        ("sysconfig.get_config_var", 1, "global lock"),
        ("_numpy_table", 0, "memory handlers"),
    ],
)
def test_without_the_interface_arrays_are_numpys(
    monkeypatch: pytest.MonkeyPatch, where: str, value: object, reason: str
) -> None:
    monkeypatch.setattr(f"fjit.runtime.results.{where}", lambda *_: value)
    assert handler_name(block(MIB)) == "default_allocator"
    assert results.held_bytes() == 0 and not results.status().pooled
    assert reason in str(results.status())
    results.clear()
