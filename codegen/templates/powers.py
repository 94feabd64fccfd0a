"""Take the exponential of weights out of their bodies, as a power of two.

An exponential costs a thread about nine instructions, of which all but two bring its argument to a
power of two.  The factor of the logarithm is multiplied into what is constant in the argument, or
read once for a row or column, instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from didyma.codegen.templates.exact import LOG2_E, exact
from didyma.codegen.templates.lines import replaced
from didyma.codegen.templates.problem import Problem, Subgraph
from didyma.refimpl.ir.loop import Binary, Const, Expr, Intrinsic, Var
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import subexprs

POWER = Var("the_power", DType.F32)
BY = exact(LOG2_E)


def powered(p: Problem, weights: Sequence[str]) -> Problem:
    """Return a problem in which ``weights`` are given a power of two in place of an exponential.

    Body ``exponent``, of the inputs that the weights had before, is that of the power.  A problem
    whose weights have not the same single exponential of f32 stays as it is.
    """
    values = [p.bodies[name].value for name in weights]
    found = {e for v in values for e in subexprs(v) if isinstance(e, Intrinsic) and e.name == "exp"}
    if len(found) != 1:
        return p
    (exponential,) = found
    (arg,) = exponential.args
    inputs = p.bodies[weights[0]].inputs
    if arg.dtype is not DType.F32 or not _variables(arg) <= {*inputs}:
        return p
    known: dict[Expr, Var] = {exponential: POWER}
    bodies = {
        name: replace(body, inputs=(*body.inputs, POWER), value=replaced(body.value, known))
        if name in weights else body
        for name, body in p.bodies.items()
    }  # fmt: skip
    left = set[Var]().union(*(_variables(body.value) for body in bodies.values()))
    lines = {v for v in _variables(arg) - left if v.name in bodies}
    for v in lines:
        body = bodies[v.name]
        bodies[v.name] = replace(body, value=Binary("mul", body.value, BY))
    bodies["exponent"] = Subgraph(inputs, _scaled(arg, lines), p.bodies[weights[0]].extents)
    return replace(p, bodies=bodies)


def _variables(e: Expr) -> set[Var]:
    """Return the variables in an expression."""
    return {x for x in subexprs(e) if isinstance(x, Var)}


def _scaled(e: Expr, lines: set[Var]) -> Expr:
    """Return an expression times ``BY``, which ``lines`` are already."""
    match e:
        case Var() if e in lines:
            return e
        case Binary("add" | "sub", lhs, rhs):
            return replace(e, lhs=_scaled(lhs, lines), rhs=_scaled(rhs, lines))
        case Binary("mul", lhs, Const(value)):
            return Binary("mul", lhs, exact(Fraction(value) * LOG2_E))
        case _:
            return Binary("mul", e, BY)
