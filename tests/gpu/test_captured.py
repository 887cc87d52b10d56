"""Arrays on a GPU that a function reads from outside: by reference and guarded, as NumPy's."""

import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fjit
from fjit.cuda import DeviceArray, from_numpy
from fjit.errors import DriverError, FjitValueError
from fjit.runtime import driver as drivers
from tests.gpu.fake_driver import FakeDriver
from tests.gpu.test_arrays import OnlyDLPack

X = np.arange(24.0).reshape(4, 6)
W = np.linspace(-1.0, 1.0, 6)

weights: Any = None


class Interface:
    """A GPU array of a library that speaks the array interface alone."""

    def __init__(self, array: DeviceArray) -> None:
        self.array = array

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.array.__cuda_array_interface__


LIBRARIES: dict[str, Callable[[DeviceArray], Any]] = {
    "ours": lambda a: a,
    "the array interface": Interface,
    "DLPack": OnlyDLPack,
}


@pytest.fixture(autouse=True)
def fresh_global() -> Iterator[None]:
    """No test leaves an array in the global."""
    global weights  # noqa: PLW0603 - what is tested is that functions read it
    yield
    weights = None


def set_global(value: Any) -> None:
    global weights  # noqa: PLW0603 - what is tested is that functions read it
    weights = value


def scaled(x: Any) -> Any:
    return x * weights + 1


def same(got: Any, want: Any) -> None:
    assert isinstance(got, DeviceArray)
    np.testing.assert_array_equal(got.to_numpy(), want, strict=True)


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
def test_a_global(fake: FakeDriver, make: Callable[[DeviceArray], Any]) -> None:
    set_global(make(from_numpy(W)))
    f = fjit.fuse(scaled)
    for _ in range(3):
        same(f(from_numpy(X)), X * W + 1)
        same(f(X), X * W + 1)  # with NumPy arrays alone, the captured one decides where it runs
    assert f.cache_info().traces == 2  # type: ignore[attr-defined]


def test_closures_attributes_and_containers(fake: FakeDriver) -> None:
    w = from_numpy(W)
    model = types.SimpleNamespace(w=w, parts=[w, {"b": from_numpy(W * 2)}])
    same(fjit.fuse(lambda x: x * w)(X), X * W)
    same(fjit.fuse(lambda x: x * model.w + model.parts[1]["b"])(X), X * W + W * 2)

    class Layer:
        def __init__(self) -> None:
            self.w = w

        @fjit.fuse
        def __call__(self, x: Any) -> Any:
            return x - self.w

    layer = Layer()
    same(layer(X), X - W)
    layer.w = from_numpy(W + 1)
    same(layer(X), X - (W + 1))


@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
def test_values_are_read_anew(fake: FakeDriver, make: Callable[[DeviceArray], Any]) -> None:
    there = from_numpy(W)
    set_global(make(there))
    f = fjit.fuse(scaled)
    same(f(X), X * W + 1)
    increased = fjit.fuse(_increase)
    increased(there)
    same(f(X), X * (W + 1) + 1)
    assert f.cache_info().traces == 1  # type: ignore[attr-defined]


def _increase(a: Any) -> None:
    a += 1


def test_rebinding(fake: FakeDriver) -> None:
    """To the same layout nothing is traced; to another one, or to NumPy's memory, it is."""
    f = fjit.fuse(scaled)
    stages = [
        (from_numpy(W), 1), (from_numpy(W * 3), 1), (from_numpy(np.ones((4, 6))), 2),
        (from_numpy(np.asfortranarray(X)), 3), (from_numpy(W.astype("f4")), 4),
    ]  # fmt: skip
    for value, traces in stages:
        set_global(value)
        same(f(X), X * value.to_numpy() + 1)
        assert f.cache_info().traces == traces  # type: ignore[attr-defined]
    set_global(W)
    np.testing.assert_array_equal(f(X), X * W + 1, strict=True)
    same(f(from_numpy(X)), X * W + 1)
    set_global(from_numpy(W))
    same(f(X), X * W + 1)


def test_two_names_of_one_array(fake: FakeDriver) -> None:
    w = from_numpy(W)
    parts = {"first": w, "second": w}
    f = fjit.fuse(lambda x: x * parts["first"] + parts["second"])
    same(f(X), X * W + W)
    parts["second"] = from_numpy(W * 5)
    same(f(X), X * W + W * 5)


def test_an_argument_that_is_captured_too(fake: FakeDriver) -> None:
    w = from_numpy(W)
    f = fjit.fuse(lambda x: x * w)
    same(f(w), W * W)
    same(f(from_numpy(W + 1)), (W + 1) * W)
    same(f(w), W * W)


def test_writes_reach_a_captured_array(fake: FakeDriver) -> None:
    total = from_numpy(np.zeros((4, 6)))

    def collect(x: Any) -> Any:
        total[...] += x
        return total.sum()

    f = fjit.fuse(collect)
    for count in (1, 2, 3):
        same(f(X), np.asarray(X.sum() * count))
    np.testing.assert_array_equal(total.to_numpy(), X * 3)


def test_returned_as_it_is(fake: FakeDriver) -> None:
    w = from_numpy(W)
    assert fjit.fuse(lambda x: (x + 1, w))(X)[1] is w


def test_a_branch_on_a_captured_value(fake: FakeDriver) -> None:
    set_global(from_numpy(W))
    f = fjit.fuse(_either)
    same(f(X), X + 1)
    set_global(from_numpy(W + 10))
    same(f(X), X - 1)


def _either(x: Any) -> Any:
    return x - 1 if weights.max() > 5 else x + 1


def test_the_device_of_a_captured_array_decides(fake: FakeDriver) -> None:
    set_global(from_numpy(W, device=1))
    f = fjit.fuse(scaled)
    assert f(X).device == 1
    set_global(from_numpy(W, device=0))
    assert f(X).device == 0
    with pytest.raises(FjitValueError, match=r"captured arrays lie in the memory of GPUs 0, 1"):
        f(from_numpy(X, device=1))


@pytest.mark.parametrize("target", ["cpu", "cuda-emulator", "interpreter"])
@pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)
def test_targets_in_the_memory_of_the_host(
    fake: FakeDriver,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    make: Callable[[DeviceArray], Any],
) -> None:
    """What was passed, and what to do; also on a machine without a driver."""
    x, w = make(from_numpy(X)), make(from_numpy(W))
    set_global(w)

    def absent() -> Any:
        raise DriverError("no driver")

    monkeypatch.setattr(drivers, "started", absent)
    f = fjit.fuse(scaled, target=target)
    name = type(x).__qualname__
    with pytest.raises(
        FjitValueError, match=rf"an argument is an array .* GPU.*, a .*{name}.*'auto'"
    ):
        f(x)
    with pytest.raises(FjitValueError, match=rf"global weights is an array .* GPU.*, a .*{name}"):
        f(X)


def test_the_refusal_is_not_caught_by_the_function(fake: FakeDriver) -> None:
    set_global(from_numpy(W))

    def careful(x: Any) -> Any:
        try:
            return x * weights
        except ValueError:
            return x

    with pytest.raises(FjitValueError, match="global weights is an array"):
        fjit.fuse(careful, target="cpu")(X)


def test_attributes_of_any_object_are_not_asked_for(fake: FakeDriver) -> None:
    """An instance that answers to every name is no array."""

    class Anything:
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__cuda"):
                raise RuntimeError("asked")
            raise AttributeError(name)

    held = Anything()
    held.k = 3.0  # type: ignore[attr-defined]
    np.testing.assert_array_equal(fjit.fuse(lambda x: x * held.k)(X), X * 3)


def test_looking_inside(fake: FakeDriver) -> None:
    set_global(from_numpy(W))
    f = fjit.fuse(scaled)
    assert f.lower(X).ptx is not None  # type: ignore[attr-defined]
    report = f.explain(X)  # type: ignore[attr-defined]
    assert "for a GPU of architecture sm_90" in " ".join(str(report).split())
    with pytest.raises(FjitValueError, match="not those of a GPU"):
        f.explain(X, measure=True)  # type: ignore[attr-defined]
