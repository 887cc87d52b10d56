"""Instructions in which the threads of a warp exchange values: shuffles, votes and the like.

Takes an instruction, gives its step. Invariant: when a step runs, all threads its mask names stand
there (meeting.py sees to it), and a value comes only from a thread that takes part.

    shfl.sync.down.b32 %r1|%p1, %r2, 4, 31, -1  ->  lane k gets %r2 of lane k + 4
"""

from collections.abc import Callable

import numpy as np

from fjit.backend.ptx.access import Reader, reader, writer
from fjit.backend.ptx.lanes import Group
from fjit.backend.ptx.memory import Step, nothing
from fjit.backend.ptx.program import Instruction, Pack
from fjit.backend.ptx.types import B32, PRED, TYPES, U32
from fjit.errors import EmulatorError

WARP = 32
ONE = np.uint32(1)


def _bit(group: Group) -> np.ndarray:
    """Each lane's own bit of its warp's masks."""
    return ONE << group.of(group.wave.lane_in_warp)


def ballot(group: Group, mask: np.ndarray) -> np.ndarray:
    """Per warp of the wave, the bits of the group's lanes where `mask` is set."""
    wave = group.wave
    places = np.zeros(wave.warps * WARP, bool)
    lanes = group.lanes
    places[wave.warp_of[lanes] * WARP + wave.lane_in_warp[lanes]] = mask
    return np.packbits(places, bitorder="little").view(np.uint32)


def present(group: Group) -> np.ndarray:
    """Per lane of the group, the bits of those lanes of its warp that are in the group."""
    bits = ballot(group, np.ones(1, bool))
    return np.asarray(bits[group.of(group.wave.warp_of)])


# Shuffles


def _shfl(ins: Instruction) -> Step:
    mode = next((flag for flag in ins.flags if flag in ("up", "down", "bfly", "idx")), "")
    target = ins.operands[0]
    results = target.items if isinstance(target, Pack) else (target,)
    write = writer(results[0], B32)
    write_valid = writer(results[1], PRED) if len(results) == 2 else None
    value, offset, clamp = (reader(item, U32) for item in ins.operands[1:4])

    def step(group: Group) -> None:
        lane = group.of(group.wave.lane_in_warp)
        source, valid = _source(mode, lane, offset(group), clamp(group))
        write(group, _fetch(group, group.spread(value(group)), lane, source))
        if write_valid is not None:
            write_valid(group, valid)

    return step


def _source(
    mode: str, lane: np.ndarray, offset: np.ndarray, clamp: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The lane of the warp each lane reads, and whether it's inside its segment."""
    here, by = lane.astype(np.int64), (offset & np.uint32(31)).astype(np.int64)
    limit = (clamp & np.uint32(31)).astype(np.int64)
    segment = ((clamp >> np.uint32(8)) & np.uint32(31)).astype(np.int64)
    least = here & segment
    most = least | (limit & ~segment)
    wanted = {
        "up": here - by,
        "down": here + by,
        "bfly": here ^ by,
        "idx": least | (by & ~segment),
    }[mode]
    valid = wanted >= most if mode == "up" else wanted <= most
    return np.where(valid, wanted, here), valid


def _fetch(group: Group, value: np.ndarray, lane: np.ndarray, source: np.ndarray) -> np.ndarray:
    """The value of lane `source` of each lane's warp."""
    wave = group.wave
    missing = (present(group) >> source.astype(np.uint32)) & ONE == 0
    if missing.any():
        position = int(np.argmax(missing))
        raise group.fault(
            f"it reads from lane {int(source[position])} of its warp, which takes no part", position
        )
    every = np.zeros(wave.count, value.dtype)
    every[group.lanes] = value
    return np.asarray(every[group.lanes - lane + source])


# Votes


def _vote(ins: Instruction) -> Step:
    kind = next((flag for flag in ins.flags if flag in ("all", "any", "uni", "ballot")), "")
    predicate = reader(ins.operands[1], PRED)
    mask = _mask(ins, 2)
    write = writer(ins.operands[0], U32 if kind == "ballot" else PRED)

    def step(group: Group) -> None:
        warps = group.of(group.wave.warp_of)
        members = mask(group) & present(group)
        yes = ballot(group, predicate(group))[warps] & members
        if kind == "ballot":
            write(group, yes)
        elif kind == "any":
            write(group, yes != 0)
        elif kind == "all":
            write(group, yes == members)
        else:
            write(group, (yes == 0) | (yes == members))

    return step


def _mask(ins: Instruction, place: int) -> Reader:
    """The member mask, all lanes for the forms without `.sync`."""
    if ins.has("sync"):
        return reader(ins.operands[place], U32)
    return lambda group: np.array([0xFFFFFFFF], np.uint32)


def _activemask(ins: Instruction) -> Step:
    write = writer(ins.operands[0], U32)
    return lambda group: write(group, present(group))


# Reductions and matches, by a walk over the lanes of the warp


def _walk(group: Group, value: np.ndarray) -> list[np.ndarray]:
    """Per lane of the warp its value, as seen by every lane of the group."""
    wave = group.wave
    places = np.zeros((wave.warps, WARP), value.dtype)
    lanes = group.lanes
    places[wave.warp_of[lanes], wave.lane_in_warp[lanes]] = value
    return [places[wave.warp_of[lanes], k] for k in range(WARP)]


REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _redux(ins: Instruction) -> Step:
    ty = ins.type
    name = next((flag for flag in ins.flags if flag in REDUCTIONS), "")
    if not name or ty.floating:
        raise EmulatorError(f"the emulator does not know the instruction {ins.text!r}.")
    function = REDUCTIONS[name]
    write, value, mask = writer(ins.operands[0], ty), reader(ins.operands[1], ty), _mask(ins, 2)

    def step(group: Group) -> None:
        own = group.spread(value(group))
        members = mask(group) & present(group)
        result, begun = own, np.zeros(group.count, bool)
        for k, other in enumerate(_walk(group, own)):
            takes_part = (members >> np.uint32(k)) & ONE == 1
            joined = np.where(begun, function(result, other), other)
            result = np.where(takes_part, joined, result)
            begun = begun | takes_part
        write(group, result)

    return step


def _match(ins: Instruction) -> Step:
    ty = TYPES[f"u{ins.type.bits}"]
    target = ins.operands[0]
    results = target.items if isinstance(target, Pack) else (target,)
    write = writer(results[0], B32)
    write_same = writer(results[1], PRED) if len(results) == 2 else None
    value, mask, every = reader(ins.operands[1], ty), _mask(ins, 2), ins.has("all")

    def step(group: Group) -> None:
        own = group.spread(value(group))
        members = mask(group) & present(group)
        equal = np.zeros(group.count, np.uint32)
        for k, other in enumerate(_walk(group, own)):
            equal |= np.where(other == own, ONE << np.uint32(k), np.uint32(0))
        equal &= members
        same = equal == members
        write(group, np.where(same, equal, np.uint32(0)) if every else equal)
        if write_same is not None:
            write_same(group, same)

    return step


def _elect(ins: Instruction) -> Step:
    """The lowest member is elected."""
    target = ins.operands[0]
    results = target.items if isinstance(target, Pack) else (target,)
    write, write_won = writer(results[0], B32), writer(results[-1], PRED)
    mask = _mask(ins, 1)

    def step(group: Group) -> None:
        members = mask(group) & present(group)
        lowest = members & (~members + ONE)
        write(group, np.bitwise_count(lowest - ONE).astype(np.uint32))
        write_won(group, lowest == _bit(group))

    return step


STEPS: dict[str, Callable[[Instruction], Step]] = {
    "shfl": _shfl,
    "vote": _vote,
    "activemask": _activemask,
    "redux": _redux,
    "match": _match,
    "elect": _elect,
    "bar.warp": nothing,
}
MEETINGS = ("shfl", "vote", "redux", "match", "elect", "bar.warp")
"""Instructions whose threads wait for each other."""


def mask_of(ins: Instruction) -> Reader | None:
    """The mask of the threads that an instruction's threads wait for, or None."""
    name = qualified(ins)
    if name not in MEETINGS or not ins.has("sync"):
        return None
    return reader(ins.operands[-1], U32)


def qualified(ins: Instruction) -> str:
    """The opcode's name in the tables of steps."""
    if ins.op in ("bar", "barrier") and ins.has("warp"):
        return "bar.warp"
    return ins.op
