"""Who is timed: NumPy, fjit and whichever other array compilers are installed, a row a peer.

Takes a case, gives a callable over adapted arguments. Invariant: a peer is imported only when it is
used, and limited to one thread if that is asked for before it starts any.

    PEERS["jax"].compile(case, 1)    ->    jax.jit of the case's source with jax.numpy as its `np`
"""

import contextlib
import importlib.metadata
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, Final, TypeAlias

import numpy as np

from fjit.api import Fused, fuse
from fjit.bench.cases import Case
from fjit.core import tree
from fjit.errors import FjitValueError

Call: TypeAlias = Callable[..., Any]  # programs of any arguments and results


def _same(value: Any) -> Any:
    return value


def _nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Peer:
    """One way to run a case. `threads` is 1, or None for all there are."""

    name: str
    package: str
    compile: Callable[[Case, int | None], Call | None]  # None: nothing is written for the case
    start: Callable[[int | None], None] = _nothing
    adapt: Callable[[Any], Any] = _same  # an array of NumPy's to one of the peer's
    fetch: Callable[[Any], Any] = _same  # and back
    forget: Callable[[Call], None] = _nothing  # empty its caches, before a first call
    kinds: tuple[str, ...] = ("steady", "shapes", "first")

    def version(self) -> str | None:
        """Return the installed version, or None; imports nothing."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None

    def arguments(self, arguments: tuple[Any, ...]) -> Any:
        return convert(self.adapt, arguments)


def convert(change: Callable[[Any], Any], values: Any) -> Any:
    """Return the tree of arrays with `change` applied to each."""
    leaves, spec = tree.flatten(values)
    return tree.unflatten(spec, [change(leaf) for leaf in leaves])


def rebound(function: Call, modules: Mapping[str, Any]) -> Call:
    """Return the function with other modules as its globals, in the functions it calls too."""
    assert isinstance(function, FunctionType)
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        value = scope.get(name)
        if name in modules:
            scope[name] = modules[name]
        elif isinstance(value, FunctionType):
            scope[name] = rebound(value, modules)
    return FunctionType(function.__code__, scope, function.__name__, function.__defaults__)


def _source(case: Case, peer: str) -> Call:
    return case.variants.get(peer, case.function)


# NumPy and fjit


def reference(case: Case) -> Call:
    """The case's function for NumPy, with scipy's special functions where it needs some."""
    if "special" not in case.function.__code__.co_names:
        return case.function
    import scipy.special

    return rebound(case.function, {"special": scipy.special})


def _numpy(case: Case, threads: int | None) -> Call:
    return reference(case)


def _limit_blas(threads: int | None) -> None:
    """Hold the library behind `np.matmul` to the threads, where threadpoolctl is installed."""
    with contextlib.suppress(ImportError):
        import threadpoolctl

        if threads is not None:
            threadpoolctl.threadpool_limits(threads)


def _fjit(case: Case, threads: int | None) -> Call:
    return _fused(case, threads, cache=False)


def _fjit_disk(case: Case, threads: int | None) -> Call:
    return _fused(case, threads, cache=True)


def _fused(case: Case, threads: int | None, *, cache: bool) -> Call:
    """The case's function, as one never seen before, fused."""
    fused: Call = fuse(threads=threads, cache=cache)(rebound(_source(case, "fjit"), {}))
    return fused


def _forget_fused(function: Call) -> None:
    if isinstance(function, Fused):
        function.cache_clear()


# JAX


@contextlib.contextmanager
def _processors(threads: int | None) -> Iterator[None]:
    """Show one processor to what starts inside, for libraries that size their pools by it.

    The threads that were started are let loose again afterwards.
    """
    if threads is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(everywhere)[:threads])
    try:
        yield
    finally:
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(task.name), everywhere)


def _start_jax(threads: int | None) -> None:
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    with _processors(threads):
        jax.block_until_ready(jax.jit(lambda x: x + 1)(np.ones(8)))


def _jax(case: Case, threads: int | None) -> Call:
    import jax
    import jax.scipy.special

    modules = {"np": jax.numpy, "special": jax.scipy.special}
    fast = jax.jit(rebound(_source(case, "jax"), modules))
    return lambda *arguments: jax.block_until_ready(fast(*arguments))


def _to_jax(array: Any) -> Any:
    import jax

    return jax.device_put(array)


# torch.compile, which reads NumPy's own source


def _start_torch(threads: int | None) -> None:
    import torch

    if threads is not None:
        torch.set_num_threads(threads)


def _torch(case: Case, threads: int | None) -> Call:
    import torch

    compiled: Call = torch.compile(rebound(_source(case, "torch"), {}), fullgraph=True)
    return compiled


def _forget_torch(function: Call) -> None:
    import torch

    torch.compiler.reset()


# numba and numexpr


def _start_numba(threads: int | None) -> None:
    import numba

    if threads is not None:
        numba.set_num_threads(threads)


def _numba(case: Case, threads: int | None) -> Call:
    import numba

    def jit(function: FunctionType) -> Call:
        scope = dict(function.__globals__)
        for name in function.__code__.co_names:
            value = scope.get(name)
            if isinstance(value, FunctionType):
                scope[name] = jit(value)
        copy = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
        compiled: Call = numba.njit(parallel=threads != 1)(copy)
        return compiled

    source = _source(case, "numba")
    assert isinstance(source, FunctionType)
    return jit(source)


def _numexpr(case: Case, threads: int | None) -> Call | None:
    import numexpr

    if not case.expression:
        return None
    names = tuple(inspect.signature(case.function).parameters)
    numexpr.set_num_threads(threads or numexpr.detect_number_of_cores())
    expression = case.expression

    def evaluate(*arguments: Any) -> Any:
        values = dict(zip(names, arguments, strict=True))
        return numexpr.evaluate(expression, local_dict=values, global_dict={})

    return evaluate


_ROWS: Final = (
    Peer("numpy", "numpy", _numpy, start=_limit_blas),
    Peer("fjit", "fjit", _fjit, forget=_forget_fused),
    Peer("fjit disk", "fjit", _fjit_disk, forget=_forget_fused, kinds=("first",)),
    Peer("jax", "jax", _jax, _start_jax, _to_jax, np.asarray),
    Peer("torch", "torch", _torch, _start_torch, forget=_forget_torch),
    Peer("numba", "numba", _numba, _start_numba),
    Peer("numexpr", "numexpr", _numexpr, kinds=("steady",)),
)
PEERS: Final[Mapping[str, Peer]] = {peer.name: peer for peer in _ROWS}


def choose(names: tuple[str, ...]) -> tuple[tuple[Peer, ...], tuple[str, ...]]:
    """Return the peers to time and the names of those that are not installed.

    No names mean all. NumPy and fjit are always among them. Raises FjitValueError for a name that
    is no peer.
    """
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise FjitValueError(
            f"no peer is called {', '.join(unknown)}; the peers are {', '.join(PEERS)}"
        )
    wanted = [p for p in _ROWS if not names or p.name in names or p.package in ("numpy", "fjit")]
    here = tuple(p for p in wanted if p.package in ("numpy", "fjit") or p.version() is not None)
    return here, tuple(peer.name for peer in wanted if peer not in here)


def describe(error: BaseException) -> str:
    """The first line of an error, short enough for a note under a table."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:110]
