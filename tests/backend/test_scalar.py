"""Every elementwise primitive on every dtype: compiled, and compared with its NumPy meaning."""

import ctypes
import dataclasses
import functools
import re
from typing import Any, NamedTuple

import numpy as np
import pytest

from fjit.backend import scalar
from fjit.backend.emitter import I64, PTR, Emitter, Val
from fjit.core import primitives
from fjit.core.dtypes import COMPILED, NAMES
from fjit.core.ir import Aval, Primitive
from fjit.errors import FjitTypeError, InternalError
from fjit.runtime import jit, llvm
from fjit.runtime.host import host
from fjit.target import CPU_TARGETS, CpuTarget

# fmt: off
TRANSCENDENTAL = {
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt", "erf", "erfc", "gammaln",
    "digamma", "pow", "atan2", "hypot", "logaddexp", "logaddexp2",
}
# fmt: on
BY_CONSTANT = ("floordiv", "mod", "fmod", "pow", "shl", "shr", "max", "add")
DTYPES = tuple(d for d in NAMES if d in COMPILED)
BOOL, HALF = np.dtype(bool), np.dtype(np.float16)
SIGN_OF_ZERO_OPEN = ("fmax", "fmin")
SIGN_OF_NAN_KEPT = ("neg", "abs", "copysign", "sign", "select")


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


@functools.cache
def exact_cases(dtype: np.dtype) -> tuple[Case, ...]:
    """The cases that give NumPy's bits; tests of fjit.backend.math cover the others."""
    return tuple(c for c in cases(dtype) if dtype.kind != "f" or c.op not in TRANSCENDENTAL)


# Running


class Machine(NamedTuple):
    """What a module is compiled for."""

    target: CpuTarget
    lanes: int

    @property
    def hardware_half(self) -> bool:
        return self.target.architecture == "aarch64" or "f16c" in self.target.requires


def usable(name: str) -> bool:
    """Whether this processor runs what is compiled for a shipped description."""
    mine = host()
    return name == mine.name or set(CPU_TARGETS[name].requires) <= set(mine.requires)


def at_level(name: str) -> CpuTarget:
    """A shipped description with its own features and no more."""
    row = CPU_TARGETS[name]
    return dataclasses.replace(row, cpu=row.level)


MACHINES = {
    "host-1": Machine(host(), 1),
    "host-16": Machine(host(), 16),
    **{
        f"{name}-{lanes}": Machine(at_level(name), lanes)
        for name, lanes in (("avx512", 8), ("avx2", 8), ("sse", 1), ("sse", 4), ("neon", 4))
        if usable(name)
    },
}


def write_function(
    name: str, case: Case, machine: Machine, shared: Emitter, last: int | None = None
) -> str:
    """A loop over `n` elements; `last` is a constant in place of the last operand."""
    em = Emitter(hardware_half=machine.hardware_half)
    em.declares, em.helpers = shared.declares, shared.helpers
    em.stmt("br label %loop")
    em.label("loop")
    i, following = Val(I64, "%i"), Val(I64, "%next")
    em.stmt("%i = phi i64 [ 0, %0 ], [ %next, %loop ]")
    args = []
    for k, dtype in enumerate(case.dtypes):
        offset = em.mul(i, em.const(I64, dtype.itemsize))
        args.append(load(em, dtype, em.gep(Val(PTR, f"%a{k}"), offset), machine.lanes))
    if last is not None:
        args[-1] = em.const(scalar.register_type(case.dtypes[-1], 1), last)
    val = scalar.emit(em, case.op, case.dtypes, tuple(args), case.result)
    assert val.ty == scalar.register_type(case.result, machine.lanes)
    if case.result == BOOL:
        val = em.zext(val, scalar.memory_type(BOOL, 1))
    em.store(val, em.gep(Val(PTR, "%out"), em.mul(i, em.const(I64, case.result.itemsize))))
    em.stmt(f"{following.ref} = add i64 %i, {machine.lanes}")
    em.cond_br(em.icmp("ult", following, Val(I64, "%n")), "loop", "end")
    em.label("end")
    em.ret()
    params = [(PTR, f"a{k}") for k in range(len(case.dtypes))]
    return em.define(name, [*params, (PTR, "out"), (I64, "n")], "nounwind")


def load(em: Emitter, dtype: np.dtype, pointer: Val, lanes: int) -> Val:
    val = em.load(scalar.memory_type(dtype, lanes), pointer)
    return em.trunc_int(val, scalar.register_type(dtype, 1)) if dtype == BOOL else val


def module_text(dtype: np.dtype, machine: Machine) -> str:
    shared = Emitter()
    parts = [write_function(case.name, case, machine, shared) for case in exact_cases(dtype)]
    return "\n".join([*parts, *shared.helpers.values(), *shared.declares.values()]) + "\n"


@functools.cache
def compiled(dtype: np.dtype, machine: Machine) -> jit.Module:
    return jit.compile_module(module_text(dtype, machine), target=machine.target, cache=False)


def run(module: jit.Module, name: str, case: Case, arrays: list[np.ndarray]) -> Any:
    out = np.empty(len(arrays[0]), case.result)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, out)]
    kinds = [ctypes.c_void_p] * len(pointers) + [ctypes.c_int64]
    ctypes.CFUNCTYPE(None, *kinds)(module.address(name))(*pointers, len(out))
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
    if dtype.itemsize == 8:  # between two float16 or float32, and a little beside the middle
        for middle in (1 + 2.0**-11, 1 + 3 * 2.0**-11, 65520.0, 1.5 * 2.0**-24, 2.0**-25):
            small += [middle, middle * (1 + 2.0**-40), middle * (1 - 2.0**-40)]
        small += [1 + 2.0**-24, 1 + 2.0**-24 + 2.0**-50, 2.0**-150 * 1.5]
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
    if (every := exhaustive(case)) is not None:
        return every
    grids = np.meshgrid(*[values(d) for d in case.dtypes], indexing="ij")
    count = -grids[0].size % 64 + 2048
    arrays = []
    for k, (dtype, grid) in enumerate(zip(case.dtypes, grids, strict=True)):
        arrays.append(np.concatenate([grid.ravel(), random_bits(dtype, count, k)]))
    if case.op == "pow":
        arrays[1] = np.abs(arrays[1]) if case.dtypes[0].kind == "u" else arrays[1] & 0x7F
        arrays[1][arrays[1] < 0] = 0
    return arrays


def exhaustive(case: Case) -> list[np.ndarray] | None:
    """All operands where they are few, and for rounding to float16 all places where it turns."""
    dtype = case.dtypes[-1]
    if dtype.itemsize == 1 and dtype != BOOL and len(case.dtypes) == 2 and case.op != "pow":
        every = np.arange(256, dtype=np.uint8).view(dtype)
        return [np.repeat(every, 256), np.tile(every, 256)]
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    if dtype == HALF and len(case.dtypes) == 1:
        return [halves]
    if case.op == "convert" and case.result == HALF and dtype.kind == "f":
        with np.errstate(all="ignore"):
            low = halves.astype(dtype)
            middle = (low + np.nextafter(halves, HALF.type(np.inf)).astype(dtype)) / 2
            beside = [np.nextafter(middle, dtype.type(s)) for s in (-np.inf, np.inf)]
            return [np.concatenate([low, middle, *beside, random_bits(dtype, 65536, 0)])]
    return None


def expected(case: Case, arrays: list[np.ndarray]) -> np.ndarray:
    with np.errstate(all="ignore"):
        if case.op != "convert":
            return primitives.MEANINGS[primitives.PRIMITIVES[case.op]](*arrays)
        if arrays[0].dtype.kind == "f" and case.result == np.dtype(np.uint32):
            return arrays[0].astype(np.int64).astype(np.uint32)  # the rule of docs/numerics.md
        return arrays[0].astype(case.result)


def differences(
    case: Case, got: np.ndarray, want: np.ndarray, arrays: list[np.ndarray]
) -> str | None:
    """Where the bits differ, as text; NaNs are equal, whatever their payload."""
    assert want.dtype == got.dtype
    if want.dtype.kind != "f":
        wrong = got != want
    else:
        bits = np.dtype(f"u{want.dtype.itemsize}")
        wrong = got.view(bits) != want.view(bits)
        if case.op not in SIGN_OF_NAN_KEPT:
            wrong &= ~(np.isnan(got) & np.isnan(want))
        if case.op in SIGN_OF_ZERO_OPEN:
            wrong &= got != want
    if not wrong.any():
        return None
    rows = list(zip(*[a[wrong] for a in arrays], got[wrong], want[wrong], strict=True))
    lines = "\n".join(repr(row) for row in rows[:12])
    return f"{case.name}: {len(rows)} differ; operands, got, want:\n{lines}"


# Tests


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES.get)
def test_every_primitive_gives_numpys_bits(dtype: np.dtype, machine: Machine) -> None:
    module = compiled(dtype, machine)
    failures = []
    for case in exact_cases(dtype):
        arrays = inputs(case)
        got = run(module, case.name, case, arrays)
        failures.append(differences(case, got, expected(case, arrays), arrays))
    assert not any(failures), "\n".join(filter(None, failures))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind in "iu"], ids=NAMES.get)
def test_constant_operands_beside_vectors(dtype: np.dtype) -> None:
    machine = MACHINES["host-16"]
    tried = [c for c in exact_cases(dtype) if len(c.dtypes) == 2 and c.op in BY_CONSTANT]
    functions = {
        f"{case.op}_{k}": (case, int(number))
        for case in tried
        for k, number in enumerate(values(dtype))
        if case.op != "pow" or number >= 0
    }
    shared = Emitter()
    parts = [write_function(n, c, machine, shared, number) for n, (c, number) in functions.items()]
    text = "\n".join([*parts, *shared.helpers.values(), *shared.declares.values()]) + "\n"
    module = jit.compile_module(text, target=machine.target, cache=False)
    a = np.concatenate([values(dtype), random_bits(dtype, 64 + -len(values(dtype)) % 64, 3)])
    failures = []
    for name, (case, number) in functions.items():
        arrays = [a, np.full_like(a, number)]
        got = run(module, name, case, arrays)
        failures.append(differences(case, got, expected(case, arrays), arrays))
    assert not any(failures), "\n".join(filter(None, failures))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind == "f"], ids=NAMES.get)
def test_conversions_of_constants(dtype: np.dtype) -> None:
    """LLVM folds these itself, and would show it if one of them were poison."""
    source = values(dtype)
    em, targets = Emitter(), [d for d in DTYPES if d.kind in "biu"]
    for k, target in enumerate(targets):
        for i, number in enumerate(source):
            x = em.const(scalar.register_type(dtype, 1), float(number))
            val = scalar.emit(em, "convert", (dtype,), (x,), target)
            val = em.zext(val, I64) if target.kind in "bu" else em.sext(val, I64)
            em.store(val, em.gep(Val(PTR, "%out"), em.const(I64, 8 * (len(source) * k + i))))
    em.ret()
    text = em.function("fold", [(PTR, "out")])
    module = jit.compile_module(text, target=host(), cache=False)
    out = np.zeros((len(targets), len(source)), np.int64)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(module.address("fold"))(out.ctypes.data)
    for target, row in zip(targets, out, strict=True):
        case = Case("convert", (dtype,), target)
        assert not differences(case, row.astype(target), expected(case, [source]), [source])


@pytest.mark.parametrize("constant", [False, True])
def test_negative_integer_powers_are_zero(constant: bool) -> None:
    dtype, machine = np.dtype(np.int32), MACHINES["host-16"]
    case, shared = Case("pow", (dtype, dtype), dtype), Emitter()
    body = write_function("power", case, machine, shared, -3 if constant else None)
    text = "\n".join([body, *shared.helpers.values(), *shared.declares.values()])
    module = jit.compile_module(text, target=machine.target, cache=False)
    a = np.arange(-8, 8, dtype=dtype)
    assert not run(module, "power", case, [a, np.full_like(a, -3)]).any()


@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES.get)
@pytest.mark.parametrize("name", CPU_TARGETS)
def test_no_primitive_calls_a_library(name: str, dtype: np.dtype) -> None:
    """Conversions and divisions that a processor lacks would become calls to compiler-rt."""
    row = at_level(name)
    if row.architecture != host().architecture:
        llvm.all_targets()
    text = jit.assembly(module_text(dtype, Machine(row, 4)), row)
    called = set(re.findall(r"^\s+(?:callq?|jmp|bl?)\s+([A-Za-z_][\w.]*)", text, re.MULTILINE))
    allowed = set() if row.has_fma else {"fma", "fmaf"}  # the exact remainder needs them
    assert {callee for callee in called if not callee.startswith("fjit.")} <= allowed


def test_every_elementwise_primitive_has_a_row_for_its_dtypes() -> None:
    lanes, names = 4, {p.name for p in elementwise()}
    assert set(scalar.ROWS) | {"convert"} == names
    for dtype in DTYPES:
        for case in cases(dtype):
            args = [Val(scalar.register_type(d, lanes), "%x") for d in case.dtypes]
            val = scalar.emit(Emitter(), case.op, case.dtypes, tuple(args), case.result)
            assert val.ty == scalar.register_type(case.result, lanes), case.name


def test_scalars_stay_scalars_and_are_splatted_beside_vectors() -> None:
    dtype = np.dtype(np.float32)
    one, many = Val(scalar.register_type(dtype, 1), "%x"), Val(scalar.register_type(dtype, 8), "%y")
    assert scalar.emit(Emitter(), "max", (dtype, dtype), (one, one), dtype).ty.lanes == 1
    assert scalar.emit(Emitter(), "max", (dtype, dtype), (one, many), dtype).ty.lanes == 8


@pytest.mark.parametrize(
    ("op", "dtype", "message"),
    [
        ("frobnicate", "f4", "frobnicate: no row in backend/scalar.ROWS"),
        ("shl", "f4", "shl of float32: its row in backend/scalar.ROWS has nothing for this kind"),
        ("exp", "i4", "exp of int32: its row in backend/scalar.ROWS has nothing for this kind"),
        ("add", "c8", "add of complex64: its row in backend/scalar.ROWS has nothing for this kind"),
    ],
)
def test_a_missing_row_names_primitive_and_table(op: str, dtype: str, message: str) -> None:
    kind = np.dtype(dtype)
    x = Val(scalar.register_type(np.dtype("f4"), 1), "%x")
    with pytest.raises(InternalError, match=re.escape(message)):
        scalar.emit(Emitter(), op, (kind, kind), (x, x), kind)
