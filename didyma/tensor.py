"""Tensors under tracing: Python's operators become nodes of a graph."""

from __future__ import annotations

from typing import TypeAlias

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Attr
from didyma.refimpl.ir.types import FLOATS, SIGNED, UNSIGNED, DType, Shape
from didyma.refimpl.ops.builder import Builder, Value

Scalar: TypeAlias = bool | int | float
Operand: TypeAlias = "Tensor | Scalar"


class Tensor:
    """A value of the function being traced; the standard's operators and promotion apply."""

    __slots__ = ("_builder", "_value")

    def __init__(self, builder: Builder, value: Value) -> None:
        self._builder = builder
        self._value = value

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._value.type.dtype

    @property
    def shape(self) -> Shape:
        """Sizes; ints or expressions."""
        return self._value.type.shape

    @property
    def value(self) -> Value:
        """The graph's value."""
        return self._value

    @property
    def builder(self) -> Builder:
        """The graph under construction."""
        return self._builder

    def __repr__(self) -> str:
        return f"Tensor(%{self._value.name}: {self._value.type})"

    def __bool__(self) -> bool:
        raise DidymaError(
            "traced-branch",
            f"%{self._value.name}",
            got="a Python branch on a tensor's value, which tracing does not know",
            want="a graph that is the same for every value",
            help="use dd.where(cond, a, b), dd.cond or dd.while_loop",
        )

    def __add__(self, other: Operand) -> Tensor:
        return binary("add", self, other)

    def __radd__(self, other: Scalar) -> Tensor:
        return binary("add", other, self)

    def __sub__(self, other: Operand) -> Tensor:
        return binary("subtract", self, other)

    def __rsub__(self, other: Scalar) -> Tensor:
        return binary("subtract", other, self)

    def __mul__(self, other: Operand) -> Tensor:
        return binary("multiply", self, other)

    def __rmul__(self, other: Scalar) -> Tensor:
        return binary("multiply", other, self)

    def __truediv__(self, other: Operand) -> Tensor:
        return binary("divide", self, other)

    def __rtruediv__(self, other: Scalar) -> Tensor:
        return binary("divide", other, self)

    def __floordiv__(self, other: Operand) -> Tensor:
        return binary("floor_divide", self, other)

    def __rfloordiv__(self, other: Scalar) -> Tensor:
        return binary("floor_divide", other, self)

    def __mod__(self, other: Operand) -> Tensor:
        return binary("remainder", self, other)

    def __rmod__(self, other: Scalar) -> Tensor:
        return binary("remainder", other, self)

    def __pow__(self, other: Operand) -> Tensor:
        return binary("pow", self, other)

    def __rpow__(self, other: Scalar) -> Tensor:
        return binary("pow", other, self)

    def __matmul__(self, other: Tensor) -> Tensor:
        return matmul(self, other)

    def __and__(self, other: Operand) -> Tensor:
        return bitwise("and", self, other)

    def __or__(self, other: Operand) -> Tensor:
        return bitwise("or", self, other)

    def __xor__(self, other: Operand) -> Tensor:
        return bitwise("xor", self, other)

    def __lshift__(self, other: Operand) -> Tensor:
        return binary("bitwise_left_shift", self, other)

    def __rshift__(self, other: Operand) -> Tensor:
        return binary("bitwise_right_shift", self, other)

    def __neg__(self) -> Tensor:
        return apply("negative", self)

    def __abs__(self) -> Tensor:
        return apply("abs", self)

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
        return binary("equal", self, _operand(other))

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]  # likewise
        return binary("not_equal", self, _operand(other))

    __hash__ = None  # type: ignore[assignment]  # equality is elementwise

    def astype(self, dtype: DType) -> Tensor:
        """Convert by the rules of ``cast``."""
        return self if dtype is self.dtype else apply("cast", self, dtype=dtype)

    @property
    def mT(self) -> Tensor:  # noqa: N802  # the standard's name
        """The tensor with its last two axes exchanged."""
        rank = len(self.shape)
        return apply("permute_dims", self, axes=(*range(rank - 2), rank - 1, rank - 2))


def _operand(x: object) -> Operand:
    if isinstance(x, (Tensor, bool, int, float)):
        return x
    raise TypeError(f"a tensor cannot be combined with {type(x).__name__}")


def apply(op: str, *args: Tensor, **attrs: Attr) -> Tensor:
    """Add a node; raises what the op's ``infer`` raises."""
    builder = common(*args)
    return Tensor(builder, builder(op, [within(builder, a) for a in args], **attrs))


def common(*tensors: Tensor) -> Builder:
    """Builder of the function being traced, which the tensors or those around it belong to."""
    if not tensors:
        raise TypeError("at least one operand must be a tensor")
    return tensors[0].builder.current


def within(b: Builder, x: Tensor) -> Value:
    """Value of a tensor in a function; what belongs to a function around it becomes a capture.

    DidymaError ``foreign-value`` where it belongs to neither.
    """
    return b.capture(x.value, x.builder)


def binary(op: str, a: Operand, b: Operand) -> Tensor:
    """Add an elementwise node, operands promoted to one dtype."""
    x, y = together(a, b)
    return apply(op, x, y)


def bitwise(op: str, a: Operand, b: Operand) -> Tensor:
    """Add a logical node on bools, a bitwise one on integers."""
    x, y = together(a, b)
    return apply(f"{'logical' if x.dtype is DType.BOOL else 'bitwise'}_{op}", x, y)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Matrix product; a vector is a row on the left, a column on the right."""
    x, y = together(a, b)
    row, column = len(x.shape) == 1, len(y.shape) == 1
    if row:
        x = apply("reshape", x, shape=(1, *x.shape))
    if column:
        y = apply("reshape", y, shape=(*y.shape, 1))
    z = apply("matmul", x, y)
    shape = z.shape[:-2]
    shape += () if row else z.shape[-2:-1]
    shape += () if column else z.shape[-1:]
    return apply("reshape", z, shape=shape) if row or column else z


def together(a: Operand, b: Operand) -> tuple[Tensor, Tensor]:
    """Bring two operands to one dtype: a Python number takes the tensor's."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        dtype = promote(a.dtype, b.dtype)
        return a.astype(dtype), b.astype(dtype)
    if isinstance(a, Tensor):
        return a, scalar(a, b)
    if isinstance(b, Tensor):
        return scalar(b, a), b
    raise TypeError("at least one operand must be a tensor")


def scalar(like: Tensor, x: Operand) -> Tensor:
    """Return a Python number as a constant of a tensor's dtype.

    DidymaError ``dtype-mismatch`` for a float among integers, or a number among bools.
    """
    assert not isinstance(x, Tensor)
    dtype = like.dtype
    fits = dtype.is_float or (dtype.is_int and not isinstance(x, float))
    if not (fits or isinstance(x, bool)):
        raise DidymaError(
            "dtype-mismatch", f"{x!r} with {like!r}", got=type(x).__name__,
            want=f"a number that {dtype} can hold", help="call astype on the tensor first",
        )  # fmt: skip
    b = common(like)
    return Tensor(b, b.scalar(x, dtype))


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
    if a.is_int and b.is_int:
        signed, unsigned = (a, b) if a.is_signed else (b, a)
        at = max(SIGNED.index(signed), UNSIGNED.index(unsigned) + 1)
        if at < len(SIGNED):
            return SIGNED[at]
    raise DidymaError(
        "dtype-mismatch", f"{a} with {b}", got=f"{a} and {b}",
        want="two dtypes with a common one in the Array API standard",
        help=f"call astype on one of them; floats are {', '.join(FLOATS)}",
    )  # fmt: skip
