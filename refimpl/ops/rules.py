"""Checks that the shape and dtype rules of ops share, and the errors that they raise."""

from __future__ import annotations

from collections.abc import Sequence

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, never_negative
from didyma.refimpl.ir.types import DType, Shape, TensorType


def call_text(op: str, types: Sequence[TensorType]) -> str:
    """Return an op applied to operand types, as errors show it: ``add(f32[2], f32[3])``."""
    return f"{op}({', '.join(str(t) for t in types)})"


class ShapeMismatch(DidymaError):
    """Operands' sizes do not fit together; ``sizes`` are two that should be equal, if any."""

    sizes: tuple[Dim, Dim] | None = None


def shape_error(
    op: str, types: Sequence[TensorType], got: str, want: str, help: str = ""
) -> DidymaError:
    """Return the error for operands whose sizes do not fit together."""
    return ShapeMismatch("shape-mismatch", call_text(op, types), got=got, want=want, help=help)


def unequal_sizes(
    where: str, a: Dim, b: Dim, axis: int, want: str = "sizes that are equal"
) -> ShapeMismatch:
    """Return the error for two sizes of an axis that should be equal."""
    got = f"sizes {dims.text(a)} and {dims.text(b)} on axis {axis}"
    e = ShapeMismatch("shape-mismatch", where, got=got, want=want)
    e.sizes = a, b
    return e


def attr_error(op: str, name: str, got: object, want: str, help: str = "") -> DidymaError:
    """Return the error for an attribute that is missing, of the wrong kind or out of range."""
    return DidymaError("bad-attr", f"{op}, {name}=", got=repr(got), want=want, help=help)


def check(
    op: str, types: Sequence[TensorType], arity: tuple[int, int], dtypes: Sequence[DType]
) -> None:
    """Check the number of operands, their devices and the first one's dtype.

    Errors: ``arity``, ``device-mismatch``, ``dtype-mismatch``.
    """
    lo, hi = arity
    if not lo <= len(types) <= hi:
        want = f"{lo}" if lo == hi else f"{lo} to {hi}"
        raise DidymaError(
            "arity", call_text(op, types), got=f"{len(types)} operands", want=f"{want} operands"
        )
    for t in types[1:]:
        if t.device != types[0].device:
            raise DidymaError(
                "device-mismatch",
                call_text(op, types),
                got=f"{t.device or 'the default device'} and {types[0].device or 'the default'}",
                want="operands on one device",
            )
    if types and types[0].dtype not in dtypes:
        raise dtype_error(op, types, types[0].dtype, dtypes)


def dtype_error(
    op: str, types: Sequence[TensorType], got: DType, allowed: Sequence[DType]
) -> DidymaError:
    """Return the error for an operand of a dtype that the op does not take."""
    return DidymaError(
        "dtype-mismatch",
        call_text(op, types),
        got=str(got),
        want=", ".join(allowed),
        help="cast the operand first",
    )


def check_same_dtype(op: str, types: Sequence[TensorType]) -> None:
    """Raise ``dtype-mismatch`` unless all operands have the first one's dtype."""
    for t in types:
        if t.dtype is not types[0].dtype:
            raise dtype_error(op, types, t.dtype, (types[0].dtype,))


def check_axis(op: str, axis: int, rank: int) -> None:
    """Raise ``bad-attr`` unless an attribute ``axis`` is in [0, rank)."""
    if not 0 <= axis < rank:
        want = f"an axis of rank {rank}, counted from 0"
        raise attr_error(op, "axis", axis, want, "write a negative axis as axis + rank")


def check_axes(op: str, axes: tuple[int, ...], rank: int) -> None:
    """Raise ``bad-attr`` unless an attribute ``axes`` is strictly increasing in [0, rank)."""
    last = -1
    for a in axes:
        if not last < a < rank:
            raise attr_error(op, "axes", axes, f"increasing axes in [0, {rank})")
        last = a


def check_lengths(op: str, length: int, **values: Shape) -> None:
    """Raise ``bad-attr`` unless each attribute has ``length`` numbers."""
    for name, v in values.items():
        if len(v) != length:
            raise attr_error(op, name, v, f"{length} numbers")


def concrete(shape: Shape) -> tuple[int, ...]:
    """Return sizes without symbols as ints."""
    return tuple(int(d) for d in shape)


def at_least_zero(d: Dim) -> Dim:
    """Return ``max(d, 0)``, without the max where it is not needed."""
    return d if never_negative(d) else dims.maximum(d, 0)


def at_most(d: Dim, limit: Dim) -> Dim:
    """Return ``min(d, limit)``, without the min where it is not needed."""
    if isinstance(d, int) and isinstance(limit, int):
        return min(d, limit)
    over = dims.sub(limit, d)
    if never_negative(over):
        return d
    return limit if never_negative(dims.sub(d, limit)) else dims.minimum(d, limit)
