"""Dead code and common subexpressions, before and after."""

import numpy as np

from fjit.core import primitives as p
from fjit.core.ir import Atom, Var, literal
from fjit.core.verify import verify
from fjit.optimize.clean import merge_common, origins, remove_dead
from tests.optimize.programs import BOOL, F32, F64, T, assert_same, brief, program


def test_dead_equations_go_and_the_rest_keeps_its_order() -> None:
    def build(t: T) -> tuple[Atom, ...]:
        a = t.input(F64, 3)
        first, _dead = t(p.exp, a), t(p.neg, t(p.sin, a))
        return t(p.cos, a), first

    original = program(build)
    assert brief(original) == "b = exp a; c = sin a; d = neg c; e = cos a in (e, b)"
    assert brief(verify(remove_dead(original))) == "b = exp a; c = cos a in (c, b)"


def test_a_program_without_dead_equations_is_the_same_object() -> None:
    original = program(lambda t: t(p.exp, t(p.neg, t.input(F64, 3))))
    assert remove_dead(original) is original
    assert merge_common(original) is original


def test_unused_inputs_stay() -> None:
    def build(t: T) -> Atom:
        t.input(F64, 3)
        return t.lit(1.0)

    original = program(build)
    assert remove_dead(original) is original and len(original.inputs) == 1


def test_the_equation_behind_a_symbolic_extent_stays() -> None:
    def build(t: T) -> tuple[Atom, ...]:
        mask, x = t.input(BOOL, 3), t.input(F64, 3)
        filtered = t.compress(t(p.not_, mask), t(p.exp, x))
        return (t(p.broadcast, t.lit(1.0), shape=filtered.aval.shape, axes=()),)

    original = program(build)
    assert brief(original) == (
        "c = not a; d = exp b; e = compress[extent=n0<=3] c d; "
        "f = broadcast[axes=() shape=(n0<=3,)] 1.0:f64 in (f,)"
    )
    assert remove_dead(original) is original
    assert origins(original) == {original.eqns[0].output}


def equal_pair(t: T, *literals: Atom) -> Var:
    """(x + l0) - (x + l1); the trace merges the sums itself where one literal object is shared."""
    x = t.input(F64, 3)
    return t(p.sub, *(t(p.add, x, value) for value in literals))


def test_equal_equations_are_computed_once() -> None:
    original = program(lambda t: equal_pair(t, literal(0.5, F64), literal(0.5, F64)))
    assert brief(original) == "b = add a 0.5:f64; c = add a 0.5:f64; d = sub b c in (d,)"
    assert brief(verify(merge_common(original))) == "b = add a 0.5:f64; c = sub b b in (c,)"


def test_merging_goes_on_through_what_reads_the_merged() -> None:
    def build(t: T) -> tuple[Atom, ...]:
        x = t.input(F64, 3)
        a, b = (t(p.add, x, literal(2.0, F64)) for _ in range(2))
        return t(p.exp, a), t(p.exp, b)

    original = program(build)
    assert brief(verify(merge_common(original))) == "b = add a 2.0:f64; c = exp b in (c, c)"


def test_literals_are_equal_by_their_bits() -> None:
    for one, other in ((0.0, -0.0), (1.0, 2.0)):
        original = program(lambda t: equal_pair(t, literal(one, F64), literal(other, F64)))  # noqa: B023
        assert merge_common(original) is original
    nan = program(lambda t: equal_pair(t, literal(np.nan, F64), literal(np.nan, F64)))
    assert len(merge_common(nan).eqns) == 2


def test_parameters_and_order_of_operands_count() -> None:
    def build(t: T) -> tuple[Atom, ...]:
        a, b = t.input(F64, 3), t.input(F64, 3)
        views = (t(p.reshape, a, shape=(3, 1)), t(p.reshape, a, shape=(1, 3)))
        casts = (t(p.convert, a, dtype=F32), t(p.convert, a, dtype=np.dtype("f2")))
        return t(p.max_, a, b), t(p.max_, b, a), *views, *casts

    original = program(build)
    assert merge_common(original) is original


def test_barriers_are_never_merged() -> None:
    def build(t: T) -> Atom:
        x = t.input(F64, 3)
        y, z = (t(p.add, x, literal(2.0, F64)) for _ in range(2))
        return t(p.sub, t(p.barrier, y), t(p.barrier, z))

    assert brief(verify(merge_common(program(build)))) == (
        "b = add a 2.0:f64; c = barrier b; d = barrier b; e = sub c d in (e,)"
    )


def test_a_mask_that_determines_an_extent_is_not_replaced() -> None:
    def build(t: T) -> tuple[Atom, ...]:
        x = t.input(F64, 3)
        masks = [t(p.gt, x, literal(2.0, F64)) for _ in range(2)]
        return tuple(t.compress(mask, x) for mask in masks)

    original = program(build)
    assert merge_common(original) is original
    assert_same(original, original, [np.array([1.0, 3.0, np.nan])])
