"""For tests: arrays and programs drawn by Hypothesis, and the oracle that compares every path.

    @given(fjit.testing.programs())
    def test_it(p):
        fjit.testing.check(p.function, *p.arguments)

Importing this loads neither hypothesis nor LLVM; `arrays` and `programs` load hypothesis when
called (`pip install fjit[testing]`).
"""

from fjit.oracle.check import check, check_emulated
from fjit.oracle.compare import assert_same, ulp
from fjit.oracle.programs import programs
from fjit.oracle.strategies import arrays

__all__ = ["arrays", "assert_same", "check", "check_emulated", "programs", "ulp"]
