"""Classes and instances of the user, seen from inside a trace."""

import abc
import copy
import functools
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
import pytest

from tests.frontend.rebind_tracer import MiniError, Run, Tr, text

X = "add(x, zeros(3, float64))"  # what a rebound `x + np.zeros(3)` gives


def plus_zeros(x):
    return x + np.zeros(3)


class Base:
    scale = 2

    def __init__(self, k):
        self.k = k
        self.w = np.ones(3)

    def apply(self, x):
        return x * self.w

    @property
    def doubled(self):
        return np.zeros(2)

    @classmethod
    def make(cls, x):
        return x + np.zeros(cls.scale)

    @staticmethod
    def still(x):
        return plus_zeros(x)

    @functools.cached_property
    def cached(self):
        return np.zeros(5)


class Model(Base):
    def apply(self, x):
        return super().apply(x) + np.zeros(3)

    def explicit(self, x):
        return super(Model, self).apply(x)  # noqa: UP008

    def __call__(self, x):
        return self.apply(x) * self.k


MODEL = Model(4)


def test_methods_super_properties_and_attributes_of_instances():
    def f(x):
        assert isinstance(MODEL, Model) and isinstance(MODEL, Base) and type(MODEL) is Model
        return MODEL(x)

    run = Run(f)
    assert run(Tr("x")).text == (
        "multiply(add(multiply(x, <global MODEL.w>), zeros(3, float64)), 4)"
    )
    assert run.holds() and "global MODEL.k" in run.paths()
    MODEL.k = 5
    assert not run.holds()
    MODEL.k = 4
    assert run.holds()
    assert text(MODEL.explicit) == "multiply(x, <self.w>)"
    assert text(lambda x: MODEL.doubled) == "zeros(2, float64)"
    assert text(lambda x: MODEL.cached) == "zeros(5, float64)" and "cached" not in vars(MODEL)
    assert text(Model.make) == "add(x, zeros(2, float64))"
    assert text(MODEL.still) == X
    assert text(lambda x: x * MODEL.scale) == "multiply(x, 2)"


def test_a_bound_method_as_the_traced_function():
    run = Run(MODEL.apply)
    assert run(Tr("x")).text == "add(multiply(x, <self.w>), zeros(3, float64))"
    assert run.holds(MODEL.apply)


def test_callable_instance_and_partial_as_the_traced_function():
    assert Run(MODEL)(Tr("x")).text.endswith(", 4)")
    assert Run(functools.partial(Base.still))(Tr("x")).text == X


def test_instances_made_in_the_trace_are_real_when_it_ends():
    @dataclass
    class Point:
        a: object
        b: object = 0

        def moved(self, x):
            return replace(self, a=self.a + np.zeros(3))

    def f(x):
        p = Point(x).moved(x)
        assert isinstance(p, Point) and p == p and type(p) is Point
        return p, MODEL, [MODEL]

    point, model, models = Run(f)(Tr("x"))
    assert type(point) is Point and point.a.text == X
    assert model is MODEL and models[0] is MODEL


def test_slots_and_frozen_dataclasses():
    @dataclass(frozen=True, slots=True)
    class Config:
        w: np.ndarray
        k: int = 3

        def scaled(self, x):
            return x * self.w * self.k

    config = Config(np.ones(3))

    def f(x):
        made = Config(x, 2)
        return config.scaled(x) + made.scaled(x)

    run = Run(f)
    assert run(Tr("x")).text == (
        "add(multiply(multiply(x, <closure cell config.w>), 3), multiply(multiply(x, x), 2))"
    )
    assert run.holds()


def test_attributes_set_by_the_function():
    model = Model(1)

    def f(x):
        model.k += 1
        return x * model.k

    def leak(x):
        model.last = x
        return x

    run = Run(f)
    assert run(Tr("x")).text == "multiply(x, 2)" and model.k == 2 and not run.holds()
    with pytest.raises(MiniError, match=r"closure cell model\.last"):
        text(leak)
    assert not hasattr(model, "last")


def test_subclass_hooks_of_the_user_do_not_run_again():
    registry = []

    class Registered:
        def __init_subclass__(cls):
            registry.append(cls)

    class Child(Registered):
        def go(self, x):
            return plus_zeros(x)

    child = Child()
    assert text(child.go) == X and registry == [Child]


def test_abstract_and_generic_classes():
    T = TypeVar("T")

    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self, x): ...

        def twice(self, x):
            return self.area(x) + np.zeros(2)

    class Box(Shape, Generic[T]):
        def area(self, x):
            return plus_zeros(x)

    box = Box()
    Shape.register(int)

    def f(x):
        assert isinstance(box, Shape) and issubclass(Box, Shape) and isinstance(3, Shape)
        assert not isinstance("s", Shape) and isinstance(Box[int](), Box)
        return box.twice(x)

    assert text(f) == f"add({X}, zeros(2, float64))"
    with pytest.raises(TypeError, match="abstract"):
        text(lambda x: Shape())


def test_diamonds_and_cooperative_super():
    class A:
        def go(self, x):
            return x + np.zeros(1)

    class B(A):
        def go(self, x):
            return super().go(x) + np.zeros(2)

    class C(A):
        def go(self, x):
            return super().go(x) + np.zeros(3)

    class D(B, C):
        def go(self, x):
            return super().go(x) + np.zeros(4)

    d = D()
    expected = "x"
    for n in (1, 3, 2, 4):
        expected = f"add({expected}, zeros({n}, float64))"
    assert text(lambda x: d.go(x + 0)).replace("add(x, 0)", "x") == expected
    assert text(lambda x: D().go(x + 0)).replace("add(x, 0)", "x") == expected


def test_special_accessors_of_the_user():
    class Odd:
        def __init__(self):
            self.k = 2

        def __getattr__(self, name):
            if name == "table":
                return np.zeros(3)
            raise AttributeError(name)

        def __setattr__(self, name, value):
            object.__setattr__(self, name, value * 2)

        @property
        def p(self):
            return self.k

        @p.setter
        def p(self, value):
            self.k = value

    odd = Odd()

    def f(x):
        odd.p = 5
        assert odd.p == 20
        return x + odd.table

    assert text(f) == X and odd.k == 20


def test_instances_as_keys_in_graphs_and_copied():
    class Node:
        def __init__(self, k, next=None):
            self.k, self.next, self.w = k, next, np.ones(2)

        def copied(self, x):
            new = copy.copy(self)
            new.w = x + np.zeros(self.k)
            return new

    node = Node(1, Node(2))
    node.next.next = node
    table = {node: 7}

    def f(x):
        assert node.next.next is node and node in table and hash(node) == hash(node)
        return x * node.next.w * node.next.next.next.k * table[node], node.copied(x)

    value, copied = Run(f)(Tr("x"))
    assert value.text == "multiply(multiply(multiply(x, <closure cell node.next.w>), 2), 7)"
    assert (
        type(copied) is Node and copied.k == 1 and copied is not node and copied.next is node.next
    )
    assert copied.w.text == "add(x, zeros(1, float64))" and type(node.w) is np.ndarray


def test_the_dict_of_an_instance():
    model = Model(2)

    def f(x):
        return x * model.__dict__["w"] * vars(model)["k"]

    assert text(f) == "multiply(multiply(x, <global MODEL.__dict__['w']>), 2)".replace(
        "global MODEL", "closure cell model"
    )


def test_classes_derived_inside_the_trace():
    seen = []

    class Hooked:
        def __init_subclass__(cls):
            seen.append(cls.__name__)

        def go(self, x):
            return plus_zeros(x)

    def f(x):
        class Local(Hooked):
            def go(self, x):
                return super().go(x) * 2

        made = Local()
        assert isinstance(made, Hooked) and not isinstance(Hooked(), Local)
        return made.go(x)

    assert text(f) == f"multiply({X}, 2)" and seen == ["Local"]


def test_pattern_matching_and_exceptions_of_the_user():
    @dataclass
    class Point:
        a: int
        b: object

    class Wrong(Exception):
        pass

    point = Point(1, np.ones(2))

    def f(x):
        try:
            raise Wrong("no")
        except Wrong as error:
            assert str(error) == "no"
        match point:
            case Point(a=1, b=b):
                return x + b
        return None

    assert text(f) == "add(x, <closure cell point.b>)"


def test_a_traced_value_does_not_escape_through_a_new_instance():
    model = Model(1)

    def f(x):
        made = Model(x)
        model.child = made
        return x

    with pytest.raises(MiniError, match=r"model\.child, which outlives"):
        text(f)
    assert not hasattr(model, "child")


def test_the_tracer_hears_of_shadow_classes():
    heard = []
    run = Run(lambda x: Model(3).k, shadowed=lambda real, shadow: heard.append((real, shadow)))
    run(Tr("x"))
    assert [real for real, _ in heard] == [Base, Model]
    assert all(issubclass(shadow, real) and shadow == real for real, shadow in heard)


def test_cached_methods_do_not_remember_traced_values():
    class Model:
        @functools.lru_cache  # noqa: B019
        def window(self, n):
            return np.zeros(n)

    model = Model()
    assert text(lambda x: x + model.window(3)) == X
    assert type(model.window(3)) is np.ndarray


def test_a_method_or_property_put_in_place_later_is_a_miss():
    class Model:
        def go(self, x):
            return x

        @property
        def k(self):
            return 3

    model = Model()
    run = Run(lambda x: model.go(x) * model.k)
    assert run(Tr("x")).text == "multiply(x, 3)" and run.holds()
    go, k = Model.go, Model.k
    Model.go = lambda self, x: x * 2
    assert not run.holds()
    Model.go = go
    assert run.holds()
    Model.k = property(lambda self: 4)
    assert not run.holds()
    Model.k = k
    assert run.holds()


def test_metaclasses_of_the_user():
    made = []

    class Meta(type):
        def __init__(cls, *args):
            made.append(cls)

        def __call__(cls, *args):
            return super().__call__(*args)

    class AbstractMeta(abc.ABCMeta):
        def __new__(mcs, name, bases, space):
            return super().__new__(mcs, name, bases, space | {"tag": name})

    class Plain(metaclass=Meta):
        def __init__(self, w):
            self.w = w

        def go(self, x):
            return x * self.w + np.zeros(3)

    class Abstract(metaclass=AbstractMeta):
        def go(self, x):
            return plus_zeros(x)

    plain, abstract = Plain(np.ones(3)), Abstract()

    def f(x):
        assert isinstance(plain, Plain) and type(plain) is Plain and Abstract.tag == "Abstract"
        return plain.go(x), abstract.go(x), Plain(x)

    one, two, three = Run(f)(Tr("x"))
    assert one.text == "add(multiply(x, <closure cell plain.w>), zeros(3, float64))"
    assert two.text == X and type(three) is Plain and made == [Plain]


def test_a_result_that_contains_itself():
    def f(x):
        loop = [x, MODEL]
        loop.append(loop)
        return loop

    loop = Run(f)(Tr("x"))
    assert loop[1] is MODEL and loop[2] is loop
