"""Every elementwise primitive on every dtype: compiled, and compared with its NumPy meaning."""

import ctypes
import functools
import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest

from fjit.backend import scalar
from fjit.backend.emitter import I64, PTR, Emitter, Ty, Val
from fjit.core import primitives
from fjit.core.dtypes import COMPILED, NAMES
from fjit.core.ir import Aval, Primitive
from fjit.errors import FjitTypeError, InternalError
from fjit.runtime import jit
from fjit.runtime.host import host

TRANSCENDENTAL = set(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh cbrt erf erfc gammaln digamma pow atan2 hypot logaddexp logaddexp2".split()
)
DTYPES = tuple(d for d in NAMES if d in COMPILED)
BOOL = np.dtype(bool)
ARITY = {"select": 3}
SIGN_OF_ZERO_OPEN = ("fmax", "fmin")


class Case(NamedTuple):
    """One function of a compiled module."""

    op: str
    dtypes: tuple[np.dtype, ...]
    result: np.dtype

    @property
    def name(self) -> str:
        return "_".join((self.op, *(NAMES[d] for d in (*self.dtypes, self.result))))


def elementwise() -> list[Primitive]:
    return [p for p in primitives.PRIMITIVES.values() if p.family == "elementwise"]


@functools.cache
def cases(dtype: np.dtype) -> tuple[Case, ...]:
    """Every primitive that the type rules allow for `dtype`."""
    found = []
    for primitive in elementwise():
        if primitive.name == "convert":
            found += [Case("convert", (dtype,), target) for target in DTYPES]
            continue
        for arity in (1, 2, 3):
            dtypes = (BOOL, dtype, dtype) if arity == 3 else (dtype,) * arity
            try:
                out = primitives.type_rule(primitive)(*[Aval((), d) for d in dtypes])
            except (FjitTypeError, TypeError):
                continue
            found.append(Case(primitive.name, dtypes, out.dtype))
    return tuple(found)


# Running


def load(em: Emitter, dtype: np.dtype, pointer: Val, lanes: int, size: int = 0) -> Val:
    val = em.load(scalar.memory_type(dtype, lanes), pointer)
    return em.trunc_int(val, scalar.register_type(dtype)) if dtype == BOOL else val


def write_function(case: Case, lanes: int, hardware_half: bool, shared: Emitter) -> str:
    """A loop over `n` elements, `lanes` at a time."""
    em = Emitter(hardware_half=hardware_half)
    em.declares, em.helpers = shared.declares, shared.helpers
    em.stmt("br label %loop")
    em.label("loop")
    i, following = Val(I64, "%i"), Val(I64, "%next")
    em.stmt("%i = phi i64 [ 0, %0 ], [ %next, %loop ]")
    args = []
    for k, dtype in enumerate(case.dtypes):
        offset = em.mul(i, em.const(I64, dtype.itemsize))
        args.append(load(em, dtype, em.gep(Val(PTR, f"%a{k}"), offset), lanes))
    val = scalar.emit(em, case.op, case.dtypes, tuple(args), case.result)
    assert val.ty == scalar.register_type(case.result, lanes)
    if case.result == BOOL:
        val = em.zext(val, scalar.memory_type(BOOL))
    em.store(val, em.gep(Val(PTR, "%out"), em.mul(i, em.const(I64, case.result.itemsize))))
    em.stmt(f"{following.ref} = add i64 %i, {lanes}")
    em.cond_br(em.icmp("ult", following, Val(I64, "%n")), "loop", "end")
    em.label("end")
    em.ret()
    params = [(PTR, f"a{k}") for k in range(len(case.dtypes))]
    return em.define(case.name, [*params, (PTR, "out"), (I64, "n")], "nounwind")


@functools.cache
def compiled(dtype: np.dtype, lanes: int, hardware_half: bool) -> jit.Module:
    shared = Emitter()
    parts = [
        write_function(case, lanes, hardware_half, shared)
        for case in cases(dtype)
        if case.op not in TRANSCENDENTAL or dtype.kind != "f"
    ]
    text = "\n".join([*parts, *shared.helpers.values(), *shared.declares.values()]) + "\n"
    return jit.compile_module(text, target=host(), cache=False)


def run(case: Case, lanes: int, arrays: list[np.ndarray], hardware_half: bool = True) -> Any:
    module = compiled(case.dtypes[-1], lanes, hardware_half)
    out = np.empty(len(arrays[0]), case.result)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out)]
    kinds = [ctypes.c_void_p] * len(pointers) + [ctypes.c_int64]
    ctypes.CFUNCTYPE(None, *kinds)(module.address(case.name))(*pointers, len(out))
    return out


# Inputs


@functools.cache
def values(dtype: np.dtype) -> np.ndarray:
    """Special values; pairs of all of them are tried."""
    if dtype == BOOL:
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        width = info.bits
        numbers = {0, 1, 2, 3, 5, 7, 10, 100, info.max, info.max - 1, info.max // 2, info.min}
        numbers |= {info.min + 1, info.max // 2 + 1, width - 1, width, width + 1, info.max // 3}
        numbers |= {-1, -2, -3, -7, -10, -width} if info.min else set()
        return np.array(sorted(numbers), dtype)
    info = np.finfo(dtype)
    powers = [2.0**k for k in (7, 8, 15, 16, 31, 32, 52, 53, 63, 64) if 2.0**k < float(info.max)]
    edges = [np.dtype(dtype).type(p) for p in powers]
    edges += [np.nextafter(e, dtype.type(s)) for e in edges for s in (0, np.inf)]
    small = [0, 0.1, 0.5, 1, 1.5, 2, 2.5, 3, 7.25, 255.5, 300, 1e3, info.smallest_subnormal]
    small += [info.tiny, info.max, np.inf, np.nan, info.eps, 1 + info.eps, info.tiny * 0.75]
    numbers = np.array([*small, *edges], dtype)
    return np.concatenate([numbers, -numbers])


def random_bits(dtype: np.dtype, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == BOOL:
        return rng.integers(0, 2, count).astype(bool)
    bits = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype)
    if dtype.kind == "f":  # half of them of ordinary size
        return np.where(rng.random(count) < 0.5, bits, (rng.normal(size=count) * 50).astype(dtype))
    shift = rng.integers(0, 8 * dtype.itemsize, count).astype(dtype)
    return np.right_shift(bits, shift)


def inputs(case: Case) -> list[np.ndarray]:
    """All combinations of special values, then random bits; a multiple of 64 elements."""
    grids = np.meshgrid(*[values(d) for d in case.dtypes], indexing="ij")
    count = -grids[0].size % 64 + 2048
    arrays = []
    for k, (dtype, grid) in enumerate(zip(case.dtypes, grids, strict=True)):
        arrays.append(np.concatenate([grid.ravel(), random_bits(dtype, count, k)]))
    if case.op == "pow":
        arrays[1] = np.abs(arrays[1]) if case.dtypes[0].kind == "u" else arrays[1] & 0x7F
        arrays[1][arrays[1] < 0] = 0
    return arrays


def expected(case: Case, arrays: list[np.ndarray]) -> np.ndarray:
    with np.errstate(all="ignore"):
        if case.op != "convert":
            return primitives.MEANINGS[primitives.PRIMITIVES[case.op]](*arrays)
        if arrays[0].dtype.kind == "f" and case.result == np.dtype(np.uint32):
            return arrays[0].astype(np.int64).astype(np.uint32)  # the rule of docs/numerics.md
        return arrays[0].astype(case.result)


def assert_same(case: Case, got: np.ndarray, want: np.ndarray, arrays: list[np.ndarray]) -> None:
    assert want.dtype == got.dtype
    if want.dtype.kind != "f":
        wrong = got != want
    else:
        bits = np.dtype(f"u{want.dtype.itemsize}")
        wrong = (got.view(bits) != want.view(bits)) & ~(np.isnan(got) & np.isnan(want))
        if case.op in SIGN_OF_ZERO_OPEN:
            wrong &= got != want
    if wrong.any():
        rows = list(zip(*[a[wrong] for a in arrays], got[wrong], want[wrong], strict=True))
        lines = "\n".join(repr(row) for row in rows[:12])
        raise AssertionError(f"{case.name}: {len(rows)} differ; operands, got, want:\n{lines}")


# Tests


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES.get)
def test_every_primitive_gives_numpys_bits(dtype: np.dtype, lanes: int) -> None:
    failures = []
    for case in cases(dtype):
        if case.op in TRANSCENDENTAL and dtype.kind == "f":
            continue
        arrays = inputs(case)
        try:
            assert_same(case, run(case, lanes, arrays), expected(case, arrays), arrays)
        except AssertionError as error:
            failures.append(str(error))
    assert not failures, "\n".join(failures)
