"""ONNX models as modules, and modules as ONNX models (``didyma.onnx.export``)."""

from didyma.onnx.load import load, load_bytes

__all__ = ["load", "load_bytes"]
