"""Whether kernels may write a result over an input, element by element, with no memory of its own.

Takes an assembly and the pairs of an input and the output that is its new contents, gives those
pairs that may share memory. In `x += y` they may, in `x[:] = x[::-1]` not.

    vector i0: %0 = load b0[i0*unit]; %1 = load b1[i0*unit]; %2 = add %0 %1; store b2[i0*unit] %2
    b0 is x, b2 its new contents: each element is read where it is written, and before

Invariant: results do not change; where a kernel may report an error, no input is written over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fjit.core.ir import Var
from fjit.frontend.function import Write
from fjit.lower.assembly import Assembly, Kernel
from fjit.lower.nest import Append, Checked, Let, Linear, Load, Loop, Nest, Slot, Stmt, Store


def in_place(assembly: Assembly, writes: Sequence[tuple[int, int]]) -> dict[Var, Var]:
    """Outputs that may lie where an input does; `writes` are pairs of an input and an output."""
    found: dict[Var, Var] = {}
    program = assembly.program
    # library calls may raise errors as well, and panels read an argument while they write
    is_pure = len(assembly.kernels) == len(program.eqns) and not assembly.panels
    if not writes or not is_pure or any(_may_fail(kernel.nest) for kernel in assembly.kernels):
        return found
    for position, number in writes:
        source, target = program.inputs[position], program.outputs[number]
        if isinstance(target, Var) and _may_share(assembly, source, target):
            found[target] = source
    return found


def parts_of(assembly: Assembly, writes: Sequence[Write]) -> dict[Var, Write]:
    """The results that lie in a part of an input, as the plan has it."""
    found: dict[Var, Write] = {}
    outputs = assembly.program.outputs
    for write in writes:
        target = outputs[write.output]
        if isinstance(target, Var) and target in assembly.over:
            found[target] = write
    assert len(found) == len(assembly.over), "the plan writes over an input that shares memory"
    assert not found or not any(_may_fail(k.nest) for k in assembly.kernels), "parts may be lost"
    return found


def _may_share(assembly: Assembly, source: Var, target: Var) -> bool:
    memory = assembly.memory
    if target not in memory or source.aval != target.aval or memory[source] != memory[target]:
        return False
    program = assembly.program
    makers = [k for k, eqn in enumerate(program.eqns) if target in eqn.outputs]
    if len(makers) != 1 or _read_after(assembly, makers[0], source):
        return False
    kernels = [k for k in assembly.kernels if k.eqn is program.eqns[makers[0]]]
    return bool(kernels) and _in_step(kernels[0], source, target)


def _read_after(assembly: Assembly, place: int, source: Var) -> bool:
    """Whether an input is read by another equation after that one, or at the same time."""
    launches = assembly.launches
    maker = assembly.program.eqns[place]
    return any(
        source in eqn.inputs and launches[eqn] >= launches[maker]
        for eqn in assembly.program.eqns if eqn is not maker
    )  # fmt: skip


def _may_fail(nest: Nest) -> bool:
    """Whether a kernel may report an error."""
    return any(
        isinstance(s, Checked) or (isinstance(s, Let) and s.op == "pow" and s.dtype.kind in "iu")
        for body in _bodies(nest)
        for s in body
    )


def _in_step(kernel: Kernel, source: Var, target: Var) -> bool:
    """Whether elements of `source` are read only where those of `target` are stored, and before."""
    nest, eqn = kernel.nest, kernel.eqn
    inside = {k for k, b in enumerate(nest.buffers)
              if b.kind == "in" and eqn.inputs[b.number] is source}  # fmt: skip
    outside = {k for k, b in enumerate(nest.buffers)
               if b.kind == "out" and eqn.outputs[b.number] is target}  # fmt: skip
    for body in _bodies(nest):
        stored: set[object] = set()
        for stmt in reversed(body):
            if isinstance(stmt, Append) and stmt.buffer in outside:
                return False
            if isinstance(stmt, Store) and stmt.buffer in outside:
                stored |= _addresses(nest, stmt)
            if isinstance(stmt, Load):
                if stmt.other is not None and stmt.other[0] in inside:
                    return False
                if stmt.buffer in inside and _address(nest, stmt.at) not in stored:
                    return False
    return True


def _address(nest: Nest, at: Linear) -> tuple[int, object]:
    """An address with run-time numbers in place of their slots."""
    offset = 0 if at.offset is None else nest.slots[at.offset.number]
    assert isinstance(offset, int)
    factors = ((t, nest.slots[f.number] if isinstance(f, Slot) else str(f)) for t, f in at.terms)
    return offset, tuple(factors)


def _addresses(nest: Nest, store: Store) -> set[object]:
    """The addresses of a store's values, which lie side by side."""
    offset, factors = _address(nest, store.at)
    size = store.dtype.itemsize
    return {(offset + turn * size, factors) for turn in range(1 + len(store.more))}


def _bodies(nest: Nest) -> Iterator[Sequence[Stmt]]:
    """The statements of each loop, and those before the loops."""
    yield nest.entry
    pending: list[Loop] = [phase.loop for phase in nest.phases]
    while pending:
        loop = pending.pop()
        yield loop.body
        pending.extend(s for s in loop.body if isinstance(s, Loop))
