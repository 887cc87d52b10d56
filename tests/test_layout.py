"""Memory order of results: the axes of a fresh result lie as NumPy lays them out (K-order)."""

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fjit

QUICK = settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow], deadline=None)


def strides_of(a: Any) -> list[int]:
    """The strides that matter: of axes longer than one, of arrays that hold something."""
    return [s for s, n in zip(a.strides, a.shape, strict=True) if n > 1] if a.size else []


@st.composite
def laid_out(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """An array of this shape with axes in any order, each forward, backward, spread or repeated."""
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 1, -1, 2, 0])) for _ in shape]
    base = np.arange(np.prod([3 * shape[k] for k in order], dtype=int), dtype="f8")
    array = base.reshape([3 * shape[k] for k in order]).transpose(np.argsort(order))
    index = tuple(slice(None, n) for n in shape)
    for axis, (step, n) in enumerate(zip(steps, shape, strict=True)):
        if step == 0:
            array = np.broadcast_to(array.take([0], axis), _with(array.shape, axis, 3 * n))
        else:
            array = array[(slice(None),) * axis + (slice(None, None, step),)]
    return array[index]


def _with(shape: tuple[int, ...], axis: int, extent: int) -> tuple[int, ...]:
    return (*shape[:axis], extent, *shape[axis + 1 :])


@st.composite
def operands(draw: st.DrawFn) -> list[Any]:
    """Two or three arrays whose shapes broadcast, in any layout."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4)))
    arrays = []
    for _ in range(3):
        own = tuple(draw(st.sampled_from([n, n, n, 1])) for n in shape)
        drop = draw(st.sampled_from([0, 0, 0, 1])) if len(own) > 1 else 0
        arrays.append(draw(laid_out(own[drop:])))
    return arrays


STEPS = {
    "sum": lambda x, y: x + y,
    "scaled": lambda x, y: x * 2 - 1,
    "flipped": lambda x, y: y[::-1] * 1,
    "transposed": lambda x, y: x.T.T + y,
    "compared": lambda x, y: x > y,
    "chosen": lambda x, y: np.where(x > 2, x, y),
    "clipped": lambda x, y: np.clip(x, 0, 5),
    "cast": lambda x, y: x.astype("f4"),
    "copied": lambda x, y: np.copy(x) + 0 * y,
    "like": lambda x, y: np.zeros_like(x) + y,
    "rounded": lambda x, y: np.round(x, 1) if x.dtype.kind == "f" else x + y,
    "unary": lambda x, y: np.sqrt(np.abs(x)),
}
ENDS = {
    "as is": lambda x: x,
    "transposed": lambda x: x.T * 1,
    "reduced": lambda x: x.sum(axis=0),
    "kept": lambda x: x.max(axis=-1, keepdims=True),
    "scanned": lambda x: np.cumsum(x, axis=0),
    "copied": lambda x: x.copy(),
    "kept copy": np.copy,
    "cast": lambda x: x.astype(np.float32),
    "stacked": lambda x: np.stack([x, x]),
    "joined": lambda x: np.concatenate([x, x], axis=0),
}


@given(
    operands(),
    st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3),
    st.sampled_from(sorted(ENDS)),
)
@QUICK
def test_results_lie_as_numpys(arrays: list[Any], steps: list[str], end: str) -> None:
    def program(x: Any, y: Any, z: Any) -> Any:
        for name, other in zip(steps, (y, z, y), strict=False):
            x = STEPS[name](x, other)
        return ENDS[end](x)

    got, want = fjit.fuse(program)(*arrays), program(*arrays)
    assert type(got) is type(want) and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert strides_of(got) == strides_of(want), (steps, end)
