"""The memory of a call is measured in a process of its own."""

import pytest

from fjit.bench import memory
from fjit.bench.cases import MEMORY, select
from fjit.bench.peers import PEERS
from fjit.bench.runner import Job
from fjit.errors import FjitError

pytestmark = pytest.mark.skipif(not memory.supported(), reason="needs Linux's /proc")

SOFTMAX = Job(select(("memory",), "softmax")[0], (2000, 2000), "f32", "1")
RESULT = 2000 * 2000 * 4
SLACK = 12 << 20  # machine code and small objects


def test_a_fused_call_takes_its_result_and_no_temporaries() -> None:
    assert RESULT <= memory.peak(SOFTMAX, "fjit") <= RESULT + SLACK


def test_numpy_takes_more() -> None:
    assert memory.peak(SOFTMAX, "numpy") >= 1.8 * RESULT


def test_a_refusal_is_told() -> None:
    with pytest.raises(FjitError, match=r"nothing is written for this case|numexpr"):
        memory.peak(SOFTMAX, "numexpr")
    row = memory.row(SOFTMAX, (PEERS["fjit"], PEERS["numexpr"]))
    assert set(row.times) == {"fjit"} and set(row.notes) == {"numexpr"}


def test_the_group_is_of_one_kind() -> None:
    assert {case.kind for case in select(("memory",))} == {MEMORY}
