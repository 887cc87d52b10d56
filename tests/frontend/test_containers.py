"""Captured lists, tuples, dicts, sets and namespaces: lifted, shared, written back, refused."""

from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from types import SimpleNamespace

import numpy as np
import pytest

from tests.frontend.rebind_tracer import MiniError, Run, Tr, text

TABLE = np.arange(3.0)
WEIGHTS = {"w": np.ones(3), "k": 2, "deep": [(np.ones(2), 1)]}
LOG: list = []


def test_captured_arrays_become_inputs_once_and_by_reference():
    again = TABLE

    def f(x):
        return x + TABLE + TABLE + again

    run = Run(f)
    cell = "<closure cell again>"
    assert run(Tr("x")).text == f"add(add(add(x, {cell}), {cell}), {cell})"
    assert list(run.lifted) == ["closure cell again"]
    (entry,) = run.reads.inputs
    assert entry.read(f, ()) is TABLE and entry.path.read(f) is TABLE


def test_arrays_inside_containers_are_lifted():
    def f(x):
        return x * WEIGHTS["w"] * WEIGHTS["k"] + WEIGHTS["deep"][0][0]

    run = Run(f)
    assert run(Tr("x")).text == (
        "add(multiply(multiply(x, <global WEIGHTS['w']>), 2), <global WEIGHTS['deep'][0][0]>)"
    )
    assert run.holds()
    assert all(type(v) is not Tr for v in WEIGHTS.values())


def test_containers_without_arrays_are_the_real_ones():
    def f(x):
        LOG.append(len(LOG))
        return x

    del LOG[:]
    run = Run(f)
    run(Tr("x"))
    assert LOG == [0] and not run.holds()
    assert run.reads.effects == ["global LOG is changed by the function"]


def test_changes_of_copied_containers_reach_the_real_one():
    box = [np.ones(2), 1]

    def f(x):
        box.append(5)
        box[1] += 1
        return x + box[0]

    text(f)
    assert len(box) == 3 and box[1:] == [2, 5] and type(box[0]) is np.ndarray


def test_traced_values_that_escape_into_containers_stay_there_and_serve_one_call():
    box = [np.ones(2)]

    def f(x):
        LOG.append(x)
        return x

    def g(x):
        box.append(x + 1)
        return x

    del LOG[:]
    for function in (f, g):
        run = Run(function)
        run(Tr("x"))
        assert not run.holds()
    assert [v.text for v in LOG] == ["x"] and len(box) == 2


def test_too_many_leaves_and_cycles_are_refused():
    big, loop = list(range(101)), []
    loop.append(loop)

    with pytest.raises(MiniError, match=r"more than 100 elements.*one array"):
        text(lambda x: x + big[0], max_leaves=100)
    with pytest.raises(MiniError, match="contains itself"):
        text(lambda x: loop)


def test_named_tuples_and_namespaces():
    Pair = namedtuple("Pair", "a b")
    pair, space = Pair(np.ones(2), 3), SimpleNamespace(t=np.ones(2), k=4)

    def f(x):
        assert isinstance(pair, Pair)
        space.k += 1
        return pair.a * pair.b + space.t * space.k

    run = Run(f)
    assert run(Tr("x")).text == (
        "add(multiply(<closure cell pair[0]>, 3), multiply(<closure cell space.t>, 5))"
    )
    assert space.k == 5


def test_other_kinds_are_copied_as_their_kind():
    ordered = OrderedDict(a=np.ones(2))
    default = defaultdict(list, a=np.ones(2))
    queue = deque([np.ones(2)], maxlen=4)
    counts = Counter("aab")

    def f(x):
        assert type(ordered) is OrderedDict and type(queue) is deque and queue.maxlen == 4
        default["new"].append(1)
        queue.append(2)
        return x + ordered["a"] + default["a"] + queue[0] * counts["a"]

    assert text(f).count("<closure cell") == 3
    assert default["new"] == [1] and list(queue)[1:] == [2] and type(queue[0]) is np.ndarray


def test_subclasses_of_dict_are_shared_or_refused():
    class Config(dict):
        pass

    plain, full = Config(k=3), Config(w=np.ones(2))
    run = Run(lambda x: x * plain["k"])
    assert run(Tr("x")).text == "multiply(x, 3)" and run.holds()
    plain["k"] = 4
    assert not run.holds()
    with pytest.raises(MiniError, match=r"Config that holds arrays.*as an argument"):
        text(lambda x: x * full["w"])


def test_bound_methods_of_captured_containers():
    push = LOG.append

    def f(x):
        push(3)
        return x

    def leak(x):
        push(x)
        return x

    del LOG[:]
    run = Run(f)
    run(Tr("x"))
    assert LOG == [3] and not run.holds()
    run = Run(leak)
    run(Tr("x"))
    assert not run.holds() and LOG[0] == 3 and LOG[1].text == "x"


def test_the_result_holds_the_users_objects():
    def f(x):
        return [LOG, WEIGHTS, {"w": WEIGHTS}, (np, len)]

    log, weights, inside, pair = Run(f)(Tr("x"))
    assert log is LOG and weights is WEIGHTS and inside["w"] is WEIGHTS and pair == (np, len)


def test_a_container_changed_back_has_no_effect():
    def f(x):
        LOG.append(x)
        return LOG.pop()

    run = Run(f)
    assert run(Tr("x")).text == "x" and run.holds() and run.reads.effects == []


def test_an_error_of_the_user_still_puts_containers_right():
    def f(x):
        LOG.append(x)
        raise ValueError("mine")

    del LOG[:]
    with pytest.raises(ValueError, match="mine"):
        text(f)
    assert LOG == []


def test_functions_as_keys_and_members():
    def relu(x):
        return x + np.zeros(3)

    names, known = {relu: "relu", (relu, np.zeros): "pair"}, {relu, len}

    def f(x):
        assert names[relu] == "relu" and names[relu, np.zeros] == "pair" and relu in known
        names["new"] = relu
        known.add(3)
        return next(iter(names))(x)

    assert text(f) == "add(x, zeros(3, float64))"
    assert names == {relu: "relu", (relu, np.zeros): "pair", "new": relu}
    assert known == {relu, len, 3}


def test_a_parent_of_another_type_is_a_miss_not_an_error():
    pair = (np.ones(3), [1])

    def f(x):
        return x * pair[0]

    run = Run(f)
    run(Tr("x"))
    pair = 3
    assert not run.holds()
    assert run.reads.inputs[0].path.read(f) is not None
