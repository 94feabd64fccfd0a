"""The exporter: modules become ONNX models, which compute symbolic sizes themselves."""

from didyma.onnx.export.model import to_model

__all__ = ["to_model"]
