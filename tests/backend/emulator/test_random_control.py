"""Random programs of branches and loops: many threads at once do what each does alone."""

import random

import numpy as np
import pytest

from fjit.backend import emulator
from tests.backend.emulator.kernels import HEAD

THREADS = 48
OPERATIONS = (
    "add.u32",
    "sub.u32",
    "mul.lo.u32",
    "xor.b32",
    "and.b32",
    "or.b32",
    "min.u32",
    "shr.u32",
)


class Writer:
    """Writes one program: %r1 to %r6 are its variables, %r7 its predicate's operand."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.labels = 0

    def name(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def variable(self) -> str:
        return f"%r{self.random.randint(1, 6)}"

    def operand(self) -> str:
        return self.random.choice(
            [self.variable(), self.variable(), str(self.random.randint(0, 40))]
        )

    def statement(self, depth: int) -> str:
        kinds = [self.assign] * 4 + [self.guarded]
        if depth:
            kinds += [self.branch, self.branch, self.loop]
        return self.random.choice(kinds)(depth)

    def block(self, depth: int) -> str:
        return "".join(self.statement(depth) for _ in range(self.random.randint(1, 4)))

    def assign(self, depth: int) -> str:
        if self.random.random() < 0.2:
            return f"mov.u32 {self.variable()}, {self.operand()};\n"
        op = self.random.choice(OPERATIONS)
        return f"{op} {self.variable()}, {self.variable()}, {self.operand()};\n"

    def test(self) -> str:
        mask = self.random.choice([1, 2, 3, 4, 7])
        return f"and.b32 %r7, {self.variable()}, {mask}; setp.eq.u32 %p1, %r7, 0;\n"

    def guarded(self, depth: int) -> str:
        return self.test() + self.random.choice(["@%p1 ", "@!%p1 "]) + self.assign(depth)

    def branch(self, depth: int) -> str:
        other, end = self.name(), self.name()
        yes, no = self.block(depth - 1), self.block(depth - 1)
        return f"{self.test()}@%p1 bra {other};\n{yes}bra.uni {end};\n{other}:\n{no}{end}:\n"

    def loop(self, depth: int) -> str:
        """At most seven rounds, counted by a register of its own."""
        start, end, count = self.name(), self.name(), f"%r{10 + self.labels % 20}"
        body = self.block(depth - 1)
        return (
            f"and.b32 {count}, {self.variable()}, 7;\n{start}: setp.eq.u32 %p2, {count}, 0;\n"
            f"@%p2 bra {end};\n{body}sub.u32 {count}, {count}, 1;\nbra.uni {start};\n{end}:\n"
        )


def program(seed: int) -> str:
    writer = Writer(seed)
    body = "".join(writer.block(3) for _ in range(3))
    start = "".join(f"mad.lo.u32 %r{k}, %r40, {2 * k + 1}, {k * k};\n" for k in range(1, 7))
    end = "".join(f"st.global.u32 [%rd3+{4 * k - 4}], %r{k};\n" for k in range(1, 7))
    return (
        f"{HEAD}.visible .entry k(.param .u64 out, .param .u32 first) {{\n"
        ".reg .pred %p<3>; .reg .b32 %r<50>; .reg .b64 %rd<5>;\n"
        "ld.param.u64 %rd1, [out]; ld.param.u32 %r41, [first]; mov.u32 %r42, %tid.x;\n"
        "add.u32 %r40, %r41, %r42; mul.wide.u32 %rd2, %r40, 24; add.s64 %rd3, %rd1, %rd2;\n"
        f"{start}{body}{end}ret; }}"
    )


@pytest.mark.parametrize("seed", range(40))
def test_together_as_alone(seed: int) -> None:
    ptx = program(seed)
    together, alone = (np.zeros((THREADS, 6), "u4") for _ in range(2))
    emulator.launch(ptx, "k", 1, THREADS, [together, 0])
    for k in range(THREADS):
        emulator.launch(ptx, "k", 1, 1, [alone, k])
    assert np.array_equal(together, alone)
    assert len(np.unique(together)) > 6
