"""What rebinding relies on in the interpreter, on each Python that is installed here."""

import shutil
import subprocess
import sys

import pytest

FACTS = '''
import types

class Recording(dict):
    def __init__(self, real):
        super().__init__(real)
        self.real, self.read = real, []
    def __getitem__(self, name):
        self.read.append(name)
        return "seen" if name == "G" else self.real[name]

def fresh(source):
    space = {"G": 1, "__builtins__": __builtins__}
    exec(source, space)
    return space["f"]

def rebound(f):
    space = Recording(f.__globals__)
    return types.FunctionType(f.__code__, space), space

# LOAD_GLOBAL asks __getitem__: before, after and amid specialisation, and the original is unharmed.
f = fresh("def f():\\n    for _ in range(100): x = G\\n    return x, len")
for warm in range(3000):
    assert f() == (1, len)
g, space = rebound(f)
for _ in range(3000):
    try:
        assert g()[0] == "seen"
    except KeyError:
        raise AssertionError
    assert f() == (1, len)
assert set(space.read) == {"G", "range", "len"}

# A name that __getitem__ does not have is looked up in the builtins, then is a NameError.
g, _ = rebound(fresh("def f(): return nowhere"))
try:
    g()
except NameError:
    pass
else:
    raise AssertionError

# Class bodies and eval look in the dict itself.
g, space = rebound(fresh("def f():\\n    class C:\\n        k = G\\n    return C.k, eval('G')"))
assert g() == (1, 1)
space["G"] = 2
assert g() == (2, 2)

# STORE_GLOBAL and DELETE_GLOBAL act on the dict itself.
g, space = rebound(fresh("def f():\\n    global G\\n    G = 5"))
g()
assert dict.__getitem__(space, "G") == 5 and space.real["G"] == 1
g, space = rebound(fresh("def f():\\n    global G\\n    del G"))
g()
assert not dict.__contains__(space, "G") and space.real["G"] == 1

# An import statement takes __import__ from the builtins of the globals, the functions made inside
# keep the globals, and super() takes any callable.
g, space = rebound(fresh("def f():\\n    import math as m\\n    return m, (lambda: G)()"))
import builtins
table = dict(vars(builtins), __import__=lambda *a: "mine")
dict.__setitem__(space, "__builtins__", table)
g = types.FunctionType(g.__code__, space)
assert g() == ("mine", "seen")
g, space = rebound(fresh("""def f():
    class A:
        def go(self): return 1
    class B(A):
        def go(self): return super().go()
    return B().go"""))
assert g()() == 1
print("holds")
'''
NAMES = ("python3.11", "python3.12", "python3.13")


@pytest.mark.parametrize("name", ["this", *NAMES])
def test_facts_of_the_interpreter(name):
    python = sys.executable if name == "this" else shutil.which(name)
    if python is None:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run([python, "-c", FACTS], capture_output=True, text=True, check=False)
    if name != "this" and "version" in done.stderr and "not found" in done.stderr:
        pytest.skip(f"{name} does not start here")
    assert done.stdout == "holds\n", done.stderr
