"""Tensors under tracing: Python functions become graphs."""
