"""Constant folding: nodes whose operands are small or repeated constants become constants."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from didyma.codegen.decisions import Match
from didyma.codegen.passes.values import Values
from didyma.refimpl.ir.control import attr_symbols
from didyma.refimpl.ir.graph import Node, attrs
from didyma.refimpl.ir.types import Array, DType, Tensor
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Kind

_MOVES = frozenset({"flip", "permute_dims", "reshape", "slice"})
_WIDER = (DType.F16, DType.BF16)  # kernels keep intermediates of these in f32

# What has a constant as every operand: enough to draw around, though others fold too.
FOLD = tuple(
    Match(op.name, operand, "constant")
    for op in OPS.values()
    for operand in range(min(2, op.arity[0]))
    if op.kind is not Kind.OPAQUE
)
REPEATED = tuple(m for m in FOLD if OPS[m.op].kind is Kind.ELEMENTWISE)


def fold(n: Node, values: Values, operand: int, result: int) -> Node | None:
    """Return a constant with the value of a node, or None if the node should stay.

    No operand may have more than ``operand`` elements, and the result more than ``result``, unless
    some operand has as many: folding adds few bytes.

    Arithmetic in f16 and bf16 stays, since a kernel keeps its intermediates in f32 and a constant
    would round them.  Nodes without operands, and ``broadcast_to``, stay: a loop computes their
    elements more cheaply than it loads them.
    """
    op = OPS[n.op]
    if not n.args or n.op == "broadcast_to" or n.types[0].device:
        return None
    t = n.types[0]
    if op.kind == Kind.ELEMENTWISE and t.dtype in _WIDER:
        return None
    if op.kind in (Kind.REDUCTION, Kind.OPAQUE) and t.dtype.is_float:
        return None
    operands = [values.constant(a) for a in n.args]
    known = [c for c in operands if c is not None]
    largest = max((math.prod(c.shape) for c in known), default=0)
    numel = t.numel
    if len(known) < len(operands) or largest > operand:
        return None
    if not isinstance(numel, int) or numel > max(result, largest):
        return None
    if any(attr_symbols(value) for _, value in n.attrs):
        return None
    value = op.apply(n.attr).eval([c.array() for c in known], t)
    return Node(n.results, "constant", (), n.types, attrs({"value": Tensor.of(value)}))


def fold_joined(n: Node, values: Values) -> Node | None:
    """Return a constant for a ``concat`` of slices of constants, of any size.

    None where it would have more elements than those constants, which are mostly needed no more.
    """
    t = n.types[0]
    if n.op != "concat" or t.device or not isinstance(t.numel, int):
        return None
    found, parts = dict[str, int](), list[Array]()
    for a in n.args:
        cut = values.source(a, "slice")
        of = a if cut is None else cut.args[0]
        constant = values.constant(of)
        if constant is None or (cut and any(attr_symbols(value) for _, value in cut.attrs)):
            return None
        found[of] = math.prod(constant.shape)
        whole = constant.array()
        parts.append(
            whole if cut is None else OPS["slice"].apply(cut.attr).eval([whole], cut.types[0])
        )
    if t.numel > sum(found.values()):
        return None
    value = OPS["concat"].apply(n.attr).eval(parts, t)
    return Node(n.results, "constant", (), n.types, attrs({"value": Tensor.of(value)}))


def fold_moved(n: Node, values: Values) -> Node | None:
    """Return a constant for a constant, of any size, that a node moves.

    So no call moves it.  None where it has other readers than moves, or these have more elements
    than it has: both would be kept.
    """
    if n.op not in _MOVES or n.types[0].device or any(attr_symbols(v) for _, v in n.attrs):
        return None
    constant, readers = values.constant(n.args[0]), values.readers.get(n.args[0], ())
    if constant is None or any(r.op not in _MOVES for r in readers):
        return None
    numels = [r.types[0].numel for r in readers]
    known = [k for k in numels if isinstance(k, int)]
    if not readers or len(known) < len(numels) or sum(known) > math.prod(constant.shape):
        return None
    value = OPS[n.op].apply(n.attr).eval([constant.array()], n.types[0])
    return Node(n.results, "constant", (), n.types, attrs({"value": Tensor.of(value)}))


def fold_repeated(n: Node, values: Values) -> tuple[Node, Node] | None:
    """Return one constant, and the node that repeats it, for an op on constants that are repeated.

    So a value of any size that is computed from one element each of constants takes no kernel.
    None for other nodes, and in f16 and bf16 as of ``fold``.
    """
    op, t = OPS[n.op], n.types[0]
    if op.kind is not Kind.ELEMENTWISE or not t.rank or t.dtype in _WIDER or t.device:
        return None
    elements = list[Array]()
    for a in n.args:
        found = values.splat(a)
        if found is None:
            return None
        elements.append(np.frombuffer(found, values.types[a].dtype.numpy).reshape(()))
    one = replace(t, shape=())
    value = Tensor.of(op.apply(n.attr).eval(elements, one))
    name = values.names.fresh(n.results[0])
    return (
        Node((name,), "constant", (), (one,), attrs({"value": value})),
        replace(n, op="broadcast_to", args=(name,), attrs=attrs({"shape": t.shape})),
    )
