"""Complex numbers for tensors under tracing: a last axis of two reals, the real part first.

Named after the Python Array API standard; ``didyma.refimpl.ops.complex`` defines them.  Sums,
differences and all that works part by part are those of real tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from didyma.refimpl.ops import complex as complexes
from didyma.refimpl.ops.builder import Builder, Value
from didyma.tensor import Tensor, common, together, within


@dataclass(frozen=True, slots=True)
class Unary:
    """A function of complex numbers [..., 2]."""

    body: Callable[[Builder, Value], Value]

    def __call__(self, z: Tensor, /) -> Tensor:
        """Apply it; DidymaError ``shape-mismatch`` without a last axis of 2."""
        b = common(z)
        return Tensor(b, self.body(b, within(b, z)))


@dataclass(frozen=True, slots=True)
class Binary:
    """A function of two tensors, which are promoted to one dtype."""

    body: Callable[[Builder, Value, Value], Value]

    def __call__(self, x: Tensor, y: Tensor, /) -> Tensor:
        """Apply it; DidymaError ``shape-mismatch`` where it does not fit."""
        x, y = together(x, y)
        b = common(x, y)
        return Tensor(b, self.body(b, within(b, x), within(b, y)))


real, imag, conj = Unary(complexes.real), Unary(complexes.imag), Unary(complexes.conjugate)
abs, angle, exp = Unary(complexes.absolute), Unary(complexes.angle), Unary(complexes.exp)
pair = Binary(complexes.pair)  # of real and imaginary parts
multiply, divide = Binary(complexes.multiply), Binary(complexes.divide)
matmul = Binary(complexes.matmul)

__all__ = [
    "abs", "angle", "conj", "divide", "exp", "imag", "matmul", "multiply", "pair", "real",
]  # fmt: skip
