"""Modules as ONNX models: calls are inlined, and symbols become named sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import helper

from didyma.onnx.export import casts, pointwise, products, random, shapes
from didyma.onnx.export.control import express
from didyma.onnx.export.dialect import LATER_OPS, LATER_TYPES, OPSET, Dialect, How
from didyma.onnx.export.shapes import expanded
from didyma.onnx.export.writer import Use, Val, Writer
from didyma.onnx.open_dims import RANGES
from didyma.onnx.tensors import code_of
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import CALL, CONTROL, Function, Module, Node
from didyma.refimpl.ir.text.graph import dims_text
from didyma.refimpl.ir.text.literals import dim_text
from didyma.refimpl.ir.types import Tensor, TensorType
from didyma.refimpl.verify import graph as verify

RULES = {**pointwise.RULES, **casts.RULES, **shapes.RULES, **products.RULES, **random.RULES}


def to_model(m: Module, dialect: Dialect | None = None) -> onnx.ModelProto:
    """Return a module as an ONNX model.

    A dialect says which element types operators take; without one, ONNX's schemas do.  Errors:
    ``onnx-inexpressible``, which names the node, and those of the verifier.
    """
    verify.verify(m)
    return _Exporter(m, dialect or Dialect()).model()


def oldest_opset(m: Module) -> int:
    """Return the oldest opset, from OPSET on, that has all types and ops of a module."""
    types = {t.dtype for f in m.functions for t in f.types().values()}
    ops = {n.op for f in m.functions for n in f.nodes}
    return max(
        [OPSET, *(v for t, v in LATER_TYPES.items() if t in types)]
        + [v for op, v in LATER_OPS.items() if op in ops]
    )


class _Exporter:
    def __init__(self, m: Module, dialect: Dialect) -> None:
        self.m = m
        self.w = Writer(dialect, oldest_opset(m), m.ranges())

    def model(self) -> onnx.ModelProto:
        """Return the model of the entry, with all calls inlined."""
        w, f = self.w, self.m.entry
        for p in f.params:
            w.fresh(p.name)
        inputs = [self._info(p.name, p.type) for p in f.params]
        args = {p.name: Val(p.name, p.type.dtype) for p in f.params}
        self._symbols(f, args)
        results = self.body(f, args)
        outputs: list[onnx.ValueInfoProto] = []
        own = {p.name for p in f.params}
        for r, v, t in zip(f.results, results, f.result_types(), strict=True):
            if v.name in own or w.constant_value(v) is not None:  # each result has its own name
                v = w.op("Identity", v, how=How.MOVES, wish=r)
            own.add(v.name)
            outputs.append(self._info(v.name, t))
        graph = helper.make_graph(w.block.nodes, f.name, inputs, outputs, w.initializers)
        opsets = [helper.make_opsetid("", w.opset)]
        version = helper.find_min_ir_version_for(opsets)
        made = helper.make_model(
            graph, opset_imports=opsets, ir_version=version, producer_name="didyma"
        )
        if self.m.dims:
            helper.set_model_props(made, {RANGES: dims_text(self.m.dims)})
        return made

    def _info(self, name: str, t: TensorType) -> onnx.ValueInfoProto:
        if t.device:
            self.w.where = f"%{name}: {t}"
            raise self.w.inexpressible(f"the device {t.device}", "the program's own device")
        shape = [d if isinstance(d, int) else dim_text(d) for d in t.shape]
        return helper.make_tensor_value_info(name, code_of(t.dtype), shape)

    def _symbols(self, f: Function, args: Mapping[str, Val]) -> None:
        """Compute each symbol from the shape of a parameter."""
        sizes = [(args[p.name], k, d) for p in f.params for k, d in enumerate(p.type.shape)]
        for v, axis, d in sizes:
            if not isinstance(d, int) and not d.args:
                (name,) = dims.free(d)
                if name not in self.w.block.symbols:
                    self.w.block.symbols[name] = self.w.shape(v, axis)
        for v, axis, d in sizes:
            self._solve(v, axis, d)

    def _solve(self, v: Val, axis: int, d: Dim) -> None:
        """Compute a symbol from a size that is linear in it alone, such as ``2*n + 1``."""
        w = self.w
        names = [s for s in dims.free(d) if s not in w.block.symbols]
        if len(names) != 1:
            return
        s = dims.symbol(names[0])
        assert not isinstance(d, int)
        zero = dims.canonical(d.subs(s, 0))
        slope = dims.sub(dims.canonical(d.subs(s, 1)), zero)
        if not isinstance(slope, int) or slope == 0 or dims.add(zero, dims.mul(slope, s)) != d:
            return
        rest = w.op("Sub", w.shape(v, axis), w.size(zero))
        w.block.symbols[names[0]] = w.op("Div", rest, w.ints(slope))

    def body(self, f: Function, args: Mapping[str, Val]) -> list[Val]:
        """Add the nodes of a function to the model, for given arguments; return its results."""
        values = dict(args)
        types = f.types()
        for n in f.nodes:
            self.w.where = f"%{', %'.join(n.results) or n.op} = {n.op}(…) in @{f.name}"
            made = self._node(n, [values[a] for a in n.args], [types[a] for a in n.args])
            values.update(zip(n.results, made, strict=True))
        return [values[r] for r in f.results]

    def _node(self, n: Node, args: Sequence[Val], types: Sequence[TensorType]) -> list[Val]:
        for t in n.types:
            if t.device:
                raise self.w.inexpressible(f"the device {t.device}", "the program's own device")
        if n.op == CALL:
            callee = self.m.function(n.callee)
            return self.body(callee, dict(zip((p.name for p in callee.params), args, strict=True)))
        if n.op in CONTROL:
            return express(self.w, self.m, n, args, self.body)
        if n.op not in RULES:
            raise self.w.inexpressible(f"the op {n.op}", "an op with a rule in ONNX")
        out = n.types[0]
        if 0 in out.shape:  # for example, if no window fits
            least = tuple(d if isinstance(d, int) else 1 for d in out.shape)
            nothing = self.w.constant(Tensor(out.dtype, least, b""))
            return [nothing if least == out.shape else expanded(self.w, nothing, out.shape)]
        use = Use(self.w, n.op, tuple(args), tuple(types), out, n.attr, n.results[0])
        return [RULES[n.op](use)]
