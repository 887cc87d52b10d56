"""Machine code of GPU kernels: compiled once, kept on disk between processes.

Takes the text of a module and a `GpuTarget`, gives its PTX, cubin and the linker's account of its
kernels. Invariant: the same text and target give the same bytes, whether compiled now or read from
the cache; a cached entry needs neither libNVVM nor nvJitLink to be loaded, only to be installed.

    >>> compiled(text, GPU_TARGETS["sm_90"]).kernels[0].registers
    16
"""

import dataclasses
import hashlib
import json
import time
from collections.abc import Sequence

from fjit.backend import nvvm
from fjit.runtime.cache import default_cache, sources_digest
from fjit.target import GpuTarget


@dataclasses.dataclass(frozen=True, slots=True)
class Cubin:
    """A module for one architecture; `seconds` is the time it took to get it."""

    ptx: str
    code: bytes
    kernels: tuple[nvvm.KernelInfo, ...]
    from_cache: bool
    seconds: float


def compiled(
    text: str, arch: GpuTarget, options: nvvm.Options = nvvm.NO_OPTIONS, *, cache: bool = True
) -> Cubin:
    """Return the machine code of a module; with `cache` false the disk is left alone.

    Raises InternalError if the text is refused and MissingPackageError without `fjit[cuda]`.
    """
    start = time.perf_counter()
    digest = cache_key(text, arch, options) if cache else None
    payload = default_cache().get(digest) if digest is not None else None
    if payload is not None:
        ptx, linked = _unpacked(payload)
        return Cubin(ptx, linked.cubin, linked.kernels, True, time.perf_counter() - start)
    ptx = nvvm.compile_ptx(text, arch, options)
    linked = nvvm.link(ptx, arch)
    if digest is not None:
        default_cache().put(digest, _packed(ptx, linked))
    return Cubin(ptx, linked.cubin, linked.kernels, False, time.perf_counter() - start)


def cache_key(text: str, arch: GpuTarget, options: nvvm.Options = nvvm.NO_OPTIONS) -> str:
    """Return the disk cache's key: the compiler's own, and fjit's sources."""
    parts = (nvvm.key(text, arch, options), sources_digest())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _packed(ptx: str, linked: nvvm.Linked) -> bytes:
    """One line of JSON, then the PTX, then the cubin."""
    text = ptx.encode()
    kernels: Sequence[dict[str, object]] = [dataclasses.asdict(info) for info in linked.kernels]
    header = json.dumps({"ptx": len(text), "kernels": kernels})
    return b"\n".join((header.encode(), text + linked.cubin))


def _unpacked(payload: bytes) -> tuple[str, nvvm.Linked]:
    header, _, rest = payload.partition(b"\n")
    about = json.loads(header)
    kernels = tuple(nvvm.KernelInfo(**info) for info in about["kernels"])
    size = about["ptx"]
    return rest[:size].decode(), nvvm.Linked(rest[size:], kernels)
