"""The exporter: modules become ONNX models, which compute symbolic sizes themselves."""

from didyma.onnx.export.model import save, to_model

__all__ = ["save", "to_model"]
