"""Races in shared memory: two threads at one place, one of them writing, with no barrier between.

Takes the cells a group is about to read or write, raises for a race. Invariant: what a barrier of
the block, or of a warp for threads of that warp, has put in order is never reported; writing the
value that is there already is none, as nobody can tell the order.

    thread 0 writes s[0]; thread 1 reads s[0]              a race
    thread 0 writes s[0]; bar.sync; thread 1 reads s[0]    none
"""

import numpy as np

from fjit.backend.ptx.lanes import Group

ALONE, ONE_WARP, SEVERAL_WARPS = 0, 1, 2


class Races:
    """Per cell the last writer and the last readers, each with the barriers passed by then."""

    def __init__(self, cells: int) -> None:
        self.writer = np.full(cells, -1, np.int32)
        self.write_block = np.zeros(cells, np.int32)
        self.write_warp = np.zeros(cells, np.int32)
        self.strong = np.zeros(cells, bool)
        self.reader = np.full(cells, -1, np.int32)
        self.read_block = np.zeros(cells, np.int32)
        self.read_warp = np.zeros(cells, np.int32)
        self.readers = np.zeros(cells, np.uint8)

    def read(self, group: Group, cells: np.ndarray, strong: bool) -> None:
        """Lanes read a cell each."""
        cells = group.spread(cells)
        lanes = group.lanes
        wave = group.wave
        clash = self._after_write(group, cells, lanes, strong)
        if clash.any():
            raise self._race(group, cells, clash, self.writer, "it reads what thread {} wrote")
        if strong:
            return
        block, warp = wave.block_epoch[wave.block_of[lanes]], wave.warp_epoch[wave.warp_of[lanes]]
        same_warp = wave.warp_of[self.reader[cells]] == wave.warp_of[lanes]
        ordered = same_warp & (self.read_warp[cells] < warp) & (self.readers[cells] < SEVERAL_WARPS)
        fresh = (self.reader[cells] < 0) | (self.read_block[cells] < block) | ordered
        self.readers[cells[fresh]] = ALONE
        self._join(cells, ~fresh & (self.reader[cells] != lanes), same_warp)
        self.reader[cells] = lanes
        self.read_block[cells], self.read_warp[cells] = block, warp
        last = self.reader[cells]
        self._join(cells, last != lanes, wave.warp_of[last] == wave.warp_of[lanes])

    def _join(self, cells: np.ndarray, other: np.ndarray, same_warp: np.ndarray) -> None:
        """Note that cells have more than one reader."""
        if other.any():
            near, far = cells[other & same_warp], cells[other & ~same_warp]
            self.readers[near] = np.maximum(self.readers[near], ONE_WARP)
            self.readers[far] = SEVERAL_WARPS

    def write(self, group: Group, cells: np.ndarray, strong: bool, changes: np.ndarray) -> None:
        """Lanes write a cell each; `changes` is unset where the value is there already."""
        cells = group.spread(cells)
        lanes = group.lanes
        wave = group.wave
        clash = self._after_write(group, cells, lanes, strong) & changes
        if clash.any():
            raise self._race(group, cells, clash, self.writer, "it overwrites what thread {} wrote")
        clash = self._after_read(group, cells, lanes) & changes
        if clash.any():
            raise self._race(group, cells, clash, self.reader, "it overwrites what thread {} read")
        self.writer[cells] = lanes
        self.write_block[cells] = wave.block_epoch[wave.block_of[lanes]]
        self.write_warp[cells] = wave.warp_epoch[wave.warp_of[lanes]]
        self.strong[cells] = strong

    def refuse_lost(self, group: Group, columns: list[np.ndarray], lost: np.ndarray) -> None:
        """Raise where a lane's value was lost to another lane that wrote at the same time."""
        for cells in columns:
            cells = group.spread(cells)
            clash = lost & (self.writer[cells] != group.lanes)
            if clash.any():
                text = "it and thread {} write different values to one place"
                raise self._race(group, cells, clash, self.writer, text)

    def _after_write(
        self, group: Group, cells: np.ndarray, lanes: np.ndarray, strong: bool
    ) -> np.ndarray:
        """Where another thread's write has not been put in order before this access."""
        wave, writer = group.wave, self.writer[cells]
        recent = (writer >= 0) & (writer != lanes)
        recent &= self.write_block[cells] == wave.block_epoch[wave.block_of[lanes]]
        if strong:
            recent &= ~self.strong[cells]
        if not recent.any():
            return np.asarray(recent)
        warps = wave.warp_of[lanes]
        same_warp = wave.warp_of[writer] == warps
        return np.asarray(recent & ~(same_warp & (self.write_warp[cells] < wave.warp_epoch[warps])))

    def _after_read(self, group: Group, cells: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """Where other threads' reads have not been put in order before this write."""
        wave, reader, readers = group.wave, self.reader[cells], self.readers[cells]
        recent = self.read_block[cells] == wave.block_epoch[wave.block_of[lanes]]
        recent &= (reader >= 0) & ((reader != lanes) | (readers > ALONE))
        if not recent.any():
            return np.asarray(recent)
        warps = wave.warp_of[lanes]
        near = (wave.warp_of[reader] == warps) & (readers < SEVERAL_WARPS)
        return np.asarray(recent & ~(near & (self.read_warp[cells] < wave.warp_epoch[warps])))

    def _race(
        self,
        group: Group,
        cells: np.ndarray,
        clash: np.ndarray,
        others: np.ndarray,
        text: str,
    ) -> Exception:
        position = int(np.argmax(clash))
        other = group.wave.thread_text(int(others[cells[position]]))
        what = text.format(other)
        return group.fault(f"a race in shared memory: {what} with no barrier between", position)
