"""What traced code sees of each value from outside: the one place that decides.

Takes: a value and the path at which it was read. Gives: what is handed to the code, after recording
a guard. Invariant: within a trace the same object gives the same stand-in, whatever the path, so
that `f is g` and aliasing are as without a trace; what goes back outside is turned into the
original.

    scalar, string, None, enum, dtype    itself, or a lifted input
    array, of a GPU too                  a traced input, by reference
    function, method, partial            rebound
    module                               a module stand-in
    class, instance of a followed module a shadow class, a view
    list, tuple, dict, set, namespace    itself, or a copy with replaced elements
    iterator                             refused: a trace would freeze what it yields
    anything else                        itself, guarded by identity alone (`reads.opaque`);
                                         refused if it is the user's and holds arrays
"""

from __future__ import annotations

import functools
import sys
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NoReturn, cast

import numpy as np

from fjit.errors import FjitError

from .containers import Containers
from .functions import Functions
from .guards import (
    Reads,
    alias_guard,
    array_guard,
    identity_guard,
    is_scalar,
    scalar_guard,
    type_guard,
)
from .hooks import Hooks
from .paths import MISSING, Attr, Item, Path
from .shadows import CACHED, Shadows, can_shadow, make_real, real_class
from .spaces import ModuleStandin, RecordingGlobals, builtins_table
from .standins import Refused, SeenType

_NUMBERS: Final = (int, float, complex, np.number)


class Observer:
    """Decides, for one trace, what the traced code sees of each value from outside."""

    def __init__(self, hooks: Hooks, reads: Reads) -> None:
        """Start with nothing met."""
        self.hooks = hooks
        self.reads = reads
        self.failed = False
        self.containers = Containers(self)
        self.shadows = Shadows(self)
        self.memo: dict[int, tuple[object, object, Path]] = {}
        self.exports: dict[int, tuple[object, object]] = {}
        self.leaves = 0
        self.table = builtins_table(self, hooks.builtins)
        self.table["super"] = _super
        self.table["type"] = SeenType(cast(Any, self.table["type"]), self.shadows.seen)
        self.functions = Functions(self, self.table)

    def observe(self, value: object, path: Path, held: object = MISSING) -> object:
        """Record that a value was read at a path, and return what the function gets to see.

        `held` is the object that the last step of the path reads from, if its identity is guarded.
        """
        known = self.memo.get(id(value))
        if known is not None:
            self._add_known(known[2], value, path, held)
            return known[1]
        if value is MISSING:
            self.reads.add(identity_guard(path, MISSING, held, "is not there"))
            return value
        if id(value) in self.exports or self.hooks.is_traced(value):
            return value
        if is_scalar(value):
            return self._observe_scalar(value, path, held)
        given = self._decide(value, path, held)
        self.memo[id(value)] = value, given, path
        self.export(given, value)
        return given

    def _add_known(self, first: Path, value: object, path: Path, held: object) -> None:
        """Guard that a second path leads to the object that was met before."""
        if path in self.reads or path == first:
            return
        if isinstance(value, np.ndarray) or self.hooks.is_traced(self.memo[id(value)][1]):
            self.reads.add(alias_guard(path, first))
        elif not isinstance(value, tuple):
            self.reads.add(identity_guard(path, value, held))
        else:
            self.reads.add(alias_guard(path, first))

    def _observe_scalar(self, value: object, path: Path, held: object) -> object:
        """Hand out a scalar or its lifted form."""
        lifted = self.lift(value, path, held)
        if lifted is not NotImplemented:
            self.reads.add(type_guard(path, value, held))
            return lifted
        self.reads.add(scalar_guard(path, value, held))
        return self._replaced(value)

    def lift(self, value: object, path: Path, held: object = MISSING) -> object:
        """Make a number an input, or return NotImplemented."""
        lift = self.hooks.lift_scalar
        if lift is None or isinstance(value, bool) or not isinstance(value, _NUMBERS):
            return NotImplemented
        lifted = lift(value, path)
        if lifted is not NotImplemented:
            self.reads.add_input(path, lifted, held)
        return lifted

    def _decide(self, value: object, path: Path, held: object) -> object:
        """Return what stands for a value that is no scalar and was not met before."""
        replaced = self._replaced(value)
        if replaced is not value:
            self.reads.add(identity_guard(path, value, held))
            return replaced
        text = self.hooks.refuse.get(id(type(value)))
        if text is not None:
            self.refuse(f"{path}: {text}")
        adapter = self.hooks.adapters.get(type(value))
        adapted = NotImplemented if adapter is None else adapter(value, path, self)
        if adapted is not NotImplemented:
            self.reads.add(identity_guard(path, value, held))
            return adapted
        array = self._located(value, path)
        if isinstance(array, np.ndarray):
            self.reads.add(array_guard(path, value, held) if array is value
                           else type_guard(path, value, held))  # fmt: skip
            return self._lift_array(array, path, held)
        if self.containers.follows(value):
            return self.containers.observe(value, path, held)
        self.reads.add(identity_guard(path, value, held))
        return self._observe_object(value, path)

    def _replaced(self, value: object) -> object:
        """Return the tracer's replacement of a value, what refuses it, or the value itself."""
        if id(value) in self.hooks.replacements:
            return self.hooks.replacements[id(value)]
        text = self.hooks.refuse.get(id(value))
        if text is None or isinstance(value, ModuleType):
            return value
        return Refused(value, lambda: self.refuse(text))

    def _located(self, value: object, path: Path) -> object:
        """The geometry of an array in other memory; whoever runs the trace compares all of it."""
        try:
            return self.hooks.locate(value, str(path))
        except FjitError as error:
            self.reads.fail(error)

    def _lift_array(self, value: np.ndarray, path: Path, held: object) -> object:
        """Make an array an input of the program."""
        lifted = self.hooks.lift_array(value, path)
        self.reads.add_input(path, lifted, held)
        return lifted

    def _observe_object(self, value: object, path: Path) -> object:
        """Return what stands for a callable, module, class or instance; its identity is guarded."""
        if isinstance(value, FunctionType):
            return self.functions.rebind(value, path)
        if isinstance(value, ModuleType):
            return ModuleStandin(value, path, self)
        if isinstance(value, MethodType):
            function = self.rebound(value.__func__, Attr(path, "__func__"))
            return MethodType(
                cast(Any, function), self.observe(value.__self__, Attr(path, "__self__"), value)
            )
        if type(value) is functools.partial:
            return self._observe_partial(value, path)
        if type(value) is CACHED:
            return self.observe(cast(Any, value).__wrapped__, Attr(path, "__wrapped__"), value)
        if isinstance(value, type):
            return self.shadows.shadow(value, path) if self._shadows(value) else value
        if self._shadows(type(value)):
            return self.shadows.view(value, path)
        return self._observe_opaque(value, path)

    def _shadows(self, cls: type) -> bool:
        """Tell whether a class is shadowed."""
        return can_shadow(cls, self.hooks.follow)

    def _observe_partial(self, value: functools.partial[object], path: Path) -> object:
        """Rebuild a partial from what it holds."""
        function = self.observe(value.func, Attr(path, "func"), value)
        arguments = [
            self.observe(argument, Item(Attr(path, "args"), i), value.args)
            for i, argument in enumerate(value.args)
        ]
        keywords = {
            name: self.observe(argument, Item(Attr(path, "keywords"), name), value.keywords)
            for name, argument in value.keywords.items()
        }
        return functools.partial(cast(Any, function), *arguments, **keywords)

    def _observe_opaque(self, value: object, path: Path) -> object:
        """Hand out an object of which only the identity is known, or refuse an iterator."""
        if isinstance(value, BuiltinMethodType) and self.containers.follows(value.__self__):
            container = self.observe(value.__self__, Attr(path, "__self__"), value)
            return getattr(container, value.__name__)
        if hasattr(type(value), "__next__"):
            self.refuse(
                f"{path} is an iterator ({type(value).__name__}) from outside the function, and a "
                "trace would freeze what it yields; pass the values as arguments"
            )
        held = getattr(value, "__dict__", {}).values()
        mine = self.hooks.follow(str(type(value).__module__))
        if mine and any(isinstance(item, np.ndarray) for item in held):
            self.refuse(
                f"{path} is a {type(value).__qualname__} that holds arrays; a trace cannot look "
                "into instances of such a class; pass the arrays as arguments"
            )
        if not isinstance(value, BuiltinMethodType | CodeType | np.ufunc):
            self.reads.opaque.append(path)
        return value

    def rebound(self, function: object, path: Path) -> object:
        """Return the traced form of a function, or of another callable, without a guard."""
        if isinstance(function, FunctionType):
            replaced = self._replaced(function)
            return replaced if replaced is not function else self.functions.rebind(function, path)
        return self.observe(function, path)

    def observe_key(self, key: object, path: Path) -> object:
        """Return what stands for a member of a set or a key of a dict, so that look-ups find it."""
        if isinstance(key, FunctionType):
            return self.rebound(key, path)
        if isinstance(key, tuple):
            return key if is_scalar(key) else tuple(self.observe_key(item, path) for item in key)
        replaced = self._replaced(key)
        self.export(replaced, key)
        return replaced

    def unguarded(self, value: object, path: Path) -> object:
        """Return what stands for a constant of a library: a replacement, a module, or itself."""
        known = self.memo.get(id(value))
        if known is not None:
            return known[1]
        standin = self._replaced(value)
        if isinstance(value, ModuleType):
            standin = ModuleStandin(value, path, self)
        if standin is value:
            return value
        self.memo[id(value)] = value, standin, path
        self.export(standin, value)
        return standin

    def count_leaf(self, path: Path) -> None:
        """Count an element of a captured container, and refuse too many."""
        self.leaves += 1
        if self.leaves > self.hooks.max_leaves:
            self.refuse(
                f"the containers read from outside hold more than {self.hooks.max_leaves} elements "
                f"(reached at {path}), each to be checked at every call; make them one array, or "
                "pass them as an argument"
            )

    def refuse(self, text: str) -> NoReturn:
        """Raise one of our own errors; it comes back after the call even if caught."""
        self.reads.fail(self.hooks.error(text))

    def leak(self, path: Path) -> None:
        """Record the error for a traced value that the function stored outside."""
        self.reads.record_error(
            self.hooks.error(
                f"the function stores a traced array in {path}, which outlives the call; return "
                "the array instead"
            )
        )

    # The way back

    def export(self, given: object, value: object) -> None:
        """Remember the original of what was handed out."""
        if given is not value:
            self.exports[id(given)] = given, value

    def original(self, value: object, depth: int = 32) -> object:
        """Return the user's object for what was handed out, also inside plain containers."""
        known = self.exports.get(id(value))
        if known is not None and not self.hooks.is_traced(value):
            return known[1]
        view = self.shadows.views.get(id(value))
        if view is not None:
            return view.real
        make_real(value)
        if depth == 0:
            return value
        kind = type(value)
        if kind is list or kind is dict:
            contents = cast(Any, value)  # either of two kinds, walked alike
            for key, item in list(enumerate(contents) if kind is list else contents.items()):
                original = self.original(item, depth - 1)
                if original is not item:
                    contents[key] = original
        if isinstance(value, tuple):
            items = tuple(self.original(item, depth - 1) for item in value)
            if any(a is not b for a, b in zip(items, value, strict=True)):
                return getattr(kind, "_make", tuple)(items)
        return value

    def outside(self, value: object) -> object:
        """Return what is stored outside: originals, and arrays for the inputs lifted from them."""
        known = self.exports.get(id(value))
        return known[1] if known is not None else self.original(value)

    def holds_traced(self, value: object, depth: int = 8) -> bool:
        """Tell whether a value is or contains something that exists in the trace only."""
        if id(value) in self.exports:
            return False
        if self.hooks.is_traced(value):
            return True
        if isinstance(value, FunctionType):
            return isinstance(value.__globals__, RecordingGlobals)
        if depth == 0:
            return False
        if isinstance(value, list | tuple | set | frozenset):
            return any(self.holds_traced(item, depth - 1) for item in value)
        if isinstance(value, dict):
            return any(self.holds_traced(item, depth - 1) for item in value.values())
        if any(value is made for made in self.shadows.made):
            return any(self.holds_traced(item, depth - 1) for item in vars(value).values())
        return False

    def settle(self) -> None:
        """End the trace: effects happen outside, instances get their real classes."""
        self.functions.settle()
        self.containers.settle()
        self.shadows.settle()


def _super(*args: Any) -> object:  # as super takes them
    """Stand for `super`: begin behind the real class, where the shadows of its bases are."""
    if not args:
        frame = sys._getframe(1)
        args = frame.f_locals["__class__"], frame.f_locals[frame.f_code.co_varnames[0]]
    cls, *rest = args
    return super(real_class(cls), *rest)
