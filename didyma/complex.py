"""Complex numbers for tensors under tracing: a last axis of two reals, the real part first.

Named after the Python Array API standard; ``didyma.composites.complex`` defines them.  Sums,
differences and all that works part by part are those of real tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from didyma.composites import complex as complexes
from didyma.composites.builder import Value
from didyma.functions.axes import composed, promoted, shape
from didyma.functions.complex_pairs import Complex, mark, together
from didyma.functions.public import public, wrong
from didyma.functions.suggestions import refuser
from didyma.tracer.tensor import Tensor

Real: TypeAlias = Callable[[Tensor], Tensor]
Unary: TypeAlias = Callable[[Tensor], Complex]
Binary: TypeAlias = Callable[[Tensor, Tensor], Complex]

_ERRORS = "Errors: ``shape-mismatch`` without a last axis of 2."


def _named(f: Callable[..., Tensor], name: str, doc: str) -> None:
    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"{doc}\n\nExample: ``dd.complex.{name}(z)``.  {_ERRORS}"


def _real(body: Callable[..., Value], name: str, doc: str) -> Real:
    def f(z: Tensor, /) -> Tensor:
        return composed(body, z)

    _named(f, name, doc)
    return public(f)


def _unary(body: Callable[..., Value], name: str, doc: str) -> Unary:
    def f(z: Tensor, /) -> Complex:
        return mark(composed(body, z))

    _named(f, name, doc)
    return public(f)


def _binary(body: Callable[..., Value], name: str, doc: str) -> Binary:
    def f(x: Tensor, y: Tensor, /) -> Complex:
        return together(body, x, y)

    _named(f, name, doc)
    f.__doc__ = f"{doc}\n\nExample: ``dd.complex.{name}(x, y)``.  {_ERRORS}"
    return public(f)


real = _real(complexes.real, "real", "Real parts [...] of complex numbers [..., 2].")
imag = _real(complexes.imag, "imag", "Imaginary parts [...] of complex numbers [..., 2].")
abs = _real(complexes.absolute, "abs", "Sizes [...] of complex numbers [..., 2].")
angle = _real(complexes.angle, "angle", "Angles [...] of complex numbers [..., 2].")
conj = _unary(complexes.conjugate, "conj", "Complex numbers with the imaginary part negated.")
exp = _unary(complexes.exp, "exp", "Exponentials of complex numbers [..., 2].")
multiply = _binary(complexes.multiply, "multiply", "Products of complex numbers [..., 2].")
divide = _binary(complexes.divide, "divide", "Quotients of complex numbers [..., 2].")
matmul = _binary(complexes.matmul, "matmul", "Matrix products of complex numbers [..., m, n, 2].")


@public
def pair(re: Tensor, im: Tensor, /) -> Complex:
    """Complex numbers [..., 2] of real and imaginary parts [...], promoted.

    Example: ``dd.complex.pair(re, im)``.  Errors: ``shape-mismatch``, ``dtype-mismatch``.
    """
    return mark(composed(complexes.pair, *promoted([re, im])))


@public
def view(x: Tensor, /) -> Complex:
    """Take a tensor [..., 2] of pairs of reals, such as a parameter, for complex numbers.

    Functions of real numbers then refuse it, and ``*``, ``/``, ``@`` and ``abs`` are complex.
    Example: ``z = dd.complex.view(x)``.  Errors: ``bad-call``.
    """
    if shape(x)[-1:] != (2,) or not x.value.type.dtype.is_float:
        raise wrong("dd.complex.view", str(x.value.type), "floats with a last axis of 2")
    return mark(x)


@public
def parts(z: Tensor, /) -> Tensor:
    """Pairs of reals [..., 2] of complex numbers, as a plain tensor.

    Example: ``dd.abs(dd.complex.parts(z))``.
    """
    return Tensor(z.builder, z.value)


__all__ = [
    "Complex", "abs", "angle", "conj", "divide", "exp", "imag", "matmul", "multiply", "pair",
    "parts", "real", "view",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = refuser("dd.complex", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
