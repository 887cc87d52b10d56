"""Simplification: the table of rewrite rules, a row a line, and the pass that applies them.

Takes a program, gives one that computes the same bits with less:

    let b = reshape[shape=(3,1)] a; c = broadcast[shape=(3,4) axes=(0,1)] b; d = mul c 1.0
    becomes
    let c = broadcast[shape=(3,4) axes=(0,)] a

Invariant: a primitive without a row stays as it is; a barrier has none, so nothing crosses it.
"""

from __future__ import annotations

from typing import Final

from fjit.core import primitives as p
from fjit.core.ir import Primitive, Program
from fjit.optimize import folding as f
from fjit.optimize import regions as r
from fjit.optimize import scalars as s
from fjit.optimize import viewing as v
from fjit.optimize.rewrite import Rewriter, Rule

# fmt: off
OWN_RULES: Final[dict[Primitive, tuple[Rule, ...]]] = {
    p.neg:       (s.undo_twice,),
    p.not_:      (s.undo_twice,),
    p.abs_:      (s.do_once,),
    p.add:       (s.add_nothing,),
    p.sub:       (s.subtract_nothing,),
    p.mul:       (s.multiply_by_one,),
    p.div:       (s.divide_by_power_of_two,),
    p.or_:       (s.bits_of_nothing, s.same_operands),
    p.xor:       (s.bits_of_nothing,),
    p.and_:      (s.same_operands,),
    p.max_:      (s.same_operands,),
    p.min_:      (s.same_operands,),
    p.shl:       (s.shift_by_nothing,),
    p.shr:       (s.shift_by_nothing,),
    p.eq:        (s.compare_same,),
    p.ne:        (s.compare_same,),
    p.lt:        (s.compare_same,),
    p.le:        (s.compare_same,),
    p.gt:        (s.compare_same,),
    p.ge:        (s.compare_same,),
    p.select:    (s.select_known,),
    p.convert:   (s.convert_to_own, s.convert_once),
    p.broadcast: (v.same_shape, v.broadcast_once, v.broadcast_of_reshape),
    p.transpose: (v.same_axes, v.transpose_once, v.transpose_of_broadcast),
    p.reshape:   (v.same_shape, v.reshape_once, v.reshape_of_scalar),
    p.slice_:    (v.whole_slice, v.slice_once, v.slice_of_broadcast, v.slice_of_concatenate,
                  r.read_written),
    p.pad:       (v.pad_nothing,),
    p.concat:    (v.join_one, v.join_flat),
    p.update:    (r.write_nothing, r.write_all, r.write_again, r.join_updates),
    p.expand:    (r.expand_compressed,),
    p.compress:  (r.compress_selected,),
    p.reduce:    (f.reduce_ones, f.reduce_once),
    p.argreduce: (f.argreduce_ones,),
    p.cumulate:  (f.cumulate_one,),
}
# fmt: on


def _rules(primitive: Primitive) -> tuple[Rule, ...]:
    own = OWN_RULES.get(primitive, ())
    if primitive.family != "elementwise":
        return own
    return (s.fold, s.scalar_operands, *own, s.sink_views)


RULES: Final[dict[Primitive, tuple[Rule, ...]]] = {
    primitive: rules for primitive in p.PRIMITIVES.values() if (rules := _rules(primitive))
}


def simplify(program: Program) -> Program:
    """`program` after all rules that fit; the same object if none does."""
    return Rewriter(program, RULES).run()


def applicable(program: Program) -> tuple[str, ...]:
    """The names of the rules that would change `program`, for reports and errors."""
    walk = Rewriter(program, RULES)
    walk.run()
    return tuple(sorted(set(walk.fired)))
