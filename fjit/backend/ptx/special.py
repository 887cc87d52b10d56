"""Special registers: where a thread is in the launch.

Takes a wave and a register's name, gives one element per lane, or one for all. Invariant: the
machine is one multiprocessor that runs the waves' blocks in order.

    %tid.x  ->  [0, 1, ..., 31, 0, 1, ...]        %ntid.x  ->  [32]
"""

from collections.abc import Callable

import numpy as np

from fjit.backend.ptx.lanes import Wave
from fjit.backend.ptx.shape import coordinates

Rule = Callable[[Wave], np.ndarray]
AXES = "xyz"


def _constant(value: int) -> Rule:
    return lambda wave: np.array([value], np.uint64)


def _thread(axis: int) -> Rule:
    return lambda wave: coordinates(wave.thread_numbers, wave.shape.block, axis)


def _block(axis: int) -> Rule:
    return lambda wave: coordinates(wave.block_numbers, wave.shape.grid, axis)


def _threads(axis: int) -> Rule:
    return lambda wave: np.array([wave.shape.block[axis]])


def _blocks(axis: int) -> Rule:
    return lambda wave: np.array([wave.shape.grid[axis]])


def _lane_mask(function: Callable[[np.ndarray], np.ndarray]) -> Rule:
    """A mask as a function of the lane's own bit."""
    return lambda wave: function(np.uint64(1) << wave.lane_in_warp.astype(np.uint64))


def _axes() -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for axis, letter in enumerate(AXES):
        found[f"%tid.{letter}"] = _thread(axis)
        found[f"%ctaid.{letter}"] = _block(axis)
        found[f"%ntid.{letter}"] = _threads(axis)
        found[f"%nctaid.{letter}"] = _blocks(axis)
        found[f"%clusterid.{letter}"] = _block(axis)
        found[f"%nclusterid.{letter}"] = found[f"%nctaid.{letter}"]
        found[f"%cluster_ctaid.{letter}"] = _constant(0)
        found[f"%cluster_nctaid.{letter}"] = _constant(1)
    return found


FIXED: dict[str, Rule] = {
    **_axes(),
    "%laneid": lambda wave: wave.lane_in_warp,
    "%warpid": lambda wave: wave.thread_numbers // 32,
    "%nwarpid": _constant(32),
    "%smid": _constant(0),
    "%nsmid": _constant(1),
    "%gridid": _constant(0),
    "%cluster_ctarank": _constant(0),
    "%cluster_nctarank": _constant(1),
    "%lanemask_eq": _lane_mask(lambda bit: bit),
    "%lanemask_lt": _lane_mask(lambda bit: bit - np.uint64(1)),
    "%lanemask_le": _lane_mask(lambda bit: bit * np.uint64(2) - np.uint64(1)),
    "%lanemask_gt": _lane_mask(
        lambda bit: np.uint64(0xFFFFFFFF) - (bit * np.uint64(2) - np.uint64(1))
    ),
    "%lanemask_ge": _lane_mask(lambda bit: np.uint64(0xFFFFFFFF) - (bit - np.uint64(1))),
    "%dynamic_smem_size": lambda wave: np.array([wave.shape.dynamic]),
    "%total_smem_size": lambda wave: np.array([wave.shape.shared]),
}
CLOCKS = ("%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")
"""These count the instructions of the wave."""


def known(name: str) -> bool:
    return name in FIXED or name in CLOCKS
