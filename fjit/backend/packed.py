"""Elements narrower than a word, side by side in one access of a thread.

Takes an address, gives a vector of elements, and the other way round. Invariant: an access of 16
bytes is one instruction, whatever its elements; libNVVM makes four of one of 16 bytes' width.

    <16 x i8> at p      ->      ld.global.v4.u32 and shifts, not four ld.global.v4.u8
"""

from __future__ import annotations

from typing import Final

from fjit.backend.emitter import Emitter, Ty, Val

WORD_BITS: Final = 32
WORD: Final = Ty("i", WORD_BITS)


def is_packed(ty: Ty) -> bool:
    """Whether a vector goes through memory as words."""
    return ty.lanes > 1 and ty.bits < WORD_BITS and ty.bits * ty.lanes > WORD_BITS


def load(em: Emitter, ty: Ty, pointer: Val) -> Val:
    """The elements at an address that is aligned to all of them."""
    size = ty.bits * ty.lanes // 8
    if not is_packed(ty):
        return em.load(ty, pointer, size)
    words = em.load(WORD.with_lanes(size * 8 // WORD_BITS), pointer, size)
    narrow, found = Ty("i", ty.bits), em.undef(ty)
    for lane in range(ty.lanes):
        word, shift = divmod(lane * ty.bits, WORD_BITS)
        bits = em.lshr(em.extract(words, word), em.const(WORD, shift))
        element = em.bitcast(em.trunc_int(bits, narrow), ty.element)
        found = em.insert(found, element, lane)
    return found


def store(em: Emitter, elements: list[Val], pointer: Val) -> None:
    """Write elements to an address that is aligned to all of them."""
    ty = elements[0].ty.with_lanes(len(elements))
    size = ty.bits * ty.lanes // 8
    if not is_packed(ty):
        vector = em.undef(ty)
        for lane, element in enumerate(elements):
            vector = em.insert(vector, element, lane)
        em.store(vector, pointer, size)
        return
    each, narrow = WORD_BITS // ty.bits, Ty("i", ty.bits)
    words = em.undef(WORD.with_lanes(size * 8 // WORD_BITS))
    for number in range(words.ty.lanes):
        total = em.const(WORD, 0)
        for k, element in enumerate(elements[number * each : (number + 1) * each]):
            bits = em.zext(em.bitcast(element, narrow), WORD)
            total = em.or_(total, em.shl(bits, em.const(WORD, k * ty.bits)))
        words = em.insert(words, total, number)
    em.store(words, pointer, size)
