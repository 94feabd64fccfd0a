"""ONNX out: modules become models, with a rule for each op and sizes computed by the model."""

from didyma.onnx.export.model import save, to_model

__all__ = ["save", "to_model"]
