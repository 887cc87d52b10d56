"""A call taken through the stages: program, plan, loop nests, LLVM IR, assembly; each when asked.

Takes a planned program and where its inputs live, gives a `Lowered`. Invariant: nothing runs, and
LLVM is loaded only for `llvm_ir`, `asm` and `compile`.

    >>> import numpy as np, fjit
    >>> print(fjit.fuse(lambda x: x + 1).lower(np.ones(3)).program)
    { lambda a:f64[3] .
      let b:f64[3] = add a 1.0:f64
      in (b,) }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from fjit.backend import cpu
from fjit.core.ir import Eqn, Program, Sym, Var
from fjit.lower.assembly import Fit, build_nest, memory_of
from fjit.lower.memory import Memory
from fjit.lower.nest import Nest
from fjit.lower.reach import is_short
from fjit.optimize import relax
from fjit.optimize.frames import is_frame, product_of
from fjit.optimize.pipeline import optimize
from fjit.optimize.plan import Plan
from fjit.report import machine
from fjit.runtime.host import host, with_caches
from fjit.runtime.jit import assembly
from fjit.target import CpuTarget, GpuTarget

if TYPE_CHECKING:
    from fjit.runtime.gpu_code import Code, NestCode, Usage

NAME_WORDS = 4


class Choices(NamedTuple):
    """What of a fused function's keywords matters below the plan; `native` if it compiles."""

    native: bool = True
    width: int = 0
    threads: int | None = None
    cache: bool = True
    fastmath: frozenset[str] = frozenset()
    gpu: GpuTarget | None = None


class Lowered:
    """The stages of one kind of call.

    `program` is the optimized program, `plan` the fused one with its decisions, `nests` one loop
    nest a kernel; `llvm_ir` and `asm` are the texts of all kernels under a header each. `ptx` and
    `sass_info` belong to GPU targets and are None for the CPU.
    """

    def __init__(
        self,
        name: str,
        program: Program,
        plan: Plan,
        memory: Sequence[Memory],
        choices: Choices,
        finish: Callable[[], Callable[..., Any]],
        traced: Program | None = None,
    ) -> None:
        self.name = name
        self.program = program
        self.plan = plan
        self.choices = choices
        self._finish = finish
        self._traced = traced
        self.memory: dict[Var, Memory] = memory_of(plan, memory)

    def __repr__(self) -> str:
        return f"<lowered {self.name}: {len(self.plan.kernels)} kernels>"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A name for each kernel: its number and its first few operations."""
        return tuple(kernel_name(k, kernel.eqn) for k, kernel in enumerate(self.plan.kernels))

    @cached_property
    def built(self) -> tuple[tuple[Nest, tuple[Sym, ...]], ...]:
        """Each kernel's nest, and the symbols whose extents its cells hold."""
        cache = with_caches(machine.description()).l3_bytes
        fit = Fit(cache, self.choices.gpu is not None)
        return tuple(build_nest(kernel, self.memory, fit) for kernel in self.plan.kernels)

    @property
    def nests(self) -> tuple[Nest, ...]:
        """The loop trees, one a kernel; `str` shows one."""
        return tuple(nest for nest, _ in self.built)

    @property
    def target(self) -> CpuTarget:
        """The machine that code is made for."""
        return host()

    @cached_property
    def codes(self) -> tuple[NestCode, ...]:
        """The GPU code of each kernel; none for the CPU."""
        gpu, cache = self.choices.gpu, self.choices.cache
        if gpu is None:
            return ()
        from fjit.runtime.gpu_code import gpu_code

        pairs = zip(self.plan.kernels, self.nests, strict=True)
        return tuple(
            gpu_code(
                nest, str(nest), gpu, short=is_short(kernel.eqn, nest, self.memory), cache=cache
            )
            for kernel, nest in pairs
        )

    @cached_property
    def products(self) -> tuple[tuple[str, Code], ...]:
        """The names and code of a GPU's matrix products, which are calls of the plan."""
        gpu, cache = self.choices.gpu, self.choices.cache
        if gpu is None:
            return ()
        from fjit.runtime.gpu_code import product_code
        from fjit.runtime.gpu_products import product

        calls = zip(self.call_names, calls_of(self.plan), strict=True)
        return tuple(
            (name, product_code(product(eqn, self.memory).form, gpu, cache=cache))
            for name, eqn in calls
            if is_frame(eqn)
        )

    @cached_property
    def call_names(self) -> tuple[str, ...]:
        """A name for each step that is no kernel: its number and what it does."""
        calls = enumerate(calls_of(self.plan))
        return tuple(f"call{k}_{product_of(eqn).primitive.name}" for k, eqn in calls)

    @property
    def ptx(self) -> str | None:
        """The PTX of all kernels for a GPU target; None for the CPU."""
        if self.choices.gpu is None:
            return None
        named = (*zip(self.names, self.codes, strict=True), *self.products)
        return _joined([name for name, _ in named], [code.ptx for _, code in named], "//")

    @property
    def sass_info(self) -> tuple[Usage, ...] | None:
        """What the linker says of each phase of each kernel for a GPU target; None for the CPU."""
        if self.choices.gpu is None:
            return None
        from fjit.runtime.gpu_code import usage_of

        pairs = (*zip(self.names, self.codes, strict=True), *self.products)
        return tuple(usage for name, code in pairs for usage in usage_of(name, code))

    @cached_property
    def kernel_ir(self) -> tuple[str, ...]:
        """The LLVM IR of each kernel as emitted, before LLVM's passes."""
        if self.choices.gpu is not None:
            return tuple(code.ir for code in self.codes)
        return tuple(cpu.emit(nest, self.target, self.choices.width) for nest in self.nests)

    @cached_property
    def kernel_asm(self) -> tuple[str, ...]:
        """The assembly of each kernel after LLVM's passes; for a GPU its PTX."""
        if self.choices.gpu is not None:
            return tuple(code.ptx for code in self.codes)
        return tuple(assembly(text, self.target) for text in self.kernel_ir)

    @cached_property
    def fastmath(self) -> tuple[tuple[str, str], ...]:
        """Each fastmath flag and what it licensed in the whole program."""
        found = relax.licensed(self.program)
        if "nsz" in self.choices.fastmath and self._traced is not None:
            dropped = relax.zeros_dropped(optimize(self._traced), self.program)
            words = f"{dropped} added zero" + ("s" if dropped > 1 else "")
            found["nsz"] = ", ".join(filter(None, (found.get("nsz"), words if dropped else "")))
        flags = [flag for flag in relax.FLAGS if flag in self.choices.fastmath]
        return tuple((flag, found.get(flag) or "nothing") for flag in flags)

    @property
    def llvm_ir(self) -> str:
        """The LLVM IR of all kernels, as emitted."""
        products = [(name, code.ir) for name, code in self.products]
        named = (*zip(self.names, self.kernel_ir, strict=True), *products)
        return _joined([name for name, _ in named], [text for _, text in named], ";")

    @property
    def asm(self) -> str:
        """The assembly of all kernels for this machine, after LLVM's passes."""
        return _joined(self.names, self.kernel_asm, "#")

    def compile(self) -> Callable[..., Any]:
        """Compile what such a call needs, and give the fused function; its next call just runs."""
        return self._finish()


def calls_of(plan: Plan) -> tuple[Eqn, ...]:
    """The steps of a plan that are no kernels, in order."""
    kernels = {kernel.eqn for kernel in plan.kernels}
    return tuple(eqn for eqn in plan.steps if eqn not in kernels)


def kernel_name(number: int, eqn: Eqn) -> str:
    """`k`, the kernel's number and up to four of its operations: k0_max_sub_exp_sum."""
    program = eqn.param("program")
    assert isinstance(program, Program)
    words = dict.fromkeys(
        str(e.get("op") or e.primitive.name) for e in program.eqns if e.primitive.family != "view"
    )
    words = words or dict.fromkeys(e.primitive.name for e in program.eqns)
    return "_".join([f"k{number}", *list(words)[:NAME_WORDS]])


def _joined(names: Sequence[str], texts: Sequence[str], comment: str) -> str:
    parts = [f"{comment} kernel {name}\n{text}" for name, text in zip(names, texts, strict=True)]
    return "\n".join(parts)
