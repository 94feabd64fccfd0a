"""Matrix products, Einstein's sums, and products of quantised numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType
from didyma.refimpl.onnx.context import Context
from didyma.refimpl.onnx.values import Item
from didyma.refimpl.ops.builder import Value

Inputs: TypeAlias = Sequence[Item | None]
Handler: TypeAlias = Callable[[Context, Inputs], Sequence[Item] | None]


def matmul(c: Context, a: Value, b: Value) -> Value:
    """NumPy's matmul: vectors are rows on the left, columns on the right."""
    row, column = a.type.rank == 1, b.type.rank == 1
    if row:
        a = c.reshape(a, 1, *a.type.shape)
    if column:
        b = c.reshape(b, *b.type.shape, 1)
    y = c.emit("matmul", a, b)
    if not (row or column):
        return y
    shape = y.type.shape[:-2]
    shape += () if row else (y.type.shape[-2],)
    shape += () if column else (y.type.shape[-1],)
    return c.reshape(y, *shape)


def _matmul(c: Context, x: Inputs) -> Sequence[Item]:
    return [matmul(c, c.operand(x, 0), c.operand(x, 1))]


def _gemm(c: Context, x: Inputs) -> Sequence[Item]:
    a, b, bias = c.operand(x, 0), c.operand(x, 1), c.optional(x, 2)
    if c.flag("transA"):
        a = c.emit("permute_dims", a, axes=(1, 0))
    if c.flag("transB"):
        b = c.emit("permute_dims", b, axes=(1, 0))
    y = _scaled(c, c.emit("matmul", a, b), c.real("alpha", 1.0))
    if bias is None:
        return [y]
    return [c.emit("add", y, _scaled(c, bias, c.real("beta", 1.0)))]


def _scaled(c: Context, v: Value, by: float) -> Value:
    return v if by == 1.0 else c.do("multiply", v, by)


def _einsum(c: Context, x: Inputs) -> Sequence[Item]:
    """Align every operand with all labels, then multiply and sum; two operands by matmul."""
    values = [c.operand(x, i) for i in range(len(x))]
    terms, result = _labels(c, c.word("equation"), values)
    sizes: dict[str, Dim] = {}
    parts: list[tuple[str, Value]] = []
    for labels, v in zip(terms, values, strict=True):
        labels, v = _diagonals(c, labels, v)
        for label, n in zip(labels, v.type.shape, strict=True):
            if n != 1 or label not in sizes:
                sizes[label] = n
        parts.append((labels, v))
    total = parts[0]
    for i, part in enumerate(parts[1:], 2):
        later = {label for labels, _ in parts[i:] for label in labels}
        total = _contract(c, total, part, later | set(result), sizes)
    labels, v = total
    gone = tuple(i for i, label in enumerate(labels) if label not in result)
    if gone:
        v = c.emit("sum", v, axes=gone, keepdims=False)
        labels = "".join(label for label in labels if label in result)
    order = tuple(labels.index(label) for label in result)
    return [v if order == tuple(range(len(order))) else c.emit("permute_dims", v, axes=order)]


def _labels(c: Context, equation: str, values: Sequence[Value]) -> tuple[list[str], str]:
    """Labels of each operand and of the result; an ellipsis becomes capital Greek letters."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        raise c.wrong(f"{len(terms)} terms in {equation!r}", f"{len(values)}")
    wide = max(
        (v.type.rank - len(t.replace("...", "")) for t, v in zip(terms, values, strict=True)
         if "..." in t), default=0,
    )  # fmt: skip
    dots = "".join(chr(0x391 + i) for i in range(wide))
    spelled: list[str] = []
    for t, v in zip(terms, values, strict=True):
        own = v.type.rank - len(t.replace("...", ""))
        if own < 0 or (own and "..." not in t):
            raise c.wrong(f"the term {t!r} for {v.type}", "a label for each axis")
        spelled.append(t.replace("...", dots[wide - own :]))
    if arrow:
        result = right.replace("...", dots)
    else:
        every = "".join(spelled)
        single = sorted({label for label in every if every.count(label) == 1 and label not in dots})
        result = dots + "".join(single)
    if not set(result) <= set("".join(spelled)) or len(set(result)) != len(result):
        raise c.wrong(f"the result {right!r} of {equation!r}", "labels of the operands, once each")
    return spelled, result


def _diagonals(c: Context, labels: str, v: Value) -> tuple[str, Value]:
    """Keep of a repeated label's axes the diagonal alone."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first, last = labels.index(label), labels.rindex(label)
            rank, n = v.type.rank, v.type.shape[first]
            row, column = c.iota(n, rank=rank, axis=first), c.iota(n, rank=rank, axis=last)
            kept = c.do("where", c.do("equal", row, column), v, c.scalar(0, v))
            v = c.emit("sum", kept, axes=(last,), keepdims=False)
            labels = labels[:last] + labels[last + 1 :]
    return labels, v


def _contract(
    c: Context,
    left: tuple[str, Value],
    right: tuple[str, Value],
    kept: set[str],
    sizes: dict[str, Dim],
) -> tuple[str, Value]:
    """Product of two operands, summed over labels that nothing needs any more."""
    a, b = left[0], right[0]
    both = [x for x in a if x in b]
    batch = "".join(x for x in both if x in kept)
    inner = "".join(x for x in both if x not in kept)
    rows = "".join(x for x in a if x not in b)
    columns = "".join(x for x in b if x not in a)

    def arranged(part: tuple[str, Value], *groups: str) -> Value:
        labels, v = part
        order = tuple(labels.index(x) for g in groups for x in g)
        v = c.emit("permute_dims", v, axes=order)
        want = tuple(sizes[x] for g in groups for x in g)
        shared = set(both)
        spread = tuple(
            sizes[x] if x in shared else d
            for x, d in zip((x for g in groups for x in g), v.type.shape, strict=True)
        )
        if spread != v.type.shape:
            v = c.emit("broadcast_to", v, shape=spread)
        lead = want[: len(groups[0])]
        second = dims.mul(*(sizes[x] for x in groups[1]))
        return c.reshape(v, *lead, second, dims.mul(*(sizes[x] for x in groups[2])))

    y = c.emit("matmul", arranged(left, batch, rows, inner), arranged(right, batch, inner, columns))
    labels = batch + rows + columns
    return labels, c.reshape(y, *(sizes[x] for x in labels))


def _shifted(c: Context, v: Value, zero: Value | None, along: int) -> Value:
    """Quantised numbers as i32, less their zero point, which may be a vector along an axis."""
    wide = c.cast(v, DType.I32)
    if zero is None:
        return wide
    z = c.cast(zero, DType.I32)
    if z.type.rank == 1 and z.type.shape != (1,):
        spread = [1] * v.type.rank
        z = c.reshape(z, *(n if i != along else z.type.shape[0] for i, n in enumerate(spread)))
    return c.do("subtract", wide, z if z.type.rank != 1 or z.type.shape != (1,) else c.reshape(z))


def _matmul_integer(c: Context, x: Inputs) -> Sequence[Item]:
    a, b = c.operand(x, 0), c.operand(x, 1)
    left = _shifted(c, a, c.optional(x, 2), a.type.rank - 2)
    right = _shifted(c, b, c.optional(x, 3), b.type.rank - 1)
    return [matmul(c, left, right)]


def rescaled(c: Context, total: Value, scale: Value, zero: Value) -> Value:
    """Scale sums of products, round, shift by the zero point and saturate: f32 to 8 bits."""
    y = c.do("round", c.do("multiply", c.cast(total, scale.type.dtype), scale))
    return saturated(c, c.do("add", y, c.cast(zero, scale.type.dtype)), zero.type.dtype)


def saturated(c: Context, v: Value, dtype: DType) -> Value:
    """Cast with clipping to a small integer dtype's range."""
    return c.cast(c.do("clip", v, *dtype.limits), dtype)


def _qlinear_matmul(c: Context, x: Inputs) -> Sequence[Item]:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (c.operand(x, i) for i in range(8))
    left = _shifted(c, a, a_zero, a.type.rank - 2)
    right = _shifted(c, b, b_zero, b.type.rank - 1)
    f32 = DType.F32
    slope = c.do("divide", c.do("multiply", c.cast(a_scale, f32), c.cast(b_scale, f32)),
                 c.cast(scale, f32))  # fmt: skip
    return [rescaled(c, matmul(c, left, right), slope, zero)]


HANDLERS: dict[str, Handler] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Einsum": _einsum,
    "MatMulInteger": _matmul_integer,
    "QLinearMatMul": _qlinear_matmul,
}
