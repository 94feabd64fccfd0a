"""If, Loop and Scan: inlined or unrolled where the import knows their course, else run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import onnx

from didyma.composites.builder import Value
from didyma.onnx.context import Context, Entries, NotConstant
from didyma.onnx.rules import loops
from didyma.onnx.rules.shaping import join
from didyma.onnx.subgraphs import BodyImporter, OpenFunction, add_functions, build_function
from didyma.onnx.values import Constant, Entry, Operand, TensorList, size
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType

MAX_STEPS = 1 << 10  # iterations that are unrolled
FEW_NODES = 1 << 8  # nodes of an unrolled loop; a loop of more runs as a loop
SMALL_BRANCHES = 8  # nodes of both branches that are computed to select one result
Control: TypeAlias = Callable[[Context, Entries, BodyImporter], Sequence[Entry]]


def _node_count(g: onnx.GraphProto) -> int:
    """Count the nodes of a body and of the bodies within it."""
    return sum(1 + sum(_node_count(a.g) for a in n.attribute if a.type == a.GRAPH) for n in g.node)


def _branch(c: Context, x: Entries, body: BodyImporter) -> Sequence[Entry]:
    """Import ``If``: as the branch that is taken, if the import knows which, or as a choice.

    Since nodes have no side effects, both of two small branches are computed, and the results
    selected, if these have the same types.
    """
    try:
        condition = c.number(c.input(x, 0))
    except NotConstant as unknown:
        count = _node_count(c.attrs["then_branch"]) + _node_count(c.attrs["else_branch"])
        if count <= SMALL_BRANCHES:
            try:
                return _selected(c, x, body, unknown)
            except NotConstant:
                pass
        try:
            return _if(c, x, body)
        except DidymaError as e:
            if e.code == "branch-mismatch" and c.depends_on_sizes_only(c.input(x, 0)):
                for name in ("then_branch", "else_branch"):
                    if any(n.op_type == "Squeeze" for n in c.attrs[name].node):
                        # exporters write such a branch if they do not know whether an axis has
                        # size 1; it is taken to be so, which Squeeze itself requires
                        return body(c.attrs[name], [])
            raise
    return body(c.attrs["then_branch" if condition else "else_branch"], [])


def _condition(c: Context, x: Entries) -> Value:
    condition = c.operand(x, 0)
    if condition.type.numel != 1 or condition.type.dtype is not DType.BOOL:
        raise c.broken(str(condition.type), "one condition")
    return c.reshape(condition)


def _if(c: Context, x: Entries, body: BodyImporter) -> Sequence[Entry]:
    condition = _condition(c, x)
    branches: list[tuple[str, OpenFunction]] = []
    for name in ("then_branch", "else_branch"):
        g: onnx.GraphProto = c.attrs[name]

        def build(inner: Context, g: onnx.GraphProto = g) -> Sequence[Entry]:
            return body.inside(inner, g, [])

        branches.append((name, build_function(c, build)))
    counts = {len(f.results) for _, f in branches}
    if len(counts) != 1:
        raise c.broken(f"branches of {counts} results", "as many results of both")
    (then, otherwise), captures = add_functions(c, branches)
    return c.builder.branch(condition, then, otherwise, captures)


def _selected(c: Context, x: Entries, body: BodyImporter, unknown: NotConstant) -> Sequence[Entry]:
    condition = _condition(c, x)
    declared, bound = len(c.builder.declared()), len(c.bound_sizes.order)
    try:
        both = [body(c.attrs[name], []) for name in ("then_branch", "else_branch")]
    except DidymaError:
        c.bound_sizes.forget(bound)
        raise unknown from None  # one branch may be invalid, so the import must know which one runs
    if len(c.builder.declared()) > declared:
        c.bound_sizes.forget(bound)
        raise unknown  # a branch that binds sizes checks them, so it must run only if it is taken
    if len({len(entries) for entries in both}) != 1:
        counts = " and ".join(str(len(entries)) for entries in both)
        raise c.broken(f"branches of {counts} results", "as many results of both")
    results: list[Entry] = []
    for yes, no in zip(*both, strict=True):
        if yes is no:
            results.append(yes)
            continue
        if isinstance(yes, TensorList) or isinstance(no, TensorList) or yes.type != no.type:
            raise unknown
        results.append(c.emit("where", condition, c.value(yes), c.value(no)))
    return results


def _loop(c: Context, x: Entries, body: BodyImporter) -> Sequence[Entry]:
    """Import ``Loop``: unrolled, as a scan if its body never ends it, or as a loop."""
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
    if limit is None and loops.never_ends(c, g, again):
        raise c.error("an endless loop: it has no trip count, and its body never ends it",
                    "one that ends", code="onnx-control")  # fmt: skip
    carried = [s for s in x[2:] if s is not None]
    if len(carried) < states:
        raise c.broken(f"{len(carried)} carried values", f"{states}")
    if any(isinstance(s, TensorList) for s in carried):  # they grow: the trip count is constant
        if limit is not None:
            steps = int(c.number(limit))
        return _unrolled(c, g, steps, again, carried, body)
    try:
        if steps is None or steps * _node_count(g) > FEW_NODES or steps > MAX_STEPS:
            results = loops.counted(c, g, limit, again, x[2:], body)
            if results is not None:
                return results
        if limit is not None and steps is None:
            return loops.loop(c, g, limit, again, x[2:], body)
    except DidymaError as e:
        if e.code == "shape-mismatch" and steps is None and limit is not None:
            c.number(limit)  # raises the error that names the inputs that decide the trip count
        raise
    bound = len(c.bound_sizes.order)
    try:
        return _unrolled(c, g, steps, again, carried, body)
    except NotConstant as unknown:
        c.bound_sizes.forget(bound)
        try:
            return loops.loop(c, g, limit, again, x[2:], body)
        except DidymaError as e:
            if e.code == "shape-mismatch" and unknown.inputs:
                raise unknown from None  # it names the inputs that decide the trip count
            raise


def _unrolled(
    c: Context, g: onnx.GraphProto, limit: int | None, again: Operand | None, states: list[Entry],
    body: BodyImporter,
) -> Sequence[Entry]:  # fmt: skip
    collected: list[list[Entry]] = [[] for _ in range(len(g.output) - 1 - len(states))]
    true = Constant(np.array(True), DType.BOOL)
    step = 0
    while (again is None or c.number(again)) and (limit is None or step < limit):
        if step >= MAX_STEPS:
            raise c.not_constant(f"more than {MAX_STEPS} iterations of a loop")
        outs = body(g, [size(step), true, *states])
        again = c.tensor(outs[0])
        states = outs[1 : 1 + len(states)]
        for rows, entry in zip(collected, outs[1 + len(states) :], strict=True):
            rows.append(entry)
        step += 1
    if collected and not step:
        raise c.not_constant("a loop of no iterations whose results are collected")
    return [*states, *(_stacked(c, rows, 0) for rows in collected)]


def _stacked(c: Context, entries: Sequence[Entry], axis: int) -> Value:
    """Return tensors stacked along a new axis."""
    if not entries:
        got = "a loop of no iterations whose results are collected"
        raise c.error(got, "one iteration", code="onnx-control")
    rows: list[Value] = []
    for entry in entries:
        v = c.value(entry)
        at = c.axis(axis, v.type.rank + 1)
        rows.append(c.reshape(v, *v.type.shape[:at], 1, *v.type.shape[at:]))
    return join(c, rows, axis % rows[0].type.rank)


def _scan(c: Context, x: Entries, body: BodyImporter) -> Sequence[Entry]:
    """Import ``Scan``: unrolled if it is short and its length constant, or as a scan."""
    if c.opset < 9:
        return _scan_8(c, x, body)
    g: onnx.GraphProto = c.attrs["body"]
    inputs, states = _operands(c, x)
    outs = len(g.output) - len(states)
    if len(g.input) != len(x) or outs < 0:
        raise c.broken(
            f"a body of {len(g.input)} inputs, {len(g.output)} outputs", f"{len(x)} inputs"
        )
    axes = c.attrs.get("scan_input_axes", (0,) * len(inputs))
    backward = c.attrs.get("scan_input_directions", (0,) * len(inputs))
    out_axes = c.attrs.get("scan_output_axes", (0,) * outs)
    reverse = c.attrs.get("scan_output_directions", (0,) * outs)
    for name, many, count in (
        ("scan_input_axes", axes, len(inputs)), ("scan_input_directions", backward, len(inputs)),
        ("scan_output_axes", out_axes, outs), ("scan_output_directions", reverse, outs),
    ):  # fmt: skip
        if len(many) != count:
            raise c.broken(f"{len(many)} {name}", f"{count}")
        if name.endswith("directions") and not set(many) <= {0, 1}:
            raise c.broken(f"{name} {list(many)}", "each 0 or 1")
    at = [c.axis(a, v.type.rank) for a, v in zip(axes, inputs, strict=True)]
    steps: Dim = inputs[0].type.shape[at[0]]
    few = isinstance(steps, int) and 1 <= steps <= MAX_STEPS and steps * _node_count(g) <= FEW_NODES
    if not few:
        results = loops.scanned(c, g, states, inputs, (at, backward, out_axes, reverse), body)
        if results is not None:
            return results
    states, collected = _unrolled_scan(c, body, states, inputs, at, backward, outs)
    outputs = zip(collected, out_axes, reverse, strict=True)
    return [*states, *(_stacked(c, rows[::-1] if r else rows, a) for rows, a, r in outputs)]


def _operands(c: Context, x: Entries) -> tuple[list[Value], list[Operand]]:
    count = c.integer("num_scan_inputs")
    if not 1 <= count <= len(x):
        raise c.broken(f"{count} scanned operands of {len(x)}", f"from 1 to {len(x)}")
    cut = len(x) - count
    return [c.operand(x, i) for i in range(cut, len(x))], [c.input(x, i) for i in range(cut)]


def _unrolled_scan(
    c: Context, body: BodyImporter, states: list[Operand], inputs: Sequence[Value],
    axes: Sequence[int], backward: Sequence[int], outs: int,
) -> tuple[list[Operand], list[list[Operand]]]:  # fmt: skip
    g: onnx.GraphProto = c.attrs["body"]
    steps: Dim = inputs[0].type.shape[axes[0]]
    if not isinstance(steps, int) or steps > MAX_STEPS:
        got = f"{dims.text(steps)} iterations of a scan"
        want = f"a constant number, up to {MAX_STEPS}"
        raise c.error(got, want, code="onnx-control")
    collected: list[list[Operand]] = [[] for _ in range(outs)]
    for step in range(steps):
        rows = [
            _row(c, v, a, steps - 1 - step if back else step)
            for v, a, back in zip(inputs, axes, backward, strict=True)
        ]
        results = [c.tensor(e) for e in body(g, [*states, *rows])]
        states = results[: len(states)]
        for own, operand in zip(collected, results[len(states) :], strict=True):
            own.append(operand)
    return states, collected


def _row(c: Context, v: Value, axis: int, k: int) -> Value:
    row = c.slice(v, axis, k, k + 1)
    return c.reshape(row, *v.type.shape[:axis], *v.type.shape[axis + 1 :])


def _scan_8(c: Context, x: Entries, body: BodyImporter) -> Sequence[Entry]:
    """Import ``Scan`` of opset 8, which has a batch axis in front; lengths are refused."""
    if c.optional_input(x, 0) is not None or any(c.attrs.get("directions", ())):
        raise c.error("sequence lengths or directions of opset 8", "none", code="onnx-control")
    g: onnx.GraphProto = c.attrs["body"]
    inputs, states = _operands(c, x[1:])
    batch = inputs[0].type.shape[0]
    if not isinstance(batch, int) or not 1 <= batch <= MAX_STEPS:
        raise c.error(f"a batch of {dims.text(batch)}", "a constant one", code="onnx-control")
    outs = len(g.output) - len(states)
    each: list[list[Operand]] = []
    for b in range(batch):
        own: list[Operand] = [_row(c, c.value(s), 0, b) for s in states]
        rows = [_row(c, v, 0, b) for v in inputs]
        plain = (0,) * len(rows)
        ends, collected = _unrolled_scan(c, body, own, rows, plain, plain, outs)
        each.append([*ends, *(_stacked(c, rows, 0) for rows in collected)])
    return [_stacked(c, items, 0) for items in zip(*each, strict=True)]


CONTROL: dict[str, Control] = {"If": _branch, "Loop": _loop, "Scan": _scan}
