"""The law of attribute statements.

| law | says |
|---|---|
| L-attr | an attribute is known, with a value of its kind; unroll counts a serial loop, from 1 |
"""

from __future__ import annotations

from collections.abc import Collection

from didyma.refimpl.ir import facts
from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.text.show_loop import show_line
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.verify.scalars import Scalars

GIVEN = (DType.F32, DType.F64)  # of which a thread stores numbers to other blocks one by one


def verify_attribute(scalars: Scalars, s: ir.AttrStmt) -> None:
    """Check what an attribute says of the statement that is its body."""
    kind = facts.STMT_ATTRS.get(s.key)
    if kind is None:
        raise scalars.broken("L-attr", s, s.key, f"one of {', '.join(facts.STMT_ATTRS)}")
    if type(s.value) is not kind or (isinstance(s.value, int) and s.value < 1):
        want = "a string" if kind is str else "a count from 1"
        raise scalars.broken("L-attr", s, repr(s.value), want)
    serial = isinstance(s.body, ir.For) and s.body.kind is ir.LoopKind.SERIAL
    if s.key == "unroll" and not serial:
        raise scalars.broken("L-attr", s, show_line(s.body), "a serial loop as the body")
    words = {
        "copies": facts.COPIES, "flush": facts.FLUSHED, "cache": facts.CACHED,
        "waits": facts.WAITED,
    }  # fmt: skip
    known = words.get(s.key, ())
    if known and s.value not in known:
        raise scalars.broken("L-attr", s, repr(s.value), f"one of {', '.join(known)}")


def verify_copies(
    scalars: Scalars, s: ir.AttrStmt, outputs: Collection[str], target: Target
) -> None:
    """Check that a thread goes on with nothing but copies to shared memory, if with anything.

    What it copies the function only reads: none of the ``outputs``.
    """
    if s.key != "copies":
        return
    if "cp_async" not in target.families:
        want = "a target with copies that run beside threads"
        raise scalars.broken("L-attr", s, f"target {target.name}", want)
    for x in stmts(s.body) if s.value == facts.COPIES[0] else ():
        match x:
            case ir.Store(to, _, ir.Load(source)):
                scopes = [scalars.buffers[b].scope for b in (source, to)]
                if scopes != [ir.Scope.GLOBAL, ir.Scope.SHARED] or source in outputs:
                    got = f"a copy from {source}, {scopes[0]}, to {to}, {scopes[1]}"
                    want = "copies to shared memory of what the function only reads"
                    raise scalars.broken("L-attr", s, got, want)
            case ir.Block() | ir.For() | ir.If() | ir.Let():
                pass
            case _:
                want = "nothing but copies, in loops and conditions"
                raise scalars.broken("L-attr", s, show_line(x), want)


def verify_waits(scalars: Scalars, s: ir.AttrStmt, target: Target) -> None:
    """Check that a barrier which waits for stores alone comes right behind stores to blocks."""
    if s.key != "waits":
        return
    if "mbarrier" not in target.families:
        want = "a target with barriers that count the bytes of stores"
        raise scalars.broken("L-attr", s, f"target {target.name}", want)
    match s.body:
        case ir.Block((ir.If(_, then, None), ir.Barrier(ir.Scope.CLUSTER))):
            stores = then.body if isinstance(then, ir.Block) else (then,)
        case _:
            stores = ()
    for x in stores or (s.body,):
        if (
            not isinstance(x, ir.Store)
            or scalars.buffers[x.buffer].scope is not ir.Scope.CLUSTER
            or scalars.buffers[x.buffer].dtype not in GIVEN
        ):
            want = "stores of f32 or f64 to blocks of the cluster under a condition, and a barrier"
            raise scalars.broken("L-attr", s, show_line(x), f"{want} of it")
