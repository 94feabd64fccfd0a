"""What shape and dtype rules share: attributes read by kind, operands checked, errors worded."""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, never_negative
from didyma.refimpl.ir.types import DType, Shape, Tensor, TensorType
from didyma.refimpl.ops.spec import AttrMap


def use(op: str, types: Sequence[TensorType]) -> str:
    """Place of an error: the op applied to its operand types."""
    return f"{op}({', '.join(str(t) for t in types)})"


def shape_error(
    op: str, types: Sequence[TensorType], got: str, want: str, help: str = ""
) -> DidymaError:
    """Error for operands whose sizes do not fit together."""
    return DidymaError("shape-mismatch", use(op, types), got=got, want=want, help=help)


def attr_error(op: str, name: str, got: object, want: str, help: str = "") -> DidymaError:
    """Error for an attribute that is missing, of the wrong kind or out of range."""
    return DidymaError("bad-attr", f"{op}, {name}=", got=repr(got), want=want, help=help)


def check(
    op: str,
    types: Sequence[TensorType],
    lo: int,
    hi: int | None = None,
    dtypes: Sequence[DType] | None = None,
) -> TensorType:
    """Check the number of operands and the first one's dtype; return the first one's type.

    Errors: ``arity``, ``device-mismatch``, ``dtype-mismatch``.
    """
    hi = lo if hi is None else hi
    if not lo <= len(types) <= hi:
        want = f"{lo}" if lo == hi else f"{lo} to {hi}"
        raise DidymaError(
            "arity", use(op, types), got=f"{len(types)} operands", want=f"{want} operands"
        )
    for t in types[1:]:
        if t.device != types[0].device:
            raise DidymaError(
                "device-mismatch",
                use(op, types),
                got=f"{t.device or 'the default device'} and {types[0].device or 'the default'}",
                want="operands on one device",
            )
    if dtypes is not None and types[0].dtype not in dtypes:
        raise dtype_error(op, types, types[0].dtype, dtypes)
    return types[0]


def dtype_error(
    op: str, types: Sequence[TensorType], got: DType, allowed: Sequence[DType]
) -> DidymaError:
    """Error for an operand of a dtype the op does not take."""
    return DidymaError(
        "dtype-mismatch",
        use(op, types),
        got=str(got),
        want=", ".join(allowed),
        help="cast the operand first",
    )


def check_same_dtype(op: str, types: Sequence[TensorType]) -> None:
    """Raise ``dtype-mismatch`` unless all operands have the first one's dtype."""
    for t in types:
        if t.dtype is not types[0].dtype:
            raise dtype_error(op, types, t.dtype, (types[0].dtype,))


def get_int(op: str, attrs: AttrMap, name: str) -> int:
    """Read an int attribute; error ``bad-attr``."""
    v = attrs.get(name)
    if type(v) is int:
        return v
    raise attr_error(op, name, v, "an int")


def get_bool(op: str, attrs: AttrMap, name: str) -> bool:
    """Read a bool attribute; error ``bad-attr``."""
    v = attrs.get(name)
    if type(v) is bool:
        return v
    raise attr_error(op, name, v, "true or false")


def get_str(op: str, attrs: AttrMap, name: str, choices: Sequence[str]) -> str:
    """Read a str attribute that is one of the choices; error ``bad-attr``."""
    v = attrs.get(name)
    if type(v) is str and v in choices:
        return v
    raise attr_error(op, name, v, f"one of {', '.join(choices)}")


def get_dtype(op: str, attrs: AttrMap, name: str, choices: Sequence[DType]) -> DType:
    """Read a dtype attribute that is one of the choices; error ``bad-attr``."""
    v = attrs.get(name)
    if isinstance(v, DType) and v in choices:
        return v
    raise attr_error(op, name, v, f"one of {', '.join(choices)}")


def get_tensor(op: str, attrs: AttrMap, name: str) -> Tensor:
    """Read a tensor attribute; error ``bad-attr``."""
    v = attrs.get(name)
    if isinstance(v, Tensor):
        return v
    raise attr_error(op, name, v, "a tensor")


def get_ints(
    op: str, attrs: AttrMap, name: str, count: int | None = None, least: int | None = None
) -> tuple[int, ...]:
    """Read a tuple of ints, of a length and with a least value where given; error ``bad-attr``."""
    v = attrs.get(name)
    if isinstance(v, tuple) and (count is None or len(v) == count):
        ints = [i for i in v if type(i) is int and (least is None or i >= least)]
        if len(ints) == len(v):
            return tuple(ints)
    many = "" if count is None else f"{count} "
    at_least = "" if least is None else f" >= {least}"
    raise attr_error(op, name, v, f"a tuple of {many}ints{at_least}")


def get_dims(
    op: str, attrs: AttrMap, name: str, count: int | None = None, least: int | None = 0
) -> Shape:
    """Read a tuple of sizes: ints and expressions over dims; error ``bad-attr``."""
    v = attrs.get(name)
    if isinstance(v, tuple) and (count is None or len(v) == count):
        sizes: list[Dim] = [
            i
            for i in v
            if (type(i) is int and (least is None or i >= least)) or isinstance(i, sympy.Expr)
        ]
        if len(sizes) == len(v):
            return tuple(sizes)
    many = "" if count is None else f"{count} "
    raise attr_error(op, name, v, f"a tuple of {many}sizes, ints of at least {least}")


def get_axis(op: str, attrs: AttrMap, name: str, rank: int) -> int:
    """Read an axis in [0, rank); error ``bad-attr``."""
    axis = get_int(op, attrs, name)
    if 0 <= axis < rank:
        return axis
    raise attr_error(
        op, name, axis, f"an axis of rank {rank}, counted from 0", "negative axes are resolved"
    )


def get_axes(op: str, attrs: AttrMap, name: str, rank: int) -> tuple[int, ...]:
    """Read axes in [0, rank), strictly increasing; error ``bad-attr``."""
    axes = get_ints(op, attrs, name)
    last = -1
    for a in axes:
        if not last < a < rank:
            raise attr_error(op, name, axes, f"increasing axes in [0, {rank})")
        last = a
    return axes


def surely_nonnegative(d: Dim) -> bool:
    """Tell whether a size expression is at least 0 for all values of its symbols, as seen easily.

    >>> n = dims.symbol("n")
    >>> surely_nonnegative(n + 2), surely_nonnegative(n - 1)
    (True, False)
    """
    return d >= 0 if isinstance(d, int) else never_negative(d)


def at_least_zero(d: Dim) -> Dim:
    """``max(d, 0)``, without the max where it is not needed."""
    return d if surely_nonnegative(d) else dims.maximum(d, 0)


def at_most(d: Dim, limit: Dim) -> Dim:
    """``min(d, limit)``, without the min where it is not needed."""
    if isinstance(d, int) and isinstance(limit, int):
        return min(d, limit)
    over = dims.sub(limit, d)
    if surely_nonnegative(over):
        return d
    return limit if surely_nonnegative(dims.sub(d, limit)) else dims.minimum(d, limit)
