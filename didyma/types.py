"""Types as people write them: ``dd.f32[n, 512]``, with sizes that carry their ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.types import DType, TensorType


@dataclass(frozen=True, slots=True)
class Size:
    """A symbolic size: an expression and the ranges of its symbols.

    >>> n = dim("n", 1, 8)
    >>> str(2 * n + 1)
    '2*n + 1'
    """

    value: Dim
    ranges: tuple[DimVar, ...]

    def __add__(self, other: AnySize) -> Size:
        o = size(other)
        return Size(dims.add(self.value, o.value), _merge(self.ranges, o.ranges))

    def __mul__(self, other: AnySize) -> Size:
        o = size(other)
        return Size(dims.mul(self.value, o.value), _merge(self.ranges, o.ranges))

    def __sub__(self, other: AnySize) -> Size:
        o = size(other)
        return Size(dims.sub(self.value, o.value), _merge(self.ranges, o.ranges))

    def __floordiv__(self, other: AnySize) -> Size:
        o = size(other)
        return Size(dims.floordiv(self.value, o.value), _merge(self.ranges, o.ranges))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: AnySize) -> Size:
        return size(other) - self

    def __str__(self) -> str:
        return dims.text(self.value)


AnySize: TypeAlias = int | Size


def size(s: AnySize) -> Size:
    """Return a size; an int has no symbols."""
    return Size(s, ()) if isinstance(s, int) else s


def dim(name: str, lo: int, hi: int) -> Size:
    """Return a symbolic size with an inclusive range; DidymaError ``bad-range`` for a wrong one."""
    if not (name.isidentifier() and 0 <= lo <= hi):
        raise DidymaError(
            "bad-range", f"dim({name!r}, {lo}, {hi})", got=f"{lo}..{hi}",
            want="an identifier and 0 <= lo <= hi",
        )  # fmt: skip
    return Size(dims.symbol(name), (DimVar(name, lo, hi),))


def _merge(a: tuple[DimVar, ...], b: tuple[DimVar, ...]) -> tuple[DimVar, ...]:
    return merge_ranges([a, b])


def merge_ranges(many: list[tuple[DimVar, ...]]) -> tuple[DimVar, ...]:
    """Union of declarations; DidymaError ``redefined`` if one name has two ranges."""
    found: dict[str, DimVar] = {}
    for v in (v for ranges in many for v in ranges):
        if found.setdefault(v.name, v) != v:
            o = found[v.name]
            raise DidymaError(
                "redefined", v.name, got=f"{o.lo}..{o.hi} and {v.lo}..{v.hi}", want="one range"
            )
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Spec:
    """A parameter's or result's type, with the ranges of its sizes."""

    type: TensorType
    ranges: tuple[DimVar, ...] = ()


@dataclass(frozen=True, slots=True)
class Element:
    """An element type that a shape may follow: ``f32[2, n]``; alone it is a scalar."""

    dtype: DType

    def __getitem__(self, shape: AnySize | tuple[AnySize, ...]) -> Spec:
        sizes = [size(s) for s in (shape if isinstance(shape, tuple) else (shape,))]
        ranges = merge_ranges([s.ranges for s in sizes])
        return Spec(TensorType(self.dtype, tuple(s.value for s in sizes)), ranges)


f64, f32 = Element(DType.F64), Element(DType.F32)
f16, bf16 = Element(DType.F16), Element(DType.BF16)
i8, i16, i32, i64 = (Element(d) for d in (DType.I8, DType.I16, DType.I32, DType.I64))
u8, u16, u32, u64 = (Element(d) for d in (DType.U8, DType.U16, DType.U32, DType.U64))
bool_ = Element(DType.BOOL)
f8e4m3, f8e4m3fnuz = Element(DType.F8E4M3), Element(DType.F8E4M3FNUZ)
f8e5m2, f8e5m2fnuz = Element(DType.F8E5M2), Element(DType.F8E5M2FNUZ)
f8e8m0, f4e2m1 = Element(DType.F8E8M0), Element(DType.F4E2M1)
i4, u4, i2, u2 = (Element(d) for d in (DType.I4, DType.U4, DType.I2, DType.U2))
