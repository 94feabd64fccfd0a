"""Control flow as If, Loop and Scan; data-dependent sizes as the values they are bound to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import onnx
import sympy
from onnx import helper

from didyma.onnx.export.dialect import How
from didyma.onnx.export.shapes import counted
from didyma.onnx.export.writer import Block, Val, Writer
from didyma.onnx.tensors import code_of
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import BIND, IF, SCAN, Function, Module, Node
from didyma.refimpl.ir.types import DType, TensorType

ExpressBody: TypeAlias = Callable[[Function, Mapping[str, Val]], list[Val]]


def express(w: Writer, m: Module, n: Node, args: Sequence[Val], body: ExpressBody) -> list[Val]:
    """Express a node that runs functions, or binds a symbol."""
    if n.op == BIND:
        w.block.symbols[str(n.attr["dim"])] = w.op("Reshape", args[0], w.ints(1))
        return []
    if n.op == IF:
        return _if(w, m, n, args, body)
    return _scan(w, m, n, args, body) if n.op == SCAN else _while(w, m, n, args, body)


def _info(w: Writer, v: Val, t: TensorType | None) -> onnx.ValueInfoProto:
    """Return the declaration of a body's value, in which symbolic sizes are open."""
    made = helper.make_empty_tensor_value_info(v.name)
    made.type.tensor_type.elem_type = code_of(v.dtype)
    if t is not None:
        made.type.tensor_type.shape.SetInParent()  # a scalar has a shape, too: of no sizes
        for d in t.shape:
            size = made.type.tensor_type.shape.dim.add()
            if isinstance(d, int):
                size.dim_value = d
    return made


def _given(f: Function, args: Sequence[Val]) -> dict[str, Val]:
    return dict(zip((p.name for p in f.params), args, strict=True))


def _graph(
    w: Writer, block: Block, name: str, inputs: Sequence[onnx.ValueInfoProto],
    results: Sequence[Val],
) -> onnx.GraphProto:  # fmt: skip
    """Return the graph of a body, in which a node computes each result separately."""
    made = {o for n in block.nodes for o in n.output}
    outputs: list[onnx.ValueInfoProto] = []
    for v in results:
        if v.name not in made:
            v = w.op("Identity", v, how=How.MOVES)
        made.discard(v.name)
        outputs.append(_info(w, v, None))
    return helper.make_graph(block.nodes, w.fresh(name), list(inputs), outputs)


def _read_symbols(
    w: Writer, names: Sequence[str], types: Sequence[TensorType], vals: Sequence[Val]
) -> None:
    """Compute symbols from the shapes of values that have them as sizes."""
    for v, t in zip(vals, types, strict=True):
        for axis, d in enumerate(t.shape):
            if isinstance(d, int) or d.args:
                continue
            (name,) = dims.free(d)
            if name in names:
                w.block.symbols[name] = w.shape(v, axis)
    w.block.sizes = {d: v for d, v in w.block.sizes.items() if not set(dims.free(d)) & set(names)}


def _binds(n: Node) -> tuple[str, ...]:
    names = n.attr.get("binds", ())
    assert isinstance(names, tuple)
    return tuple(str(b) for b in names)


def _control_node(w: Writer, op: str, inputs: Sequence[Val], n: Node, **attrs: Any) -> list[Val]:
    names = [w.fresh(r) for r in n.results]
    operands = [v.name for v in inputs]
    w.block.nodes.append(helper.make_node(op, operands, names, **attrs))
    return [Val(name, t.dtype) for name, t in zip(names, n.types, strict=True)]


def _if(w: Writer, m: Module, n: Node, args: Sequence[Val], body: ExpressBody) -> list[Val]:
    made: dict[str, onnx.GraphProto] = {}
    for attr, key in (("then", "then_branch"), ("otherwise", "else_branch")):
        f = m.function(str(n.attr[attr]))
        with w.inside() as block:
            made[key] = _graph(w, block, f.name, [], body(f, _given(f, args[1:])))
    results = _control_node(w, "If", args[:1], n, **made)
    _read_symbols(w, _binds(n), n.types, results)
    return results


def _while(w: Writer, m: Module, n: Node, args: Sequence[Val], body: ExpressBody) -> list[Val]:
    """Express a loop; ONNX tests at the end of an iteration, so the first test precedes it."""
    count = int(str(n.attr["carried"]))
    test, step = m.function(str(n.attr["cond"])), m.function(str(n.attr["body"]))
    carried, captures = args[:count], args[count:]
    names = _binds(n)
    types = [p.type for p in step.params[:count]]
    _read_symbols(w, names, types, carried)
    (first,) = body(test, _given(test, args))
    with w.inside() as block:
        own = [Val(w.fresh(p.name), p.type.dtype) for p in step.params[:count]]
        iteration, going = Val(w.fresh("turn"), DType.I64), Val(w.fresh("going"), DType.BOOL)
        _read_symbols(w, names, types, own)
        new = body(step, _given(step, [*own, *captures]))
        _read_symbols(w, names, types, new)
        (again,) = body(test, _given(test, [*new, *captures]))
        inputs = [
            _info(w, iteration, TensorType(DType.I64)),
            _info(w, going, TensorType(DType.BOOL)),
        ]
        inputs += [_info(w, v, t) for v, t in zip(own, types, strict=True)]
        graph = _graph(w, block, step.name, inputs, [again, *new])
    no_limit = Val("", DType.I64)
    results = _control_node(w, "Loop", [no_limit, first, *carried], n, body=graph)
    _read_symbols(w, names, n.types, results)
    return results


def _scan(w: Writer, m: Module, n: Node, args: Sequence[Val], body: ExpressBody) -> list[Val]:
    """Express a scan; the iteration numbers are scanned too, so that there is always an operand."""
    step = m.function(str(n.attr["body"]))
    states, scanned = int(str(n.attr["states"])), int(str(n.attr["scanned"]))
    length, index = n.attr["length"], str(n.attr["index"])
    assert isinstance(length, (int, sympy.Expr))
    captures = args[states + scanned :]
    steps = counted(w, length, 1, 0)
    with w.inside() as block:
        own = [Val(w.fresh(p.name), p.type.dtype) for p in step.params[: states + scanned]]
        iteration = Val(w.fresh(index or "turn"), DType.I64)
        if index:
            w.block.symbols[index] = w.op("Reshape", iteration, w.ints(1))
        results = body(step, _given(step, [*own, *captures]))
        types = [p.type for p in step.params]
        inputs = [_info(w, v, t) for v, t in zip(own, types, strict=False)]
        inputs.append(_info(w, iteration, TensorType(DType.I64)))
        graph = _graph(w, block, step.name, inputs, results)
    given = [*args[: states + scanned], steps]
    return _control_node(w, "Scan", given, n, body=graph, num_scan_inputs=scanned + 1)
