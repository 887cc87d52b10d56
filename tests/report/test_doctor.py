"""fjit doctor on GPUs: drivers and devices of all kinds, and what is not installed."""

import ctypes
from types import SimpleNamespace

import pytest

from fjit.backend import toolkit
from fjit.errors import MissingPackageError
from fjit.report import devices, doctor
from fjit.report.devices import Device, Driver

NAMES = ("NVIDIA H200", "Tesla P4", "Later Card")
CAPABILITIES = ((9, 0), (6, 1), (12, 1))


class Library:
    """A driver library of three devices, or one whose cuInit fails."""

    def __init__(self, status: int = 0) -> None:
        self.status = status

    def cuInit(self, flags: int) -> int:
        return self.status

    def cuDriverGetVersion(self, out: ctypes._Pointer) -> int:
        return put(out, 13020)

    def cuDeviceGetCount(self, out: ctypes._Pointer) -> int:
        return put(out, len(NAMES))

    def cuDeviceGet(self, out: ctypes._Pointer, index: int) -> int:
        return put(out, index + 10)

    def cuDeviceGetName(self, buffer: ctypes.Array, size: int, handle: int) -> int:
        assert size == len(buffer)
        buffer.value = NAMES[handle - 10].encode()
        return 0

    def cuDeviceComputeCapability(self, major: object, minor: object, handle: int) -> int:
        put(major, CAPABILITIES[handle - 10][0])
        return put(minor, CAPABILITIES[handle - 10][1])


def put(out: ctypes._Pointer, number: int) -> int:
    out._obj.value = number
    return 0


def load(monkeypatch: pytest.MonkeyPatch, library: Library) -> None:
    """Let fjit.report.devices, and nobody else, find this library."""
    names = {name: getattr(ctypes, name) for name in ("c_int", "byref", "create_string_buffer")}
    made_up = SimpleNamespace(**names, CDLL=lambda name: library)
    monkeypatch.setattr(devices, "ctypes", made_up)


def rows() -> dict[str, doctor.Finding]:
    return {found.what: found for found in doctor.findings()}


def test_devices_are_named_with_what_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    load(monkeypatch, Library())
    assert devices.driver() == Driver((13, 2), tuple(map(Device, NAMES, CAPABILITIES)))
    found = rows()
    assert found["CUDA driver"].found == "CUDA 13.2, 3 device(s)"
    assert found["CUDA driver"].advice == ""
    text = "NVIDIA H200, compute capability 9.0, compiled for as sm_90"
    assert found["GPU 0"].found == text and found["GPU 0"].advice == ""
    assert "sm_75" in found["GPU 1"].advice
    assert found["GPU 2"].found.endswith("12.1, compiled for as sm_120")


def test_a_driver_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    load(monkeypatch, Library(status=999))
    row = rows()["CUDA driver"]
    assert "cuInit gives 999" in row.found and "nvidia-smi" in row.advice and not row.fatal


def test_no_driver_is_no_error() -> None:
    driver = devices.driver("libcuda.so.of.nobody")
    assert driver == Driver(None, (), found=False)
    (row,) = doctor._gpus(driver)
    assert "not found" in row.found and "install NVIDIA's driver" in row.advice


def test_no_visible_device_is_told() -> None:
    (row,) = doctor._gpus(Driver((13, 0), ()))
    assert "0 device(s)" in row.found and "CUDA_VISIBLE_DEVICES" in row.advice


@pytest.mark.parametrize(
    ("capability", "target"),
    [
        ((7, 5), "sm_75"),
        ((8, 0), "sm_80"),
        ((8, 9), "sm_89"),
        ((10, 3), "sm_100"),
        ((7, 0), None),
        ((11, 0), None),
    ],
)
def test_the_newest_code_that_a_device_runs(
    capability: tuple[int, int], target: str | None
) -> None:
    assert Device("a", capability).target == target


@pytest.mark.nvvm
def test_the_compiler_is_told_with_its_versions() -> None:
    found = rows()["GPU compiler"].found
    assert found.startswith("libNVVM 2.") and "nvJitLink 13." in found
    assert found.endswith("libdevice.10.bc")


def test_missing_packages_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor.installed
    monkeypatch.setattr(doctor, "installed", lambda n: None if n == "nvidia-nvvm" else real(n))
    found = rows()
    assert "pip install 'fjit[cuda]'" in found["CUDA packages"].advice
    assert "nvidia-nvvm" in found["CUDA packages"].advice and "GPU compiler" not in found


def test_a_compiler_that_does_not_load_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> SimpleNamespace:
        raise MissingPackageError("it does not load")

    monkeypatch.setattr(toolkit, "nvvm", refuse)
    row = doctor._gpu_compiler()
    assert row.found == "does not load" and row.advice == "it does not load" and not row.fatal
