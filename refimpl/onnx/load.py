"""Read an ONNX file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from refimpl.errors import DidymaError
from refimpl.ir.graph import Module
from refimpl.ir.types import Array
from refimpl.onnx.importer import Importer
from refimpl.verify import graph as verify


def load(path: Path) -> Module:
    """Import a model file.

    Errors: ``unreadable-file``, ``onnx-broken``, ``onnx-mismatch``, ``onnx-external-data``,
    ``onnx-too-large``, ``onnx-unsupported`` (names the node and opset), ``onnx-not-constant`` and
    those of the ops and the verifier.
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
    except (DecodeError, RecursionError):
        model = None
    if model is None or not model.HasField("graph") or not model.opset_import:
        raise DidymaError(
            "onnx-broken",
            source,
            got=f"{len(data)} bytes that are no ONNX model",
            want="a serialised ModelProto",
            help="the file may be truncated: compare its size with the original's",
        )
    return load_model(model, source, folder)


def load_model(
    model: onnx.ModelProto,
    source: str = "model",
    folder: Path | None = None,
    values: Mapping[str, Array] | None = None,
) -> Module:
    """Import a model in memory.

    ``values`` are inputs whose value is known: the module is special to them, and they are no
    parameters of it.
    """
    m = Importer(model, source, folder, values or {}).module()
    verify.verify(m)
    return m
