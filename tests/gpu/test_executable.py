"""Programs on a fake GPU: memory, copies, streams, launches; the numbers are those of the CPU."""

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.backend.spread import MOST_HIGH, THREADS, WAVES, Launch, in_waves
from fjit.errors import DriverError, FjitIndexError, FjitValueError, ReadOnlyError
from fjit.runtime import driver as drivers
from fjit.target import GPU_TARGETS
from tests.gpu.fake_driver import REGISTERS, FakeDriver

RNG = np.random.default_rng(7)
X = RNG.standard_normal((67, 130)).astype("f4")
Y = RNG.standard_normal((67, 130)).astype("f4")
INDEX = np.array([3, -1, 0])


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def twice(x: Any) -> Any:
    return x, x


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "elementwise": lambda x, y: np.where(x > y, x * 2 - y, y / (x * x + 1)),
    "integers": lambda x, y: ((x * 100).astype("i4") // 7 % 5, (y > 0) & (x < 0)),
    "broadcast": lambda x, y: x[:, :1] + y[:1],
    "views": lambda x, y: x.T[::-1, 1:-1] * 2 + y.T[:, :-2],
    "pad": lambda x, y: np.pad(x, 1) * 2,
    "sum": lambda x, y: (x * y).sum(),
    "rows": lambda x, y: ((x * y).sum(1), x.max(1), y.argmin(1)),
    "columns": lambda x, y: (x.sum(0), y.mean(0)),
    "softmax": lambda x, y: softmax(x),
    "filter": lambda x, y: x[x > y] * 2,
    "filter, most dropped": lambda x, y: x[x > 2.5],
    "filtered sum": lambda x, y: x[x > 0].sum(),
    "cumsum": lambda x, y: x.cumsum(1),
    "several": lambda x, y: (x + y, np.exp(x).sum(0), (y * 2).ravel()[::3]),
    "empty": lambda x, y: (x[:0] + 1, x[:0].sum(1)),
    "one result twice": lambda x, y: twice(x + y),
    "a constant": lambda x, y: (np.zeros(3), x + 1),
    "gather": lambda x, y: x[INDEX] + y[:3],
    "sort between kernels": lambda x, y: np.sort(x * 2, axis=1) + y,
    "sort what a mask kept": lambda x, y: np.sort(x[x > y]) * 2,
    "product": lambda x, y: np.maximum(np.round(x) @ np.round(y.T), 0),  # exact, in any order
}


def on_cpu(f: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    result = fjit.fuse(f)(*arguments)
    return result if isinstance(result, tuple) else (result,)


def same(got: Any, want: tuple[Any, ...]) -> None:
    got = got if isinstance(got, tuple) else (got,)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        a = a.to_numpy() if isinstance(a, fjit.cuda.DeviceArray) else a
        np.testing.assert_array_equal(a, b, strict=not isinstance(b, np.generic))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_numpy_arrays_go_in_and_out(fake: FakeDriver, name: str, dtype: str) -> None:
    x, y = X.astype(dtype), Y.astype(dtype)
    got = fjit.fuse(PROGRAMS[name], target="cuda")(x, y)
    same(got, on_cpu(PROGRAMS[name], x, y))
    parts = got if isinstance(got, tuple) else (got,)
    assert all(isinstance(part, np.ndarray | np.generic) for part in parts)
    assert bool(fake.calls("launch")) is (name != "empty")


@pytest.mark.parametrize("name", PROGRAMS)
def test_arrays_on_the_gpu_stay_there(fake: FakeDriver, name: str) -> None:
    x, y = fjit.cuda.from_numpy(X), fjit.cuda.from_numpy(Y[::-1, ::-1])
    got = fjit.fuse(PROGRAMS[name])(x, y)
    parts = got if isinstance(got, tuple) else (got,)
    assert all(type(part) is fjit.cuda.DeviceArray for part in parts)
    same(got, on_cpu(PROGRAMS[name], X, Y[::-1, ::-1]))


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda a: a.T,
    "backwards": lambda a: a[::-1, ::-1],
    "every third": lambda a: a[1::3, ::2],
    "repeated": lambda a: np.broadcast_to(a[:1], (5, *a.shape)),
    "one element": lambda a: a[2, 3, ...],
    "no element": lambda a: a[:, :0],
    "swapped bytes": lambda a: a.astype(">f4"),
    "a field of records": lambda a: np.rec.fromarrays([a, a])["f0"],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_are_copied_in_as_they_are(fake: FakeDriver, layout: str) -> None:
    x = LAYOUTS[layout](X)
    same(fjit.fuse(lambda x: x * 2 + 1, target="cuda")(x), on_cpu(lambda x: x * 2 + 1, x))


def test_elements_at_odd_addresses_are_copied_or_refused(fake: FakeDriver) -> None:
    odd = np.zeros(4, np.dtype([("a", "u1"), ("b", "f4")]))["b"]
    same(fjit.fuse(lambda x: x + 1, target="cuda")(odd), (odd + 1,))
    there = Foreign(X)
    address, writable = there.__cuda_array_interface__["data"]
    there.__cuda_array_interface__["data"] = (address + 1, writable)
    with pytest.raises(FjitValueError, match=r"argument #0 has elements of 4 bytes at addresses"):
        fjit.fuse(lambda x: x + 1)(there)


def test_only_what_an_array_spans_is_copied(fake: FakeDriver) -> None:
    fjit.fuse(lambda x: x * 2, target="cuda")(X[10:20])
    assert [nbytes for nbytes, _ in fake.calls("copy_in")] == [10 * 130 * 4]
    assert [nbytes for nbytes, _ in fake.calls("copy_out")] == [10 * 130 * 4]


def test_nothing_waits_where_nothing_can_go_wrong(fake: FakeDriver) -> None:
    x = fjit.cuda.from_numpy(X)
    for function in (lambda x: np.exp(x).sum(1), lambda x: x.cumsum()):
        f = fjit.fuse(function)
        f(x)
        fake.log.clear()
        f(x)
        assert not fake.calls("wait") and not fake.calls("copy_out") and fake.calls("launch")


def test_errors_of_values_are_raised(fake: FakeDriver) -> None:
    f = fjit.fuse(lambda x, i: x[i], target="cuda")
    same(f(X, np.array([0, 66])), (X[[0, 66]],))
    with pytest.raises(FjitIndexError, match="out of bounds"):
        f(X, np.array([0, 67]))
    with pytest.raises(FjitValueError, match="negative integer powers"):
        fjit.fuse(lambda n, m: n**m, target="cuda")(np.arange(3), np.array([1, 0, -1]))


def test_writes_reach_the_caller(fake: FakeDriver) -> None:
    def f(a: Any, b: Any) -> Any:
        a[1:] += b[:-1]
        return a.sum()

    want_a, want = X.copy(), np.zeros(())
    want = fjit.fuse(f)(want_a, Y)
    a = X.copy()
    assert fjit.fuse(f, target="cuda")(a, Y) == want
    same(a, (want_a,))
    there = fjit.cuda.from_numpy(X)
    same(fjit.fuse(f)(there, fjit.cuda.from_numpy(Y)), (np.asarray(want),))
    same(there, (want_a,))


@pytest.mark.parametrize("there", [False, True])
def test_writes_through_overlapping_views(fake: FakeDriver, there: bool) -> None:
    def f(a: Any, b: Any) -> Any:
        a += 1
        return b * 2

    want, mine = X.copy(), X.copy()
    result = fjit.fuse(f)(want[:-1], want[1:])
    whole = fjit.cuda.from_numpy(mine) if there else mine
    same(fjit.fuse(f, target="cuda")(whole[:-1], whole[1:]), (result,))
    same(whole, (want,))


def test_writes_between_the_elements_of_a_view(fake: FakeDriver) -> None:
    def f(a: Any) -> None:
        a *= 2

    want = X.copy()
    want[::2, ::3] *= 2
    there, mine = fjit.cuda.from_numpy(X), X.copy()
    fjit.fuse(f)(there[::2, ::3])
    fjit.fuse(f, target="cuda")(mine[::2, ::3])
    same(there, (want,))
    same(mine, (want,))


def test_numpy_arrays_beside_one_on_the_gpu(fake: FakeDriver) -> None:
    got = fjit.fuse(lambda x, y, k: x * y + k)(fjit.cuda.from_numpy(X), Y, 2.5)
    assert isinstance(got, fjit.cuda.DeviceArray)
    same(got, on_cpu(lambda x, y, k: x * y + k, X, Y, 2.5))


def test_an_argument_comes_back_as_itself_and_views_as_views(fake: FakeDriver) -> None:
    x = fjit.cuda.from_numpy(X)
    whole, part = fjit.fuse(lambda x: (x, x[1:, ::2].T))(x)
    assert whole is x
    same(part, (X[1:, ::2].T,))
    address = x.__cuda_array_interface__["data"][0]
    assert part.__cuda_array_interface__["data"][0] == address + 130 * 4


def test_branches_on_values_follow_the_gpus_arrays(fake: FakeDriver) -> None:
    def f(x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x - 1

    g = fjit.fuse(f)
    for array in (X, -X, abs(X), -abs(X)):
        same(g(fjit.cuda.from_numpy(array)), (f(array),))


def test_read_only_arrays_are_not_written(fake: FakeDriver) -> None:
    def f(a: Any) -> None:
        a += 1

    x = Foreign(X)
    address, _ = x.__cuda_array_interface__["data"]
    x.__cuda_array_interface__["data"] = (address, True)
    with pytest.raises(ReadOnlyError):
        fjit.fuse(f)(x)


# Devices and targets


def test_the_arguments_device_decides(fake: FakeDriver) -> None:
    first, second = fjit.cuda.from_numpy(X, device=0), fjit.cuda.from_numpy(X, device=1)
    f = fjit.fuse(lambda x: x + 1)
    assert f(first).device == 0 and f(second).device == 1
    same(f(second), (X + 1,))
    with pytest.raises(FjitValueError, match="GPUs 0, 1: a call runs on one"):
        fjit.fuse(lambda x, y: x + y)(first, second)


@pytest.mark.parametrize("target", ["cpu", "interpreter", "cuda-emulator"])
def test_gpu_arrays_are_refused_where_the_host_runs(fake: FakeDriver, target: str) -> None:
    with pytest.raises(FjitValueError, match=r"an argument is an array in the memory of GPU 0"):
        fjit.fuse(lambda x: x + 1, target=target)(fjit.cuda.from_numpy(X))


def test_code_of_another_architecture_is_refused(fake: FakeDriver) -> None:
    same(fjit.fuse(lambda x: x + 1, target="cuda:sm_90")(X), (X + 1,))
    with pytest.raises(DriverError, match=r"code for sm_80 does not run on <GPU 0: Fake 0") as e:
        fjit.fuse(lambda x: x + 1, target="cuda:sm_80")(X)
    assert "cuda-emulator:sm_80" in str(e.value) and "fjit doctor" in str(e.value)


@pytest.mark.parametrize(("capability", "name"), [((8, 7), "sm_86"), ((9, 0), "sm_90")])
def test_code_is_made_for_the_device(
    fake: FakeDriver, capability: tuple[int, int], name: str
) -> None:
    fake.capability = capability
    f = fjit.fuse(lambda x: x + 1, target="cuda")
    assert f.lower(X).choices.gpu.name == name  # type: ignore[attr-defined]
    same(f(X), (X + 1,))


def test_a_device_too_old_is_named(fake: FakeDriver) -> None:
    fake.capability = (5, 2)
    with pytest.raises(DriverError, match=r"architecture sm_52, for which fjit makes no code"):
        fjit.fuse(lambda x: x + 1, target="cuda")(X)


def test_a_device_that_is_not_there(fake: FakeDriver) -> None:
    with pytest.raises(DriverError, match="GPU 2 was asked for, and 2 visible"):
        fjit.cuda.from_numpy(X, device=2)


# Streams


def test_work_is_queued_on_the_callers_stream(fake: FakeDriver) -> None:
    x, y = Foreign(X, stream=77), Foreign(Y, stream=88)
    f = fjit.fuse(lambda x, y: x + y)
    f(x, y)
    fake.log.clear()
    got = f(x, y)
    assert {launch[-1] for launch in fake.calls("launch")} == {77}
    names = [entry for entry in fake.log if entry[0] in ("record", "await_event", "launch")]
    assert [n[:2] for n in names[:2]] == [("record", 88), ("await_event", 77)]
    assert [n[:2] for n in names[3:]] == [("record", 77), ("await_event", 88)]
    assert got.__cuda_array_interface__["stream"] == 77
    same(got, (X + Y,))


class Foreign:
    """A GPU array of a library that fjit does not know."""

    def __init__(self, array: Any, stream: int | None = None) -> None:
        self.array = fjit.cuda.from_numpy(array)
        interface = self.array.__cuda_array_interface__
        self.__cuda_array_interface__ = {**interface, "stream": stream}


# Memory


@pytest.mark.parametrize("pools", [True, False])
def test_all_memory_is_freed(fake: FakeDriver, pools: bool) -> None:
    fake.pools = pools
    f = fjit.fuse(lambda x, y: np.sort(np.exp(x) + y, axis=1) * 2, target="cuda")
    f(X, Y)
    kept = len(fake.blocks)
    for _ in range(3):
        f(X, Y)
    got = f(fjit.cuda.from_numpy(X), Y)
    view = got[3:]
    del got
    assert len(fake.blocks) == kept + 1
    same(view, (fjit.fuse(lambda x, y: np.sort(np.exp(x) + y, axis=1) * 2)(X, Y)[3:],))
    del view
    gc.collect()
    assert len(fake.blocks) == kept


def test_a_full_pool_is_given_up_before_a_failure(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.fail["allocate"] = "CUDA_ERROR_OUT_OF_MEMORY"
    monkeypatch.setattr(fake, "trim", lambda pool: fake.fail.clear())
    assert fjit.cuda.from_numpy(X).shape == X.shape


def test_out_of_memory_says_what_helps(fake: FakeDriver) -> None:
    fake.fail["allocate"] = "CUDA_ERROR_OUT_OF_MEMORY"
    with pytest.raises(DriverError, match="Free arrays that are no longer needed"):
        fjit.fuse(lambda x: x + 1, target="cuda")(X)
    assert fake.calls("trim")


@pytest.mark.parametrize("where", ["copy_in", "launch", "wait", "copy_out", "load", "clear"])
def test_a_failure_anywhere_is_raised_and_leaves_nothing(fake: FakeDriver, where: str) -> None:
    f = fjit.fuse(lambda x: np.exp(x[x > 0]), target="cuda")
    fjit.fuse(lambda x: x + 1, target="cuda")(X)
    if where != "load":
        f(X)
    gc.collect()
    before = len(fake.blocks)
    fake.fail[where] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(DriverError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        f(X)
    fake.fail.clear()
    gc.collect()
    assert len(fake.blocks) == before
    assert not fake.contexts


# Launches


def test_256_threads_fit_with_any_number_of_registers() -> None:
    """So that the threads of a task, and the order of its sums, follow from its extents alone."""
    for target in GPU_TARGETS.values():
        assert target.blocks_per_sm(target.max_registers, THREADS) >= 1


def test_a_grid_is_no_more_than_some_waves(fake: FakeDriver) -> None:
    big = np.ones((5000, 64), "f4")
    same(fjit.fuse(lambda x: x.sum(1), target="cuda")(big), (big.sum(1),))
    resident = 4 * GPU_TARGETS["sm_90"].blocks_per_sm(REGISTERS, 128)
    grids = [grid[0] * grid[1] for grid, *_ in fake.calls("launch")]
    assert grids and all(count <= WAVES * resident for count in grids)


@pytest.mark.parametrize(
    ("grid", "resident", "want"),
    [
        ((1, 10), 100, (1, 10)),
        ((1, MOST_HIGH), 10, (1, 80)),
        ((4, 1000), 10, (4, 20)),
        ((4000, 1000), 10, (80, 1)),
        ((7, 9), 0, (7, 1)),
    ],
)
def test_waves(grid: tuple[int, int], resident: int, want: tuple[int, int]) -> None:
    assert in_waves(Launch(grid, (32, 4)), resident).grid == want


def test_code_is_loaded_once_a_device(fake: FakeDriver) -> None:
    f = fjit.fuse(lambda x: x * 3, target="cuda")
    for rows in (3, 5, 8):
        f(np.ones((rows, 40)))
    assert len(fake.calls("load")) == 1
    f(fjit.cuda.from_numpy(np.ones((3, 40)), device=1))
    assert len(fake.calls("load")) == 2


def test_threads_share_a_device(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts are a thread's own, here as in CUDA."""
    local = threading.local()

    class Contexts:
        def __get__(self, instance: Any, owner: Any) -> list[int]:
            if not hasattr(local, "stack"):
                local.stack = []
            return local.stack  # type: ignore[no-any-return]

    monkeypatch.delattr(fake, "contexts")
    monkeypatch.setattr(FakeDriver, "contexts", Contexts(), raising=False)
    f = fjit.fuse(lambda x: np.sin(x) * 2, target="cuda")
    failures: list[Any] = []

    def work(k: int) -> None:
        try:
            for _ in range(20):
                same(f(X + k), (want[k],))
        except BaseException as error:
            failures.append(error)

    want = [fjit.fuse(lambda x: np.sin(x) * 2)(X + k) for k in range(4)]
    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


# Graphs


def several(x: Any) -> Any:
    return np.exp(x).sum(0) * 2, np.sin(x).sum(1), x.T.copy()


def test_kernels_whose_addresses_come_again_are_one_graph(fake: FakeDriver) -> None:
    x = fjit.cuda.from_numpy(X)
    f = fjit.fuse(several, fusion="none")
    want = on_cpu(several, X)
    for _ in range(6):
        same(f(x), want)
    assert len(fake.calls("graph")) == 1 and len(fake.calls("launch_graph")) == 5
    results = [f(x) for _ in range(20)]  # all held: other addresses each time
    for result in results:
        same(result, want)
    assert len(fake.calls("destroy_graph")) == 1
    del f
    gc.collect()
    assert not fake.graphs


def test_other_words_are_no_use_of_a_graph(fake: FakeDriver) -> None:
    f = fjit.fuse(several, fusion="none")
    held = []
    for k in range(12):
        held.append(fjit.cuda.from_numpy(X + k))
        same(f(held[-1]), on_cpu(several, X + k))
    assert fake.calls("launch") and not fake.calls("launch_graph")


# Looking inside


def test_explain_and_lower_need_no_device_and_name_what_the_host_does(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> Any:
        raise DriverError("no driver")

    monkeypatch.setattr(drivers, "started", absent)
    f = fjit.fuse(lambda x: np.sort(np.exp(x), axis=1) * 2, target="cuda")
    report = f.explain(X)  # type: ignore[attr-defined]
    assert [kernel.actual_registers for kernel in report.kernels] == [REGISTERS, REGISTERS]
    assert [kernel.actual_spills for kernel in report.kernels] == [0, 0]
    assert any("call0_sort: made by the host" in note for note in report.notes)
    assert "for a GPU of architecture sm_90" in " ".join(str(report).split())
    lowered = f.lower(X)  # type: ignore[attr-defined]
    assert lowered.asm == lowered.ptx.replace("// kernel", "# kernel")
    with pytest.raises(FjitValueError, match="not those of a GPU"):
        f.explain(X, measure=True)  # type: ignore[attr-defined]
    with pytest.raises(DriverError):
        f(X)


def test_one_function_serves_both_memories(fake: FakeDriver) -> None:
    """Calls that native code answers do not keep arrays on a GPU from finding their way."""
    f = fjit.fuse(lambda x, y: x * y + 1)
    for _ in range(4):
        same(f(X, Y), (X * Y + 1,))
        same(f(fjit.cuda.from_numpy(X), fjit.cuda.from_numpy(Y)), (X * Y + 1,))
    assert f.cache_info().traces == 2  # type: ignore[attr-defined]


def test_containers_and_keywords(fake: FakeDriver) -> None:
    x, y = fjit.cuda.from_numpy(X), fjit.cuda.from_numpy(Y)
    got = fjit.fuse(lambda parts, *, scale: {"a": parts["x"] * scale, "b": parts["y"].sum(0)})(
        {"x": x, "y": y}, scale=2
    )
    same((got["a"], got["b"]), on_cpu(lambda x, y: (x * 2, y.sum(0)), X, Y))
