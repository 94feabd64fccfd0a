"""Read an ONNX file and walk its graph."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from refimpl.errors import DidymaError
from refimpl.ir import dims
from refimpl.ir.dims import Dim, DimVar
from refimpl.ir.graph import Module
from refimpl.ir.types import Array, DType, TensorType
from refimpl.onnx.values import Item, Known, as_value
from refimpl.ops.builder import Builder
from refimpl.verify import graph as verify

MAX_DIM = 1 << 20  # upper end of a symbolic size that a model does not bound
MAX_BYTES = 1 << 36  # a model that declares a larger tensor is refused before anything is made

_DTYPES: dict[int, DType] = {
    onnx.TensorProto.DOUBLE: DType.F64,
    onnx.TensorProto.FLOAT: DType.F32,
    onnx.TensorProto.FLOAT16: DType.F16,
    onnx.TensorProto.BFLOAT16: DType.BF16,
    onnx.TensorProto.INT8: DType.I8,
    onnx.TensorProto.INT16: DType.I16,
    onnx.TensorProto.INT32: DType.I32,
    onnx.TensorProto.INT64: DType.I64,
    onnx.TensorProto.UINT8: DType.U8,
    onnx.TensorProto.UINT16: DType.U16,
    onnx.TensorProto.UINT32: DType.U32,
    onnx.TensorProto.UINT64: DType.U64,
    onnx.TensorProto.BOOL: DType.BOOL,
}


@dataclass(slots=True)
class Context:
    """What a node's importer may use: the builder, the opset, where we are."""

    builder: Builder
    opset: int
    where: str = ""
    outputs: tuple[str, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])
    dims: dict[str, DimVar] = field(default_factory=dict[str, DimVar])

    def bounds(self, d: Dim) -> tuple[int, int]:
        """Smallest and largest value of a size."""
        return dims.bounds(d, {v.name: (v.lo, v.hi) for v in self.dims.values()})

    def bad(self, got: str, want: str, help: str = "") -> DidymaError:
        """Return an error that names the node."""
        return DidymaError("onnx-unsupported", self.where, got=got, want=want, help=help)


def dtype_of(code: int, where: str) -> DType:
    """Return the dtype of an ONNX type code; DidymaError ``onnx-unsupported`` if there is none."""
    if code not in _DTYPES:
        name = onnx.TensorProto.DataType.Name(code) if code in _codes() else str(code)
        known = ", ".join(DType)
        raise DidymaError("onnx-unsupported", where, got=f"element type {name}", want=known)
    return _DTYPES[code]


def _codes() -> tuple[int, ...]:
    return tuple(onnx.TensorProto.DataType.values())


def load(path: Path) -> Module:
    """Import a model file.

    Errors: ``unreadable-file``, ``onnx-broken``, ``onnx-external-data``, ``onnx-unsupported``
    (names the node and opset), ``onnx-not-constant`` and those of the verifier.
    """
    try:
        data = path.read_bytes()
    except OSError as e:
        raise DidymaError("unreadable-file", str(path), got=str(e), want="an ONNX model") from None
    return load_bytes(data, str(path), path.parent)


def load_bytes(data: bytes, source: str, folder: Path | None = None) -> Module:
    """Import a serialised model; external data is read from ``folder`` alone."""
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        model = None
    if model is None or not model.HasField("graph") or not model.opset_import:
        raise DidymaError(
            "onnx-broken",
            source,
            got=f"{len(data)} bytes that are no ONNX model",
            want="a serialised ModelProto",
            help="the file may be truncated: compare its size with the original's",
        )
    _refuse_escape(model, source, folder)
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    return _Importer(model, opset, source, folder).module()


def _refuse_escape(model: onnx.ModelProto, source: str, folder: Path | None) -> None:
    for t in model.graph.initializer:
        if t.data_location != onnx.TensorProto.EXTERNAL:
            continue
        location = next((e.value for e in t.external_data if e.key == "location"), "")
        inside = folder is not None and _inside(folder / location, folder)
        if not inside or not location:
            raise DidymaError(
                "onnx-external-data",
                f"{source}: initializer {t.name}",
                got=f"data in {location!r}",
                want="a file in the model's own folder",
            )


def _inside(path: Path, folder: Path) -> bool:
    real, root = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath([real, root]) == root


class _Importer:
    def __init__(
        self, model: onnx.ModelProto, opset: int, source: str, folder: Path | None
    ) -> None:
        self.graph = model.graph
        self.source = source
        self.folder = folder
        self.builder = Builder()
        self.context = Context(self.builder, opset)
        self.items: dict[str, Item] = {}
        self.dims = self.context.dims

    def array(self, t: onnx.TensorProto, where: str) -> Known:
        dtype = dtype_of(t.data_type, where)
        count = int(np.prod([max(d, 0) for d in t.dims], dtype=object))
        if count * dtype.nbytes > MAX_BYTES or any(d < 0 for d in t.dims):
            raise DidymaError(
                "onnx-broken", where, got=f"a tensor of shape {list(t.dims)}", want="a real size"
            )
        try:
            a = numpy_helper.to_array(t, base_dir=str(self.folder or ""))
        except (ValueError, TypeError, OSError, onnx.checker.ValidationError) as e:
            raise DidymaError(
                "onnx-broken", where, got=str(e), want=f"{count} elements of {dtype}"
            ) from None
        return Known(np.asarray(a, dtype.numpy, order="C"), dtype)

    def symbol(self, name: str) -> Dim:
        clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "d"
        clean = clean if not clean[0].isdigit() else f"d{clean}"
        self.dims.setdefault(clean, DimVar(clean, 1, MAX_DIM))
        return dims.symbol(clean)

    def inputs(self) -> None:
        for i in self.graph.input:
            where = f"{self.source}: input {i.name}"
            if i.name in self.items:
                continue
            if not i.type.HasField("tensor_type"):
                raise DidymaError(
                    "onnx-unsupported", where, got=i.type.WhichOneof("value") or "no type",
                    want="a tensor",
                )  # fmt: skip
            t = i.type.tensor_type
            if not t.HasField("shape"):
                raise DidymaError(
                    "onnx-unsupported", where, got="an input of unknown rank", want="a shape",
                    help="give the input a shape in the model; sizes may be symbolic",
                )  # fmt: skip
            shape = tuple(self.dim(d, i.name, k) for k, d in enumerate(t.shape.dim))
            type = TensorType(dtype_of(t.elem_type, where), shape)
            self.items[i.name] = self.builder.param(i.name, type)

    def dim(self, d: Any, name: str, axis: int) -> Dim:
        if d.HasField("dim_value"):
            if d.dim_value < 0:
                return self.symbol(f"{name}_{axis}")
            return int(d.dim_value)
        return self.symbol(d.dim_param or f"{name}_{axis}")

    def module(self) -> Module:
        from refimpl.onnx.nodes import import_node

        for t in self.graph.initializer:
            self.items[t.name] = self.array(t, f"{self.source}: initializer {t.name}")
        if self.graph.sparse_initializer:
            raise DidymaError(
                "onnx-unsupported", self.source, got="sparse initializers", want="dense ones"
            )
        self.inputs()
        for n in self.graph.node:
            self.node(n, import_node)
        results = [as_value(self.builder, self.item(o.name, "output")) for o in self.graph.output]
        main = self.builder.function("main", results)
        used = set(dims.free(d for p in main.params for d in p.type.shape))
        m = Module((main,), tuple(v for v in self.dims.values() if v.name in used))
        verify.verify(m)
        return m

    def item(self, name: str, where: str) -> Item:
        if name not in self.items:
            raise DidymaError(
                "onnx-broken",
                f"{self.source}: {where}",
                got=f"the value {name!r}, which nothing before it defines",
                want="nodes in order, each value defined once",
            )
        return self.items[name]

    def node(self, n: onnx.NodeProto, run: Any) -> None:
        label = f"{n.op_type} {n.name}".strip()
        c = self.context
        c.where = f"{self.source}: node {label} (opset {c.opset})"
        c.outputs = tuple(n.output)
        c.attrs = self.attrs(n)
        if n.domain not in ("", "ai.onnx"):
            raise c.bad(f"the operator {n.domain}::{n.op_type}", "an operator of ai.onnx")
        inputs = [self.item(i, label) if i else None for i in n.input]
        try:
            outputs = run(c, n.op_type, inputs)
        except DidymaError as e:
            if e.where != c.where:
                e.add_note(f"while importing {c.where}")
            raise
        for name, item in zip(n.output, outputs, strict=False):
            if name in self.items:
                raise DidymaError(
                    "onnx-broken", c.where, got=f"a second definition of {name!r}", want="one"
                )
            if name:
                self.items[name] = item

    def attrs(self, n: onnx.NodeProto) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for a in n.attribute:
            value = onnx.helper.get_attribute_value(a)
            if isinstance(value, onnx.TensorProto):
                value = self.array(value, f"{self.context.where}, attribute {a.name}")
            elif isinstance(value, bytes):
                value = value.decode("utf-8", "replace")
            elif a.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS):
                value = tuple(value)
            found[a.name] = value
        return found


def concrete(item: Item) -> Array | None:
    """Return the numbers of a known tensor, or None."""
    return item.array if isinstance(item, Known) and item.array.dtype != object else None
