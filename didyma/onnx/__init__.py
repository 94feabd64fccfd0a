"""ONNX in: models become modules, with integer tensors that are known at import specialised."""

from didyma.onnx.load import load, load_bytes

__all__ = ["load", "load_bytes"]
