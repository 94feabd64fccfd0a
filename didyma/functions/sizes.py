"""Sizes that the elements of a tensor tell."""

from __future__ import annotations

from didyma.functions.public import public
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.types import DType
from didyma.tracer.tensor import Tensor, common, within
from didyma.tracer.types import Size, size


@public
def item(x: Tensor, /, *, least: int = 0, most: int, by: int = 1, name: str = "s") -> Size:
    """The value of a tensor with one integer or bool, as a size, for shapes and slices.

    A bool is 0 or 1.  The value is read where the program runs, and must be ``by`` times a size
    from ``least`` to ``most``, or the call is refused with ``dim-out-of-range``: a value that is no
    multiple of ``by`` counts as -1.  The size that is returned is the value divided by ``by``; in
    programs it has the ``name``, or one like it.

    Errors: ``bad-operand`` for another dtype, ``shape-mismatch`` for another number of elements,
    ``bad-range``.

    >>> import numpy as np
    >>> import didyma as dd
    >>> @dd.trace(dd.i64[()])
    ... def f(count: dd.Tensor) -> dd.Tensor:
    ...     return dd.zeros((dd.item(count, most=8), 2))
    >>> dd.compile(f)(np.int64(3)).shape
    (3, 2)
    """
    b = common(x)
    v = within(b, x)
    where = f"item({v.type})"
    if not (v.type.dtype is DType.BOOL or v.type.dtype.is_int):
        raise DidymaError("bad-operand", where, got=str(v.type.dtype), want="an integer or a bool")
    if any(d != 1 for d in v.type.shape):
        raise DidymaError("shape-mismatch", where, got=str(v.type), want="one element")
    if not (0 <= least <= most and by >= 1):
        raise DidymaError(
            "bad-range", where, got=f"{least} to {most}, by {by}",
            want="0 <= least <= most and by >= 1",
        )  # fmt: skip
    count = b("cast", (b("reshape", (v,), shape=()),), dtype=DType.I64)
    if by > 1:
        divisor = b.scalar(by, DType.I64)
        quotient = b("floor_divide", (count, divisor))
        whole = b("equal", (b("multiply", (quotient, divisor)), count))
        count = b("where", (whole, quotient, b.scalar(-1, DType.I64)))
    found = b.bind(count, most, name, least)
    names = (DimVar(str(found), least, most),)
    return size(found) if isinstance(found, int) else Size(found, names)


__all__ = ["item"]
