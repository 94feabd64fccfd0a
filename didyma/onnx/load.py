"""Import ONNX files, with the assumptions about open sizes under which an import succeeds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import onnx
import sympy
from google.protobuf.message import DecodeError

from didyma.onnx.importer import Importer
from didyma.onnx.open_dims import Assumptions, OpenDims
from didyma.refimpl.errors import DidymaError, reason
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ops.rules import ShapeMismatch
from didyma.refimpl.verify import graph as verify

# Ranges of the sizes that a model leaves open.  The widest is tried first; smaller ones if tensors
# would be too large; then multiples of 32, for networks whose layers halve and double images.
RANGES = (
    Assumptions(1 << 20), Assumptions(1 << 14), Assumptions(1 << 11), Assumptions(1 << 9),
    Assumptions(1 << 6, 32), Assumptions(1 << 4, 32),
)  # fmt: skip

MOST_EQUATIONS = 16  # symbols that are taken to be equal to other sizes


def load(path: Path, sizes: Mapping[str, int] | None = None) -> Module:
    """Import a model file, with numbers in ``sizes`` for some of the sizes that it leaves open.

    Errors: ``unreadable-file``, ``onnx-broken``, ``onnx-mismatch``, ``onnx-external-data``,
    ``onnx-too-large``, ``onnx-unsupported`` (names the node and opset), ``onnx-not-constant`` and
    those of the ops and the verifier.
    """
    try:
        data = path.read_bytes()
    except OSError as e:
        got, want = reason(e), "an ONNX model"
        raise DidymaError("unreadable-file", str(path), got=got, want=want) from None
    return load_bytes(data, str(path), path.parent, sizes)


def load_bytes(
    data: bytes, source: str, folder: Path | None = None, sizes: Mapping[str, int] | None = None
) -> Module:
    """Import a serialised model, whose external data may lie in ``folder`` only."""
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, RecursionError):
        model = None
    if model is not None and model.HasField("graph") and not model.opset_import:
        raise DidymaError(
            "onnx-broken", source, got="no opset_import",
            want="the version of the operator set that the model is written in",
        )  # fmt: skip
    if model is None or not model.HasField("graph"):
        raise DidymaError(
            "onnx-broken",
            source,
            got=f"{len(data)} bytes that are no ONNX model",
            want="a serialised ModelProto",
            help="the file may be truncated: compare its size with the original's",
        )
    return load_model(model, source, folder, None, sizes)


def load_model(
    model: onnx.ModelProto,
    source: str = "model",
    folder: Path | None = None,
    values: Mapping[str, Array] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Module:
    """Import a model in memory.

    ``values`` are values of inputs: the module is specialised to them, and does not have these
    inputs as parameters.  ``sizes`` are numbers for sizes that the model leaves open.
    """
    first: DidymaError | None = None
    for ranges in RANGES:
        try:
            return _imported(
                model, source, folder, values or {}, replace(ranges, fixed=sizes or {})
            )
        except DidymaError as e:
            may_fit = e.code == "shape-mismatch" and _has_open_sizes(model)
            if e.code != "D-too-large" and not may_fit:
                raise
            first = first or e
    assert first is not None
    raise first


def _imported(
    model: onnx.ModelProto, source: str, folder: Path | None, values: Mapping[str, Array],
    assumptions: Assumptions,
) -> Module:  # fmt: skip
    """Import a model, under more assumptions after each failure that they may avoid."""
    first: DidymaError | None = None
    while True:
        importer = Importer(model, source, folder, values, assumptions)
        try:
            m = importer.module()
            verify.verify(m)
            return m
        except DidymaError as e:
            first = first or e
            more = _assume_more(e, importer.open_dims, assumptions)
            if more is None:
                decisive = assumptions.bind_early or e.code == "shape-mismatch"
                raise first if decisive else e from None
            assumptions = more


def _assume_more(
    e: DidymaError, open_dims: OpenDims, assumptions: Assumptions
) -> Assumptions | None:
    """Return assumptions under which an import that failed may succeed; None if there are none.

    Data-dependent integers are bound early; then sizes of inputs are equated; then data-dependent
    sizes are compared at run time.
    """
    if e.code not in ("shape-mismatch", "onnx-not-constant"):
        return None
    if open_dims.has_data_dependent and not assumptions.bind_early:
        return replace(assumptions, bind_early=True)
    if e.code != "shape-mismatch":
        return None
    equation = None
    if isinstance(e, ShapeMismatch) and e.sizes and len(assumptions.equal) < MOST_EQUATIONS:
        equation = _solved(*e.sizes, open_dims.names)
    if equation is None:
        return None if assumptions.runtime_checks else replace(assumptions, runtime_checks=True)
    name, size = equation
    equal = {s: dims.substitute(d, {name: size}) for s, d in assumptions.equal.items()}
    return replace(assumptions, equal={**equal, name: size})


def _solved(a: Dim, b: Dim, names: Collection[str]) -> tuple[str, Dim] | None:
    """Return a symbol of the inputs and what it must be for two sizes to be equal, if possible."""
    for s, other in ((b, a), (a, b)):
        if isinstance(s, sympy.Symbol):
            free = dims.free(other)
            if s.name in names and s.name not in free and {*free} <= {*names}:
                return s.name, other
    return None


def _has_open_sizes(model: onnx.ModelProto) -> bool:
    """Return whether an input of the model has a size that is not a number."""
    sizes = (d for i in model.graph.input for d in i.type.tensor_type.shape.dim)
    return any(d.dim_value <= 0 for d in sizes)
