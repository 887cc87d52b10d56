"""glibc's functions as loops over arrays, compiled with LLVM: the reference for float64.

`wide("erf")` takes a float64 array and gives the value of erfl, 64 bits of mantissa, in two
parts: the float64 nearest to it, and the rest times 2**LIFT, lest the rest of a small value
underflow. `wide("pow", 2)` takes two arrays. `plain("lgamma")` takes and gives float64. NumPy has
no erf and no lgamma, and its long double arrays are slower by half.

    define void @loop(ptr, ..., i64)  ->  fpext ; call x86_fp80 @erfl ; fptrunc ; fsub ; fptrunc
"""

import ctypes
import ctypes.util
import platform
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

Array = np.ndarray[Any, Any]
LIFT = 50
LOOP = """
target triple = "{triple}"
{declare}
define void @loop({params}, ptr %hi, ptr %lo, i64 %n) {{
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
{loads}
{call}
  %hi_at = getelementptr double, ptr %hi, i64 %i
  %lo_at = getelementptr double, ptr %lo, i64 %i
  store double %head, ptr %hi_at
  store double %rest, ptr %lo_at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %body, label %done
done:
  ret void
}}
"""
LOAD = "  %at{k} = getelementptr double, ptr %p{k}, i64 %i\n  %x{k} = load double, ptr %at{k}"
EXTEND = "  %w{k} = fpext double %x{k} to x86_fp80"
WIDE_CALL = """
  %value = call x86_fp80 @reference({wide})
  %head = fptrunc x86_fp80 %value to double
  %back = fpext double %head to x86_fp80
  %left = fsub x86_fp80 %value, %back
  %up = fmul x86_fp80 %left, 0xK{lift:04X}8000000000000000
  %rest = fptrunc x86_fp80 %up to double"""
PLAIN_CALL = "  %head = call double @reference({plain})\n  %rest = fsub double %head, %head"

missing = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or platform.libc_ver()[0] != "glibc",
    reason="no long double of 64 bits with glibc's functions here",
)


@cache
def _address(symbol: str) -> int:
    library = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
    return ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value or 0


def _text(kind: str, arity: int, call: str) -> str:
    span = range(arity)
    loads = [LOAD.format(k=k) for k in span]
    if kind != "double":
        loads += [EXTEND.format(k=k) for k in span]
    return LOOP.format(
        triple=llvm.get_default_triple(),
        declare=f"declare {kind} @reference({', '.join([kind] * arity)})",
        params=", ".join(f"ptr %p{k}" for k in span),
        loads="\n".join(loads),
        call=call.format(
            wide=", ".join(f"x86_fp80 %w{k}" for k in span),
            plain=", ".join(f"double %x{k}" for k in span),
            lift=16383 + LIFT,
        ),
    )


def _compile(symbol: str, text: str, arity: int) -> Callable[..., tuple[Array, Array]]:
    llvm.add_symbol("reference", _address(symbol))
    module = llvm.parse_assembly(text)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    address = engine.get_function_address("loop")
    native = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 2), ctypes.c_int64)(address)

    def run(*arrays: Array) -> tuple[Array, Array]:
        size = arrays[0].size
        flat = [np.ascontiguousarray(a, np.float64) for a in arrays]
        hi, lo = np.empty(size), np.empty(size)
        native(*[a.ctypes.data for a in flat], hi.ctypes.data, lo.ctypes.data, size)
        return hi, lo

    run.engine = engine  # type: ignore[attr-defined]  # keeps the code alive
    return run


@cache
def wide(name: str, arity: int = 1) -> Callable[..., tuple[Array, Array]]:
    """glibc's long double function: the float64 nearest to its value, and the lifted rest."""
    return _compile(name + "l", _text("x86_fp80", arity, WIDE_CALL), arity)


@cache
def plain(name: str, arity: int = 1) -> Callable[..., Array]:
    """glibc's float64 function `name`."""
    run = _compile(name, _text("double", arity, PLAIN_CALL), arity)
    return lambda *arrays: run(*arrays)[0]
