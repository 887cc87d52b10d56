"""The script for a real device: on one where there is one; on the fake everything but its speed."""

from typing import Any

import numpy as np
import pytest

from fjit.errors import DriverError
from tests.gpu import run_on_device
from tests.gpu.fake_driver import FakeDriver


def test_the_script_runs(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_on_device, "LIMIT_S", float("inf"))  # the machine may be busy
    code = run_on_device.main(["--size", "0.1", "--random", "10", "--product", "512"])
    out = capsys.readouterr().out
    assert code == 0, out
    assert "(10 random), 0 wrong" in out and "of copy" in out
    for name in run_on_device.CASES:
        assert f"\n{name} " in out
    assert "\nproduct f8 512 " in out


def test_a_wrong_result_is_told(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    right = fake.copy_out

    def wrong(target: int, address: int, nbytes: int, stream: int) -> None:
        right(target, address, nbytes, stream)
        if nbytes == 67 * 130 * 4:
            run_on_device.np.frombuffer(_memory(target, nbytes), np.uint8)[0] ^= 1

    checks = run_on_device.Checks()
    checks.check("right", lambda x: x + 1, run_on_device.X.astype("f4"))
    monkeypatch.setattr(fake, "copy_out", wrong)
    checks.check("wrong", lambda x: x + 1, run_on_device.X.astype("f4"))
    assert checks.count == 2
    assert [failure.partition(":")[0] for failure in checks.failures] == ["wrong"]


def _memory(address: int, nbytes: int) -> Any:
    import ctypes

    return (ctypes.c_char * nbytes).from_address(address)


def test_no_device_is_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(number: int) -> Any:
        raise DriverError("there is none")

    monkeypatch.setattr(run_on_device, "device", absent)
    assert run_on_device.main([]) == 2
    assert capsys.readouterr().out == "no device: there is none\n"


@pytest.mark.gpu
def test_on_a_real_device(capsys: pytest.CaptureFixture[str]) -> None:
    code = run_on_device.main(["--size", "16", "--random", "20"])
    assert code == 0, capsys.readouterr().out
