"""Read an ONNX file."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import onnx
import sympy
from google.protobuf.message import DecodeError

from didyma.onnx.importer import Importer
from didyma.onnx.open_dims import Symbols, expression
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify import graph as verify

# Sizes that a model leaves open: the widest range first; then smaller ones, where tensors would be
# too large; then multiples of 32, for networks whose layers halve images and double them again.
RANGES = (
    Symbols(1 << 20), Symbols(1 << 14), Symbols(1 << 11), Symbols(1 << 9),
    Symbols(1 << 6, 32), Symbols(1 << 4, 32),
)  # fmt: skip

MOST_ALIKE = 16  # sizes that are taken to be another's
_UNEQUAL = re.compile(r"sizes (.+) and (.+) on axis")


def load(path: Path, sizes: Mapping[str, int] | None = None) -> Module:
    """Import a model file; ``sizes`` are numbers for sizes that the model leaves open.

    Errors: ``unreadable-file``, ``onnx-broken``, ``onnx-mismatch``, ``onnx-external-data``,
    ``onnx-too-large``, ``onnx-unsupported`` (names the node and opset), ``onnx-not-constant`` and
    those of the ops and the verifier.
    """
    try:
        data = path.read_bytes()
    except OSError as e:
        raise DidymaError("unreadable-file", str(path), got=str(e), want="an ONNX model") from None
    return load_bytes(data, str(path), path.parent, sizes)


def load_bytes(
    data: bytes, source: str, folder: Path | None = None, sizes: Mapping[str, int] | None = None
) -> Module:
    """Import a serialised model; external data is read from ``folder`` alone."""
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

    ``values`` are inputs whose value is known: the module is special to them, and they are no
    parameters of it.
    """
    first: DidymaError | None = None
    for symbols in RANGES:
        try:
            return _alike(model, source, folder, values or {}, replace(symbols, fixed=sizes or {}))
        except DidymaError as e:
            if e.code != "D-too-large" and not (e.code == "shape-mismatch" and _open(model)):
                raise
            first = first or e
    assert first is not None
    raise first


def _alike(
    model: onnx.ModelProto, source: str, folder: Path | None, values: Mapping[str, Array],
    symbols: Symbols,
) -> Module:  # fmt: skip
    """Import a model; where two of its sizes must be equal, for sizes that are."""
    first: DidymaError | None = None
    while True:
        importer = Importer(model, source, folder, values, symbols)
        try:
            m = importer.module()
            verify.verify(m)
            return m
        except DidymaError as e:
            first = first or e
            open_sizes = e.code in ("shape-mismatch", "onnx-not-constant")
            if open_sizes and importer.opens.bound and not symbols.eager:
                symbols = replace(symbols, eager=True)
                continue
            # sizes of inputs alone can be taken for each other: others are bound where they are
            pair = _solved(e.got, importer.opens.names) if e.code == "shape-mismatch" else None
            if pair is None or len(symbols.same) >= MOST_ALIKE:
                if e.code == "shape-mismatch" and not symbols.held:
                    symbols = replace(symbols, held=True)
                    continue
                raise first if symbols.eager or e.code == "shape-mismatch" else e from None
            gone, kept = pair
            table = {k: dims.substitute(d, {gone: kept}) for k, d in symbols.same.items()}
            symbols = replace(symbols, same={**table, gone: kept})


def _solved(mismatch: str, names: Collection[str]) -> tuple[str, Dim] | None:
    """Return a name and the size that it must be, if it is to equal a number or other inputs'."""
    pair = _UNEQUAL.match(mismatch)
    both = [expression(word) for word in pair.groups()] if pair is not None else []
    for gone, kept in ((d, other) for d in reversed(both) for other in both if other is not d):
        if isinstance(gone, sympy.Symbol) and kept is not None:
            free = dims.free(kept)
            if gone.name in names and gone.name not in free and {*free} <= {*names}:
                return gone.name, kept
    return None


def _open(model: onnx.ModelProto) -> bool:
    """Tell whether the model leaves sizes open."""
    dims = (d for i in model.graph.input for d in i.type.tensor_type.shape.dim)
    return any(d.dim_value <= 0 for d in dims)
