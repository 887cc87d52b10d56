"""A tracer small enough to read: what `rebind` needs of one, and nothing else."""

import numpy as np

from fjit.frontend.guards import Reads
from fjit.frontend.hooks import Hooks
from fjit.frontend.paths import Path
from fjit.frontend.rebind import rebind
from fjit.frontend.standins import Protocol, make_builtins, scalar_type


class MiniError(Exception):
    """Our own error, which is no TypeError."""


class MiniTypeError(MiniError, TypeError):
    """Our own error, which a user's `except TypeError` catches."""


class Tr(np.lib.mixins.NDArrayOperatorsMixin):
    """A traced array: its expression as text."""

    def __init__(self, text, shape=(3,)):
        self.text = text
        self.shape = shape

    ndim = property(lambda self: len(self.shape))
    dtype = np.dtype(float)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kw):
        texts = [v.text if isinstance(v, Tr) else str(v) for v in inputs]
        shape = max((v.shape for v in inputs if isinstance(v, Tr)), key=len)
        return Tr(f"{ufunc.__name__}({', '.join(texts)})", shape)

    def __getitem__(self, i):
        return Tr(f"{self.text}[{i}]", self.shape[1:])

    def __setitem__(self, i, value):
        self.text = f"set({self.text}, {i}, {getattr(value, 'text', value)})"

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def any(self):
        return Tr(f"any({self.text})", ())

    def __bool__(self):
        raise MiniTypeError("bool() of a traced array")

    def __fjit_float__(self):
        return Tr(f"float({self.text})", ())

    def __fjit_int__(self):
        return Tr(f"int({self.text})", ())

    def __fjit_bool__(self):
        return Tr(f"bool({self.text})", ())

    def __abs__(self):
        return Tr(f"abs({self.text})", self.shape)

    def __round__(self, digits=0):
        return Tr(f"round({self.text}, {digits})", self.shape)


def is_traced(value):
    return type(value) is Tr


def select(c, a, b):
    text = [getattr(v, "text", repr(v)) for v in (c, a, b)]
    return Tr(f"select({', '.join(text)})", ())


def zeros(shape, dtype=float):
    return Tr(f"zeros({shape}, {np.dtype(dtype)})", (shape,) if isinstance(shape, int) else shape)


FLOAT64 = scalar_type(np.float64, is_traced, lambda v: Tr(f"f64({v.text})", ()))


class Run:
    """One trace: `run(x, ...)` gives the result, `.reads` and `.lifted` what was met."""

    def __init__(self, function, arguments=(), **options):
        self.reads = Reads()
        self.lifted: dict[str, np.ndarray] = {}
        hooks = Hooks(
            is_traced=is_traced,
            lift_array=self.lift,
            error=MiniError,
            replacements={id(np.zeros): zeros, id(np.float64): FLOAT64},
            module_standins={np: {"zeros": zeros, "float64": FLOAT64}},
            builtins=make_builtins(Protocol(is_traced, select)),
            refuse={
                id(np.random): "np.random freezes; use fjit.random",
                id(np.random.Generator): "generators freeze; use fjit.random",
                id(input): "input() freezes one answer",
            },
        )
        hooks = Hooks(**{**vars(hooks), **options})
        self.function = function
        self.rebound = rebind(function, hooks, self.reads)

    def lift(self, array: np.ndarray, path: Path) -> Tr:
        assert str(path) not in self.lifted
        self.lifted[str(path)] = array
        return Tr(f"<{path}>", array.shape)

    def __call__(self, *args, **keywords):
        return self.rebound(*args, **keywords)

    def holds(self, function=None):
        return self.reads.holds(function or self.function)

    def paths(self):
        return [str(guard.path) for guard in self.reads.guards()]


def text(function, *args, **options):
    """The expression that a function of one traced array gives."""
    result = Run(function, **options)(Tr("x"), *args)
    return result.text if is_traced(result) else result
