"""Random programs through every path: NumPy, the interpreters, unfused, all widths, two threads.

The programs of `make test` are drawn anew by Hypothesis each time, and shrink when one fails; the
slow ones are numbered, so that a failure is repeated by its number:

    check_program(build(seeded(1234)))
"""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from fjit.oracle.choose import seeded
from fjit.oracle.programs import RandomProgram, build
from fjit.testing import check, programs

PARTS = 4
QUICK = 200
SLOW = 2000


def check_program(program: RandomProgram) -> None:
    try:
        check(program.function, *program.arguments)
    except AssertionError as error:
        raise AssertionError(f"{program}\n{error}") from error


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int) -> None:
    """In parts, so that processes can share them."""

    @settings(
        max_examples=QUICK // PARTS,
        suppress_health_check=[HealthCheck.too_slow],
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    )
    @given(programs())
    def run(program: RandomProgram) -> None:
        check_program(program)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_random_programs(part: int) -> None:
    share = SLOW // 20
    for seed in range(part * share, (part + 1) * share):
        check_program(build(seeded(seed)))
