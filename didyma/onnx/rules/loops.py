"""Loops and scans that run: bodies as functions, values that grow as sizes bound anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from didyma.onnx.context import Context, NotConstant
from didyma.onnx.subgraphs import Body, Made, closed, made
from didyma.onnx.values import Constant, Entry, Operand
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.ops.builder import Value

ATTEMPTS = 4  # types of what is carried that are tried until the body keeps them
_COUNT = TensorType(DType.I64)
_BOOL = TensorType(DType.BOOL)


def _params(c: Context, types: Sequence[TensorType], names: Sequence[str]) -> list[Value]:
    return [c.builder.param(n, t) for n, t in zip(names, types, strict=True)]


def _names(g: onnx.GraphProto) -> list[str]:
    """Names for a body's parameters, each once; that the body's own are, the importer checks."""
    found: list[str] = []
    for k, i in enumerate(g.input):
        found.append(f"x{k}" if not i.name or i.name in found else i.name)
    return found


def counted(
    c: Context, g: onnx.GraphProto, limit: Operand | None, again: Operand | None,
    x: Sequence[Entry | None], body: Body,
) -> Sequence[Operand] | None:  # fmt: skip
    """Return a loop that only counts, as a scan; None where its body decides, or values grow."""
    if limit is None or not counts(c, g, again):
        return None
    first = [c.operand(x, i) for i in range(len(x))]

    def build(inner: Context) -> Sequence[Entry]:
        names = _names(g)
        own = _params(inner, [v.type for v in first], names[2:])
        turn = inner.builder.param(names[0], _COUNT)
        true = Constant(np.array(True), DType.BOOL)
        return body.inside(inner, g, [turn, true, *own])[1:]

    try:
        step = made(c, build)
    except NotConstant:
        return None
    if [r.type for r in step.results[: len(first)]] != [v.type for v in first]:
        return None
    steps = _steps(c, limit)
    (f,), captures = closed(c, [("rounds", step)])
    return c.builder.scan(f, first, [c.iota(steps)], captures, steps)


def counts(c: Context, g: onnx.GraphProto, again: Operand | None) -> bool:
    """Tell whether a body never ends its loop: it gives the condition that it got, or true."""
    if again is not None:
        again = c.try_fold(again)
        if not (isinstance(again, Constant) and bool(again.array.all())):
            return False
    name = g.output[0].name
    makers = {o: n for n in g.node for o in n.output}
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    if len(g.input) > 1 and name == g.input[1].name:
        return True
    held = {t.name: t for t in g.initializer}
    if name in held:
        return bool(numpy_helper.to_array(held[name]).all())
    n = makers.get(name)
    if n is not None and n.op_type == "Constant" and len(n.attribute) == 1:
        a = n.attribute[0]
        return a.type == a.TENSOR and bool(numpy_helper.to_array(a.t).all())
    return False


def _steps(c: Context, limit: Operand) -> Dim:
    """Return a number of rounds as a size; what is known only at run time is bound."""
    if isinstance(limit, Constant):
        (d,) = limit.dims()
        return max(d, 0) if isinstance(d, int) else d
    return c.bind(c.emit("maximum", limit, 0), "rounds")


@dataclass(frozen=True, slots=True)
class Rounds:
    """A loop's body as a function of the round, the condition, states and rows so far."""

    made: Made
    names: tuple[str, ...]
    types: tuple[TensorType, ...]  # of the parameters
    grown: tuple[str, ...]  # symbols of the numbers of rows


def loop(
    c: Context, g: onnx.GraphProto, limit: Operand | None, again: Operand | None,
    x: Sequence[Entry | None], body: Body,
) -> Sequence[Operand]:  # fmt: skip
    """Return a loop that its body may end; what it collects grows from nothing."""
    first = [c.operand(x, i) for i in range(len(x))]
    types = [v.type for v in first]
    anew: dict[tuple[Dim, Dim], Dim] = {}
    for _ in range(ATTEMPTS):
        step = _rounds(c, g, types, body)
        found = [r.type for r in step.made.results[2 : 2 + len(types)]]
        wider = [_wider(c, a, b, anew) for a, b in zip(types, found, strict=True)]
        if wider == types:
            binds = {
                *step.grown,
                *dims.free(d for t in types for d in t.shape if d in anew.values()),
            }
            return _while(c, first, step, limit, again, sorted(binds))
        types = wider
    raise c.error("values whose sizes change in ways that do not settle", "sizes that may grow",
                code="onnx-control")  # fmt: skip


def _wider(
    c: Context, a: TensorType, b: TensorType, anew: dict[tuple[Dim, Dim], Dim]
) -> TensorType:
    """Return a type that holds both: with sizes bound anew where they differ."""
    if a.dtype is not b.dtype or a.rank != b.rank:
        raise c.error(f"{b} after {a}", "one dtype and rank in every round", code="onnx-control")
    sizes: list[Dim] = []
    for m, n in zip(a.shape, b.shape, strict=True):
        if m != n and m not in anew.values():
            if (m, n) not in anew:
                anew[m, n] = c.builder.declare("grown", 0, c.max_size)
            m = anew[m, n]
        sizes.append(m)
    return a.with_shape(*sizes)


def _rounds(c: Context, g: onnx.GraphProto, types: Sequence[TensorType], body: Body) -> Rounds:
    names = _names(g)
    count = len(types)
    if len(names) != count + 2 or len(g.output) < count + 1:
        raise c.broken(f"a body of {len(g.input)} inputs, {len(g.output)} outputs",
                      f"{count + 2} inputs")  # fmt: skip
    params: list[Value] = []
    grown: list[str] = []

    def build(inner: Context) -> Sequence[Entry]:
        params.extend(_params(inner, [_COUNT, _BOOL, *types], names))
        outs = body.inside(inner, g, params)
        appended: list[Value] = []
        for k, o in enumerate(outs[1 + count :]):
            row = inner.value(o)
            n = inner.builder.declare("rows", 0, inner.max_size)
            grown.append(n.name)
            held = inner.builder.param(
                f"{names[0]}_rows{k}", row.type.with_shape(n, *row.type.shape)
            )
            params.append(held)
            one = inner.reshape(row, 1, *row.type.shape)
            appended.append(inner.emit("concat", held, one, axis=0))
        test = inner.reshape(inner.value(outs[0]))
        return [inner.emit("add", params[0], 1), test, *outs[1 : 1 + count], *appended]

    step = made(c, build)
    held = tuple(p.type for p in params)
    return Rounds(step, tuple(p.name for p in params), held, tuple(grown))


def _while(
    c: Context, first: Sequence[Value], step: Rounds, limit: Operand | None, again: Operand | None,
    binds: Sequence[str],
) -> Sequence[Operand]:  # fmt: skip
    most = None if limit is None else c.reshape(c.cast(c.value(limit), DType.I64))

    def test(inner: Context) -> Sequence[Operand]:
        params = _params(inner, step.types, step.names)
        if most is None:
            return [params[1]]
        few = inner.emit("less", params[0], inner.builder.capture(most, c.builder))
        return [inner.emit("logical_and", params[1], few)]

    (cond, rounds), captures = closed(c, [("test", made(c, test)), ("rounds", step.made)])
    going = c.builder.scalar(True, DType.BOOL) if again is None else c.reshape(c.value(again))
    empty = [
        c.emit("broadcast_to", c.builder.scalar(0, t.dtype), shape=(0, *t.shape[1:]))
        for t in step.types[2 + len(first) :]
    ]
    carried = [c.builder.scalar(0, DType.I64), going, *first, *empty]
    return c.builder.loop(cond, rounds, carried, captures, binds)[2:]


Ways: TypeAlias = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]


def scanned(
    c: Context, g: onnx.GraphProto, states: Sequence[Operand], inputs: Sequence[Value], ways: Ways,
    body: Body,
) -> Sequence[Operand] | None:  # fmt: skip
    """Return a Scan as a scan; None where its states change their types.

    ``ways``: axes of what is scanned, whether backwards, and the same of the results.
    """
    axes, backward, out_axes, turned = ways
    first = [c.value(s) for s in states]
    rows = [
        _turned(c, _moved(c, v, a, 0), back)
        for v, a, back in zip(inputs, axes, backward, strict=True)
    ]
    steps = rows[0].type.shape[0]
    if any(r.type.shape[0] != steps for r in rows):
        raise c.broken(", ".join(str(r.type) for r in rows), "as many rounds of each")

    def build(inner: Context) -> Sequence[Entry]:
        slices = [r.type.with_shape(*r.type.shape[1:]) for r in rows]
        own = _params(inner, [*(v.type for v in first), *slices], _names(g))
        return body.inside(inner, g, own)

    try:
        step = made(c, build)
    except NotConstant:
        return None
    count = len(first)
    if [r.type for r in step.results[:count]] != [v.type for v in first]:
        return None
    (f,), captures = closed(c, [("rounds", step)])
    found = c.builder.scan(f, first, rows, captures, steps)
    ys = zip(found[count:], out_axes, turned, strict=True)
    return [*found[:count], *(_moved(c, _turned(c, y, t), 0, a) for y, a, t in ys)]


def _turned(c: Context, v: Value, backward: int) -> Value:
    return c.emit("flip", v, axes=(0,)) if backward else v


def _moved(c: Context, v: Value, axis: int, to: int) -> Value:
    """Move an axis to another place."""
    axis, to = c.axis(axis, v.type.rank), c.axis(to, v.type.rank)
    order = [i for i in range(v.type.rank) if i != axis]
    order.insert(to, axis)
    return v if axis == to else c.emit("permute_dims", v, axes=tuple(order))
