"""What a `target` names: the machine that kernels are made for, and what runs them.

Takes the text that a user gave, gives a `Machine`. Invariant: nothing of CUDA is loaded until code
for a GPU is wanted, and no target quietly stands for another one.

    machine_of("cuda-emulator:sm_75")    ->    Machine("cuda-emulator", sm_75)
    machine_of("auto").at([x])           ->    Machine("cuda", sm_90, device 0), x on a GPU
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fjit.core.placed import Placed
from fjit.errors import DriverError, FjitValueError
from fjit.frontend.function import Write
from fjit.runtime.devices import Device, device, runs_on
from fjit.runtime.host import host
from fjit.runtime.options import Options
from fjit.target import GPU_TARGETS, GpuTarget

if TYPE_CHECKING:
    from fjit.lower.assembly import Assembly
    from fjit.runtime.executable import Executable

USUAL_GPU: Final = "sm_90"
"""The architecture of GPU targets that name none, where there is no device."""
KINDS: Final = ("auto", "cpu", "cuda", "cuda-emulator", "interpreter")
TARGETS: Final = (*KINDS, "cuda:sm_90", "cuda-emulator:sm_75")


class Machine(NamedTuple):
    """A kind of machine, one of KINDS, the architecture of a GPU, and the GPU itself."""

    kind: str
    gpu: GpuTarget | None = None
    device: Device | None = None
    is_named: bool = False  # whether the user chose the architecture

    @property
    def compiles(self) -> bool:
        """Whether there are kernels at all."""
        return self.kind != "interpreter"

    @property
    def is_host(self) -> bool:
        """Whether machine code for this processor runs, which the native entry can call."""
        return self.kind in ("auto", "cpu")

    @property
    def takes_gpus(self) -> bool:
        """Whether arrays in a GPU's memory may be passed."""
        return self.kind in ("auto", "cuda")

    def at(self, leaves: Sequence[Any]) -> Machine:
        """The machine for a call with these arguments: on a GPU, that of its arrays, or the first.

        DriverError where there is none, FjitValueError where arrays are on several.
        """
        found = {a.place.number: a for a in leaves if isinstance(a, Placed)}
        if len(found) > 1:
            raise FjitValueError(
                f"arguments and captured arrays lie in the memory of GPUs "
                f"{', '.join(map(str, sorted(found)))}: a call runs on one, so copy them to the "
                "same"
            )
        if not found and self.kind != "cuda":
            return self
        gpu = device(next(iter(found), 0))
        if self.gpu is None or not self.is_named:
            return Machine("cuda", gpu.target, gpu)
        if not runs_on(self.gpu, gpu.capability):
            raise DriverError(
                f"code for {self.gpu.name} does not run on {gpu!r}: target='cuda' makes it for the "
                f"device; .lower(...) shows that for {self.gpu.name}, and "
                f"target='cuda-emulator:{self.gpu.name}' runs it. `fjit doctor` lists the devices."
            )
        return self._replace(device=gpu)

    def shown(self, leaves: Sequence[Any]) -> Machine:
        """The machine that code for such a call is shown for, which need not be here."""
        open_choice = self.kind in ("auto", "cuda") and not self.is_named
        try:
            return self.at(leaves) if open_choice else self
        except DriverError:
            return self

    def executable(
        self, assembly: Assembly, options: Options, writes: Sequence[Write] = ()
    ) -> Executable:
        """What runs an assembly on this machine, which `at` gave."""
        if self.device is None and self.gpu is None:
            from fjit.runtime.executable import Executable

            return Executable(assembly, options, writes)
        if self.device is not None:
            from fjit.runtime.cuda_executable import CudaExecutable

            return CudaExecutable(assembly, options, writes, self.device)
        from fjit.runtime.emulated import EmulatedExecutable

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
        return Machine(kind, GPU_TARGETS[arch], is_named=True)
    raise FjitValueError(
        f"target={target!r} is not known; good values: {', '.join(KINDS)}, or cuda and "
        f"cuda-emulator with an architecture, one of {', '.join(GPU_TARGETS)}: 'cuda:sm_90'"
    )
