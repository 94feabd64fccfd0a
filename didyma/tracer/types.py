"""Types as people write them: ``dd.f32[n, 512]``, with sizes that carry their ranges."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeGuard, TypeVar, cast

import numpy as np

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar, always_equal
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.ops.devices import NAME, WANTED
from didyma.tracer.calling import checked

R = TypeVar("R")


class TakesSizes:
    """What a size beside it is a number for: a tensor."""

    __slots__ = ()


def _operator(f: Callable[[Size, Size], R]) -> Callable[[Size, AnySize], R]:
    """Return an operator of two sizes, which leaves a tensor beside a size to the tensor."""

    def method(self: Size, other: AnySize) -> Any:
        return NotImplemented if isinstance(other, TakesSizes) else f(self, size(other))

    return method


def _combined(f: Callable[[Dim, Dim], Dim]) -> Callable[[Size, Size], Size]:
    return lambda x, y: Size(f(x.value, y.value), merge_ranges([x.ranges, y.ranges]))


def _quotient(x: Size, y: Size) -> Size:
    if y.value == 0:
        raise bad_size(f"{x} // 0", "a division by zero", "divide by a positive size")
    return _combined(dims.floordiv)(x, y)


def _fraction(x: Size, y: Size) -> Size:
    raise bad_size(f"{x} / {y}", "a quotient of sizes that may be fractional", "use //")


def _power(x: Size, y: Size) -> Size:
    if not isinstance(y.value, int) or y.value < 0:
        raise bad_size(f"{x} ** {y}", f"the exponent {y}", "an exponent is an int from 0 on")
    return Size(dims.mul(*[x.value] * y.value), x.ranges)


def _less(x: Size, y: Size) -> bool:
    more = y - x
    low, high = dims.bounds(more.value, _intervals(more))
    return _decided(True if low > 0 else False if high <= 0 else None, f"{x} < {y}")


@dataclass(frozen=True, slots=True, eq=False)
class Size:
    """A symbolic size: an expression and the ranges of its symbols.

    Comparisons are answered where the ranges decide them; otherwise they raise DidymaError
    ``traced-branch``, because a graph is the same for every value of a symbol.

    >>> n = dim("n", 1, 8)
    >>> str(2 * n + 1), n > 0
    ('2*n + 1', True)
    """

    value: Dim
    ranges: tuple[DimVar, ...]

    __add__ = __radd__ = _operator(_combined(dims.add))
    __mul__ = __rmul__ = _operator(_combined(dims.mul))
    __sub__ = _operator(_combined(dims.sub))
    __rsub__ = _operator(lambda y, x: x - y)
    __floordiv__ = _operator(_quotient)
    __rfloordiv__ = _operator(lambda y, x: x // y)
    __mod__ = _operator(lambda x, y: x - x // y * y)
    __rmod__ = _operator(lambda y, x: x % y)
    __pow__ = _operator(_power)
    __truediv__ = _operator(_fraction)
    __rtruediv__ = _operator(lambda y, x: x / y)

    __lt__ = _operator(_less)
    __gt__ = _operator(lambda x, y: _less(y, x))
    __le__ = _operator(lambda x, y: not _less(y, x))
    __ge__ = _operator(lambda x, y: not _less(x, y))

    def __neg__(self) -> Size:
        return 0 - self

    def __eq__(self, other: object) -> bool:
        if not is_size(other):
            return NotImplemented
        more = self - other
        return _decided(always_equal(more.value, 0, _intervals(more)), f"{self} == {other}")

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return self != 0

    def __index__(self) -> int:
        if isinstance(self.value, int):
            return self.value
        raise bad_size(
            str(self), "a symbolic size", "Didyma's functions take it; dd.scan loops over an axis",
            "a size known to Python",
        )  # fmt: skip

    __int__ = __index__

    if not TYPE_CHECKING:  # so that checkers report the call

        def __call__(self, *axis: int) -> NoReturn:
            """Refuse PyTorch's ``x.size(0)``."""
            help = f"x.shape[{axis[0]}]" if axis else "x.shape"
            raise DidymaError(
                "bad-call", f"x.size{axis}", got="a call of a size", want="x.size", help=help
            )

    def __repr__(self) -> str:
        return dims.text(self.value)


AnySize: TypeAlias = int | Size


def size(s: AnySize) -> Size:
    """Return a size; an int has no symbols.  DidymaError ``bad-size`` for anything else."""
    if isinstance(s, Size):
        return s
    if is_size(cast("object", s)):
        return Size(operator.index(s), ())
    raise bad_size(
        repr(s), f"a size of type {type(s).__name__}", "quotients of sizes are made by //"
    )


def plain(s: Dim, declared: Iterable[DimVar]) -> AnySize:
    """Return a size of the reference as users see it: an int, or a ``Size`` with its ranges."""
    if isinstance(s, int):
        return s
    names = dims.free(s)
    return Size(s, tuple(v for v in declared if v.name in names))


def bad_size(
    where: str, got: str, help: str, want: str = "an int, or a symbolic size"
) -> DidymaError:
    """Return the error for an object that is not a size."""
    return DidymaError("bad-size", where, got=got, want=want, help=help)


def items(
    x: object, of: type[Any] | tuple[type[Any], ...] = (tuple, list)
) -> tuple[object, ...] | None:
    """Return the items of a tuple or list, or of other types; None for anything else."""
    return tuple(cast("Sequence[object]", x)) if isinstance(x, of) else None


def is_size(x: object) -> TypeGuard[AnySize]:
    """Return whether an object is a size: an int or a ``Size``."""
    return isinstance(x, (int, np.integer, Size)) and not isinstance(x, bool)


def _intervals(s: Size) -> dict[str, tuple[int, int]]:
    return {v.name: (v.lo, v.hi) for v in s.ranges}


def _decided(answer: bool | None, where: str) -> bool:
    if answer is None:
        raise DidymaError(
            "traced-branch", where, got="a comparison that the ranges of the sizes leave open",
            want="a graph that is the same for every size",
            help="declare a narrower range with dd.dim, or trace a program for each case",
        )  # fmt: skip
    return answer


@checked
def dim(name: str, lo: int, hi: int) -> Size:
    """Return a symbolic size with an inclusive range; DidymaError ``bad-range`` for a wrong one."""
    integers = all(isinstance(n, (int, np.integer)) for n in (lo, hi))  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's
    named = isinstance(name, str) and name.isidentifier()  # pyright: ignore[reportUnnecessaryIsInstance]  # likewise
    if not (named and integers and 0 <= lo <= hi):
        raise DidymaError(
            "bad-range", f"dim({name!r}, {lo!r}, {hi!r})", got=f"{lo!r}..{hi!r}",
            want="an identifier and ints 0 <= lo <= hi", help='dd.dim("n", 1, 4096)',
        )  # fmt: skip
    return Size(dims.symbol(name), (DimVar(name, int(lo), int(hi)),))


def merge_ranges(many: list[tuple[DimVar, ...]]) -> tuple[DimVar, ...]:
    """Union of declarations; DidymaError ``redefined`` if one name has two ranges."""
    declared: dict[str, DimVar] = {}
    for v in (v for ranges in many for v in ranges):
        if declared.setdefault(v.name, v) != v:
            o = declared[v.name]
            raise DidymaError(
                "redefined", v.name, got=f"{o.lo}..{o.hi} and {v.lo}..{v.hi}", want="one range"
            )
    return tuple(declared.values())


@dataclass(frozen=True, slots=True)
class Spec:
    """A parameter's or result's type, with the ranges of its sizes."""

    type: TensorType
    ranges: tuple[DimVar, ...] = ()

    @checked
    def on(self, device: str) -> Spec:
        """Return the type on a device: ``dd.f32[4].on("host:1")``.

        DidymaError ``bad-call`` for a name of no device.
        """
        return replace(self, type=replace(self.type, device=device_name("on", device)))

    @checked
    def strided(self, strides: AnySize | tuple[AnySize, ...], offset: AnySize = 0) -> Spec:
        """Return the type of an input whose elements lie apart: ``dd.f32[n, 4].strided((s, 1))``.

        Strides and offset count elements.  The element at an index lies ``offset`` and the sum of
        index times stride behind the beginning of its memory.  Strides may be symbols, which calls
        bind; kernels then read an array as it lies, and calls refuse others (``input-strides``).
        DidymaError ``bad-call`` for other than a stride for each axis.
        """
        steps = [size(s) for s in (strides if isinstance(strides, tuple) else (strides,))]
        start = size(offset)
        if len(steps) != self.type.rank:
            raise DidymaError(
                "bad-call", f"{self.type}.strided(...)", got=f"{len(steps)} strides",
                want=f"{self.type.rank}, one for each axis",
            )  # fmt: skip
        ranges = merge_ranges([self.ranges, *(s.ranges for s in (*steps, start))])
        lies = replace(self.type, strides=tuple(s.value for s in steps), offset=start.value)
        return Spec(lies, ranges)

    def __str__(self) -> str:
        return str(self.type)


def device_name(where: str, device: object) -> str:
    """Return the name of a device, empty for the program's own; else DidymaError ``bad-call``."""
    if isinstance(device, str) and (not device or NAME.fullmatch(device)):
        return device
    raise DidymaError(
        "bad-call", where, got=repr(device), want=WANTED, help="a device has a number: `host:0`"
    )


@dataclass(frozen=True, slots=True)
class Element:
    """An element type that a shape may follow: ``f32[2, n]``; alone it is a scalar."""

    dtype: DType

    def __getitem__(self, shape: AnySize | tuple[AnySize, ...]) -> Spec:
        sizes = [size(s) for s in (shape if isinstance(shape, tuple) else (shape,))]
        ranges = merge_ranges([s.ranges for s in sizes])
        for s in sizes:
            if isinstance(s.value, int) and s.value < 0:
                help = "a size that differs between calls is symbolic: dd.dim(name, lo, hi)"
                raise bad_size(f"{self}[{s}]", f"size {s}", help)
        return Spec(TensorType(self.dtype, tuple(s.value for s in sizes)), ranges)

    if not TYPE_CHECKING:  # so that checkers report the call

        def __call__(self, *args: object) -> NoReturn:
            """Refuse NumPy's ``float32(x)``."""
            raise DidymaError(
                "bad-call", f"dd.{self}(...)", got="a call of a dtype", want="a conversion",
                help=f"x.astype(dd.{self}), or np.{self.dtype.numpy.name}(...) for a constant",
            )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        """Return whether another dtype, ours or a tensor's ``x.dtype``, is this one."""
        if isinstance(other, Element):
            return self.dtype is other.dtype
        return self.dtype is other if isinstance(other, DType) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __str__(self) -> str:
        return str(self.dtype)


AnyDType: TypeAlias = Element | DType | np.dtype[Any] | type | str


def dtype_of(x: AnyDType) -> DType:
    """Return the dtype of ``dd.f32``, ``np.float32``, ``"float32"`` or ``"f32"``.

    DidymaError ``unknown-dtype`` for what is none, and for ``"i8"`` and its like, which count bits
    here and bytes in NumPy.

    >>> dtype_of("float16"), dtype_of(np.dtype(np.int8)), dtype_of(f32)
    (<DType.F16: 'f16'>, <DType.I8: 'i8'>, <DType.F32: 'f32'>)
    """
    if isinstance(x, Element):
        return x.dtype
    if isinstance(x, DType):
        return x
    ours, theirs = isinstance(x, str) and x in set(DType), _numpy_dtype(x)
    if ours != (theirs is not None) or (ours and DType(str(x)) is theirs):
        return theirs or DType(str(x))
    got = "a name that counts bits here and bytes in NumPy" if ours else repr(x)
    raise DidymaError(
        "unknown-dtype", repr(x), got=got,
        want=f"dd.f32 or its like: {', '.join(DType)}",
        help="complex numbers are pairs of reals: see dd.complex",
    )  # fmt: skip


def _numpy_dtype(x: object) -> DType | None:
    try:
        return None if x is None else DType.of(np.empty(0, np.dtype(x)))  # type: ignore[call-overload]  # may be any
    except (KeyError, TypeError, ValueError):
        return None


f64, f32 = Element(DType.F64), Element(DType.F32)
f16, bf16 = Element(DType.F16), Element(DType.BF16)
i8, i16, i32, i64 = (Element(d) for d in (DType.I8, DType.I16, DType.I32, DType.I64))
u8, u16, u32, u64 = (Element(d) for d in (DType.U8, DType.U16, DType.U32, DType.U64))
bool_ = Element(DType.BOOL)
f8e4m3, f8e4m3fnuz = Element(DType.F8E4M3), Element(DType.F8E4M3FNUZ)
f8e5m2, f8e5m2fnuz = Element(DType.F8E5M2), Element(DType.F8E5M2FNUZ)
f8e8m0, f4e2m1 = Element(DType.F8E8M0), Element(DType.F4E2M1)
i4, u4, i2, u2 = (Element(d) for d in (DType.I4, DType.U4, DType.I2, DType.U2))
