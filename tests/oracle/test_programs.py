"""What programs() draws: valid, varied, readable, and small when shrunk."""

import linecache
import re
import traceback
import warnings

import numpy as np
import pytest
from hypothesis import find, settings

import fjit
from fjit.oracle.choose import seeded
from fjit.oracle.memory import clone
from fjit.oracle.programs import RandomProgram, build, compile_source
from fjit.testing import programs

MANY = [build(seeded(seed)) for seed in range(600)]


def run(program: RandomProgram) -> object:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return program.function(*clone(program.arguments))


def test_numpy_runs_every_program() -> None:
    for program in MANY:
        run(program)


def test_one_to_three_arrays_and_perhaps_a_number() -> None:
    for program in MANY:
        numbers = [a for a in program.arguments if not isinstance(a, np.ndarray)]
        assert 1 <= len(program.arguments) - len(numbers) <= 3 and len(numbers) <= 1


@pytest.mark.parametrize(
    "word",
    [
        "np.where", "astype", ".T", "reshape", "::-1", "broadcast_to", "flip", "pad", "concatenate",
        "stack", "roll", "take", "sum", "prod", "max", "mean", "var", "argmax", "any", "keepdims",
        "cumsum", " += ", "np.zeros", "[...] = ", "] = ", "out=", "for k in", " > ", "np.exp", "//",
        "return (", "return {", "return [", ", s)", "sort", " @ ",
        " % 3 > 0", "[:, 0] > ", "axis=(1,)",
    ],
)  # fmt: skip
def test_the_grammar_is_reached(word: str) -> None:
    assert any(word in program.source for program in MANY)


def test_masks_over_leading_axes_are_reached() -> None:
    """Selections of parts, and what is added up and written back of them."""
    text = "\n".join(program.source for program in MANY)
    made = re.findall(r"(v\d+) = (?:np\.arange\(\d+\) % 3 > 0|\w+\[:, 0\] > )", text)
    assert any(f"[{mask}]" in text for mask in made)
    assert re.search(r"\w+\[v\d+\] = v\d+$", text, re.MULTILINE)


def test_programs_are_many_and_of_every_length() -> None:
    assert len({program.source for program in MANY}) > 500
    lengths = {program.source.count("\n") for program in MANY}
    assert min(lengths) <= 3 and max(lengths) >= 13


def test_programs_reach_the_dtypes_of_the_ir() -> None:
    text = "\n".join(str(fjit.make_program(p.function)(*clone(p.arguments))) for p in MANY[:200])
    for word in ("reduce", "f32", "f64", "i8", "i64", "u8", "bool", "compress", "update"):
        assert word in text


def test_the_same_choices_give_the_same_program() -> None:
    assert [p.source for p in MANY[:20]] == [build(seeded(k)).source for k in range(20)]


def test_the_text_of_a_program_can_be_read() -> None:
    program = RandomProgram("def program(a):\n    return a\n", (np.ones(2),), ("np.ones(2)",))
    assert repr(program) == "\ndef program(a):\n    return a\n\nprogram(\n    np.ones(2),\n)\n"


def test_tracebacks_show_the_lines_of_a_program() -> None:
    function = compile_source("def program(a):\n    return a + undefined\n")
    with pytest.raises(NameError) as error:
        function(1)
    assert "return a + undefined" in "".join(traceback.format_exception(error.value))
    linecache.checkcache()
    assert linecache.getline(function.__code__.co_filename, 2).strip() == "return a + undefined"


def test_programs_shrink() -> None:
    quick = settings(max_examples=200, database=None, derandomize=True)
    program = find(programs(), lambda p: "np.sum" in p.source, settings=quick)
    assert program.source.count("\n") <= 5
