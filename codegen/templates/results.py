"""The one result of a problem, for templates that store it in boxes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from didyma.codegen.templates.problem import Problem, Run, Subgraph
from didyma.refimpl.ir.loop import Expr, Let, LetExpr, Load
from didyma.refimpl.ir.walk import stmts


@dataclass(frozen=True, slots=True)
class Result:
    """What is stored at an index, of the inputs of the output, and how the array lies."""

    value: Subgraph
    place: Subgraph
    run: Run


def result(p: Problem, nbytes: int) -> Result | None:
    """Return the one result of a problem, if rows of it lie in runs of so many bytes.

    None where there are several, or it lies otherwise.
    """
    stores = p.stored(nbytes // 2)
    if stores is None or len(stores) != 1:
        return None
    ((out, store),) = stores
    value: Expr = store.value
    place: Expr = Load(store.buffer, store.index, store.value.dtype)
    if value.dtype.nbytes != 2:
        return None
    for let in reversed([s for s in stmts(out.body) if isinstance(s, Let)]):
        value, place = (LetExpr(let.var, let.value, e) for e in (value, place))
    where = Subgraph(out.inputs[: len(out.extents)], place, out.extents)
    run = replace(p, operands={"result": where}).run("result", nbytes)
    if run is None or run.axis != len(out.extents) - 1:
        return None
    return Result(Subgraph(out.inputs, value, out.extents), where, run)
