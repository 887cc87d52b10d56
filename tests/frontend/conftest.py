"""The frontend's own oracle: a traced function, interpreted, gives what NumPy gives."""

import importlib
import pkgutil
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fjit.frontend.numpy
from fjit.core import tree
from fjit.core.interpreter import interpret
from fjit.core.ir import Aval, Var
from fjit.core.trace import Trace
from fjit.core.verify import verify
from fjit.frontend import views
from fjit.frontend.function import Result, Traced, trace_function

for module in pkgutil.iter_modules(fjit.frontend.numpy.__path__):
    importlib.import_module(f"fjit.frontend.numpy.{module.name}")

RAISED = (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError)


def run_traced(f: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Traced]:
    """What `f` returns, traced and interpreted; writes its arguments as `f` would."""
    leaves, spec = tree.flatten(arguments)
    names = [f"#{k}" for k in range(len(leaves))]
    traced = trace_function(lambda given: f(*tree.unflatten(spec, given)), leaves, names)
    verify(traced.program)
    inputs = list(leaves)
    for position in range(len(leaves), len(traced.program.inputs)):
        inputs.append(traced.captures[position].array)
    outputs = interpret(traced.program, *inputs)
    for position, output, _ in traced.writes:
        inputs[position][...] = outputs[output]
    results = [_result(r, outputs, inputs) for r in traced.results]
    return tree.unflatten(traced.result_tree, results), traced


def _result(result: Result, outputs: tuple[Any, ...], inputs: list[Any]) -> Any:
    if result.argument is not None:
        return _through(inputs[result.argument], result)
    if result.output is None:
        return result.static
    value = outputs[result.output]
    if result.weak is not None:
        return result.weak(value)
    if result.is_scalar:
        return value[()]
    order = result.order
    return (
        np.ascontiguousarray(value.transpose(order))
        .reshape(tuple(value.shape[k] for k in order))
        .transpose(np.argsort(order) if order else ())
    )


def _through(array: Any, result: Result) -> Any:
    if not isinstance(array, np.ndarray):
        return array
    trace = Trace()
    var: Var = trace.add_input(Aval(array.shape, array.dtype.newbyteorder("=")))
    atom = views.read(trace, var, result.steps)
    (value,) = interpret(trace.program((atom,)), array)
    return value[()] if result.is_scalar else value


def assert_same(
    got: Any, want: Any, *, ulp: float = 0, rtol: float = 0, layout: bool = True
) -> None:
    """Types, dtypes, shapes, bits (or a bound) and axis order of two results agree."""
    got_leaves, got_spec = tree.flatten(got)
    want_leaves, want_spec = tree.flatten(want)
    assert got_spec == want_spec
    for g, w in zip(got_leaves, want_leaves, strict=True):
        _assert_leaf(g, w, ulp, rtol, layout)


def _assert_leaf(got: Any, want: Any, ulp: float, rtol: float, layout: bool) -> None:
    assert type(got) is type(want), f"{type(got)} instead of {type(want)}"
    if not isinstance(want, np.ndarray | np.generic | int | float):
        assert got == want
        return
    g, w = np.asarray(got), np.asarray(want)
    assert g.dtype == w.dtype, f"{g.dtype} instead of {w.dtype}"
    assert g.shape == w.shape, f"{g.shape} instead of {w.shape}"
    if layout and isinstance(want, np.ndarray) and want.flags.owndata and want.size:
        wide = [k for k in range(w.ndim) if w.shape[k] > 1]
        seen, expected = ([a.strides[k] for k in wide] for a in (g, w))
        assert seen == expected, f"strides {g.strides} instead of {w.strides}"
    if w.dtype.kind != "f":
        np.testing.assert_array_equal(g, w)
        return
    nan = np.isnan(w)
    np.testing.assert_array_equal(np.isnan(g), nan)
    g, w = g[~nan], w[~nan]
    if not ulp and not rtol:
        np.testing.assert_array_equal(g, w)
        np.testing.assert_array_equal(np.signbit(g), np.signbit(w))
        return
    finite = np.isfinite(w)
    np.testing.assert_array_equal(g[~finite], w[~finite])
    g, w = g[finite], w[finite]
    bound = ulp * np.spacing(np.abs(w)) + rtol * np.abs(w)
    assert (np.abs(g - w) <= bound).all(), f"off by {np.max(np.abs(g - w) - bound)}"


@pytest.fixture
def same_as_numpy() -> Callable[..., Traced]:
    """`same_as_numpy(f, *arguments, ulp=0, rtol=0, layout=True)` traces, verifies, interprets `f`.

    Compares results and the arguments afterwards with a plain call; if that raises, tracing or
    interpreting must raise an error of the same kind. Gives the traced function.
    """

    def check(f: Callable[..., Any], *arguments: Any, **bounds: Any) -> Traced | None:
        for_numpy = tree.unflatten(*_copies(arguments))
        for_trace = tree.unflatten(*_copies(arguments))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                want = f(*for_numpy)
            except RAISED as error:
                kind = next(k for k in RAISED if isinstance(error, k))
                with pytest.raises(kind):
                    run_traced(f, for_trace)
                return None
            got, traced = run_traced(f, for_trace)
        assert_same(got, want, **bounds)
        assert_same(for_trace, for_numpy)
        return traced

    return check


def _copies(arguments: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    leaves, spec = tree.flatten(arguments)
    return spec, [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in leaves]
