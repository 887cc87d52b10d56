"""Lanes rearranged in registers: tiles turned, vectors woven into one another.

Takes vectors of one type, gives as many. Invariant: every lane comes out once, unchanged.

    turned  [a b] [c d]      ->   [a c] [b d]
    woven   [a b c d] [p q r s]   ->   [a p b q] [c r d s]
"""

from __future__ import annotations

from fjit.backend.emitter import Emitter, Val


def turned(em: Emitter, rows: list[Val]) -> list[Val]:
    """The transpose of a square tile in log2(n) rounds of n shuffles (J. Eklundh, 1972)."""
    size = len(rows)
    half = size // 2
    while half:
        upper = [k + (size - half if k & half else 0) for k in range(size)]
        lower = [k + (size if k & half else half) for k in range(size)]
        for k in range(size):
            if not k & half:
                a, b = rows[k], rows[k + half]
                rows[k], rows[k + half] = em.shuffle(a, b, upper), em.shuffle(a, b, lower)
        half //= 2
    return rows


def woven(em: Emitter, values: list[Val]) -> list[Val]:
    """The first lanes of all vectors, then their second lanes, and so on.

    An even number is woven in pairs first: four vectors take two shuffles each instead of three.
    """
    count, lanes = len(values), values[0].ty.lanes
    if count == 1 or lanes == 1:
        return values
    if count % 2 == 0 and count > 2:
        half = count // 2
        pairs = [woven(em, [values[k], values[k + half]]) for k in range(half)]
        return [v for part in (0, 1) for v in woven(em, [pair[part] for pair in pairs])]
    return [_mixed(em, values, range(k * lanes, (k + 1) * lanes)) for k in range(count)]


def _mixed(em: Emitter, values: list[Val], places: range) -> Val:
    """One vector of the woven ones: place p is lane p // n of vector p mod n."""
    count, lanes = len(values), values[0].ty.lanes
    result = values[0]
    for number, value in list(enumerate(values))[1:]:
        mask = []
        for lane, place in enumerate(places):
            own, source = place % count, place // count
            first = number == 1 and own == 0
            mask.append(lanes + source if own == number else source if first else lane)
        result = em.shuffle(result, value, mask)
    return result
