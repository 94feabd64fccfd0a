"""Kernels that only move elements, and why no view stands in their place."""

from __future__ import annotations

from collections.abc import Iterator, Set

from didyma.codegen.pipeline import Compiled
from didyma.refimpl.ir.graph import CALL, COMPILER, RESHAPE_ONLY, Function, Module, Node
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Dispatch, Launch, Line
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind

VIEWS = frozenset(("slice", "permute_dims", "flip", "reshape", "broadcast_to"))  # strides tell them
_MOVES = (Kind.INJECTIVE, Kind.RESHAPE)


def told(c: Compiled) -> tuple[str, ...]:
    """Return a sentence for each function whose kernels only move elements.

    Those whose launches the memory plan has made views are left out.
    """
    lines = (x for p in (c.program, *c.program.functions) for x in walk(p.lines))
    launched = {launch.kernel for x in lines for launch in _launches(x)}
    functions = {f.name: f for f in c.fused.functions}
    return tuple(
        f"{', '.join(f'@{k.name}' for k in kernels)} only moves elements: {_why(f, c.fused)}"
        for f, kernels in ((functions[name], ks) for name, ks in c.kernels.items())
        if is_mover(f) and any(k.name in launched for k in kernels)
    )


def _launches(x: Line) -> tuple[Launch, ...]:
    match x:
        case Launch():
            return (x,)
        case Dispatch():
            return x.launches
        case _:
            return ()


def is_mover(f: Function) -> bool:
    """Return whether a function has operands, and no op but those that move elements."""
    known = all(n.op in OPS and OPS[n.op].kind in _MOVES for n in f.nodes)
    return bool(f.params) and bool(f.nodes) and known


def _why(f: Function, m: Module) -> str:
    ops = dict.fromkeys(n.op for n in f.nodes if n.args and n.op not in VIEWS)
    if ops:
        return f"no strides tell what {', '.join(ops)} reads"
    reasons = dict.fromkeys(
        why
        for block in m.functions
        for n in block.nodes
        if n.op == CALL and n.callee == f.name
        for why in _readers(n, block, m)
    )
    return "; ".join(reasons) or "it is read in row-major order"


def _readers(n: Node, block: Function, m: Module) -> Iterator[str]:
    """Yield why what reads a value, or returns it, takes it in row-major order."""
    constants = {r for x in block.nodes if x.op == "constant" for r in x.results}
    if {*n.args} <= constants:
        yield "it moves a constant of more elements than graph.fold_operand"
        return
    made: Set[str] = {*n.results}
    if made & {*block.results}:
        yield f"@{block.name} returns it in row-major order"
    functions = {f.name: f for f in m.functions}
    for x in block.nodes:
        if not made & {*x.args}:
            continue
        if x.op != CALL:
            yield f"{x.op} takes values in row-major order"
        elif RESHAPE_ONLY in functions[x.callee].attr:
            yield "it is reshaped behind that, which no strides tell"
        elif COMPILER in functions[x.callee].attr:
            yield f"external @{x.callee} takes values in row-major order"
        else:
            yield f"@{x.callee} reads its elements more often than moving them costs"
