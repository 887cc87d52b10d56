"""Kernels of one elementwise primitive each, as the tests of the GPU's compiler want them.

Takes a primitive and its dtypes, gives a module of kernels that load, apply it and store.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fjit.backend import nvvm, scalar
from fjit.backend.emitter import I32, I64, Emitter, Val
from fjit.backend.values import GLOBAL
from fjit.core import primitives
from fjit.core.dtypes import COMPILED, NAMES
from fjit.core.ir import Aval
from fjit.errors import FjitTypeError
from fjit.target import GPU_TARGETS

BOOL = np.dtype(bool)
DTYPES = tuple(d for d in NAMES if d in COMPILED)
TYPED, OPAQUE = GPU_TARGETS["sm_75"], GPU_TARGETS["sm_100"]


class Case(NamedTuple):
    """One primitive on one dtype, perhaps with a fastmath flag."""

    op: str
    dtypes: tuple[np.dtype, ...]
    result: np.dtype
    fast: str = ""

    @property
    def name(self) -> str:
        return "_".join((self.op, *(NAMES[d] for d in (*self.dtypes, self.result))))


def cases(dtype: np.dtype) -> list[Case]:
    """Every primitive that the type rules allow for `dtype`, and every cast from it."""
    found = [Case("convert", (dtype,), target) for target in DTYPES]
    for op in scalar.ROWS:
        for arity in (1, 2, 3):
            dtypes = (BOOL, dtype, dtype) if op == "select" else (dtype,) * arity
            try:
                out = primitives.type_rule(primitives.PRIMITIVES[op])(
                    *[Aval((), d) for d in dtypes]
                )
            except (FjitTypeError, TypeError):
                continue
            found.append(Case(op, dtypes, out.dtype))
            break
    return found


def module(cases: Sequence[Case]) -> str:
    """A module with a kernel for each case, named after it."""
    shared = Emitter(gpu=True)
    parts = [kernel(case, shared) for case in cases]
    parts += [*shared.helpers.values(), *shared.declares.values()]
    return nvvm.module(parts, [nvvm.Kernel(case.name) for case in cases])


def kernel(case: Case, shared: Emitter) -> str:
    em = shared.nested()
    thread = em.sext(em.call("llvm.nvvm.read.ptx.sreg.tid.x", I32), I64)
    args = [
        load(em, dtype, element(em, Val(GLOBAL, f"%a{k}"), dtype, thread))
        for k, dtype in enumerate(case.dtypes)
    ]
    value = scalar.emit(em, case.op, case.dtypes, tuple(args), case.result, case.fast)
    assert value.ty == scalar.register_type(case.result)
    if case.result == BOOL:
        value = em.zext(value, scalar.memory_type(BOOL))
    em.store(value, element(em, Val(GLOBAL, "%out"), case.result, thread), case.result.itemsize)
    em.ret()
    params = [(GLOBAL, f"a{k}") for k in range(len(case.dtypes))]
    return em.define(case.name, [*params, (GLOBAL, "out")], "nounwind")


def element(em: Emitter, base: Val, dtype: np.dtype, index: Val) -> Val:
    return em.gep(base, em.mul(index, em.const(I64, dtype.itemsize)))


def load(em: Emitter, dtype: np.dtype, place: Val) -> Val:
    value = em.load(scalar.memory_type(dtype), place, dtype.itemsize)
    return em.trunc_int(value, scalar.register_type(dtype)) if dtype == BOOL else value
