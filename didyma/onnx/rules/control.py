"""Branches, loops and scans: written out where their course is known at import, else run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import onnx

from didyma.onnx.context import Context, NotConstant
from didyma.onnx.rules import loops
from didyma.onnx.rules.shaping import join
from didyma.onnx.subgraphs import Body, Made, closed, made
from didyma.onnx.values import Constant, Entry, Operand, TensorList, size
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops.builder import Value

MAX_STEPS = 1 << 10  # rounds that are written out at most
FEW_NODES = 1 << 8  # nodes that are written out rather than run as a function
SMALL_BRANCHES = 8  # nodes of both branches that are cheaper computed than chosen from
Control: TypeAlias = Callable[[Context, Sequence[Entry | None], Body], Sequence[Entry]]


def _nodes(g: onnx.GraphProto) -> int:
    """Nodes of a body, those of the bodies within it included."""
    return sum(1 + sum(_nodes(a.g) for a in n.attribute if a.type == a.GRAPH) for n in g.node)


def _branch(c: Context, x: Sequence[Entry | None], body: Body) -> Sequence[Entry]:
    """Results of the branch that is taken; where that is known only at run time, a choice.

    Nodes have no effects, so both of two small branches may be computed, if their results have one
    type.
    """
    try:
        taken = c.number(c.input(x, 0))
    except NotConstant as unknown:
        if _nodes(c.attrs["then_branch"]) + _nodes(c.attrs["else_branch"]) <= SMALL_BRANCHES:
            try:
                return _choice(c, x, body, unknown)
            except NotConstant:
                pass
        try:
            return _if(c, x, body)
        except DidymaError as e:
            if e.code == "branch-mismatch" and c.depends_on_sizes_only(c.input(x, 0)):
                for name in ("then_branch", "else_branch"):
                    if any(n.op_type == "Squeeze" for n in c.attrs[name].node):
                        # exporters write this where they do not know that an axis is 1: taken to
                        # be, which Squeeze itself requires
                        return body(c.attrs[name], [])
            raise
    return body(c.attrs["then_branch" if taken else "else_branch"], [])


def _condition(c: Context, x: Sequence[Entry | None]) -> Value:
    condition = c.operand(x, 0)
    if condition.type.numel != 1 or condition.type.dtype is not DType.BOOL:
        raise c.broken(str(condition.type), "one condition")
    return c.reshape(condition)


def _if(c: Context, x: Sequence[Entry | None], body: Body) -> Sequence[Entry]:
    condition = _condition(c, x)
    both: list[tuple[str, Made]] = []
    for name in ("then_branch", "else_branch"):
        g: onnx.GraphProto = c.attrs[name]

        def build(inner: Context, g: onnx.GraphProto = g) -> Sequence[Entry]:
            return body.inside(inner, g, [])

        both.append((name, made(c, build)))
    counts = {len(m.results) for _, m in both}
    if len(counts) != 1:
        raise c.broken(f"branches of {counts} results", "as many results of both")
    (then, otherwise), captures = closed(c, both)
    return c.builder.branch(condition, then, otherwise, captures)


def _choice(
    c: Context, x: Sequence[Entry | None], body: Body, unknown: NotConstant
) -> Sequence[Entry]:
    condition = _condition(c, x)
    before, known = len(c.builder.declared()), len(c.bound_sizes.order)
    try:
        both = [body(c.attrs[name], []) for name in ("then_branch", "else_branch")]
    except DidymaError:
        c.bound_sizes.forget(known)
        raise unknown from None  # one of them may be impossible: which one must be known
    if len(c.builder.declared()) > before:
        c.bound_sizes.forget(known)
        raise unknown  # sizes that are bound in a branch are asserted where it is taken alone
    found: list[Entry] = []
    if len({len(items) for items in both}) != 1:
        counts = " and ".join(str(len(items)) for items in both)
        raise c.broken(f"branches of {counts} results", "as many results of both")
    for yes, no in zip(*both, strict=True):
        if yes is no:
            found.append(yes)
            continue
        if isinstance(yes, TensorList) or isinstance(no, TensorList) or yes.type != no.type:
            raise unknown
        found.append(c.emit("where", condition, c.value(yes), c.value(no)))
    return found


def _loop(c: Context, x: Sequence[Entry | None], body: Body) -> Sequence[Entry]:
    """Rounds of a loop: written out, as a scan where it only counts, or as a loop."""
    g: onnx.GraphProto = c.attrs["body"]
    states = max(len(x) - 2, 0)
    if len(g.input) != states + 2 or len(g.output) < states + 1:
        raise c.broken(
            f"a body of {len(g.input)} inputs, {len(g.output)} outputs",
            f"{states + 2} inputs and at least {states + 1} outputs",
        )
    most, again = c.optional_input(x, 0), c.optional_input(x, 1)
    limit = None if most is None else c.try_fold(most)
    steps = None
    if isinstance(limit, Constant) and not limit.symbolic:
        steps = int(c.number(limit))
    if limit is None and loops.counts(c, g, again):
        raise c.error("a loop without end: it has no number of rounds, and its body never ends it",
                    "one that ends", code="onnx-control")  # fmt: skip
    carried = [s for s in x[2:] if s is not None]
    if len(carried) < states:
        raise c.broken(f"{len(carried)} carried values", f"{states}")
    if any(isinstance(s, TensorList) for s in carried):  # which grow: the rounds must be known
        if limit is not None:
            steps = int(c.number(limit))
        return _unrolled(c, g, steps, again, carried, body)
    try:
        if steps is None or steps * _nodes(g) > FEW_NODES or steps > MAX_STEPS:
            found = loops.counted(c, g, limit, again, x[2:], body)
            if found is not None:
                return found
        if limit is not None and steps is None:
            return loops.loop(c, g, limit, again, x[2:], body)
    except DidymaError as e:
        if e.code == "shape-mismatch" and steps is None and limit is not None:
            c.number(limit)  # raises the error that names the inputs that decide it, if they do
        raise
    known = len(c.bound_sizes.order)
    try:
        return _unrolled(c, g, steps, again, carried, body)
    except NotConstant as unknown:
        c.bound_sizes.forget(known)
        try:
            return loops.loop(c, g, limit, again, x[2:], body)
        except DidymaError as e:
            if e.code == "shape-mismatch" and unknown.inputs:
                raise unknown from None  # it names the inputs that decide how often it runs
            raise


def _unrolled(
    c: Context, g: onnx.GraphProto, limit: int | None, again: Operand | None, states: list[Entry],
    body: Body,
) -> Sequence[Entry]:  # fmt: skip
    collected: list[list[Entry]] = [[] for _ in range(len(g.output) - 1 - len(states))]
    true = Constant(np.array(True), DType.BOOL)
    step = 0
    while (again is None or c.number(again)) and (limit is None or step < limit):
        if step >= MAX_STEPS:
            raise c.not_constant(f"more than {MAX_STEPS} rounds of a loop")
        outs = body(g, [size(step), true, *states])
        again = c.tensor(outs[0])
        states = outs[1 : 1 + len(states)]
        for held, item in zip(collected, outs[1 + len(states) :], strict=True):
            held.append(item)
        step += 1
    if collected and not step:
        raise c.not_constant("a loop of no rounds whose results are collected")
    return [*states, *(_stacked(c, items, 0) for items in collected)]


def _stacked(c: Context, items: Sequence[Entry], axis: int) -> Value:
    """Items along a new axis."""
    if not items:
        raise c.error("a loop of no rounds whose results are collected", "one round", "",
                    "onnx-control")  # fmt: skip
    rows: list[Value] = []
    for item in items:
        v = c.value(item)
        at = c.axis(axis, v.type.rank + 1)
        rows.append(c.reshape(v, *v.type.shape[:at], 1, *v.type.shape[at:]))
    return join(c, rows, axis % rows[0].type.rank)


def _scan(c: Context, x: Sequence[Entry | None], body: Body) -> Sequence[Entry]:
    """Rounds of a scan over axes of known sizes, one after another."""
    if c.opset < 9:
        return _scan_8(c, x, body)
    g: onnx.GraphProto = c.attrs["body"]
    inputs, states = _split(c, x)
    outs = len(g.output) - len(states)
    if len(g.input) != len(x) or outs < 0:
        raise c.broken(
            f"a body of {len(g.input)} inputs, {len(g.output)} outputs", f"{len(x)} inputs"
        )
    axes = c.attrs.get("scan_input_axes", (0,) * len(inputs))
    backward = c.attrs.get("scan_input_directions", (0,) * len(inputs))
    out_axes = c.attrs.get("scan_output_axes", (0,) * outs)
    turned = c.attrs.get("scan_output_directions", (0,) * outs)
    for name, many, count in (
        ("scan_input_axes", axes, len(inputs)), ("scan_input_directions", backward, len(inputs)),
        ("scan_output_axes", out_axes, outs), ("scan_output_directions", turned, outs),
    ):  # fmt: skip
        if len(many) != count:
            raise c.broken(f"{len(many)} {name}", f"{count}")
        if name.endswith("directions") and not set(many) <= {0, 1}:
            raise c.broken(f"{name} {list(many)}", "each 0 or 1")
    at = [c.axis(a, v.type.rank) for a, v in zip(axes, inputs, strict=True)]
    steps: Dim = inputs[0].type.shape[at[0]]
    if not isinstance(steps, int) or steps * _nodes(g) > FEW_NODES or not 1 <= steps <= MAX_STEPS:
        found = loops.scanned(c, g, states, inputs, (at, backward, out_axes, turned), body)
        if found is not None:
            return found
    states, collected = _rounds(c, body, states, inputs, at, backward, outs)
    rows = zip(collected, out_axes, turned, strict=True)
    return [*states, *(_stacked(c, items[::-1] if t else items, a) for items, a, t in rows)]


def _split(c: Context, x: Sequence[Entry | None]) -> tuple[list[Value], list[Operand]]:
    count = c.integer("num_scan_inputs")
    if not 1 <= count <= len(x):
        raise c.broken(f"{count} scanned operands of {len(x)}", f"from 1 to {len(x)}")
    cut = len(x) - count
    return [c.operand(x, i) for i in range(cut, len(x))], [c.input(x, i) for i in range(cut)]


def _rounds(
    c: Context, body: Body, states: list[Operand], inputs: Sequence[Value], axes: Sequence[int],
    backward: Sequence[int], outs: int,
) -> tuple[list[Operand], list[list[Operand]]]:  # fmt: skip
    g: onnx.GraphProto = c.attrs["body"]
    steps: Dim = inputs[0].type.shape[axes[0]]
    if not isinstance(steps, int) or steps > MAX_STEPS:
        got = f"{dims.text(steps)} rounds of a scan"
        want = f"a number known at import, up to {MAX_STEPS}"
        raise c.error(got, want, code="onnx-control")
    collected: list[list[Operand]] = [[] for _ in range(outs)]
    for step in range(steps):
        rows = [
            _row(c, v, a, steps - 1 - step if back else step)
            for v, a, back in zip(inputs, axes, backward, strict=True)
        ]
        found = [c.tensor(e) for e in body(g, [*states, *rows])]
        states = found[: len(states)]
        for held, item in zip(collected, found[len(states) :], strict=True):
            held.append(item)
    return states, collected


def _row(c: Context, v: Value, axis: int, k: int) -> Value:
    rank = v.type.rank
    starts = tuple(k if i == axis else 0 for i in range(rank))
    stops = tuple(k + 1 if i == axis else d for i, d in enumerate(v.type.shape))
    cut = c.emit("slice", v, starts=starts, stops=stops, steps=(1,) * rank)
    return c.reshape(cut, *v.type.shape[:axis], *v.type.shape[axis + 1 :])


def _scan_8(c: Context, x: Sequence[Entry | None], body: Body) -> Sequence[Entry]:
    """Scan as it was in opset 8: a batch axis in front, and lengths, which we do not take."""
    if c.optional_input(x, 0) is not None or any(c.attrs.get("directions", ())):
        raise c.error("sequence lengths or directions of opset 8", "none", code="onnx-control")
    g: onnx.GraphProto = c.attrs["body"]
    inputs, states = _split(c, x[1:])
    batch = inputs[0].type.shape[0]
    if not isinstance(batch, int) or not 1 <= batch <= MAX_STEPS:
        raise c.error(f"a batch of {dims.text(batch)}", "one known at import", code="onnx-control")
    outs = len(g.output) - len(states)
    each: list[list[Operand]] = []
    for b in range(batch):
        own: list[Operand] = [_row(c, c.value(s), 0, b) for s in states]
        rows = [_row(c, v, 0, b) for v in inputs]
        plain = (0,) * len(rows)
        ends, collected = _rounds(c, body, own, rows, plain, plain, outs)
        each.append([*ends, *(_stacked(c, items, 0) for items in collected)])
    return [_stacked(c, items, 0) for items in zip(*each, strict=True)]


CONTROL: dict[str, Control] = {"If": _branch, "Loop": _loop, "Scan": _scan}
