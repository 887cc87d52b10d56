"""The instructions of functions, cut into blocks of steps.

Takes functions, gives numbered blocks. Invariant: control enters a block at its first step only,
and threads that wait for each other at an instruction find it at the start of a block.

    $L: add ...; setp ...; @%p bra $L; ret;  ->  block 0 (2 steps, ends in bra), 1 (ends in ret)
"""

from collections.abc import Iterator
from dataclasses import dataclass

from fjit.backend.ptx import warps
from fjit.backend.ptx.access import Reader
from fjit.backend.ptx.control import ENDINGS, Copy, End, Site, ending
from fjit.backend.ptx.decode import decode, named
from fjit.backend.ptx.memory import STRONG, Step
from fjit.backend.ptx.program import Address, Function, Instruction, Label, Operand, Pack, Sym


@dataclass(frozen=True, slots=True)
class Block:
    """Steps that run one after the other, their instructions, and what comes then.

    `meets` is the mask of the threads that wait for each other at the first instruction.
    """

    steps: tuple[Step, ...]
    instructions: tuple[Instruction, ...]
    end: End
    meets: Reader | None


def instructions(function: Function) -> Iterator[Instruction]:
    return (item for item in function.body if isinstance(item, Instruction))


def symbols(operand: Operand) -> Iterator[str]:
    """The names of variables, labels and functions in an operand."""
    match operand:
        case Sym(name=name) | Address(base=Sym(name=name)):
            yield name
        case Pack(items=items):
            for item in items:
                yield from symbols(item)


def blocks(
    functions: dict[str, Function],
    frame: dict[str, tuple[int, int]],
    returns: dict[int, tuple[Copy, ...]],
) -> list[Block]:
    """The blocks of all functions, the first one's first; `returns` is filled."""
    cuts = {name: _cut(function) for name, function in functions.items()}
    starts: dict[str, int] = {}
    total = 0
    for name, (parts, _) in cuts.items():
        starts[name] = total
        total += len(parts)
    found: list[Block] = []
    for name, (parts, labels) in cuts.items():
        places = {label: starts[name] + k for label, k in labels.items()}
        spins = _spinning(parts, labels)
        for k, part in enumerate(parts):
            site = Site(
                function=functions[name],
                block=starts[name] + k,
                labels=places,
                functions=functions,
                starts=starts,
                frame=frame,
                returns=returns,
                spins=k in spins,
            )
            found.append(_block(part, site))
    return found


def _cut(function: Function) -> tuple[list[list[Instruction]], dict[str, int]]:
    """The function's instructions by block, and the labels' blocks; the last block is empty."""
    parts: list[list[Instruction]] = [[]]
    labels: dict[str, int] = {}
    for item in function.body:
        if isinstance(item, Label):
            if parts[-1]:
                parts.append([])
            labels[item.name] = len(parts) - 1
            continue
        if _meets(item) and parts[-1]:
            parts.append([])
        parts[-1].append(item)
        if _ends(item):
            parts.append([])
    parts.append([])
    return parts, labels


def _ends(ins: Instruction) -> bool:
    return warps.qualified(ins) in ENDINGS


def _meets(ins: Instruction) -> bool:
    return ins.guard is None and ins.has("sync") and warps.qualified(ins) in warps.MEETINGS


def _spinning(parts: list[list[Instruction]], labels: dict[str, int]) -> set[int]:
    """Blocks that jump back over an access that waits for other threads."""
    waits = [any(_may_wait(ins) for ins in part) for part in parts]
    found: set[int] = set()
    for k, part in enumerate(parts):
        names = [name for ins in part[-1:] for operand in ins.operands for name in symbols(operand)]
        targets = [labels[name] for name in names if labels.get(name, k + 1) <= k]
        if any(any(waits[target : k + 1]) for target in targets):
            found.add(k)
    return found


def _may_wait(ins: Instruction) -> bool:
    return (ins.op == "ld" and ins.has(*STRONG)) or ins.op in ("atom", "nanosleep")


def _block(part: list[Instruction], site: Site) -> Block:
    last = part[-1] if part and _ends(part[-1]) else None
    body = part if last is None else part[:-1]
    meets = named(warps.mask_of, part[0]) if part and _meets(part[0]) else None
    end = ending(None, site) if last is None else named(lambda ins: ending(ins, site), last)
    return Block(tuple(named(decode, ins) for ins in body), tuple(part), end, meets)
