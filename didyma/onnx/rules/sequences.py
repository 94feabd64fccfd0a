"""Sequences of tensors, whose lengths are known at import, so that only tensors enter the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from didyma.composites.builder import Value
from didyma.onnx.context import Context, Entries
from didyma.onnx.rules.shaping import join
from didyma.onnx.rules.slicing import cut
from didyma.onnx.tensors import dtype_of
from didyma.onnx.values import Entry, Operand, TensorList, size
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.types import DType

Handler: TypeAlias = Callable[[Context, Entries], Entry]

MAX_PARTS = 1 << 10  # that a tensor is split into


def _list(c: Context, x: Entries) -> TensorList:
    sequence = x[0]
    if not isinstance(sequence, TensorList):
        raise c.broken("a tensor", "a sequence of tensors")
    return sequence


def _position(c: Context, x: Entries, i: int, default: int, count: int) -> int:
    """Return a constant position; a negative one counts from the end."""
    item = c.optional_input(x, i)
    at = default if item is None else int(c.number(item))
    if not -count <= at < count:
        raise c.broken(f"position {at}", f"{-count} <= position < {count}")
    return at % count


def _identity(c: Context, x: Entries) -> Entry:
    if not x or x[0] is None:
        raise c.broken("no operand", "one operand")
    return x[0]


def _empty(c: Context, x: Entries) -> Entry:
    del x
    return TensorList(dtype_of(c.integer("dtype", 1), c.where), ())


def _construct(c: Context, x: Entries) -> Entry:
    items = [c.input(x, i) for i in range(len(x))]
    return _list_of(c, items[0].type.dtype, items)


def _list_of(c: Context, dtype: DType, items: Sequence[Operand]) -> TensorList:
    for item in items:
        if item.type.dtype is not dtype:
            raise c.broken(f"a tensor of {item.type.dtype}", f"one of {dtype}, like the others")
    return TensorList(dtype, tuple(items))


def _insert(c: Context, x: Entries) -> Entry:
    old = _list(c, x)
    count = len(old.items)
    given = c.optional_input(x, 2)
    at = count if given is None else int(c.number(given))
    if not -count <= at <= count:
        raise c.broken(f"position {at}", f"{-count} <= position <= {count}")
    at = at if at >= 0 else at + count
    return _list_of(c, old.dtype, [*old.items[:at], c.input(x, 1), *old.items[at:]])


def _erase(c: Context, x: Entries) -> Entry:
    old = _list(c, x)
    at = _position(c, x, 1, -1, len(old.items))
    return TensorList(old.dtype, (*old.items[:at], *old.items[at + 1 :]))


def _at(c: Context, x: Entries) -> Entry:
    items = _list(c, x).items
    return items[_position(c, x, 1, 0, len(items))]


def _length(c: Context, x: Entries) -> Entry:
    return size(len(_list(c, x).items))


def _concat(c: Context, x: Entries) -> Entry:
    values = [c.value(i) for i in _list(c, x).items]
    if not values:
        raise c.broken("an empty sequence", "at least one tensor")
    new = c.flag("new_axis")
    axis = c.axis(c.integer("axis"), values[0].type.rank + new)
    if new:
        values = [c.reshape(v, *v.type.shape[:axis], 1, *v.type.shape[axis:]) for v in values]
    return join(c, values, axis)


def _split(c: Context, x: Entries) -> Entry:
    v, given = c.operand(x, 0), c.optional_input(x, 1)
    axis = c.axis(c.integer("axis", 0), v.type.rank)
    n = v.type.shape[axis]
    if given is not None and given.type.rank:
        parts: Sequence[Dim] = c.sizes(given)
        if isinstance(n, int) and dims.add(*parts) != n:
            raise c.broken(f"parts of {', '.join(map(dims.text, parts))}", f"the sum {n}")
    else:
        parts = _equal_parts(c, n, 1 if given is None else int(c.number(given)))
    values: list[Value] = []
    at: Dim = 0
    for part in parts:
        values.append(cut(c, v, axis, at, dims.add(at, part)))
        at = dims.add(at, part)
    if given is None and not c.flag("keepdims", True):
        shape = (*v.type.shape[:axis], *v.type.shape[axis + 1 :])
        values = [c.reshape(part, *shape) for part in values]
    return TensorList(v.type.dtype, tuple(values))


def _equal_parts(c: Context, n: Dim, part: int) -> Sequence[int]:
    """Return the sizes of the parts of an axis: all equal but the last, which may be smaller."""
    if not isinstance(n, int):
        raise c.not_constant(f"the number of parts of an axis of {dims.text(n)}")
    if part < 1:
        raise c.broken(f"parts of {part}", "parts of at least 1")
    if n > part * MAX_PARTS:
        raise c.error(f"{-(-n // part)} parts", f"at most {MAX_PARTS}", code="onnx-too-large")
    return [min(part, n - at) for at in range(0, n, part)]


HANDLERS: dict[str, Handler] = {
    "ConcatFromSequence": _concat,
    "Identity": _identity,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
