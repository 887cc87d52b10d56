"""The CUDA driver's codes as errors that say what was done, what it means and what helps.

Takes a code's name and the driver's own sentence, gives a `DriverError`. Invariant: each text names
the code, so that it can be looked up, and what fjit was doing.

    refused("CUDA_ERROR_OUT_OF_MEMORY", "out of memory", "reserving 8,000,000,000 bytes on GPU 0")
"""

from typing import Final

from fjit.errors import DriverError

ADVICE: Final = {
    "CUDA_ERROR_OUT_OF_MEMORY": (
        "Free arrays that are no longer needed (other libraries keep freed memory: "
        "torch.cuda.empty_cache(), cupy.get_default_memory_pool().free_all_blocks()), or work on "
        "parts of the data."
    ),
    "CUDA_ERROR_NO_BINARY_FOR_GPU": (
        "The code was made for another architecture: leave the architecture out of the target, or "
        "name the device's (`fjit doctor` shows it)."
    ),
    "CUDA_ERROR_INVALID_IMAGE": (
        "The driver does not know machine code of this CUDA version: update NVIDIA's driver, or "
        "install cuda-python, nvidia-nvvm and nvidia-nvjitlink of the driver's major version."
    ),
    "CUDA_ERROR_ILLEGAL_ADDRESS": (
        "A kernel accessed memory that is not its own; the process cannot use this GPU any more. "
        "If an argument's memory had not been freed before, this is a bug in fjit: "
        "target='cuda-emulator' names the access."
    ),
    "CUDA_ERROR_MISALIGNED_ADDRESS": (
        "An array does not start at a multiple of its element's size: pass a copy. The process "
        "cannot use this GPU any more."
    ),
    "CUDA_ERROR_LAUNCH_FAILED": (
        "A kernel stopped; the process cannot use this GPU any more. target='cuda-emulator' runs "
        "the same code with checks."
    ),
    "CUDA_ERROR_LAUNCH_TIMEOUT": (
        "The system stops kernels on a GPU that drives a display after some seconds: work on parts "
        "of the data, or use a GPU without a display."
    ),
    "CUDA_ERROR_ECC_UNCORRECTABLE": "The GPU's memory failed: see `nvidia-smi -q -d ECC`.",
    "CUDA_ERROR_HARDWARE_STACK_ERROR": "The GPU failed: see `nvidia-smi` and the system's log.",
    "CUDA_ERROR_DEVICE_UNAVAILABLE": (
        "Another process holds the GPU for itself (its compute mode), or it was lost: see "
        "`nvidia-smi`."
    ),
    "CUDA_ERROR_DEVICE_NOT_LICENSED": "The virtual GPU has no licence: see `nvidia-smi -q`.",
    "CUDA_ERROR_NO_DEVICE": (
        "No GPU is visible: see `nvidia-smi` and CUDA_VISIBLE_DEVICES. target='cuda-emulator' runs "
        "the same kernels without one."
    ),
    "CUDA_ERROR_NOT_INITIALIZED": (
        "A process that was forked from one that uses a GPU cannot use it: start processes with "
        "multiprocessing.get_context('spawn')."
    ),
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": (
        "The driver's library and its kernel module have different versions: restart the machine "
        "after an update."
    ),
    "CUDA_ERROR_SYSTEM_NOT_READY": "A service of the system is not running: see `nvidia-smi`.",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED": (
        "Some library reset the GPU (cudaDeviceReset), which takes the memory of all others."
    ),
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": (
        "The caller's stream is recording a graph, and this call has to read from the GPU: call it "
        "outside the recording."
    ),
}
"""What helps, for the codes that users meet."""

ELSEWHERE: Final = (
    "`fjit doctor` shows what was found, and target='cuda-emulator' runs the same kernels without "
    "a GPU."
)


class CudaError(DriverError):
    """A code that the driver gave; `code` is its name."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        """Errors of worker processes are pickled."""
        return CudaError, (self.code, str(self))


def refused(code: str, meaning: str, doing: str) -> CudaError:
    """The error for a code that is not CUDA_SUCCESS, met while `doing` something."""
    advice = ADVICE.get(code, ELSEWHERE)
    return CudaError(code, f"{doing} failed: {meaning or 'no explanation'} ({code}). {advice}")


def no_driver(why: str) -> DriverError:
    """The error where there is no driver that starts."""
    return DriverError(
        f"running on a GPU needs NVIDIA's driver, and {why} (`fjit doctor` says what is missing). "
        "target='cuda-emulator' runs the same kernels without one, and .lower(...).ptx shows them."
    )
