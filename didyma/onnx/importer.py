"""The importer: walks a model's graph, and inlines functions and the bodies of control nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx

from didyma.composites.builder import Builder, Value
from didyma.onnx import functions, schemas
from didyma.onnx.context import Context
from didyma.onnx.environment import Environment, Scope
from didyma.onnx.nodes import HANDLERS, import_node
from didyma.onnx.open_dims import Assumptions, OpenDims
from didyma.onnx.rules import sequences
from didyma.onnx.rules.control import CONTROL
from didyma.onnx.sizes import BoundSizes
from didyma.onnx.subgraphs import without_dead_code
from didyma.onnx.tensors import check_size, dtype_of, tensor
from didyma.onnx.values import Constant, Entry, Operand, TensorList
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array, TensorType

MAX_DEPTH = 64  # nested functions and bodies
MAX_NODES = 1 << 14  # nodes that functions and bodies are inlined to, for each 1,000 nodes stored
_MALFORMED = (
    ValueError, TypeError, KeyError, IndexError, OverflowError, ZeroDivisionError, AttributeError,
)  # fmt: skip


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {_domain(o.domain): o.version for o in imports}


class Importer:
    """Imports one model as a module, under assumptions about the sizes that it leaves open."""

    def __init__(
        self,
        model: onnx.ModelProto,
        source: str,
        folder: Path | None,
        values: Mapping[str, Array],
        assumptions: Assumptions,
    ) -> None:
        self.model = model
        self.source = source
        self.folder = folder
        self.given = values
        self.builder = Builder()
        self.open_dims = OpenDims(model, assumptions, self.builder)
        self.context = Context(
            self.builder,
            {},
            assumptions.most * assumptions.multiple,
            bound_sizes=BoundSizes(bind_up_to=assumptions.most if assumptions.bind_early else 0),
            runtime_checks=assumptions.runtime_checks,
        )
        self.functions: dict[tuple[str, str, str], onnx.FunctionProto] = {}
        stored = len(model.graph.node) + sum(len(f.node) for f in model.functions)
        self.most_nodes = MAX_NODES * (1 + stored // 1000)
        self.inlined = 0

    def module(self) -> Module:
        """Return the module of the model's graph.

        Errors: those of ``load``.
        """
        g = self.model.graph
        self._functions()
        scope = Scope(Environment(), self.context, self._opsets(), {})
        if not 1 <= scope.opset <= schemas.NEWEST:
            raise DidymaError(
                "onnx-unsupported", self.source, got=f"opset {scope.opset}",
                want=f"from 1 to {schemas.NEWEST}, which the installed onnx knows",
                help="install a newer onnx, or export the model with an older opset",
            )  # fmt: skip
        self._initializers(g, scope)
        self._inputs(g, scope)
        self._nodes(g.node, scope)
        self._check_declared(g, scope)
        results = [self._result(scope, o.name) for o in g.output]
        return without_dead_code(self.builder.module("main", results))

    def _result(self, scope: Scope, name: str) -> Value:
        where = f"output {name}"
        context = replace(self.context, where=f"{self.source}: {where}")
        return context.value(self._entry(scope, name, where))

    def _functions(self) -> None:
        for f in self.model.functions:
            where, key = f"function {f.name}", (f.domain, f.name, f.overload)
            if key in self.functions:
                raise self._broken(where, f"a second function {f.domain}::{f.name}", "one")
            if len(set(f.input)) != len(f.input):
                raise self._broken(where, f"inputs {', '.join(f.input)}", "names, each once")
            self.functions[key] = f

    def _opsets(self) -> dict[str, int]:
        versions = _opsets(self.model.opset_import)
        if any(o.version != versions[_domain(o.domain)] for o in self.model.opset_import):
            got = ", ".join(f"{o.domain or 'ai.onnx'} {o.version}" for o in self.model.opset_import)
            raise self._broken("opset_import", got, "one version of each operator set")
        if "" not in versions and any(n.domain in ("", "ai.onnx") for n in self.model.graph.node):
            raise self._broken(
                "opset_import", f"operator sets of {', '.join(versions) or 'no domain'}",
                "that of ai.onnx, whose operators the graph has",
            )  # fmt: skip
        return versions

    # Names ----------------------------------------------------------------------------------

    def _define(self, scope: Scope, name: str, entry: Entry, where: str) -> None:
        if name in scope.names.own:
            raise self._broken(where, f"a second definition of {name!r}", "one")
        scope.names.own[name] = entry

    def _entry(self, scope: Scope, name: str, where: str) -> Entry:
        if name not in scope.names:
            raise self._broken(
                where, f"the value {name!r}, which nothing before it defines",
                "nodes in order, each value defined before it is used",
            )  # fmt: skip
        return scope.names[name]

    def _broken(self, where: str, got: str, want: str) -> DidymaError:
        return DidymaError("onnx-broken", f"{self.source}: {where}", got=got, want=want)

    # Inputs ---------------------------------------------------------------------------------

    def _initializers(self, g: onnx.GraphProto, scope: Scope) -> None:
        for t in g.initializer:
            where = f"initializer {t.name}"
            if not t.name:
                raise self._broken(where, "an initializer without a name", "a name")
            constant = tensor(t, f"{self.source}: {where}", self.folder)
            self._define(scope, t.name, constant, where)
        if g.sparse_initializer:
            raise DidymaError(
                "onnx-unsupported", self.source, got="sparse initializers", want="dense ones"
            )

    def _inputs(self, g: onnx.GraphProto, scope: Scope) -> None:
        seen: set[str] = set()
        for i in g.input:
            where = f"input {i.name}"
            if not i.name or i.name in seen:
                raise self._broken(where, f"a second input {i.name!r}", "names, each once")
            seen.add(i.name)
            if i.name in scope.names:  # the input has a default value, which is kept
                self._check_type(i, scope.names[i.name])
                continue
            type = self._declared_type(i)
            check_size(type.dtype, tuple(n for n in type.shape if isinstance(n, int)),
                       f"{self.source}: {where}")  # fmt: skip
            if i.name in self.given:
                array = self.given[i.name]
                if array.dtype != type.dtype.numpy:
                    raise self._broken(where, f"a value of {array.dtype}", str(type))
                scope.names.own[i.name] = Constant(array, type.dtype, i.name)
            else:
                scope.names.own[i.name] = self.builder.param(i.name, type)

    def _declared_type(self, i: onnx.ValueInfoProto) -> TensorType:
        where = f"{self.source}: input {i.name}"
        if not i.type.HasField("tensor_type"):
            got = i.type.WhichOneof("value") or "no type"
            raise DidymaError("onnx-unsupported", where, got=got, want="a tensor")
        t = i.type.tensor_type
        dtype = dtype_of(t.elem_type, where)
        if not t.HasField("shape"):
            raise DidymaError(
                "onnx-unsupported", where, got="an input of unknown rank", want="a shape",
                help="give the input a shape in the model; sizes may be symbolic",
            )  # fmt: skip
        sizes = self.open_dims.shape(i.name, t.shape.dim)
        return TensorType(dtype, sizes)

    # Declared types -------------------------------------------------------------------------

    def _check_declared(self, g: onnx.GraphProto, scope: Scope) -> None:
        """Raise ``onnx-mismatch`` if a declared type contradicts the type that is inferred."""
        for v in (*g.output, *g.value_info):
            if v.name in scope.names:
                self._check_type(v, scope.names[v.name])

    def _check_type(self, v: onnx.ValueInfoProto, entry: Entry) -> None:
        if not v.type.HasField("tensor_type") or isinstance(entry, TensorList):
            return
        t, inferred = v.type.tensor_type, entry.type
        where = f"{self.source}: {v.name}"
        dtype = dtype_of(t.elem_type, where) if t.elem_type else inferred.dtype
        sizes = inferred.shape
        if t.HasField("shape"):
            stated = [int(d.dim_value) if d.HasField("dim_value") else None for d in t.shape.dim]
            text = f"{dtype}[{', '.join('?' if d is None else str(d) for d in stated)}]"
            fits = len(stated) == len(sizes) and all(
                d is None or d < 0 or d == n or not isinstance(n, int)
                for d, n in zip(stated, sizes, strict=True)
            )
        else:
            text, fits = f"{dtype}[…]", True
        if dtype is not inferred.dtype or not fits:
            raise DidymaError(
                "onnx-mismatch", where, got=f"declared as {text}", want=str(inferred),
                help="the declared type is not the type that the nodes compute",
            )  # fmt: skip

    # Nodes ----------------------------------------------------------------------------------

    def _nodes(self, many: Iterable[onnx.NodeProto], scope: Scope) -> None:
        for n in many:
            self._node(n, scope)

    def _node(self, n: onnx.NodeProto, scope: Scope) -> None:
        label = f"node {n.op_type} {n.name}".strip()
        self.inlined += scope.depth > 0
        if self.inlined > self.most_nodes:
            raise DidymaError(
                "onnx-too-large", f"{self.source}: {label}",
                got=f"functions and bodies of more than {self.most_nodes:,} nodes",
                want="a model whose functions can be inlined",
            )  # fmt: skip
        own = _domain(n.domain)
        version = f"{own} {scope.opsets.get(own, 1)}" if own else f"opset {scope.opset}"
        where = f"{self.source}: {label} ({version})"
        c = replace(scope.context, opset=scope.opset, where=where, outputs=tuple(n.output))
        inputs = [self._entry(scope, i, label) if i else None for i in n.input]
        try:
            outputs = self._apply(c, n, inputs, scope)
        except DidymaError as e:
            if e.where != where:
                e.add_note(f"while importing {where}")
            raise
        except _MALFORMED as e:
            got = f"{type(e).__name__}: {e}"
            raise c.broken(got, "operands and attributes that the operator takes") from e
        for name, entry in zip(n.output, outputs, strict=False):
            if name and entry is not None:
                if not isinstance(entry, TensorList):
                    check_size(entry.type.dtype, self._fixed_sizes(entry.type), where)
                self._define(scope, name, entry, label)

    def _fixed_sizes(self, t: TensorType) -> tuple[int, ...]:
        """Return the sizes that are numbers; a symbolic size is checked when it is bound."""
        return tuple(d for d in t.shape if isinstance(d, int))

    def _apply(
        self, c: Context, n: onnx.NodeProto, inputs: Sequence[Entry | None], scope: Scope
    ) -> Sequence[Entry | None]:
        domain = "" if n.domain == "ai.onnx" else n.domain
        own = self.functions.get((n.domain, n.op_type, n.overload))
        if own is not None:
            return self._call(c, own, n, inputs, scope, {})
        schema = schemas.schema_of(n.op_type, scope.opsets.get(domain, 1), domain)
        if schema is None or (domain and not functions.defined(schema)):
            raise functions.refusal(c, n.op_type, domain)
        n = self._resolved(n, scope)
        schemas.check(c, n, schema)
        c = replace(c, attrs=self._attrs(c, n))
        if not domain and n.op_type in CONTROL:
            found = CONTROL[n.op_type](c, inputs, Bodies(self, scope))
            if len(found) != len(n.output):
                raise c.broken(f"{len(n.output)} results", f"{len(found)}, as its bodies give")
            return found
        if not domain and n.op_type in sequences.HANDLERS:
            return [sequences.HANDLERS[n.op_type](c, inputs)]
        if not domain and n.op_type in HANDLERS:
            tensors = [c.optional_input(inputs, i) for i in range(len(inputs))]
            outputs = import_node(c, n.op_type, tensors)
            if outputs is not None:
                return outputs
        body = functions.body(schema, n, inputs, scope.opset)
        if body is None:
            raise functions.refusal(c, n.op_type, domain)
        return self._call(c, body, n, inputs, scope, schemas.defaults(schema))

    def _attrs(self, c: Context, n: onnx.NodeProto) -> dict[str, Any]:
        attrs: dict[str, Any] = {}
        for a in n.attribute:
            value = onnx.helper.get_attribute_value(a)
            if isinstance(value, onnx.TensorProto):
                value = tensor(value, f"{c.where}, attribute {a.name}", self.folder)
            elif isinstance(value, bytes):
                value = value.decode("utf-8", "replace")
            elif a.type in (a.INTS, a.FLOATS):
                value = tuple(value)
            attrs[a.name] = value
        return attrs

    def _resolved(self, n: onnx.NodeProto, scope: Scope) -> onnx.NodeProto:
        """Return a node whose references to a function's attributes are replaced by these."""
        if not any(a.ref_attr_name for a in n.attribute):
            return n
        made = onnx.NodeProto()
        made.CopyFrom(n)
        del made.attribute[:]
        for a in n.attribute:
            if not a.ref_attr_name:
                made.attribute.append(a)
            elif a.ref_attr_name in scope.attrs:
                attribute = onnx.AttributeProto()
                attribute.CopyFrom(scope.attrs[a.ref_attr_name])
                attribute.name = a.name
                made.attribute.append(attribute)
        return made

    def _call(
        self, c: Context, f: onnx.FunctionProto, n: onnx.NodeProto,
        inputs: Sequence[Entry | None], scope: Scope, defaults: Mapping[str, onnx.AttributeProto],
    ) -> Sequence[Entry | None]:  # fmt: skip
        """Inline a function; return the values of the outputs that the node names."""
        if scope.depth >= MAX_DEPTH:
            raise c.broken(f"{MAX_DEPTH} functions within each other", "functions that end")
        given = {a.name: a for a in f.attribute_proto}
        given |= defaults
        given |= {a.name: a for a in self._resolved(n, scope).attribute}
        named = {name: i for name, i in zip(f.input, inputs, strict=False) if i is not None}
        opsets = {"": schemas.NEWEST, **scope.opsets, **_opsets(f.opset_import)}
        inner = Scope(Environment(dict(named)), scope.context, opsets, given, scope.depth + 1)
        self._nodes(_without(f.node, {x for x in f.input if x not in named}), inner)
        found = [inner.names.own.get(o) for o in f.output[: len(n.output)]]
        for o, name, item in zip(f.output, n.output, found, strict=False):
            if name and item is None:
                raise c.error(f"{o}, which the function {f.name} leaves out", "its other outputs")
        return found

    def body(self, scope: Scope, g: onnx.GraphProto, inputs: Sequence[Entry]) -> list[Entry]:
        """Import the body of a control node into a scope; return its results."""
        if scope.depth >= MAX_DEPTH:
            raise self._broken(g.name, f"{MAX_DEPTH} bodies within each other", "fewer")
        if len(g.input) != len(inputs):
            raise self._broken(
                f"the body {g.name}", f"{len(g.input)} inputs", f"{len(inputs)}, as its node gives"
            )
        for i, item in zip(g.input, inputs, strict=True):
            self._define(scope, i.name, item, f"input {i.name} of {g.name}")
        self._initializers(g, scope)
        self._nodes(g.node, scope)
        return [self._entry(scope, o.name, "output of a body") for o in g.output]


@dataclass(frozen=True, slots=True)
class Bodies:
    """Imports the bodies of one control node: see ``subgraphs.BodyImporter``."""

    importer: Importer
    scope: Scope

    def __call__(self, g: onnx.GraphProto, inputs: Sequence[Entry]) -> list[Entry]:
        """Inline a body: its nodes become nodes of the function that the control node is in."""
        names = Environment({}, self.scope.names)
        inner = replace(self.scope, names=names, depth=self.scope.depth + 1)
        return self.importer.body(inner, g, inputs)

    def inside(self, c: Context, g: onnx.GraphProto, inputs: Sequence[Entry]) -> list[Entry]:
        """Import a body into a function of its own, which a context builds.

        The values that it uses from around it become captures of that function.
        """
        inner, around = c.builder, self.scope.context

        def captured(operand: Operand) -> Operand:
            operand = around.try_fold(operand)
            return inner.capture(operand, around.builder) if isinstance(operand, Value) else operand

        def capture(entry: Entry) -> Entry:
            if isinstance(entry, TensorList):
                return TensorList(entry.dtype, tuple(map(captured, entry.items)))
            return captured(entry)

        names = Environment({}, self.scope.names, capture)
        scope = replace(self.scope, names=names, context=c, depth=self.scope.depth + 1)
        return self.importer.body(scope, g, inputs)


def _without(nodes: Iterable[onnx.NodeProto], absent: set[str]) -> Iterable[onnx.NodeProto]:
    """Yield the nodes of a function, without the operands that its call omits."""
    if not absent:
        yield from nodes
        return
    for n in nodes:
        made = onnx.NodeProto()
        made.CopyFrom(n)
        made.input[:] = ["" if i in absent else i for i in n.input]
        yield made
