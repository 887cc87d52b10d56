"""Small kernels around a few instructions, and their results under the emulator."""

import numpy as np

from fjit.backend import emulator
from fjit.backend.ptx.types import TYPES

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %rd<40>;\n"
    ".reg .f32 %f<40>; .reg .f64 %fd<40>;\n"
)


def kernel(body: str, params: int = 1, before: str = "", declare: str = "") -> str:
    """An entry k with pointers p0, p1, ... in %rd30, %rd31, ... and %tid.x in %r30."""
    names = ", ".join(f".param .u64 p{k}" for k in range(params))
    loads = "".join(f"ld.param.u64 %rd{30 + k}, [p{k}];\n" for k in range(params))
    start = f"{REGISTERS}{declare}{loads}mov.u32 %r30, %tid.x;\n"
    return f"{HEAD}{before}\n.visible .entry k({names})\n{{\n{start}{body}\nret;\n}}\n"


def run(body: str, *arrays: np.ndarray, threads: int = 1, blocks: int = 1, **more: object) -> None:
    """Run a body whose pointers are arrays."""
    text = {key: str(more.pop(key)) for key in ("before", "declare") if key in more}
    ptx = kernel(body, len(arrays), **text)
    emulator.launch(ptx, "k", blocks, threads, list(arrays), **more)  # type: ignore[arg-type]


def evaluate(op: str, result: str, *operands: tuple[str, np.ndarray]) -> np.ndarray:
    """`op d, a, b, ...;` on each element; a type and an array per operand, predicates as bytes."""
    count = len(operands[0][1])
    loads, names, declare = [], [], f".reg .{register(result)} d;\n"
    for k, (name, _) in enumerate(operands):
        declare += f".reg .{register(name)} s{k};\n"
        loads.append(_load(name, k))
        names.append(f"s{k}")
    size = TYPES[result].size if result != "pred" else 4
    out = np.zeros(count * size, np.uint8)
    store = f"st.global.{stored(result)} [%rd1], d;"
    if result == "pred":
        store = "selp.b32 %r1, 1, 0, d; st.global.b32 [%rd1], %r1;"
    place = f"mul.wide.u32 %rd2, %r30, {size}; add.s64 %rd1, %rd{30 + len(operands)}, %rd2;"
    body = "".join(loads) + f"{op} d, {', '.join(names)};\n{place}\n{store}\n"
    run(body, *[np.ascontiguousarray(a) for _, a in operands], out, threads=count, declare=declare)
    return out.view(np.uint32) != 0 if result == "pred" else out


def register(name: str) -> str:
    if name == "pred":
        return "pred"
    return "b16" if TYPES[name].width == 8 else f"b{TYPES[name].width}"


def stored(name: str) -> str:
    return f"b{TYPES[name].width}"


def _load(name: str, k: int) -> str:
    size = 1 if name == "pred" else TYPES[name].size
    place = f"mul.wide.u32 %rd2, %r30, {size}; add.s64 %rd1, %rd{30 + k}, %rd2;\n"
    if name == "pred":
        return place + f"ld.global.u8 %h1, [%rd1]; setp.ne.u16 s{k}, %h1, 0;\n"
    return place + f"ld.global.{stored(name)} s{k}, [%rd1];\n"
