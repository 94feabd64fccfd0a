"""Elementwise operators that are the same in ONNX and in Didyma, under two names."""

from __future__ import annotations

from collections.abc import Mapping

OPS: Mapping[str, str] = {  # Didyma's name of each ONNX operator
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Add": "add", "And": "logical_and",
    "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh",
    "BitwiseAnd": "bitwise_and", "BitwiseNot": "bitwise_invert", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor", "Ceil": "ceil", "Cos": "cos", "Cosh": "cosh", "Equal": "equal",
    "Erf": "erf", "Exp": "exp", "Floor": "floor", "Greater": "greater",
    "GreaterOrEqual": "greater_equal", "IsNaN": "isnan", "Less": "less",
    "LessOrEqual": "less_equal", "Log": "log", "Mul": "multiply", "Neg": "negative",
    "Not": "logical_not", "Or": "logical_or", "Reciprocal": "reciprocal", "Round": "round",
    "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Sub": "subtract", "Tan": "tan",
    "Tanh": "tanh", "Where": "where", "Xor": "logical_xor",
}  # fmt: skip
