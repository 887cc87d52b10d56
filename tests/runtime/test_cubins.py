"""GPU machine code: read from the disk as it was compiled, keyed by all that decides it."""

import dataclasses

import numpy as np
import pytest

from fjit.backend import toolkit
from fjit.runtime import cubins
from fjit.runtime.cache import default_cache
from fjit.target import GPU_TARGETS
from tests.backend.nvvm import rows

pytestmark = pytest.mark.nvvm

ARCH = GPU_TARGETS["sm_90"]


def text(*names: str) -> str:
    return rows.module([case for case in rows.cases(np.dtype("f4")) if case.op in names])


def test_the_disk_gives_back_what_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    module = text("exp", "sin")
    first = cubins.compiled(module, ARCH)
    assert not first.from_cache and len(first.kernels) == 2

    def not_again() -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(toolkit, "nvvm", not_again)
    monkeypatch.setattr(toolkit, "nvjitlink", not_again)
    second = cubins.compiled(module, ARCH)
    assert second.from_cache
    assert dataclasses.replace(second, from_cache=False, seconds=first.seconds) == first
    assert first.code[:4] == b"\x7fELF" and ".target sm_90" in first.ptx


def test_without_the_cache_the_disk_is_left_alone() -> None:
    module = text("tan")
    before = default_cache().stats()
    assert not cubins.compiled(module, ARCH, cache=False).from_cache
    assert not cubins.compiled(module, ARCH, cache=False).from_cache
    assert default_cache().stats() == before


def test_keys_differ_by_text_architecture_and_options() -> None:
    keys = {
        cubins.cache_key("a", ARCH),
        cubins.cache_key("b", ARCH),
        cubins.cache_key("a", GPU_TARGETS["sm_100"]),
        cubins.cache_key("a", ARCH, {"fma": 1}),
    }
    assert len(keys) == 4
