"""The verifier: a program is well formed, or an InternalError says where it is not.

Takes a program, gives it back. Checks single assignment, definition before use, and every equation
against its type rule; runs before and after each pass in debug builds and in all tests.
"""

from fjit.core import primitives as p
from fjit.core.ir import Atom, Aval, Eqn, Literal, Program, Var
from fjit.core.show import show
from fjit.errors import FjitError, InternalError


def _complain(program: Program, text: str) -> InternalError:
    return InternalError(f"{text} in program\n{show(program)}")


def _check_eqn(program: Program, eqn: Eqn) -> None:
    try:
        result = p.type_rule(eqn.primitive)(*[a.aval for a in eqn.inputs], **dict(eqn.params))
    except FjitError as error:
        raise _complain(program, f"{eqn.primitive.name}: {error}") from error
    avals = (result,) if isinstance(result, Aval) else result
    if tuple(avals) != tuple(v.aval for v in eqn.outputs):
        raise _complain(program, f"{eqn.primitive.name} gives {avals}, recorded otherwise")


def verify(program: Program) -> Program:
    """Raises InternalError if `program` is malformed; gives it back otherwise."""
    defined: set[Var] = set()

    def define(variables: tuple[Var, ...]) -> None:
        for var in variables:
            if var in defined:
                raise _complain(program, "a variable is defined twice")
            defined.add(var)

    def use(atoms: tuple[Atom, ...]) -> None:
        for atom in atoms:
            if not isinstance(atom, Literal) and atom not in defined:
                raise _complain(program, f"a variable {atom.aval} is used before its definition")

    define(program.inputs)
    for eqn in program.eqns:
        use(eqn.inputs)
        _check_eqn(program, eqn)
        inner = eqn.get("program")
        if isinstance(inner, Program):
            verify(inner)
        define(eqn.outputs)
    use(program.outputs)
    return program
