"""Arrays of other libraries in and out: the array interface, DLPack, DeviceArray, streams."""

import gc
import sys
import types
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.cuda import DeviceArray, from_dlpack, from_numpy
from fjit.errors import FjitTypeError, FjitValueError, UnsupportedError
from fjit.runtime import dlpack
from fjit.runtime.devices import device
from tests.gpu.fake_driver import FakeDriver

X = np.arange(24.0).reshape(4, 6)


class OnlyDLPack:
    """An array of a library that speaks DLPack alone."""

    def __init__(self, array: DeviceArray) -> None:
        self.array, self.streams = array, []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream)


def addresses(*arrays: Any) -> set[int]:
    return {a.__cuda_array_interface__["data"][0] for a in arrays}


# DeviceArray


@pytest.mark.parametrize(
    "index",
    [0, -1, (1, 2), slice(1, 3), (..., 0), (None, slice(None), None), slice(None, None, -1),
     (slice(3, None, -2), slice(1, 5, 3)), np.int64(2), ()],
    ids=str,
)  # fmt: skip
def test_views(fake: FakeDriver, index: Any) -> None:
    view = from_numpy(X)[index]
    assert view.shape == X[index].shape and isinstance(view, DeviceArray)
    np.testing.assert_array_equal(view.to_numpy(), X[index])


@pytest.mark.parametrize("index", [[0, 1], np.array([1]), X > 3, True, 1.5], ids=str)
def test_other_indices_are_refused(fake: FakeDriver, index: Any) -> None:
    with pytest.raises(FjitTypeError, match="write the selection in a fused function"):
        from_numpy(X)[index]


def test_what_it_says_of_itself(fake: FakeDriver) -> None:
    x = from_numpy(X.astype("f4"), device=1)
    assert (x.shape, x.dtype, x.strides, x.ndim) == ((4, 6), np.dtype("f4"), (24, 4), 2)
    assert (x.size, x.nbytes, x.device, len(x)) == (24, 96, 1, 4)
    assert repr(x) == "<fjit.cuda.DeviceArray float32(4, 6) on GPU 1>"
    np.testing.assert_array_equal(x.T.to_numpy(), X.T.astype("f4"))


@pytest.mark.parametrize("convert", [np.asarray, np.array, lambda x: np.ones((4, 6)) + x])
def test_it_becomes_no_numpy_array_by_itself(fake: FakeDriver, convert: Any) -> None:
    with pytest.raises((FjitTypeError, TypeError), match=r"to_numpy|unsupported operand"):
        convert(from_numpy(X))


def test_copies_own_their_memory_and_keep_the_order_of_axes(fake: FakeDriver) -> None:
    copy = from_numpy(np.asfortranarray(X)).to_numpy()
    assert copy.flags.f_contiguous and copy.flags.owndata
    assert from_numpy(X)[:, ::-1].to_numpy().flags.c_contiguous


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", ">f8"])
def test_dtypes(fake: FakeDriver, dtype: str) -> None:
    values = (X % 2).astype(dtype)
    there = from_numpy(values)
    assert there.dtype.isnative
    np.testing.assert_array_equal(there.to_numpy(), values)


@pytest.mark.parametrize("dtype", ["c8", "M8[s]", "U3", "O"])
def test_dtypes_without_a_meaning_in_fjit(fake: FakeDriver, dtype: str) -> None:
    with pytest.raises(UnsupportedError, match="dtype"):
        from_numpy(np.zeros(3, dtype))


# The array interface


def test_the_interface_is_version_3(fake: FakeDriver) -> None:
    interface = from_numpy(X)[:, ::2].__cuda_array_interface__
    assert interface["version"] == 3 and interface["stream"] == 1
    assert interface["strides"] == (48, 16) and interface["typestr"] == "<f8"
    assert from_numpy(X).__cuda_array_interface__["strides"] is None
    assert from_numpy(X[:0]).__cuda_array_interface__["data"] == (0, False)


def test_empty_arrays_need_no_address(fake: FakeDriver) -> None:
    empty = types.SimpleNamespace(
        __cuda_array_interface__={
            "shape": (0, 3), "typestr": "<f4", "data": (0, False), "version": 3,
        }
    )  # fmt: skip
    got = fjit.fuse(lambda x: x.sum(0))(empty)
    np.testing.assert_array_equal(got.to_numpy(), np.zeros(3, "f4"), strict=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"typestr": ">f8"}, "byte order"),
        ({"mask": object()}, "masked array"),
        ({"typestr": "<c8"}, "dtype complex64"),
    ],
)
def test_what_the_interface_may_not_say(
    fake: FakeDriver, change: dict[str, Any], message: str
) -> None:
    x = from_numpy(X)
    odd = types.SimpleNamespace(__cuda_array_interface__={**x.__cuda_array_interface__, **change})
    with pytest.raises(UnsupportedError, match=message):
        fjit.fuse(lambda x: x + 1)(odd)


@pytest.mark.parametrize(("told", "used"), [(None, 0), (1, 0), (2, 2), (4096, 4096)])
def test_the_stream_of_the_interface(fake: FakeDriver, told: int | None, used: int) -> None:
    x = from_numpy(X)
    given = types.SimpleNamespace(
        __cuda_array_interface__={**x.__cuda_array_interface__, "stream": told}
    )
    fjit.fuse(lambda x: x + 1)(given)
    assert {launch[-1] for launch in fake.calls("launch")} == {used}


# DLPack


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "f8"])
def test_dlpack_there_and_back(fake: FakeDriver, dtype: str) -> None:
    values = (X % 2).astype(dtype)
    x = from_numpy(values)[::-1, 1:]
    y = from_dlpack(OnlyDLPack(x))
    assert addresses(x) == addresses(y) and y.dtype == x.dtype and y.strides == x.strides
    np.testing.assert_array_equal(y.to_numpy(), values[::-1, 1:])


def test_dlpack_holds_the_memory_until_the_consumer_lets_go(fake: FakeDriver) -> None:
    x = from_numpy(X)
    consumer = from_dlpack(OnlyDLPack(x))
    part = consumer[1:]
    del x, consumer
    gc.collect()
    np.testing.assert_array_equal(part.to_numpy(), X[1:])
    assert dlpack._given and fake.blocks
    del part
    gc.collect()
    assert not dlpack._given and not fake.blocks


def test_a_capsule_that_nobody_reads_lends_nothing(fake: FakeDriver) -> None:
    x = from_numpy(X)
    capsule = x.__dlpack__()
    assert len(dlpack._given) == 1
    del capsule
    assert not dlpack._given


def test_a_capsule_is_read_once(fake: FakeDriver) -> None:
    capsule = from_numpy(X).__dlpack__()
    held = dlpack.placed_of(capsule, device(0), 0)
    with pytest.raises(UnsupportedError, match="read once"):
        dlpack.placed_of(capsule, device(0), 0)
    assert held.shape == X.shape


def test_fused_functions_take_dlpack(fake: FakeDriver) -> None:
    x = OnlyDLPack(from_numpy(X))
    same, more = fjit.fuse(lambda x: (x, x + 1))(x)
    assert same is x and x.streams == [1]
    np.testing.assert_array_equal(more.to_numpy(), X + 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.__dlpack__(stream=0), "ambiguous"),
        (lambda x: x.__dlpack__(dl_device=(1, 0)), "to_numpy"),
        (lambda x: x.__dlpack__(copy=True), "makes no copy"),
    ],
)
def test_what_dlpack_may_not_ask(fake: FakeDriver, change: Any, message: str) -> None:
    with pytest.raises((FjitValueError, BufferError), match=message):
        change(from_numpy(X))


def test_read_only_memory_is_not_lent(fake: FakeDriver) -> None:
    repeated = fjit.fuse(lambda x: np.broadcast_to(x, (3, 4, 6)))(from_numpy(X))
    assert repeated.__cuda_array_interface__["data"][1]
    with pytest.raises(BufferError, match="read-only"):
        repeated.__dlpack__()


def test_the_consumers_stream_waits_and_memory_outlives_its_work(fake: FakeDriver) -> None:
    x = from_numpy(X)
    capsule = x.__dlpack__(stream=55)
    assert fake.calls("await_event") == [(55,)]
    del capsule, x
    gc.collect()
    assert fake.log[-2:] == [("wait_all",), ("free", *fake.calls("free")[0])]


def test_elements_of_other_kinds_are_refused(fake: FakeDriver) -> None:
    capsule = from_numpy(X).__dlpack__()
    address = dlpack._pointer(capsule, b"dltensor")
    dlpack._Managed.from_address(address).tensor.code = 5
    with pytest.raises(UnsupportedError, match="DLPack type 5 with 64 bits"):
        dlpack.placed_of(capsule, device(0), 0)


def test_arrays_in_the_hosts_memory_are_told_apart(fake: FakeDriver) -> None:
    with pytest.raises(FjitTypeError, match="ndarray is no array in the memory of a GPU"):
        from_dlpack(X)


# Libraries


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A library that calls itself torch: its arrays tell no stream."""
    module: Any = types.ModuleType("torch")

    class Tensor:
        def __init__(self, array: DeviceArray) -> None:
            self.array = array
            interface = dict(array.__cuda_array_interface__)
            del interface["stream"]
            self.__cuda_array_interface__ = {**interface, "version": 2}

    Tensor.__module__ = "torch"
    module.Tensor = Tensor
    module.from_dlpack = lambda x: Tensor(from_dlpack(OnlyDLPack(x)))
    module.cuda = types.SimpleNamespace(
        current_stream=lambda number: types.SimpleNamespace(cuda_stream=900 + number)
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_a_librarys_arrays_come_back(fake: FakeDriver, library: Any) -> None:
    x = library.Tensor(from_numpy(X))
    same, total = fjit.fuse(lambda x, y: (x, (x * y).sum(0)))(x, X)
    assert same is x and type(total) is library.Tensor
    np.testing.assert_array_equal(total.array.to_numpy(), (X * X).sum(0))


def test_pytorchs_stream_is_that_of_its_thread(fake: FakeDriver, library: Any) -> None:
    fjit.fuse(lambda x: x + 1)(library.Tensor(from_numpy(X)))
    assert {launch[-1] for launch in fake.calls("launch")} == {900}


def test_nothing_reads_an_array_on_the_gpu_by_accident(fake: FakeDriver) -> None:
    placed = device(0).upload(X, 0)
    for read in (np.exp, np.sum, np.sort, np.array_equal, lambda x: x + 1, lambda x: x == x):
        with pytest.raises((FjitTypeError, TypeError)):
            read(placed)
    assert "float64(4, 6) on GPU 0" in repr(placed) and str(placed) == repr(placed)
