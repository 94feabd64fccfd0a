"""Rewrite rules for ops that only move, repeat or convert elements."""

from __future__ import annotations

from dataclasses import replace
from typing import cast as typed

from didyma.codegen.decisions import Match
from didyma.codegen.passes.values import Values
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import Node, attrs
from didyma.refimpl.ir.types import DType, TensorType

_STILL = ("concat", "reshape", "broadcast_to", "cast", "permute_dims", "flip", "slice", "pad")
_COMPOSED = ("reshape", "permute_dims", "broadcast_to", "flip")
_ALONG = ("reshape", "permute_dims", "flip", "slice")  # at most as many elements, of the operand
IDENTITY = tuple(Match(op, kept=True) for op in _STILL)
AS_RESHAPE = (Match("permute_dims"), Match("broadcast_to"))
COMPOSE = tuple(Match(op, source=op) for op in _COMPOSED)
REPEATED = tuple(Match(op, source="broadcast_to") for op in _ALONG)
ROW = (Match("gather", 1, "constant"),)
CAST_ONCE = (Match("cast", source="cast"),)


def _ints(n: Node, name: str) -> tuple[int, ...]:
    return typed("tuple[int, ...]", n.attr[name])


def identity(n: Node, values: Values) -> str | None:
    """Return the operand of a node that changes neither its elements nor their order."""
    if n.op == "concat":
        return n.args[0] if len(n.args) == 1 else None
    if not n.args or values.types[n.args[0]] != n.types[0]:
        return None
    rank = n.types[0].rank
    match n.op:
        case "reshape" | "broadcast_to" | "cast" | "pad":
            same = True
        case "permute_dims":
            same = _moves_nothing(_ints(n, "axes"), n.types[0])
        case "flip":
            same = all(n.types[0].shape[a] == 1 for a in _ints(n, "axes"))
        case "slice":  # of equal shape: it takes all of every axis, forwards
            same = _ints(n, "steps") == (1,) * rank
        case _:
            same = False
    return n.args[0] if same else None


def _moves_nothing(axes: tuple[int, ...], source: TensorType) -> bool:
    """Return whether a permutation keeps the order of the axes that are not of size 1."""
    real = [a for a in axes if source.shape[a] != 1]
    return real == sorted(real)


def as_reshape(n: Node, values: Values) -> Node | None:
    """Replace a node that only moves or adds axes of size 1 by a reshape, which costs nothing."""
    if n.op not in ("permute_dims", "broadcast_to"):
        return None
    source = values.types[n.args[0]]
    if n.op == "permute_dims":
        still = _moves_nothing(_ints(n, "axes"), source)
    else:
        added = n.types[0].rank - source.rank
        still = n.types[0].shape == (*(1,) * added, *source.shape)
    return _reshape(n, n.args[0], n.types[0].shape) if still else None


def _reshape(n: Node, of: str, shape: tuple[Dim, ...]) -> Node:
    return replace(n, op="reshape", args=(of,), attrs=attrs({"shape": shape}))


def compose(n: Node, values: Values) -> Node | None:
    """Combine a node with its operand, if that is the same op, into one node."""
    if n.op not in _COMPOSED:
        return None
    inner = values.source(n.args[0], n.op)
    if inner is None:
        return None
    match n.op:
        case "permute_dims":
            first, second = _ints(inner, "axes"), _ints(n, "axes")
            new = attrs({"axes": tuple(first[a] for a in second)})
        case "flip":
            first, second = _ints(inner, "axes"), _ints(n, "axes")
            new = attrs({"axes": tuple(sorted(set(first) ^ set(second)))})
        case _:
            new = n.attrs
    return replace(n, args=inner.args, attrs=new)


def repeat(n: Node, values: Values) -> Node | None:
    """Repeat an element in the shape wanted, instead of moving its repetitions there."""
    inner = values.source(n.args[0], "broadcast_to") if n.op in _ALONG else None
    if inner is None or values.types[inner.args[0]].rank:
        return None
    shape = attrs({"shape": n.types[0].shape})
    return replace(n, op="broadcast_to", args=inner.args, attrs=shape)


def row(n: Node, values: Values) -> tuple[Node, Node] | None:
    """Return a slice and a reshape for a ``gather`` at one constant index: views show these."""
    index = values.constant(n.args[1]) if n.op == "gather" else None
    if index is None or index.shape:
        return None
    source, axis = values.types[n.args[0]], typed("int", n.attr["axis"])
    size = source.shape[axis]
    if not isinstance(size, int) or size == 0:
        return None
    i = int(index.array())
    at = min(max(i + size if i < 0 else i, 0), size - 1)
    shape = n.types[0].shape
    ends = {
        "starts": (*(0,) * axis, at, *(0,) * (source.rank - axis - 1)),
        "stops": (*source.shape[:axis], at + 1, *source.shape[axis + 1 :]),
        "steps": (1,) * source.rank,
    }
    name = values.names.fresh(n.results[0])
    one = n.types[0].with_shape(*shape[:axis], 1, *shape[axis:])
    part = Node((name,), "slice", (n.args[0],), (one,), attrs(ends))
    return part, _reshape(n, name, shape)


def cast_once(n: Node, values: Values) -> Node | None:
    """Drop the first of two casts in a row if it is lossless."""
    if n.op != "cast":
        return None
    inner = values.source(n.args[0], "cast")
    if inner is None:
        return None
    source, via = values.types[inner.args[0]].dtype, inner.types[0].dtype
    target = n.types[0].dtype
    if source.is_int and via.is_float and target.is_int and not lossless(source, target):
        return None  # a cast from float saturates; one from int would wrap
    return replace(n, args=inner.args) if lossless(source, via) else None


# Digits of the significand and bits of the exponent: of dtypes to cast to, and of all floats.
_TARGETS = {DType.F64: (53, 11), DType.F32: (24, 8), DType.F16: (11, 5), DType.BF16: (8, 8)}
_FLOATS = _TARGETS | {
    DType.F8E4M3: (4, 4), DType.F8E4M3FNUZ: (4, 4), DType.F8E5M2: (3, 5), DType.F8E5M2FNUZ: (3, 5),
    DType.F8E8M0: (1, 8), DType.F4E2M1: (2, 2),
}  # fmt: skip


def lossless(source: DType, target: DType) -> bool:
    """Return whether a cast keeps every value, NaN payloads aside.

    >>> lossless(DType.I16, DType.F32), lossless(DType.BF16, DType.F16)
    (True, False)
    """
    if source == target:
        return True
    if target == DType.BOOL or (source.is_float and not target.is_float):
        return False
    if target.is_float:
        if target not in _TARGETS:
            return False
        mantissa, exponent = _TARGETS[target]
        if source.is_float:
            return _FLOATS[source][0] <= mantissa and _FLOATS[source][1] <= exponent
        return source.bits - source.is_signed <= mantissa
    if source is DType.BOOL:
        return True
    bits = source.bits - source.is_signed
    return bits <= target.bits - target.is_signed and source.is_signed <= target.is_signed
