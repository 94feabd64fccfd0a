"""Constants, shapes, reshapes, transpositions and concatenation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from didyma.composites.builder import Value
from didyma.onnx.context import Context, Handler, Inputs, NotConstant
from didyma.onnx.rules.data_dependent import bind_sizes, dynamic_range, element
from didyma.onnx.unify import equal_in_range, first_elements
from didyma.onnx.values import Constant, Operand, size, sizes
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, exact_quotient
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops.broadcasting import broadcast
from didyma.refimpl.ops.slicing import joined


def _constant(c: Context, x: Inputs) -> Sequence[Operand]:
    del x
    if isinstance(value := c.attrs.get("value"), Constant):
        return [value]
    for name, dtype in (("value_float", DType.F32), ("value_int", DType.I64)):
        for key in (name, f"{name}s"):
            if key in c.attrs:
                return [Constant(np.asarray(c.attrs[key], dtype.numpy), dtype)]
    raise c.error(f"attributes {sorted(c.attrs)}", "a dense tensor, or numbers")


def _constant_of_shape(c: Context, x: Inputs) -> Sequence[Operand]:
    shape = bind_sizes(c, c.input(x, 0))
    value = c.attrs.get("value", Constant(np.zeros(1, np.float32), DType.F32))
    plain = [d for d in shape if isinstance(d, int)]
    if value.dtype.is_int and len(plain) == len(shape) and np.prod(plain, dtype=object) <= 64:
        return [Constant(np.full(plain, value.array.reshape(())), value.dtype)]
    one = c.builder.constant(value.array.reshape(()))
    return [c.emit("broadcast_to", one, shape=shape)]


def _shape(c: Context, x: Inputs) -> Sequence[Operand]:
    shape = c.input(x, 0).type.shape
    return [sizes(shape[slice(c.attrs.get("start", 0), c.attrs.get("end"))])]


def _range(c: Context, x: Inputs) -> Sequence[Operand]:
    items = [c.input(x, i) for i in range(3)]
    dtype = items[0].type.dtype
    try:
        if not dtype.is_int:
            return [_float_range(c, items, dtype)]
        start, stop, step = (c.sizes(i, least=0)[0] for i in items)
    except NotConstant:
        return dynamic_range(c, x)
    if not isinstance(step, int) or step == 0:
        raise c.error(f"step {dims.text(step)}", "a step that is a number, not 0")
    count = (
        dims.ceildiv(dims.sub(stop, start), step)
        if step > 0
        else dims.ceildiv(dims.sub(start, stop), -step)
    )
    count = count if c.bounds(count)[0] >= 0 else dims.maximum(count, 0)
    v = c.builder("iota", [], dtype=dtype, shape=(count,), axis=0)
    if step != 1:
        v = c.builder("multiply", [v, c.builder.scalar(step, dtype)])
    if start != 0:
        first = c.value(sizes((start,), dtype))
        v = c.builder("add", [v, c.builder("reshape", [first], shape=())])
    return [v]


def _float_range(c: Context, items: Sequence[Operand], dtype: DType) -> Value:
    start, stop, step = (float(c.number(i)) for i in items)
    count = math.ceil((stop - start) / step)
    v = c.iota(max(count, 0), dtype)
    return c.emit("add", c.emit("multiply", v, step), start)


def _reshape(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    keep_zero = c.flag("allowzero")
    if len(x) < 2:
        wanted: Sequence[Dim] = tuple(c.attrs["shape"])
    elif keep_zero:  # so a data-dependent size means itself
        wanted = bind_sizes(c, c.input(x, 1))
    else:
        wanted = c.sizes(c.input(x, 1), least=1)
    shape: list[Dim] = []
    for i, d in enumerate(wanted):
        copy = d == 0 and not keep_zero
        if copy and i >= v.type.rank:
            raise c.error(f"0 at axis {i} of a reshape of {v.type}", "an axis of the operand")
        shape.append(v.type.shape[i] if copy else d)
    if -1 in shape:
        at = shape.index(-1)
        shape[at] = _remaining(c, v, dims.mul(*(d for i, d in enumerate(shape) if i != at)))
    return [c.emit("reshape", _with_numel(c, v, dims.mul(*shape)), shape=tuple(shape))]


def _with_numel(c: Context, v: Value, wanted: Dim) -> Value:
    """Return an operand that has ``wanted`` elements, as the model relies on.

    The number of elements may be written differently, or contain a factor of one symbol, which then
    must be 1.
    """
    if v.type.numel == wanted:
        return v
    for axis, d in enumerate(v.type.shape):
        others = dims.mul(*(n for i, n in enumerate(v.type.shape) if i != axis))
        same = exact_quotient(wanted, others)
        if same is not None and equal_in_range(c.builder, d, same):
            return first_elements(c.builder, v, axis, same)
    factor = exact_quotient(v.type.numel, wanted)
    if factor is None or len(dims.free(factor)) != 1:
        return v
    for axis, d in enumerate(v.type.shape):
        rest = exact_quotient(d, factor)
        if rest is not None:
            c.require(factor, 1)
            return first_elements(c.builder, v, axis, rest)
    return v


def _remaining(c: Context, v: Value, rest: Dim) -> Dim:
    """Return the size of the axis marked -1, given the product of the others."""
    numel = v.type.numel
    if rest == 0:
        return 0
    size = exact_quotient(numel, rest)
    if size is None:
        raise c.error(
            f"{dims.text(numel)} elements in rows of {dims.text(rest)}", "a product that fits"
        )
    return size


def _expand(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    try:
        wanted = v.type.with_shape(*c.sizes(c.input(x, 1), least=0))
    except NotConstant:
        wanted = v.type.with_shape(*_expanded(c, v, c.operand(x, 1)))
    shape, _ = broadcast("Expand", [v.type, wanted])
    return [v if shape == v.type.shape else c.emit("broadcast_to", v, shape=shape)]


def _expanded(c: Context, v: Value, shape: Value) -> tuple[Dim, ...]:
    """Return data-dependent sizes to expand to; an axis whose size is not 1 keeps its size."""
    rank = shape.type.numel
    if not isinstance(rank, int):
        raise c.not_constant(f"a shape of {dims.text(rank)} sizes")
    own = (1,) * (rank - v.type.rank) + v.type.shape
    sizes: list[Dim] = []
    for k in range(rank):
        d = own[k - rank + len(own)]
        sizes.append(c.bind(element(c, shape, k), "size") if d == 1 else d)
    return (*own[: len(own) - rank], *sizes) if len(own) > rank else tuple(sizes)


def _transpose(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    perm = tuple(c.attrs.get("perm", reversed(range(v.type.rank))))
    return [c.emit("permute_dims", v, axes=perm)]


def _unsqueeze(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    given = c.ints(c.input(x, 1)) if len(x) > 1 else tuple(c.attrs["axes"])
    rank = v.type.rank + len(given)
    new = {c.axis(a, rank) for a in given}
    if len(new) < len(given):
        raise c.broken(f"axes {given}", "each axis once")
    old = iter(v.type.shape)
    return [c.emit("reshape", v, shape=tuple(1 if i in new else next(old) for i in range(rank)))]


def _single(c: Context, v: Value, axis: int) -> Value:
    """Return a value whose axis has size 1; an open size is narrowed or checked to be 1."""
    d = v.type.shape[axis]
    low, high = c.bounds(d)
    if d == 1:
        return v
    if not low <= 1 <= high:
        raise c.error(f"axis {axis} of {v.type}", "an axis of size 1")
    in_branch = c.builder.parent is not None  # which checks the size if it is taken
    if in_branch or not c.builder.input_symbols().issuperset(dims.free(d)):
        one = c.builder.bind(c.reshape(c.value(size(d))), 1, "one", 1)
        first = c.value(sizes((dims.sub(one, 1),)))
    else:
        c.require(d, 1)
        first = c.constant(np.zeros(1, np.int64))
    return c.emit("gather", v, first, axis=axis)


def _squeeze(c: Context, x: Inputs) -> Sequence[Operand]:
    """Import ``Squeeze``; without axes, open sizes are taken to be at least 2."""
    v = c.operand(x, 0)
    axes = c.axes(x, 1, v.type.rank)
    if axes is None:
        for d in v.type.shape:
            if c.bounds(d) != (0, 0) and d != 1:
                c.at_least(d, 2)
        axes = tuple(i for i, d in enumerate(v.type.shape) if d == 1)
    for a in axes:
        v = _single(c, v, a)
    return [
        c.emit("reshape", v, shape=tuple(d for i, d in enumerate(v.type.shape) if i not in axes))
    ]


def _flatten(c: Context, x: Inputs) -> Sequence[Operand]:
    v = c.operand(x, 0)
    axis = c.integer("axis", 1)
    if not -v.type.rank <= axis <= v.type.rank:
        raise c.broken(f"axis {axis} of {v.type}", f"from {-v.type.rank} to {v.type.rank}")
    axis = axis + v.type.rank if axis < 0 else axis
    two = dims.mul(*v.type.shape[:axis]), dims.mul(*v.type.shape[axis:])
    return [c.emit("reshape", v, shape=two)]


def _depth_to_space(c: Context, x: Inputs) -> Sequence[Operand]:
    """Import ``DepthToSpace``, which moves blocks of channels into the height and the width."""
    v = c.operand(x, 0)
    n, channels, height, width = _image(c, v)
    size, depth_first = _blocks(c)
    depth = exact_quotient(channels, size * size)
    if depth is None:
        raise c.broken(f"{dims.text(channels)} channels", f"a multiple of {size * size}")
    parts = (size, size, depth) if depth_first else (depth, size, size)
    apart = c.reshape(v, n, *parts, height, width)
    order = (0, 3, 4, 1, 5, 2) if depth_first else (0, 1, 4, 2, 5, 3)
    y = c.emit("permute_dims", apart, axes=order)
    return [c.reshape(y, n, depth, dims.mul(height, size), dims.mul(width, size))]


def _space_to_depth(c: Context, x: Inputs) -> Sequence[Operand]:
    """Import ``SpaceToDepth``, which moves blocks of the height and the width into channels."""
    v = c.operand(x, 0)
    n, channels, height, width = _image(c, v)
    size, depth_first = _blocks(c)
    rows, columns = exact_quotient(height, size), exact_quotient(width, size)
    if rows is None or columns is None:
        is_open = dims.free((height, width))  # then the import is tried with multiples of 32
        raise c.error(
            f"sizes {dims.text(height)} and {dims.text(width)}", f"multiples of {size}",
            code="shape-mismatch" if is_open else "onnx-broken",
        )  # fmt: skip
    apart = c.reshape(v, n, channels, rows, size, columns, size)
    order = (0, 3, 5, 1, 2, 4) if depth_first else (0, 1, 3, 5, 2, 4)
    y = c.emit("permute_dims", apart, axes=order)
    return [c.reshape(y, n, dims.mul(channels, size * size), rows, columns)]


def _image(c: Context, v: Value) -> tuple[Dim, Dim, Dim, Dim]:
    if v.type.rank != 4:
        raise c.broken(str(v.type), "a tensor of rank 4")
    n, channels, height, width = v.type.shape
    return n, channels, height, width


def _blocks(c: Context) -> tuple[int, bool]:
    """Return the size of a block, and whether the depth varies fastest in the channels."""
    size = c.integer("blocksize")
    if size < 1:
        raise c.broken(f"blocksize {size}", "a size of at least 1")
    return size, c.choice("mode", "DCR", "CRD") == "DCR"


def join(c: Context, parts: Sequence[Value], axis: int) -> Value:
    """Return any number of values, concatenated."""
    return joined(parts, lambda group: c.emit("concat", *group, axis=axis))


def _concat(c: Context, x: Inputs) -> Sequence[Operand]:
    args = [c.operand(x, i) for i in range(len(x))]
    return [join(c, args, c.axis(int(c.attrs["axis"]), args[0].type.rank))]


HANDLERS: dict[str, Handler] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Shape": _shape,
    "Range": _range,
    "Reshape": _reshape,
    "Expand": _expand,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Flatten": _flatten,
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
