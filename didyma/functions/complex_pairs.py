"""Tensors known to hold complex numbers: pairs of reals along a last axis of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from didyma.composites import complex as complexes
from didyma.composites.builder import Value
from didyma.refimpl.errors import DidymaError
from didyma.tracer.tensor import Tensor, apply, common, promote, within


class Complex(Tensor):
    """Complex numbers that ``dd.complex`` and ``dd.fft`` made; products and sizes are theirs.

    Functions that only move elements give plain pairs; those of real numbers refuse them.
    """

    __slots__ = ()

    def __add__(self, other: Any) -> Complex:
        return _parted("add", self, other)

    def __radd__(self, other: Any) -> Complex:
        return _parted("add", other, self)

    def __sub__(self, other: Any) -> Complex:
        return _parted("subtract", self, other)

    def __rsub__(self, other: Any) -> Complex:
        return _parted("subtract", other, self)

    def __mul__(self, other: Any) -> Complex:
        return _scaled("multiply", self, other, complexes.multiply)

    def __rmul__(self, other: Any) -> Complex:
        return _scaled("multiply", self, other, complexes.multiply)

    def __truediv__(self, other: Any) -> Complex:
        return _scaled("divide", self, other, complexes.divide)

    def __rtruediv__(self, other: Any) -> NoReturn:
        raise refusal("a quotient by complex numbers", "dd.complex.divide(a, z)")

    def __matmul__(self, other: Any) -> Complex:
        if isinstance(other, Complex):
            return together(complexes.matmul, self, other)
        raise refusal("a product of complex and real matrices", "dd.complex.matmul(z, w)")

    def __rmatmul__(self, other: Any) -> NoReturn:
        raise refusal("a product of real and complex matrices", "dd.complex.matmul(z, w)")

    def __pow__(self, other: Any) -> NoReturn:
        raise refusal("a power of complex numbers", "dd.complex.exp, dd.complex.multiply")

    __rpow__ = __pow__

    def __neg__(self) -> Complex:
        return mark(apply("negative", self))

    def __abs__(self) -> Tensor:
        b = common(self)
        return Tensor(b, complexes.absolute(b, within(b, self)))


def mark(x: Tensor) -> Complex:
    """Return a tensor of pairs as complex numbers."""
    return Complex(x.builder, x.value)


def refusal(got: str, help: str) -> DidymaError:
    """Error for complex numbers where a function or operator takes real ones."""
    return DidymaError(
        "complex-operand", "an operand", got=got, want="a function of complex numbers",
        help=f"{help}; dd.complex.parts(z) gives the pairs of reals",
    )  # fmt: skip


def together(body: Callable[..., Value], x: Tensor, y: Tensor) -> Complex:
    """Apply a function of complex numbers, promoted to one dtype."""
    dtype = promote(x.value.type.dtype, y.value.type.dtype)
    b = common(x, y)
    values = [within(b, t.astype(dtype)) for t in (x, y)]
    return Complex(b, body(b, *values))


def _parted(op: str, x: Any, y: Any) -> Complex:
    """Apply a sum, which works part by part; a number would be added to both parts."""
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        dtype = promote(x.value.type.dtype, y.value.type.dtype)
        return mark(apply(op, x.astype(dtype), y.astype(dtype)))
    raise refusal(
        "a sum of complex numbers and a real one, which would be added to both parts",
        "dd.complex.pair(re, im) makes a term",
    )


def _scaled(op: str, z: Complex, by: Any, body: Callable[..., Value]) -> Complex:
    if isinstance(by, Complex):
        return together(body, z, by)
    plain = isinstance(by, (int, float)) and not isinstance(by, bool)
    lone = isinstance(by, Tensor) and by.value.type.shape[-1:] in ((), (1,))
    if not (plain or lone):
        raise refusal(
            f"{op} of complex numbers and a tensor of real ones",
            "give real factors a last axis of size 1",
        )
    real = Tensor(z.builder, z.value)
    return mark(real * by if op == "multiply" else real / by)
