"""Compile a program again for inputs of other layouts, where its results keep every bit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from didyma.codegen.layouts.layout import is_coalesced
from didyma.codegen.layouts.module import Layouts, obstacle, viewed
from didyma.codegen.lower import lower
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, Fused, scheduled_again
from didyma.codegen.schedule import schedule
from didyma.codegen.schedule.recipes.point import parse_all
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.lines import most_variants
from didyma.refimpl.ir.loop import (
    Block,
    Expr,
    For,
    If,
    Let,
    Load,
    LoopKind,
    Prefetch,
    PrimFunc,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.walk import exprs, map_expr, map_stmt, stmts

OTHER_ORDER = "its terms would be added in another order"
PINNED = "schedules are given for other layouts"
NARROW = "its small elements would be loaded one by one"
APART = "neighbouring threads would read elements that lie apart"
WORD = 4  # bytes: smaller elements, loaded one by one, take longer than a copy (measured)
MOST = 16  # kernels of a program that is compiled again; of one with more, a copy is a small part


@dataclass(frozen=True, slots=True)
class Variant:
    """A program for inputs of other layouts.

    ``taken`` are the layouts that it reads, and ``refused`` says of the other inputs why they must
    be copied.  ``compiled`` is None where all are.
    """

    compiled: Compiled | None
    taken: Layouts
    refused: Mapping[str, str]


def variant(c: Compiled, options: Options, layouts: Layouts) -> Variant:
    """Return the program that reads inputs as they lie, those of them that it can.

    A kernel may read an input in another layout if it does the same with the elements: nothing but
    addresses differs, or it folds nothing.  So each result has the bits that it has for inputs in
    row-major order.  Its reads must lie side by side, or be a transposition by tiles.
    """
    # Where an input has the name of a symbol, values of the program have others.
    params = zip(c.source.entry.params, c.fused.entry.params, strict=True)
    inside = {p.name: q.name for p, q in params}
    outside = {q: p for p, q in inside.items()}
    found = _of_values(c, options, {inside[x]: layout for x, layout in layouts.items()})
    taken = {outside[x]: layout for x, layout in found.taken.items()}
    return replace(found, taken=taken, refused={outside[x]: y for x, y in found.refused.items()})


def _of_values(c: Compiled, options: Options, layouts: Layouts) -> Variant:
    """Return the program for layouts of values by their names in the fused graph."""
    if len(c.program.kernels) > MOST:
        return _all_copied(layouts, f"the program has more than {MOST} kernels")
    if most_variants(c.program) > 1:
        return _all_copied(layouts, "calls choose among kernels")
    if options.kernels.schedules:
        return _all_copied(layouts, PINNED)
    refused = {x: why for x in layouts if (why := obstacle(c.fused, x, layouts[x]))}
    taken = {x: layout for x, layout in layouts.items() if x not in refused}
    while taken:
        made = _compiled(c, options, taken)
        if not isinstance(made, dict):
            return Variant(made, taken, refused)
        refused |= made
        taken = {x: layout for x, layout in taken.items() if x not in refused}
    return Variant(None, {}, refused)


def _all_copied(layouts: Layouts, why: str) -> Variant:
    return Variant(None, {}, dict.fromkeys(layouts, why))


def _compiled(c: Compiled, options: Options, layouts: Layouts) -> Compiled | dict[str, str]:
    """Return the program for layouts, or why some inputs must be copied."""
    m, points = viewed(c.fused, layouts), parse_all(options.kernels.choices)
    loops, kernels = dict(c.loops), dict(c.kernels)
    refused = dict[str, str]()
    for n in m.entry.nodes:
        given = {p: layouts[a] for p, a in enumerate(n.args) if a in layouts}
        if not given:
            continue
        name = n.callee
        loop = lower(m.function(name), m, options.device, atomics=options.kernels.atomics)
        read = {loop.params[p].name: layout for p, layout in given.items()}
        try:
            found = schedule(loop, options, points.get(name))
        except DidymaError:
            refused |= dict.fromkeys((n.args[p] for p in given), PINNED)
            continue
        if why := _why_copied(c.loops[name], c.kernels[name], found, read):
            refused |= dict.fromkeys((n.args[p] for p in given), why)
        loops[name], kernels[name] = loop, found
    if refused:
        return refused
    made = Fused(c.source, (*c.passes, ("layouts", m)), m)
    again = scheduled_again(made, loops, kernels, options)
    assert again.program.constants == c.program.constants, "the two share their constants"
    return again


def _why_copied(
    loop: PrimFunc, before: Sequence[Kernel], after: Sequence[PrimFunc], read: Layouts
) -> str:
    """Return why kernels may not take the place of others; empty if they may."""
    plain = [k for k in before if isinstance(k, PrimFunc)]
    if len(plain) < len(before):
        return "a kernel of text reads it"
    for name, layout in read.items():
        turned, turns = (_is_turned(ks, name) for ks in (plain, after))
        if not turns and is_coalesced(layout) is turned:
            return APART
    narrower = _is_wide(plain) and not _is_wide(after)
    if narrower and any(b.dtype.nbytes < WORD for b in loop.params if b.name in read):
        return NARROW
    if _folds_nothing(loop.body):
        return ""
    did, does = ([_apart_from(k, read) for k in ks] for ks in (plain, after))
    return "" if did == does else OTHER_ORDER


def _is_wide(kernels: Sequence[PrimFunc]) -> bool:
    """Return whether threads have several neighbours each in some kernel."""
    return any(str(dict(k.attrs).get("schedule")).endswith("_wide") for k in kernels)


def _is_turned(kernels: Sequence[PrimFunc], name: str) -> bool:
    """Return whether a kernel that reads a buffer transposes by tiles."""
    own = (k for k in kernels if name in k.inputs)
    return any(dict(k.attrs).get("schedule") == "transpose" for k in own)


def _folds_nothing(s: Stmt) -> bool:
    """Return whether each element that is stored is computed by itself."""
    kinds = {type(x) for x in stmts(s)}
    loops = (x.kind for x in stmts(s) if isinstance(x, For))
    return kinds <= {Block, For, If, Let, Store} and all(k is LoopKind.PARALLEL for k in loops)


def _apart_from(k: PrimFunc, read: Collection[str]) -> tuple[object, ...]:
    """Return what a kernel does, without where it reads some of its parameters.

    What is bound and then not used is where it reads them.
    """

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in read:
            return replace(e, index=())
        return map_expr(on_expr, e)

    def on_stmt(s: Stmt) -> Stmt:
        if isinstance(s, Prefetch) and s.buffer in read:
            return replace(s, index=())
        s = map_stmt(s, on_expr, on_stmt)
        if isinstance(s, Let) and not _uses(s.body, s.var):
            return s.body
        return s

    params = tuple(replace(b, shape=()) if b.name in read else b for b in k.params)
    return k.name, params, k.outputs, on_stmt(k.body), k.functions, k.scalars


def _uses(s: Stmt, v: Var) -> bool:
    return any(isinstance(e, Var) and e.name == v.name for e in exprs(s))
