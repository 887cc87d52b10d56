"""One access of a group to memory, cut into parts that lie in one piece of memory each.

Takes addresses, gives arrays and indices into them. Invariant: a part was checked for bounds and
alignment, so that its index is good for its array.

    ld.global.f32 by 64 lanes, all in argument 0  ->  one Part: its uint32 elements, an index
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fjit.backend.ptx.lanes import Group


@dataclass(frozen=True, slots=True)
class Access:
    """What an instruction does: elements of `size` bytes, `count` of them side by side.

    `strong` accesses (volatile, relaxed, atomic ...) are meant to meet those of other threads;
    `constant` ones (.nc) promise that nobody writes what they read.
    """

    size: int
    count: int = 1
    strong: bool = False
    constant: bool = False

    @property
    def total(self) -> int:
        return self.size * self.count


@dataclass(frozen=True, slots=True)
class Part:
    """Some lanes' elements: those lanes, the array, and where in it.

    `where` are the lanes' positions in the group that executes the instruction, None if it is all.
    """

    owner: Owner
    group: Group
    where: np.ndarray | None
    array: np.ndarray
    index: np.ndarray

    def differs(self, values: list[np.ndarray]) -> np.ndarray:
        """Per lane, whether memory holds anything else than these values."""
        found = np.zeros(1, bool)
        for k, value in enumerate(values):
            found = found | (self.array[self.index + k] != value)
        return found

    def own(self, values: np.ndarray) -> np.ndarray:
        """The part's lanes of values that the executing group computed."""
        return values if self.where is None or len(values) == 1 else values[self.where]


class Owner(Protocol):
    """A piece of memory, which keeps notes on who accessed what."""

    def note_read(self, part: Part, access: Access) -> None:
        """Check and note that the lanes are about to read."""

    def note_write(self, part: Part, access: Access, values: list[np.ndarray] | None) -> None:
        """Check and note that the lanes are about to write; None: atomically, values unknown."""

    def note_written(self, part: Part, access: Access, values: list[np.ndarray]) -> None:
        """Check what is there after the lanes wrote, where several wrote to one place."""


class Space(Protocol):
    """A state space: finds what addresses mean."""

    def parts(self, group: Group, address: np.ndarray, access: Access) -> list[Part]:
        """The parts of an access; `address` has one element or one per lane."""


def load(group: Group, space: Space, address: np.ndarray, access: Access) -> list[np.ndarray]:
    """The elements at each lane's address, as unsigned integers."""
    parts = space.parts(group, address, access)
    if len(parts) == 1 and parts[0].where is None:
        return _read(parts[0], access)
    whole = [np.empty(group.count, parts[0].array.dtype) for _ in range(access.count)]
    for part in parts:
        for into, values in zip(whole, _read(part, access), strict=True):
            into[part.where] = values
    return whole


def _read(part: Part, access: Access) -> list[np.ndarray]:
    part.owner.note_read(part, access)
    if access.count == 1:
        return [part.array[part.index]]
    return [part.array[part.index + k] for k in range(access.count)]


def store(
    group: Group, space: Space, address: np.ndarray, access: Access, values: list[np.ndarray]
) -> None:
    """Write each lane's elements; of lanes with one address the last wins."""
    if any(len(value) != len(address) for value in values):
        address = group.spread(address)
    for part in space.parts(group, address, access):
        own = [part.own(value) for value in values]
        part.owner.note_write(part, access, own)
        for k, value in enumerate(own):
            part.array[part.index + k] = value
        part.owner.note_written(part, access, own)


def misaligned(group: Group, address: np.ndarray, access: Access) -> None:
    """Raise for the first lane whose address isn't a multiple of the access's size."""
    rest = np.uint64(access.total - 1)
    if int(np.bitwise_or.reduce(address)) & int(rest):
        position = int(np.argmax(address & rest != 0))
        raise group.fault(
            f"misaligned: {hex(int(address[position]))} is not a multiple of {access.total}",
            position,
        )
