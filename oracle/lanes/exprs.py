"""Expressions of loop programs on lanes: from trees to closures.

What does not depend on loads, serial loops or masks met at run time is evaluated while the closure
is made, so that a serial loop repeats only what it must.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from typing import assert_never

import numpy as np

from didyma.oracle.lanes.addresses import address, offset
from didyma.oracle.lanes.buffers import Dense, Local
from didyma.oracle.lanes.code import (
    Code,
    Eval,
    apply,
    apply1,
    apply2,
    index_interval,
    known,
    remembering,
)
from didyma.oracle.lanes.races import Mask, Origin
from didyma.oracle.lanes.site import MANY_LANES, Site, both, but
from didyma.oracle.lanes.windows import window
from didyma.refimpl.interp import scalar
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.ir.loop import (
    INDEX,
    Binary,
    Broadcast,
    Cast,
    Compare,
    Const,
    Expr,
    Intrinsic,
    LetExpr,
    Load,
    Ramp,
    Select,
    Unary,
    Var,
)
from didyma.refimpl.ir.types import Array


def compile_expr(site: Site, e: Expr) -> Code:
    """Compile an expression of the site's statement."""
    match e:
        case Var():
            return site.frame.vars[e.name]
        case Binary():
            return _binary(site, e)
        case Const():
            return _constant(site, e)
        case Load():
            return _load(site, e)
        case Cast():
            return _cast(site, e)
        case Compare():
            return _compare(site, e)
        case Unary():
            return _unary(site, e)
        case Intrinsic():
            return _intrinsic(site, e)
        case Select():
            return _select(site, e)
        case LetExpr():
            return _let(site, e)
        case Ramp() | Broadcast():
            raise AssertionError("stores of vectors are written out before")
        case _:
            assert_never(e)


def _shared(site: Site, key: Hashable, code: Code) -> Code:
    """Return the code of an operation, and keep it for all that are equal in the statement."""
    if not code.loads:
        launch = site.launch
        if not (code.known or code.uniform) and math.prod(launch.lanes.shape) >= MANY_LANES:
            code = remembering(code, launch.clock)
        site.codes[key] = code
    return code


def _constant(site: Site, e: Const) -> Code:
    if e.dtype is not INDEX:
        return known(site.launch.arithmetic.constant(e.value, e.dtype))
    value, indices = int(e.value), site.launch.indices
    code = indices.get(value)
    if code is None:
        code = indices[value] = known(np.int64(value), (value, value))
    return code


def _binary(site: Site, e: Binary) -> Code:
    op, x, y = e.op, compile_expr(site, e.lhs), compile_expr(site, e.rhs)
    code = site.codes.get((op, x, y))
    if code is None:
        dtype = e.lhs.dtype
        interval = index_interval(op, x.interval, y.interval) if dtype is INDEX else None
        f = site.launch.arithmetic.binary_fn(op, dtype)
        code = _shared(site, (op, x, y), apply2(f, x, y, interval))
    return code


def _cast(site: Site, e: Cast) -> Code:
    x, f = compile_expr(site, e.arg), site.launch.arithmetic.cast_fn(e.arg.dtype, e.dtype)
    return site.codes.get((e.dtype, x)) or _shared(site, (e.dtype, x), apply1(f, x))


def _compare(site: Site, e: Compare) -> Code:
    x, y = compile_expr(site, e.lhs), compile_expr(site, e.rhs)
    f = site.launch.arithmetic.compare_fn(e.op, e.lhs.dtype)
    return site.codes.get((e.op, x, y)) or _shared(site, (e.op, x, y), apply2(f, x, y))


def _unary(site: Site, e: Unary) -> Code:
    x, f = compile_expr(site, e.arg), site.launch.arithmetic.unary_fn(e.op, e.arg.dtype)
    return site.codes.get((e.op, x)) or _shared(site, (e.op, x), apply1(f, x))


def _intrinsic(site: Site, e: Intrinsic) -> Code:
    xs = tuple(compile_expr(site, a) for a in e.args)
    which = e.own or e.name
    f = site.launch.arithmetic.intrinsic_fn(which, e.args[0].dtype)
    return site.codes.get((which, *xs)) or _shared(site, (which, *xs), apply(f, xs))


def _let(site: Site, e: LetExpr) -> Code:
    value, env, name = compile_expr(site, e.value), site.frame.env, e.var.name
    if not site.frame.bind(name, value):
        return compile_expr(site, e.body)
    body, get, clock = compile_expr(site, e.body), value.run, site.launch.clock
    then = body.run

    def run(mask: Mask) -> Value:
        env[name] = get(mask)
        clock[0] += 1
        return then(mask)

    return Code(run, body.uniform, body.loads or value.loads, body.interval)


def _select(site: Site, e: Select) -> Code:
    """Compile a selection; a side that may fault sees only the lanes that chose it."""
    cond = compile_expr(site, e.cond)
    if cond.known and cond.uniform:
        return compile_expr(site, e.then if cond.value else e.other)
    if cond.known and site.mask is not False:
        assert not isinstance(site.mask, bool)
        return _select_known(site, e, cond.value, site.mask)
    masked = site.where(False)
    then, other = compile_expr(masked, e.then), compile_expr(masked, e.other)
    if not (then.loads or other.loads):
        parts = (cond, then, other)
        key = ("select", *parts)
        return site.codes.get(key) or _shared(site, key, apply(scalar.where, parts))
    choose, a, b = cond.run, then.run, other.run

    def run(mask: Mask) -> Value:
        chosen = choose(mask)
        if chosen.ndim == 0:
            return a(mask) if chosen else b(mask)
        yes = both(mask, chosen)
        if not yes.any():
            return b(mask)
        no = but(mask, chosen)
        if not no.any():
            return a(mask)
        return scalar.where(chosen, a(yes), b(no))

    return Code(run, cond.uniform and then.uniform and other.uniform, True)


def _select_known(site: Site, e: Select, cond: Array, outer: Mask) -> Code:
    """Compile a selection whose condition is known for each lane."""
    yes, no = both(outer, cond), but(outer, cond)
    if not no.any():
        return compile_expr(site, e.then)
    if not yes.any():
        return compile_expr(site, e.other)
    then = compile_expr(site.where(yes), e.then)
    other = compile_expr(site.where(no), e.other)
    a, b = then.run, other.run

    def run(mask: Mask) -> Value:
        del mask
        return scalar.where(cond, a(yes), b(no))

    if then.known and other.known:
        return known(run(None))
    return Code(run, False, then.loads or other.loads)


def _load(site: Site, e: Load) -> Code:
    buffer, origin, lanes = site.frame.memory[e.buffer], Origin(site.stmt), site.launch.lanes
    if isinstance(buffer, Local):
        return _load_local(site, e, buffer)
    buffer.loaded = True
    if not buffer.writers and buffer.init is None:
        compile_index = partial(compile_expr, site)
        seen = window(e.index, buffer.shape, site.launch.depth, site.frame.lane_vars, compile_index)
        if seen is not None:
            grid, later = buffer.grid, address_later(site, buffer, e.index)

            def run_window(mask: Mask) -> Value:
                value = seen.view(grid, mask)
                return buffer.load(later(mask), lanes, mask, origin) if value is None else value

            return Code(run_window, not seen.axes, True)
    at = address_of(site, buffer, e.index)
    offsets = at.run

    def run(mask: Mask) -> Value:
        return buffer.load(offsets(mask), lanes, mask, origin)

    return Code(run, at.uniform, True)


def _load_local(site: Site, e: Load, buffer: Local) -> Code:
    at, stmt = row_of(site, buffer, e.index), site.stmt
    if at.known:
        row = int(at.value)

        def run_known(mask: Mask) -> Value:
            return buffer.load(row, mask, stmt)

        return Code(run_known, buffer.depth == 0, True)
    position = at.run

    def run(mask: Mask) -> Value:
        return buffer.load(int(position(mask)), mask, stmt)

    return Code(run, buffer.depth == 0, True)


def row_of(site: Site, buffer: Local, index: tuple[Expr, ...]) -> Code:
    """Compile the position of an element among registers: one for all lanes."""
    parts = [compile_expr(site, i) for i in index]
    assert buffer.depth <= site.depth
    assert all(p.uniform for p in parts), "``registers`` says which buffers lanes index alike"
    return offset(site, buffer.name, buffer.shape, parts)


def address_of(site: Site, buffer: Dense, index: tuple[Expr, ...]) -> Code:
    """Compile the flat offset of an index."""
    return address(site, buffer, [compile_expr(site, i) for i in index])


def address_later(site: Site, buffer: Dense, index: tuple[Expr, ...]) -> Eval:
    """Return what compiles an address when it is first needed: where a slice is out of bounds."""
    compiled: Eval | None = None

    def run(mask: Mask) -> Value:
        nonlocal compiled
        if compiled is None:
            compiled = address_of(replace(site, codes={}), buffer, index).run
        return compiled(mask)

    return run
