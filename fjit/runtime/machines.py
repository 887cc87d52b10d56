"""What a `target` names: the machine that kernels are made for, and what runs them.

Takes the text that a user gave, gives a `Machine`. Invariant: nothing of CUDA is loaded until code
for a GPU is wanted, and no target quietly stands for another one.

    machine_of("cuda-emulator:sm_75")    ->    Machine("cuda-emulator", sm_75)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from fjit.errors import DriverError, FjitValueError
from fjit.frontend.function import Write
from fjit.lower.assembly import Assembly
from fjit.runtime.executable import Executable, Options
from fjit.runtime.host import host
from fjit.target import GPU_TARGETS, GpuTarget

USUAL_GPU: Final = "sm_90"
"""The architecture of GPU targets that name none, where there is no device."""
KINDS: Final = ("auto", "cpu", "cuda", "cuda-emulator", "interpreter")
TARGETS: Final = (*KINDS, "cuda:sm_90", "cuda-emulator:sm_75")


class Machine(NamedTuple):
    """A kind of machine, one of KINDS, and the architecture of a GPU."""

    kind: str
    gpu: GpuTarget | None = None

    @property
    def compiles(self) -> bool:
        """Whether there are kernels at all."""
        return self.kind != "interpreter"

    @property
    def is_host(self) -> bool:
        """Whether machine code for this processor runs, which the native entry can call."""
        return self.kind in ("auto", "cpu")

    def executable(
        self, assembly: Assembly, options: Options, writes: Sequence[Write] = ()
    ) -> Executable:
        """What runs an assembly on this machine; DriverError where there is no such machine."""
        if self.gpu is None:
            return Executable(assembly, options, writes)
        if self.kind == "cuda":
            raise no_driver()
        from fjit.runtime.device import EmulatedExecutable

        return EmulatedExecutable(assembly, options, writes)

    def options(self, width: int, threads: int | None, cache: bool) -> Options:
        """The options of an executable."""
        return Options(host(), width, threads, cache, self.gpu)


def machine_of(target: str) -> Machine:
    """The machine that a target names, or FjitValueError with the good values."""
    kind, colon, arch = target.partition(":") if isinstance(target, str) else (target, "", "")
    if kind in KINDS and not colon:
        return Machine(kind, GPU_TARGETS[USUAL_GPU] if kind.startswith("cuda") else None)
    if kind in ("cuda", "cuda-emulator") and arch in GPU_TARGETS:
        return Machine(kind, GPU_TARGETS[arch])
    raise FjitValueError(
        f"target={target!r} is not known; good values: {', '.join(KINDS)}, or cuda and "
        f"cuda-emulator with an architecture, one of {', '.join(GPU_TARGETS)}: 'cuda:sm_90'"
    )


def no_driver() -> DriverError:
    """The error for kernels that only a GPU can run, where none is at hand."""
    return DriverError(
        "target='cuda' needs an NVIDIA GPU with its driver, and no driver was found (`fjit doctor` "
        "says what is missing). target='cuda-emulator' runs the same kernels without one, and "
        ".lower(...).ptx shows them."
    )
