"""The public transforms: fuse, make_program, barrier.

Takes a function of arrays, gives one that traces itself on first meeting a kind of arguments and
runs compiled kernels ever after.

    f = fjit.fuse(lambda x: np.exp(x).sum())      f(x)  ==  np.exp(x).sum()
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Final, ParamSpec, TypeVar, overload

from fjit.core import primitives as p
from fjit.core import tree
from fjit.core.ir import Program
from fjit.core.trace import current
from fjit.entries import CacheInfo, Choices, Entry
from fjit.errors import FjitTypeError, FjitValueError
from fjit.frontend.tracer import Tracer, from_atom
from fjit.fused import Fused
from fjit.optimize.pipeline import optimize
from fjit.optimize.relax import FLAGS
from fjit.runtime.machines import TARGETS, machine_of

__all__ = ["FLAGS", "FUSIONS", "TARGETS", "CacheInfo", "Choices", "Entry", "Fused", "barrier",
           "fuse", "make_program", "scope", "with_width"]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")

FUSIONS: Final = ("auto", "max", "none")


def _checked(
    target: str,
    static_argnames: str | Iterable[str],
    fusion: str | Callable[[Any], bool],
    max_registers: int | None,
    threads: int | None,
    cache: bool,
    fastmath: Collection[str],
) -> Choices:
    """The options, or FjitValueError with the good values."""
    machine_of(target)
    if not callable(fusion) and fusion not in FUSIONS:
        raise FjitValueError(
            f"fusion={fusion!r} is not known; good values: {', '.join(FUSIONS)}, or a function "
            "from a candidate to bool"
        )
    for name, value in (("threads", threads), ("max_registers", max_registers)):
        if value is not None and (type(value) is not int or value < 1):
            raise FjitValueError(f"{name}={value!r} is not known; good values: None or an int >= 1")
    if not isinstance(static_argnames, (str, list, tuple, set, frozenset)) or not all(
        isinstance(name, str) for name in static_argnames
    ):
        raise FjitValueError(
            f"static_argnames={static_argnames!r} is not known; good values: the name of a "
            "parameter, or a tuple of names"
        )
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    flags = (fastmath,) if isinstance(fastmath, str) else fastmath
    good = isinstance(flags, (list, tuple, set, frozenset))
    if not good or not all(flag in FLAGS for flag in flags):
        raise FjitValueError(
            f"fastmath={fastmath!r} is not known; good values: a flag or a set of flags, which are "
            f"{', '.join(FLAGS)}"
        )
    return Choices(
        target, names, fusion, threads, bool(cache), fastmath=frozenset(flags),
        max_registers=max_registers,
    )  # fmt: skip


@overload
def fuse(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def fuse(
    function: None = None,
    /,
    *,
    target: str = "auto",
    static_argnames: str | Iterable[str] = (),
    fusion: str | Callable[[Any], bool] = "auto",
    max_registers: int | None = None,
    threads: int | None = None,
    cache: bool = True,
    fastmath: Collection[str] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def fuse(
    function: Any = None,
    /,
    *,
    target: str = "auto",
    static_argnames: str | Iterable[str] = (),
    fusion: str | Callable[[Any], bool] = "auto",
    max_registers: int | None = None,
    threads: int | None = None,
    cache: bool = True,
    fastmath: Collection[str] = (),
) -> Any:
    """Compile a function of NumPy arrays into fused kernels that return the same numbers.

    Args:
        function: A function written with plain NumPy. Arguments may be arrays, numbers and nested
            tuples, lists, dicts and registered dataclasses of them.
        target: "auto" for machine code of this processor, or of the NVIDIA GPU that an argument
            lies on; "cpu" for this processor alone, "cuda" for a GPU with NumPy arrays too,
            "cuda-emulator" for the GPU's code run here, "interpreter" for the reference. An
            architecture may follow: "cuda:sm_90" compiles for it without a device.
        static_argnames: Parameters whose values are part of the trace (modes, axes, sizes).
        fusion: "auto" decides by cost, "max" fuses whatever is legal, "none" nothing; or a function
            from a candidate Decision to bool.
        max_registers: Most vector registers (on a GPU, registers of a thread) that a kernel may
            need, as far as `explain` foresees them; kernels that need more are cut. None for as
            many as the planner finds best.
        threads: Most threads to use; None for the limits of OMP_NUM_THREADS and threadpoolctl.
        cache: Whether machine code is kept on disk.
        fastmath: Flags that trade exactness for speed, each for what docs/numerics.md says:
            "contract", "reassoc", "nnan", "ninf", "nsz", "arcp", "approx". Empty by default; one
            flag can be given as it is.

    Returns:
        A callable with the same signature, and `explain`, `lower`, `cache_info`, `cache_clear`.

    Raises:
        FjitValueError: For an option outside its good values.

    >>> import numpy as np, fjit
    >>> f = fjit.fuse(lambda x: (x * 2).sum())
    >>> f(np.ones(3))
    np.float64(6.0)
    """
    choices = _checked(target, static_argnames, fusion, max_registers, threads, cache, fastmath)
    if function is None:
        return lambda f: Fused(f, choices)
    if not callable(function):
        raise FjitTypeError(f"fuse takes a function, not {type(function).__name__}")
    if isinstance(function, Fused):
        return Fused(function.function, choices)
    return Fused(function, choices)


def make_program(function: Callable[..., Any]) -> Callable[..., Program]:
    """The traced program of a function: `make_program(f)(*args)`; printing it shows its equations.

    Args:
        function: As for `fuse`.

    Returns:
        A function of the same arguments that gives the optimized `Program` before planning.

    >>> import numpy as np, fjit
    >>> print(fjit.make_program(lambda x: x + 1)(np.ones(3)))
    { lambda a:f64[3] .
      let b:f64[3] = add a 1.0:f64
      in (b,) }
    """
    fused = function if isinstance(function, Fused) else Fused(function, Choices())

    def program(*args: Any, **keywords: Any) -> Program:
        return optimize(fused.trace(*args, **keywords), fused.choices.fastmath)

    return program


def barrier(x: Any) -> Any:
    """Nothing fuses across this value: it is computed and stored before what reads it.

    Args:
        x: An array or tree of arrays, traced or not.

    Returns:
        The same values.

    >>> import numpy as np, fjit
    >>> fjit.barrier(np.ones(2))
    array([1., 1.])
    """
    leaves, spec = tree.flatten(x)
    trace = current()
    if trace is not None:
        leaves = [
            from_atom(trace, trace.emit(p.barrier, leaf.atom), leaf.element_strides)
            if isinstance(leaf, Tracer)
            else leaf
            for leaf in leaves
        ]
    return tree.unflatten(spec, leaves)


def scope(name: str) -> AbstractContextManager[None]:
    """Name the operations of a block in reports: `with fjit.scope("attention"): ...`.

    Args:
        name: Not empty; a block inside of another is "outer/inner".

    Returns:
        A context manager, which decorates functions, too. Outside of a trace it does nothing.

    Raises:
        FjitValueError: If the name is no text, or empty.

    >>> import numpy as np, fjit
    >>> def f(x):
    ...     with fjit.scope("squares"):
    ...         return (x * x).sum()
    >>> fjit.fuse(f).explain(np.ones(3)).kernels[0].scopes
    ('squares',)
    """
    if not isinstance(name, str) or not name.strip():
        raise FjitValueError(f"scope takes a name that is not empty, not {name!r}")
    return _scope(name)


@contextmanager
def _scope(name: str) -> Iterator[None]:
    trace = current()
    if trace is None:
        yield
        return
    outer = trace.scope
    trace.scope = f"{outer}/{name}" if outer else name
    try:
        yield
    finally:
        trace.scope = outer


def with_width(function: Fused, width: int, **changes: Any) -> Fused:
    """A copy of a fused function with a fixed number of vector lanes (for tests)."""
    return Fused(function.function, replace(function.choices, width=width, **changes))
