"""Tensors under tracing: Python's operators become nodes of a graph.

Operands follow the promotion rules of the Python Array API standard.  Tensors, NumPy arrays and
NumPy scalars are promoted to a common dtype; a Python number takes the dtype of the tensor.  Where
the standard leaves the result open, a bool beside a tensor of numbers counts as 0 or 1, as in
NumPy 2, and integers beside floats are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, TypeGuard

import numpy as np

from didyma.composites.builder import Builder, Value
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.types import FLOATS, SIGNED, UNSIGNED, Array, DType
from didyma.tracer.arrays import as_array
from didyma.tracer.methods import Methods
from didyma.tracer.numpy_protocol import NumpyProtocol
from didyma.tracer.refusals import Refusals, refuse_operand
from didyma.tracer.types import Size


class Tensor(Methods, NumpyProtocol, Refusals):
    """A value of the function being traced; the standard's operators and promotion apply."""

    __slots__ = ()

    def __getitem__(self, key: object) -> Tensor:
        from didyma.tracer.indexing import index

        return index(self, key)

    def __len__(self) -> int:
        return self._first_size("len(x)")

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(self._first_size("for row in x")))

    def _first_size(self, where: str) -> int:
        if not self.ndim:
            raise DidymaError("bad-size", where, got=f"{self!r}, a scalar", want="rank 1 or more")
        n = self.shape[0]
        if not isinstance(n, int):
            raise DidymaError(
                "bad-size", where, got=f"{self!r}, whose first size is symbolic",
                want="a first size that is known",
                help="dd.scan loops over rows, x.shape[0] counts",
            )  # fmt: skip
        return n

    def __add__(self, other: Operand) -> Tensor:
        return binary("add", self, other)

    def __radd__(self, other: Operand) -> Tensor:
        return binary("add", other, self)

    def __sub__(self, other: Operand) -> Tensor:
        return binary("subtract", self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        return binary("subtract", other, self)

    def __mul__(self, other: Operand) -> Tensor:
        return binary("multiply", self, other)

    def __rmul__(self, other: Operand) -> Tensor:
        return binary("multiply", other, self)

    def __truediv__(self, other: Operand) -> Tensor:
        return binary("divide", self, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return binary("divide", other, self)

    def __floordiv__(self, other: Operand) -> Tensor:
        return binary("floor_divide", self, other)

    def __rfloordiv__(self, other: Operand) -> Tensor:
        return binary("floor_divide", other, self)

    def __mod__(self, other: Operand) -> Tensor:
        return binary("remainder", self, other)

    def __rmod__(self, other: Operand) -> Tensor:
        return binary("remainder", other, self)

    def __pow__(self, other: Operand) -> Tensor:
        return binary("pow", self, other)

    def __rpow__(self, other: Operand) -> Tensor:
        return binary("pow", other, self)

    def __lshift__(self, other: Operand) -> Tensor:
        return binary("bitwise_left_shift", self, other)

    def __rlshift__(self, other: Operand) -> Tensor:
        return binary("bitwise_left_shift", other, self)

    def __rshift__(self, other: Operand) -> Tensor:
        return binary("bitwise_right_shift", self, other)

    def __rrshift__(self, other: Operand) -> Tensor:
        return binary("bitwise_right_shift", other, self)

    def __matmul__(self, other: Operand) -> Tensor:
        return matmul(self, other)

    def __rmatmul__(self, other: Operand) -> Tensor:
        return matmul(other, self)

    def __and__(self, other: Operand) -> Tensor:
        return bitwise("and", self, other)

    def __rand__(self, other: Operand) -> Tensor:
        return bitwise("and", other, self)

    def __or__(self, other: Operand) -> Tensor:
        return bitwise("or", self, other)

    def __ror__(self, other: Operand) -> Tensor:
        return bitwise("or", other, self)

    def __xor__(self, other: Operand) -> Tensor:
        return bitwise("xor", self, other)

    def __rxor__(self, other: Operand) -> Tensor:
        return bitwise("xor", other, self)

    def __neg__(self) -> Tensor:
        return apply("negative", self)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return apply("abs", self)

    def __round__(self, ndigits: int | None = None) -> Tensor:
        if ndigits is not None:
            raise DidymaError(
                "bad-call", f"round({self!r}, {ndigits})", got="a number of digits",
                want="round(x), to integers", help="round(x * 100) / 100 keeps two digits",
            )  # fmt: skip
        return apply("round", self)

    def __divmod__(self, other: Operand) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __invert__(self) -> Tensor:
        return apply("logical_not" if self.dtype is DType.BOOL else "bitwise_invert", self)

    def __lt__(self, other: Operand) -> Tensor:
        return binary("less", self, other)

    def __le__(self, other: Operand) -> Tensor:
        return binary("less_equal", self, other)

    def __gt__(self, other: Operand) -> Tensor:
        return binary("greater", self, other)

    def __ge__(self, other: Operand) -> Tensor:
        return binary("greater_equal", self, other)

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]  # the standard's operator
        return binary("equal", self, other)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]  # likewise
        return binary("not_equal", self, other)

    __hash__ = Refusals.__hash__


Scalar: TypeAlias = bool | int | float
Number: TypeAlias = Scalar | Size  # what has no dtype of its own
Operand: TypeAlias = Tensor | Number | Array | np.generic
AnyAttr: TypeAlias = "Attr | Size | tuple[AnyAttr, ...]"


def apply(op: str, *args: Tensor, **attrs: AnyAttr) -> Tensor:
    """Add a node; raises what the op's ``infer`` raises."""
    builder = common(*args)
    known = {k: _attr(v) for k, v in attrs.items()}
    return Tensor(builder, builder(op, [within(builder, a) for a in args], **known))


def _attr(a: AnyAttr) -> Attr:
    """Return an attribute as the reference has it."""
    if isinstance(a, Size):
        return a.value
    return tuple(_attr(x) for x in a) if isinstance(a, tuple) else a


def common(*tensors: Tensor) -> Builder:
    """Builder of the function being traced, which the tensors or those around it belong to.

    DidymaError ``bad-operand`` where there is no tensor.
    """
    for t in tensors:
        if not isinstance(t, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's
            raise refuse_operand(t, "a tensor")
    if not tensors:
        raise DidymaError(
            "bad-operand", "a function of tensors", got="no tensor", want="at least one tensor",
            help="a tensor is a parameter of a traced function, or made of one",
        )  # fmt: skip
    home = next((t for t in tensors if not t.builder.loose), tensors[0])
    return home.builder.current


def within(b: Builder, x: Tensor) -> Value:
    """Value of a tensor in a function; what belongs to a function around it becomes a capture.

    DidymaError ``foreign-value`` where it belongs to neither.
    """
    return b.capture(x.value, x.builder)


def binary(op: str, a: object, b: object) -> Tensor:
    """Add an elementwise node, operands promoted to one dtype."""
    x, y = together(a, b)
    return apply(op, x, y)


def bitwise(op: str, a: object, b: object) -> Tensor:
    """Add a logical node on bools, a bitwise one on integers."""
    x, y = together(a, b)
    return apply(f"{'logical' if x.dtype is DType.BOOL else 'bitwise'}_{op}", x, y)


def matmul(a: object, b: object) -> Tensor:
    """Matrix product; a vector is a row on the left, a column on the right."""
    x, y = together(a, b)
    row, column = x.ndim == 1, y.ndim == 1
    if row:
        x = apply("reshape", x, shape=(1, *x.shape))
    if column:
        y = apply("reshape", y, shape=(*y.shape, 1))
    z = apply("matmul", x, y)
    shape = z.shape[:-2]
    shape += () if row else z.shape[-2:-1]
    shape += () if column else z.shape[-1:]
    return apply("reshape", z, shape=shape) if row or column else z


def together(a: object, b: object) -> tuple[Tensor, Tensor]:
    """Bring two operands to one dtype: a Python number takes the tensor's, arrays are promoted.

    Errors: ``dtype-mismatch`` for dtypes without a common one, ``bad-number`` for a number that the
    dtype cannot hold, ``bad-operand`` for what is neither tensor, array nor number.
    """
    builder = common(*(t for t in (a, b) if isinstance(t, Tensor)))
    if is_scalar(a):
        y = constant(builder, b)
        return scalar(y, a), y
    x = constant(builder, a)
    if is_scalar(b):
        return x, scalar(x, b)
    y = constant(builder, b)
    dtype = promote(x.dtype, y.dtype)
    return x.astype(dtype), y.astype(dtype)


def is_scalar(x: object) -> TypeGuard[Number]:
    """Return whether an operand is a Python number or a size, which takes the other's dtype."""
    number = isinstance(x, (bool, int, float)) and not isinstance(x, np.generic)
    return number or isinstance(x, Size)


def constant(b: Builder, x: object) -> Tensor:
    """Return a tensor as it is, an array as a constant of its own dtype.

    Errors: ``bad-operand``; ``dtype-mismatch`` for an array of a dtype that Didyma does not have.
    """
    if isinstance(x, Tensor):
        return x
    if not any(hasattr(x, name) for name in _ARRAYS):
        raise refuse_operand(x)
    array = as_array(x)
    try:
        return Tensor(b, b.constant(array))
    except KeyError:
        raise DidymaError(
            "dtype-mismatch", f"an array of {array.dtype}", got=str(array.dtype),
            want=", ".join(DType), help="astype on the array; complex numbers: dd.complex",
        ) from None  # fmt: skip


_ARRAYS = ("__dlpack__", "__array_interface__", "__cuda_array_interface__")


def scalar(like: Tensor, x: object) -> Tensor:
    """Return a number or an array as a constant of a tensor's dtype.

    Errors: ``dtype-mismatch`` for a float among integers, a number among bools or an array whose
    dtype is not promoted to the tensor's; ``bad-number`` for a number that the dtype cannot hold.
    """
    b, dtype = common(like), like.dtype
    if not is_scalar(x):
        array = constant(b, x)
        if promote(array.dtype, dtype) is dtype:
            return array.astype(dtype)
        raise _mismatch(f"{array!r} with {like!r}", array.dtype, dtype)
    integral = not isinstance(x, float)  # a size counts as an int
    if not (dtype.is_float or isinstance(x, bool) or (dtype.is_int and integral)):
        raise _mismatch(f"{x!r:.40} with {like!r}", type(x).__name__, dtype)
    return number(b, x, dtype)


def number(b: Builder, x: Number, dtype: DType) -> Tensor:
    """Return a Python number or a size as a scalar; DidymaError ``bad-number`` if it overflows."""
    if isinstance(x, Size):
        return _size(b, x, dtype)
    if _holds(dtype, x):
        return Tensor(b, b.scalar(x, dtype))
    many = isinstance(x, int) and abs(x) >= 10**99
    raise _overflow("a number of many digits" if many else f"{x!r}", dtype)


def _size(b: Builder, s: Size, dtype: DType) -> Tensor:
    """Return a size as a scalar: the last number from 0 up to it, which a kernel reads off."""
    ranges = {v.name: (v.lo, v.hi) for v in s.ranges} | b.ranges()
    low, high = dims.bounds(s.value, ranges)
    if low < 0 or not _holds(dtype, high):
        raise _overflow(f"{s}, a size of {low}..{high}", dtype)
    stop = dims.add(s.value, 1)
    numbers = b("iota", [], dtype=DType.I64, shape=(stop,), axis=0)
    last = b("slice", [numbers], starts=(s.value,), stops=(stop,), steps=(1,))
    return Tensor(b, b("reshape", [last], shape=())).astype(dtype)


def _overflow(got: str, dtype: DType) -> DidymaError:
    return DidymaError(
        "bad-number", f"{got} as {dtype}", got=got, want=f"a number that {dtype} can hold",
        help="call astype on the tensor first; as values, sizes are numbers from 0 on",
    )  # fmt: skip


def _mismatch(where: str, got: str, dtype: DType) -> DidymaError:
    kinds = "integers" if dtype.is_int else "bools"
    return DidymaError(
        "dtype-mismatch", where, got=got, want=f"a number that {dtype} can hold",
        help=f"a tensor of {kinds} stays one: call astype on it first, as in x.astype(dd.f32)",
    )  # fmt: skip


def _holds(dtype: DType, x: float) -> bool:
    """Return whether a dtype has a number, rounded to nearest: none becomes infinite, NaN or 1."""
    if not dtype.is_float:
        low, high = dtype.limits if dtype.is_int else (0, 1)
        return low <= x <= high
    try:
        wide = float(x)
    except OverflowError:
        return False
    with np.errstate(all="ignore"):
        rounded = float(np.float64(wide).astype(dtype.numpy))
    return (np.isnan(rounded), np.isinf(rounded)) == (np.isnan(wide), np.isinf(wide)) and (
        wide != 0 or rounded == 0
    )


def promote(a: DType, b: DType) -> DType:
    """Return the standard's common dtype; DidymaError ``dtype-mismatch`` where it defines none.

    >>> promote(DType.U8, DType.I8), promote(DType.F16, DType.BF16)
    (<DType.I16: 'i16'>, <DType.F32: 'f32'>)
    """
    if a is b:
        return a
    if a.is_float and b.is_float:
        wider = max(a, b, key=lambda d: d.nbytes)
        return DType.F32 if a.nbytes == b.nbytes else wider
    for family in (SIGNED, UNSIGNED):
        if a in family and b in family:
            return family[max(family.index(a), family.index(b))]
    if {a, b} <= {*SIGNED, *UNSIGNED}:
        signed, unsigned = (a, b) if a.is_signed else (b, a)
        at = max(SIGNED.index(signed), UNSIGNED.index(unsigned) + 1)
        if at < len(SIGNED):
            return SIGNED[at]
    raise DidymaError(
        "dtype-mismatch", f"{a} with {b}", got=f"{a} and {b}",
        want="two dtypes with a common one in the Array API standard",
        help=f"call astype on one of them; floats are {', '.join(FLOATS)}",
    )  # fmt: skip
