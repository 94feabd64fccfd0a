"""Damage an ONNX model within its format: lies of types, sizes and values, nodes out of place."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, MutableSequence
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

SIZES = (
    -(1 << 63), -(1 << 31), -2, -1, 0, 1, 2, 3, 7, 64, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1,
)  # fmt: skip
REALS = (0.0, -0.0, -1.0, 1e30, float("inf"), float("nan"))
WORDS = ("", "SAME_UPPER", "linear", "reflect", "\0", "é" * 40)
CODES = tuple(range(26))  # of element types and attribute types, some of which there are not


def graphs(g: GraphProto) -> Iterator[GraphProto]:
    """A graph and the bodies of its nodes."""
    yield g
    for n in g.node:
        for a in n.attribute:
            if a.type == AttributeProto.GRAPH:
                yield from graphs(a.g)


def edited(model: ModelProto, dice: random.Random) -> ModelProto:
    """Return a model with one to three things wrong."""
    made = ModelProto()
    made.CopyFrom(model)
    for _ in range(dice.choice((1, 1, 2, 3))):
        g = dice.choice(list(graphs(made.graph)))
        dice.choice(EDITS)(made, g, dice)
    return made


def _some(many: Any, dice: random.Random) -> Any:
    return dice.choice(many) if len(many) else None


def _names(g: GraphProto) -> list[str]:
    made = [o for n in g.node for o in n.output]
    return ["", "absent", *made, *(i.name for i in g.input), *(t.name for t in g.initializer)]


def _put(held: MutableSequence[Any], dice: random.Random, values: Any) -> None:
    """Change, take out or double one element of a list of plain values."""
    if not held:
        held.append(dice.choice(values))
        return
    at = dice.randrange(len(held))
    match dice.randrange(3):
        case 0:
            held[at] = dice.choice(values)
        case 1:
            del held[at]
        case _:
            held.append(held[at])


def _wiring(m: ModelProto, g: GraphProto, dice: random.Random) -> None:
    """Let an operand or a result have another name, be missing, or be there twice."""
    del m
    if n := _some(g.node, dice):
        _put(dice.choice((n.input, n.input, n.output)), dice, _names(g))


def _operator(m: ModelProto, g: GraphProto, dice: random.Random) -> None:
    """Let a node be of another operator or domain."""
    del m
    if n := _some(g.node, dice):
        every = sorted({s.name for s in onnx.defs.get_all_schemas()})
        n.op_type = dice.choice((*every, "", "Nothing"))
        n.domain = dice.choice(("", "", "", "ai.onnx.ml", "own"))


def _order(m: ModelProto, g: GraphProto, dice: random.Random) -> None:
    """Take a node out, double it, or put them in another order."""
    del m
    nodes = list(g.node)
    if not nodes:
        return
    match dice.randrange(3):
        case 0:
            dice.shuffle(nodes)
        case 1:
            nodes.remove(dice.choice(nodes))
        case _:
            nodes.append(dice.choice(nodes))
    copies: list[NodeProto] = []
    for n in nodes:
        made = NodeProto()
        made.CopyFrom(n)
        copies.append(made)
    del g.node[:]
    g.node.extend(copies)


def _attribute(m: ModelProto, g: GraphProto, dice: random.Random) -> None:
    """Change the value, the name or the type of an attribute, or take it out."""
    del m
    n = _some(g.node, dice)
    a = _some(n.attribute, dice) if n else None
    if a is None:
        return
    match dice.randrange(6):
        case 0:
            a.name = dice.choice(("axis", "axes", "to", "body", "", a.name * 2))
        case 1:
            a.type = dice.choice(AttributeProto.AttributeType.values())
        case 2:
            n.attribute.remove(a)
        case 3:
            n.attribute.append(a)
        case _:
            a.i, a.f, a.s = dice.choice(SIZES), dice.choice(REALS), dice.choice(WORDS).encode()
            _put(a.ints, dice, SIZES)
            _put(a.floats, dice, REALS)
            if a.HasField("t"):
                _data(a.t, dice)


def _data(t: TensorProto, dice: random.Random) -> None:
    """Change a tensor's shape, type, or numbers, which may be sizes that somebody will use."""
    match dice.randrange(5):
        case 0:
            _put(t.dims, dice, SIZES)
        case 1:
            t.data_type = dice.choice(CODES)
        case 2:
            t.raw_data = t.raw_data[: dice.randrange(len(t.raw_data) + 1)]
        case 3:
            t.data_location = TensorProto.EXTERNAL
            t.external_data.add(key="location", value=dice.choice(("../x", "/etc/hostname", "x")))
        case _:
            if t.raw_data and t.data_type == TensorProto.INT64:
                low = (1 << 64) - 1
                numbers = [dice.choice(SIZES) & low for _ in range(len(t.raw_data) // 8)]
                t.raw_data = b"".join(n.to_bytes(8, "little") for n in numbers)
            _put(t.int64_data, dice, SIZES)


def _weight(m: ModelProto, g: GraphProto, dice: random.Random) -> None:
    """Damage an initializer, or take a name's input for one."""
    del m
    if t := _some(g.initializer, dice):
        _data(t, dice)
    elif i := _some(g.input, dice):
        made = g.initializer.add(name=i.name, data_type=TensorProto.INT64)
        size = dice.randrange(4)
        made.dims.append(size)
        made.int64_data.extend(dice.choice(SIZES) for _ in range(size))


def _declared(m: ModelProto, g: GraphProto, dice: random.Random) -> None:
    """Lie of the type of an input, a result, or a value between them."""
    del m
    many = [*g.input, *g.output, *g.value_info]
    if not many:
        return
    v = dice.choice(many)
    t = v.type.tensor_type
    match dice.randrange(6):
        case 0:
            t.elem_type = dice.choice(CODES)
        case 1:
            t.ClearField("shape")
        case 2:
            v.name = dice.choice(_names(g))
        case 3 if t.shape.dim:
            del t.shape.dim[dice.randrange(len(t.shape.dim))]
        case 4 if t.shape.dim:
            dice.choice(t.shape.dim).dim_param = dice.choice(("n", "m", "?", "2*n + 1", "n//0"))
        case _:
            (_some(t.shape.dim, dice) or t.shape.dim.add()).dim_value = dice.choice(SIZES)


def _model(m: ModelProto, g: GraphProto, dice: random.Random) -> None:
    """Change the operator set, or what the graph itself has."""
    match dice.randrange(4):
        case 0 if m.opset_import:
            o = dice.choice(m.opset_import)
            o.version = dice.choice((*range(1, 27), *SIZES))
        case 1 if m.opset_import:
            dice.choice(m.opset_import).domain = dice.choice(("", "own", "ai.onnx"))
        case 2:
            held: MutableSequence[Any] = dice.choice((g.input, g.output))
            if held:
                del held[dice.randrange(len(held))]
        case _:
            for f in m.functions:
                f.node.extend(NodeProto(op_type=f.name, domain=f.domain) for _ in range(2))


Edit = Callable[[ModelProto, GraphProto, random.Random], None]
EDITS: tuple[Edit, ...] = (
    _wiring, _operator, _order, _attribute, _attribute, _weight, _declared, _model,
)  # fmt: skip
