"""The one door to CUDA's packages: imported when first asked for, never with fjit.

Takes nothing, gives the modules of cuda-python that stand for libNVVM, nvJitLink and the driver,
the path of libdevice, and versions. Invariant: to compile, no driver is needed or touched; what is
not installed is one error that names the command that installs it.

    >>> toolkit.versions()
    Versions(nvvm="13.5.37", nvjitlink="13.5.37")
"""

import functools
import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from fjit.errors import MissingPackageError

PACKAGES = ("cuda-python", "nvidia-nvvm", "nvidia-nvjitlink")
LIBDEVICE = "libdevice.10.bc"


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of the packages that decide what machine code a text becomes."""

    nvvm: str
    nvjitlink: str


@functools.cache
def _installed() -> Any:
    """What is known of installed packages; reading it takes 10 ms, which `import fjit` spares."""
    return importlib.import_module("importlib.metadata")


def missing() -> tuple[str, ...]:
    """The packages of `fjit[cuda]` that are not installed."""
    return tuple(package for package in PACKAGES if _version(package) is None)


@functools.cache
def nvvm() -> ModuleType:
    """The module that wraps libNVVM."""
    return _load("cuda.bindings.nvvm", "version")


@functools.cache
def nvjitlink() -> ModuleType:
    """The module that wraps nvJitLink."""
    return _load("cuda.bindings.nvjitlink", "version")


@functools.cache
def driver() -> ModuleType:
    """The module that wraps the driver; nothing in it works before its `cuInit` did."""
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        lacking = ", ".join(missing()) or "none of its packages, but it does not load"
        raise MissingPackageError(
            f"running on a GPU needs CUDA's packages, and they were not found (missing: {lacking}; "
            "`fjit doctor` shows what is there). pip install 'fjit[cuda]'; with them "
            "target='cuda-emulator' runs the same kernels on a machine without a GPU."
        ) from error


@functools.cache
def versions() -> Versions:
    """The installed versions of libNVVM and nvJitLink."""
    found = [_version(package) for package in PACKAGES[1:]]
    if None in found:
        raise _not_installed()
    return Versions(*map(str, found))


@functools.cache
def libdevice_path() -> Path:
    """Where libdevice, the library of elementary functions in LLVM bitcode, lies."""
    try:
        files = _installed().files("nvidia-nvvm") or []
    except ModuleNotFoundError:
        files = []
    for file in files:
        if file.name == LIBDEVICE:
            return Path(str(file.locate()))
    raise _not_installed()


@functools.cache
def libdevice() -> bytes:
    """The bitcode of libdevice."""
    return libdevice_path().read_bytes()


def _load(name: str, probe: str) -> ModuleType:
    """Import a module and call into its library, which it opens only then."""
    try:
        module = importlib.import_module(name)
        getattr(module, probe)()
    except (ImportError, RuntimeError) as error:
        raise _not_installed() from error
    return module


def _not_installed() -> MissingPackageError:
    lacking = ", ".join(missing()) or "none of its packages, but its libraries do not load"
    return MissingPackageError(
        f"compiling for a GPU needs CUDA's compiler and linker, and they were not found (missing: "
        f"{lacking}). pip install 'fjit[cuda]'; no GPU and no driver is needed to compile."
    )


def _version(package: str) -> str | None:
    try:
        return str(_installed().version(package))
    except ModuleNotFoundError:
        return None
