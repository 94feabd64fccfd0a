"""Loops and scans that run: their bodies become functions, and sizes that grow are bound anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from didyma.composites.builder import Value
from didyma.onnx.context import Context, Entries, NotConstant
from didyma.onnx.subgraphs import BodyImporter, OpenFunction, add_functions, build_function
from didyma.onnx.values import Constant, Entry, Operand
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType, TensorType

ATTEMPTS = 4  # types of the carried values that are tried until the body keeps them
_COUNT = TensorType(DType.I64)
_BOOL = TensorType(DType.BOOL)


def _params(c: Context, types: Sequence[TensorType], names: Sequence[str]) -> list[Value]:
    return [c.builder.param(n, t) for n, t in zip(names, types, strict=True)]


def _names(g: onnx.GraphProto) -> list[str]:
    """Return distinct names for the parameters of a body."""
    names: list[str] = []
    for k, i in enumerate(g.input):
        names.append(f"x{k}" if not i.name or i.name in names else i.name)
    return names


def counted(
    c: Context, g: onnx.GraphProto, limit: Operand | None, again: Operand | None,
    x: Entries, body: BodyImporter,
) -> Sequence[Operand] | None:  # fmt: skip
    """Return a loop whose body never ends it, as a scan; None for others, and if sizes change."""
    if limit is None or not never_ends(c, g, again):
        return None
    first = [c.operand(x, i) for i in range(len(x))]

    def build(inner: Context) -> Sequence[Entry]:
        names = _names(g)
        own = _params(inner, [v.type for v in first], names[2:])
        iteration = inner.builder.param(names[0], _COUNT)
        true = Constant(np.array(True), DType.BOOL)
        return body.inside(inner, g, [iteration, true, *own])[1:]

    try:
        step = build_function(c, build)
    except NotConstant:
        return None
    if [r.type for r in step.results[: len(first)]] != [v.type for v in first]:
        return None
    steps = _steps(c, limit)
    (f,), captures = add_functions(c, [("rounds", step)])
    return c.builder.scan(f, first, [c.iota(steps)], captures, steps)


def never_ends(c: Context, g: onnx.GraphProto, again: Operand | None) -> bool:
    """Return whether a body never ends its loop: it returns the condition that it got, or true."""
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
    constants = {t.name: t for t in g.initializer}
    if name in constants:
        return bool(numpy_helper.to_array(constants[name]).all())
    n = makers.get(name)
    if n is not None and n.op_type == "Constant" and len(n.attribute) == 1:
        a = n.attribute[0]
        return a.type == a.TENSOR and bool(numpy_helper.to_array(a.t).all())
    return False


def _steps(c: Context, limit: Operand) -> Dim:
    """Return a trip count as a size; a data-dependent one is bound."""
    if isinstance(limit, Constant):
        (d,) = limit.dims()
        return max(d, 0) if isinstance(d, int) else d
    return c.bind(c.emit("maximum", limit, 0), "rounds")


@dataclass(frozen=True, slots=True)
class LoopBody:
    """A loop's body as a function of the iteration, the condition, the states and the rows."""

    function: OpenFunction
    names: tuple[str, ...]  # of the parameters
    types: tuple[TensorType, ...]
    row_counts: tuple[str, ...]  # symbols


def loop(
    c: Context, g: onnx.GraphProto, limit: Operand | None, again: Operand | None,
    x: Entries, body: BodyImporter,
) -> Sequence[Operand]:  # fmt: skip
    """Return a loop that its body may end; the rows that it collects grow from none."""
    first = [c.operand(x, i) for i in range(len(x))]
    types = [v.type for v in first]
    changing: dict[tuple[Dim, Dim], Dim] = {}
    for _ in range(ATTEMPTS):
        step = _loop_body(c, g, types, body)
        after = [r.type for r in step.function.results[2 : 2 + len(types)]]
        wider = [_widened(c, a, b, changing) for a, b in zip(types, after, strict=True)]
        if wider == types:
            binds = {
                *step.row_counts,
                *dims.free(d for t in types for d in t.shape if d in changing.values()),
            }
            return _while(c, first, step, limit, again, sorted(binds))
        types = wider
    raise c.error("values whose sizes change in a new way in each iteration", "sizes that grow",
                code="onnx-control")  # fmt: skip


def _widened(
    c: Context, a: TensorType, b: TensorType, changing: dict[tuple[Dim, Dim], Dim]
) -> TensorType:
    """Return a type that covers both types, with a symbol for each size that changes."""
    if a.dtype is not b.dtype or a.rank != b.rank:
        raise c.error(
            f"{b} after {a}", "one dtype and rank in every iteration", code="onnx-control"
        )
    sizes: list[Dim] = []
    for m, n in zip(a.shape, b.shape, strict=True):
        if m != n and m not in changing.values():
            if (m, n) not in changing:
                changing[m, n] = c.builder.declare("grown", 0, c.max_size)
            m = changing[m, n]
        sizes.append(m)
    return a.with_shape(*sizes)


def _loop_body(
    c: Context, g: onnx.GraphProto, types: Sequence[TensorType], body: BodyImporter
) -> LoopBody:
    names = _names(g)
    count = len(types)
    if len(names) != count + 2 or len(g.output) < count + 1:
        raise c.broken(f"a body of {len(g.input)} inputs, {len(g.output)} outputs",
                      f"{count + 2} inputs")  # fmt: skip
    params: list[Value] = []
    row_counts: list[str] = []

    def build(inner: Context) -> Sequence[Entry]:
        params.extend(_params(inner, [_COUNT, _BOOL, *types], names))
        outs = body.inside(inner, g, params)
        appended: list[Value] = []
        for k, o in enumerate(outs[1 + count :]):
            row = inner.value(o)
            n = inner.builder.declare("rows", 0, inner.max_size)
            row_counts.append(n.name)
            rows = inner.builder.param(
                f"{names[0]}_rows{k}", row.type.with_shape(n, *row.type.shape)
            )
            params.append(rows)
            one = inner.reshape(row, 1, *row.type.shape)
            appended.append(inner.emit("concat", rows, one, axis=0))
        test = inner.reshape(inner.value(outs[0]))
        return [inner.emit("add", params[0], 1), test, *outs[1 : 1 + count], *appended]

    step = build_function(c, build)
    return LoopBody(
        step, tuple(p.name for p in params), tuple(p.type for p in params), tuple(row_counts)
    )  # fmt: skip


def _while(
    c: Context, first: Sequence[Value], step: LoopBody, limit: Operand | None,
    again: Operand | None, binds: Sequence[str],
) -> Sequence[Operand]:  # fmt: skip
    most = None if limit is None else c.reshape(c.cast(c.value(limit), DType.I64))

    def test(inner: Context) -> Sequence[Operand]:
        params = _params(inner, step.types, step.names)
        if most is None:
            return [params[1]]
        few = inner.emit("less", params[0], inner.builder.capture(most, c.builder))
        return [inner.emit("logical_and", params[1], few)]

    (cond, rounds), captures = add_functions(
        c, [("test", build_function(c, test)), ("rounds", step.function)]
    )
    initially = c.builder.scalar(True, DType.BOOL) if again is None else c.reshape(c.value(again))
    empty = [
        c.emit("broadcast_to", c.builder.scalar(0, t.dtype), shape=(0, *t.shape[1:]))
        for t in step.types[2 + len(first) :]
    ]
    carried = [c.builder.scalar(0, DType.I64), initially, *first, *empty]
    return c.builder.loop(cond, rounds, carried, captures, binds)[2:]


Ways: TypeAlias = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]


def scanned(
    c: Context, g: onnx.GraphProto, states: Sequence[Operand], inputs: Sequence[Value], ways: Ways,
    body: BodyImporter,
) -> Sequence[Operand] | None:  # fmt: skip
    """Return a Scan as a scan; None if its body changes the types of the states.

    ``ways`` are the axes of the scanned operands, whether each is scanned backwards, and the same
    for the outputs.
    """
    axes, backward, out_axes, reverse = ways
    first = [c.value(s) for s in states]
    rows = [
        _flipped_if(c, _moved(c, v, a, 0), back)
        for v, a, back in zip(inputs, axes, backward, strict=True)
    ]
    steps = rows[0].type.shape[0]
    if any(r.type.shape[0] != steps for r in rows):
        raise c.broken(", ".join(str(r.type) for r in rows), "equally many rows of each")

    def build(inner: Context) -> Sequence[Entry]:
        slices = [r.type.with_shape(*r.type.shape[1:]) for r in rows]
        own = _params(inner, [*(v.type for v in first), *slices], _names(g))
        return body.inside(inner, g, own)

    try:
        step = build_function(c, build)
    except NotConstant:
        return None
    count = len(first)
    if [r.type for r in step.results[:count]] != [v.type for v in first]:
        return None
    (f,), captures = add_functions(c, [("rounds", step)])
    results = c.builder.scan(f, first, rows, captures, steps)
    ys = zip(results[count:], out_axes, reverse, strict=True)
    return [*results[:count], *(_moved(c, _flipped_if(c, y, r), 0, a) for y, a, r in ys)]


def _flipped_if(c: Context, v: Value, backward: int) -> Value:
    return c.emit("flip", v, axes=(0,)) if backward else v


def _moved(c: Context, v: Value, axis: int, to: int) -> Value:
    """Return a value with an axis moved to another position."""
    axis, to = c.axis(axis, v.type.rank), c.axis(to, v.type.rank)
    order = [i for i in range(v.type.rank) if i != axis]
    order.insert(to, axis)
    return v if axis == to else c.emit("permute_dims", v, axes=tuple(order))
