"""What assembly text tells of a kernel: vector registers and spills of its inner loop.

Takes assembly with LLVM's comments, gives counts. Invariant: the text alone decides; any processor
whose vector registers are x86's or Arm's can be read.

    .LBB0_2:                        # =>This Inner Loop Header: Depth=1
      vmovupd 64(%rsp), %zmm3       # 64-byte Reload
      vaddpd  %zmm3, %zmm1, %zmm2                                  ->    3 registers, 1 spill
      jb      .LBB0_2
"""

from __future__ import annotations

import re
from typing import NamedTuple

LEAST_SPILL_BYTES = 16

_BLOCK = re.compile(r"^(?:\.?L?(BB\d+_\d+):|(?:#|//) %bb)")
_INSIDE = re.compile(r"in Loop: Header=(\S+)")
_X86 = re.compile(r"%[xyz]mm(\d+)")
_ARM = re.compile(r"(?<![\w.])[vqd](\d+)(?=[.,\s\]}]|$)")
_SPILL = re.compile(r"(\d+)-byte (?:Folded )?(?:Spill|Reload)")


class Usage(NamedTuple):
    """Distinct vector registers, and spills plus reloads of at least 16 bytes."""

    registers: int
    spills: int


def usage(text: str) -> Usage:
    """The innermost loop with the most vector instructions; the whole text where there is none."""
    loops = inner_loops(text)
    if not loops:
        return _usage(text.splitlines())
    return _usage(max(loops, key=_vector_instructions))


def inner_loops(text: str) -> list[list[str]]:
    """The lines of each innermost loop, as LLVM's comments mark them."""
    loops: dict[str, list[str]] = {}
    inner: dict[str, None] = {}
    label = header = ""
    for line in text.splitlines():
        block = _BLOCK.match(line)
        if block is not None:
            label, header = block[1] or "", ""
        if "Inner Loop Header" in line:
            header = label
            inner[label] = None
        inside = _INSIDE.search(line)
        if inside is not None:
            header = inside[1]
        loops.setdefault(header, []).append(line)
    return [loops[name] for name in inner]


def _usage(lines: list[str]) -> Usage:
    registers: set[str] = set()
    spills = 0
    for line in lines:
        registers.update(_X86.findall(line) or _arm(line))
        spill = _SPILL.search(line)
        spills += spill is not None and int(spill[1]) >= LEAST_SPILL_BYTES
    return Usage(len(registers), spills)


def _arm(line: str) -> list[str]:
    return [] if "%" in line.partition("//")[0] else _ARM.findall(line.partition("//")[0])


def _vector_instructions(lines: list[str]) -> int:
    return sum(bool(_X86.search(line) or _arm(line)) for line in lines)
