"""Atomic operations of PTX: atom and red.

Takes an instruction, gives its step. Invariant: lanes take their turns in ascending order, each
seeing what the one before left, so that results are the same in every run.

    atom.global.add.u32 %r1, [%rd1], 1 by 64 lanes on one word  ->  %r1 = 0, 1, ..., 63
"""

from collections.abc import Callable

import numpy as np

from fjit.backend.ptx.access import reader, writer
from fjit.backend.ptx.floats import larger, smaller
from fjit.backend.ptx.lanes import Group
from fjit.backend.ptx.memory import Step, address_reader, space_finder
from fjit.backend.ptx.part import Access, Part
from fjit.backend.ptx.program import Instruction
from fjit.backend.ptx.types import Type
from fjit.errors import EmulatorError

Update = Callable[..., np.ndarray]
"""Old value and operands to the new value."""
FEW_TURNS = 8


def _wrap_up(old: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(old >= b, np.zeros(1, old.dtype), old + np.ones(1, old.dtype))


def _wrap_down(old: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where((old == 0) | (old > b), b, old - np.ones(1, old.dtype))


def _compare_and_swap(old: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return np.asarray(np.where(old == b, c, old))


UPDATES: dict[str, Update] = {
    "add": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, b: b,
    "cas": _compare_and_swap,
    "inc": _wrap_up,
    "dec": _wrap_down,
    "min": np.minimum,
    "max": np.maximum,
}
FLOATING: dict[str, Update] = {"add": np.add, "min": smaller, "max": larger}


def _update(ins: Instruction) -> tuple[str, Update]:
    table = FLOATING if ins.type.kind == "f" else UPDATES
    name = next((flag for flag in ins.flags if flag in UPDATES), "")
    if name not in table or ins.type.packed > 1 or ins.type.kind == "t":
        raise EmulatorError(f"the emulator does not know the instruction {ins.text!r}.")
    return name, table[name]


def _atom(ins: Instruction) -> Step:
    write = writer(ins.operands[0], ins.type)
    act = _action(ins, 1)
    return lambda group: write(group, act(group))


def _red(ins: Instruction) -> Step:
    act = _action(ins, 0)

    def step(group: Group) -> None:
        act(group)

    return step


def _action(ins: Instruction, skip: int) -> Callable[[Group], np.ndarray]:
    """Update memory, give the old values; the address is operand `skip`."""
    ty = ins.type
    name, update = _update(ins)
    address, find = address_reader(ins.operands[skip]), space_finder(ins, ins.operands[skip])
    readers = [reader(item, ty) for item in ins.operands[skip + 1 :]]
    access = Access(ty.size, strong=True)
    running = name == "add" and ty.kind != "f"

    def act(group: Group) -> np.ndarray:
        values = [group.spread(read(group)) for read in readers]
        old = np.empty(group.count, ty.seen)
        for part in find(group).parts(group, group.spread(address(group)), access):
            part.owner.note_read(part, access)
            part.owner.note_write(part, access, None)
            where = slice(None) if part.where is None else part.where
            old[where] = _take_turns(part, ty, [v[where] for v in values], update, running)
        return old

    return act


def _take_turns(
    part: Part, ty: Type, values: list[np.ndarray], update: Update, running: bool
) -> np.ndarray:
    """Old values of the part's lanes, those with one address one after the other."""
    array, index = part.array.view(ty.seen), part.index
    order = np.argsort(index, kind="stable")
    placed = index[order]
    first = np.flatnonzero(np.concatenate([[True], placed[1:] != placed[:-1]]))
    lengths = np.diff(np.append(first, len(placed)))
    turn = np.arange(len(placed)) - np.repeat(first, lengths)
    turns = int(lengths.max())
    old = np.empty(len(placed), ty.seen)
    if running and turns > FEW_TURNS:
        old[order] = _running_sums(array, placed, values[0][order], first, lengths)
        return old
    by_turn = order[np.argsort(turn, kind="stable")]
    ends = np.cumsum(np.bincount(turn, minlength=turns))
    for lanes in np.split(by_turn, ends[:-1]):
        places = index[lanes]
        old[lanes] = array[places]
        array[places] = update(old[lanes], *(value[lanes] for value in values))
    return old


def _running_sums(
    array: np.ndarray,
    placed: np.ndarray,
    values: np.ndarray,
    first: np.ndarray,
    lengths: np.ndarray,
) -> np.ndarray:
    """What each lane of an integer addition finds: the sum of those before it at its address."""
    sums = np.cumsum(values, dtype=values.dtype)
    before = sums - values
    before = before - np.repeat(before[first], lengths)
    old = array[placed] + before
    last = first + lengths - 1
    array[placed[last]] = old[last] + values[last]
    return np.asarray(old)


STEPS: dict[str, Callable[[Instruction], Step]] = {"atom": _atom, "red": _red}
