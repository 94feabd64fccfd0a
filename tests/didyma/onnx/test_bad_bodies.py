"""Bodies, functions, operator sets and tensors that break ONNX's rules: errors that say which."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from didyma.onnx import load_bytes
from didyma.refimpl.errors import DidymaError
from tests.didyma.onnx.models import f32, model, one, value

I64, BOOL = TensorProto.INT64, TensorProto.BOOL
node = helper.make_node
Edit = Callable[[TensorProto], object]


def refused(m: onnx.ModelProto) -> DidymaError:
    with pytest.raises(DidymaError) as e:
        load_bytes(m.SerializeToString(), "m.onnx")
    return e.value


def free(name: str, type: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    made = helper.make_empty_tensor_value_info(name)
    made.type.tensor_type.elem_type = type
    return made


def body(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[Any], outputs: Sequence[Any]
) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), "inner", list(inputs), list(outputs))


def relu(x: str, y: str) -> onnx.NodeProto:
    return node("Relu", [x], [y])


THEN = body([relu("x", "t")], [], [free("t")])
ELSE = body([node("Neg", ["x"], ["e"])], [], [free("e")])


def branch(
    then: onnx.GraphProto = THEN, other: onnx.GraphProto = ELSE, *after: onnx.NodeProto,
    out: str = "z", condition: str = "c",
) -> onnx.ModelProto:  # fmt: skip
    first = node("If", [condition], ["z"], then_branch=then, else_branch=other)
    return model([first, *after], [value("c", type=BOOL), value("x", 2)], [free(out)])


def loop(
    inner: onnx.GraphProto, inputs: Sequence[str] = ("n", "", "x"), outputs: int = 1
) -> onnx.ModelProto:
    made = node("Loop", inputs, [f"y{i}" for i in range(outputs)], body=inner)
    return model([made], [value("n", type=I64), value("x", 2)], [free("y0")])


def rounds(count: int = 3, *, names: Sequence[str] = ("i", "going", "s")) -> onnx.GraphProto:
    nodes = [node("Identity", ["going"], ["again"]), node("Add", ["s", "s"], ["s1"])]
    types = (I64, BOOL, TensorProto.FLOAT)
    inputs = [free(n, t) for n, t in zip(names[:count], types, strict=False)]
    return body(nodes, inputs, [free("again", BOOL), free("s1")][: max(count - 1, 0)])


def scan(**attrs: Any) -> onnx.ModelProto:
    inner = body([node("Add", ["s", "r"], ["s1"])], [free("s"), free("r")], [free("s1")])
    made = node("Scan", ["s0", "x"], ["y"], body=inner, **attrs)
    return model([made], [value("s0"), value("x", 4)], [free("y")])


BODIES: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "what comes later": (
        lambda: branch(body([relu("w", "t")], [], [free("t")]), ELSE, node("Exp", ["z"], ["w"])),
        "'w'",
    ),
    "its own result": (lambda: branch(body([relu("z", "t")], [], [free("t")])), "'z'"),
    "the other branch": (
        lambda: branch(THEN, body([node("Neg", ["t"], ["e"])], [], [free("e")])),
        "'t'",
    ),
    "outside of a branch": (lambda: branch(THEN, ELSE, node("Exp", ["t"], ["y"]), out="y"), "'t'"),
    "a result from a branch": (lambda: branch(out="t"), "'t'"),
    "a branch of inputs": (
        lambda: branch(body([relu("q", "t")], [value("q", 2)], [free("t")])),
        "1 inputs",
    ),
    "results of one branch": (
        lambda: branch(body([relu("x", "t")], [], [free("t"), free("t")])),
        "2 and 1 results",
    ),
    "no results": (lambda: branch(body([], [], []), body([], [], [])), "1 results"),
    "no condition": (lambda: branch(condition="nothing"), "'nothing'"),
    "a condition of floats": (lambda: branch(condition="x"), "f32[2]"),
    "a cycle in a branch": (
        lambda: branch(body([relu("b", "a"), relu("a", "b")], [], [free("b")])),
        "'b'",
    ),
    "a loop's body without inputs": (lambda: loop(rounds(0)), "0 inputs"),
    "a loop's body of few inputs": (lambda: loop(rounds(2)), "2 inputs"),
    "a loop's inputs of one name": (lambda: loop(rounds(names=("s", "going", "s"))), "'s'"),
    "results that a loop has not": (lambda: loop(rounds(), outputs=3), "3 results"),
    "nothing scanned": (lambda: scan(num_scan_inputs=0), "0 scanned"),
    "too much scanned": (lambda: scan(num_scan_inputs=9), "9 scanned"),
    "axes of nothing": (lambda: scan(num_scan_inputs=1, scan_input_axes=[0, 0]), "2 scan_input"),
    "an axis that is not": (lambda: scan(num_scan_inputs=1, scan_input_axes=[3]), "axis 3"),
    "no such direction": (
        lambda: scan(num_scan_inputs=1, scan_input_directions=[2]),
        "scan_input_directions [2]",
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str) -> None:
    make, says = BODIES[name]
    e = refused(make())
    assert e.code == "onnx-broken"
    assert e.where.startswith("m.onnx: ")
    assert says in e.got


def test_branches_of_two_types() -> None:
    cast = body([node("Cast", ["x"], ["e"], to=I64)], [], [free("e", I64)])
    assert refused(branch(THEN, cast)).code == "branch-mismatch"


def test_more_rounds_than_anybody_can_count() -> None:
    m = loop(rounds())
    m.graph.initializer.append(helper.make_tensor("n", I64, [], [1 << 62]))
    e = refused(m)
    assert e.code == "D-too-large"
    assert "36,893,488,147,419,103,232 bytes" in e.got


# Functions --------------------------------------------------------------------------------------


def function(
    nodes: Sequence[onnx.NodeProto], name: str = "f", inputs: Sequence[str] = ("a",)
) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, list(inputs), ["b"], list(nodes), opsets)


def calls(*functions: onnx.FunctionProto, operands: int = 1) -> onnx.ModelProto:
    m = model([node("f", ["x"] * operands, ["y"], domain="own")], [value("x", 2)], [value("y", 2)])
    m.opset_import.append(helper.make_opsetid("own", 1))
    m.functions.extend(functions)
    return m


def own(name: str, x: str, y: str) -> onnx.NodeProto:
    return node(name, [x], [y], domain="own")


FUNCTIONS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "each other": (
        lambda: calls(function([own("g", "a", "b")]), function([own("f", "a", "b")], "g")),
        "functions within each other",
    ),
    "itself twice": (
        lambda: calls(function([own("f", "a", "c"), own("f", "c", "b")])),
        "functions within each other",
    ),
    "what is around it": (lambda: calls(function([relu("x", "b")])), "'x'"),
    "a cycle": (lambda: calls(function([relu("q", "p"), relu("p", "q"), relu("a", "b")])), "'q'"),
    "two of one name": (
        lambda: calls(function([relu("a", "b")]), function([relu("a", "b")])), "second function"
    ),
    "an input twice": (
        lambda: calls(function([node("Add", ["a", "a"], ["b"])], inputs="aa"), operands=2), "a, a"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    make, says = FUNCTIONS[name]
    e = refused(make())
    assert e.code == "onnx-broken"
    assert says in e.got


def test_functions_that_double_at_each_level() -> None:
    last = function([relu("a", "b")], "f40")
    doubling = [
        function([own(f"f{i + 1}", "a", "c"), own(f"f{i + 1}", "c", "b")], f"f{i}" if i else "f")
        for i in range(40)
    ]
    start = time.process_time()
    assert refused(calls(*doubling, last)).code == "onnx-too-large"
    assert time.process_time() - start < 10


# Operator sets ----------------------------------------------------------------------------------


def plain() -> onnx.ModelProto:
    return model([relu("x", "y")], [value("x", 2)], [value("y", 2)])


def test_no_operator_set() -> None:
    m = plain()
    del m.opset_import[:]
    e = refused(m)
    assert (e.code, e.got) == ("onnx-broken", "no opset_import")
    m.opset_import.append(helper.make_opsetid("other", 1))
    assert "that of ai.onnx" in refused(m).want


def test_one_operator_set_twice() -> None:
    m = plain()
    m.opset_import.append(helper.make_opsetid("ai.onnx", 3))
    assert refused(m).got == "ai.onnx 17, ai.onnx 3"


def test_a_domain_that_nobody_knows() -> None:
    m = model([node("Foo", ["x"], ["y"], domain="com.nobody")], [value("x", 2)], [value("y", 2)])
    e = refused(m)
    assert e.code == "onnx-unsupported"
    assert "com.nobody::Foo" in e.got


def test_no_graph() -> None:
    e = refused(onnx.ModelProto(opset_import=[helper.make_opsetid("", 17)]))
    assert e.code == "onnx-broken"


# Tensors ----------------------------------------------------------------------------------------


def shaped(*sizes: int) -> Edit:
    def edit(t: TensorProto) -> None:
        t.ClearField("dims")
        t.dims.extend(sizes)

    return edit


def typed(t: TensorProto) -> None:
    t.ClearField("raw_data")
    t.float_data.append(1)


TENSORS: dict[str, tuple[Edit, str]] = {
    "too many bytes": (lambda t: setattr(t, "raw_data", t.raw_data * 2), "onnx-broken"),
    "no bytes": (lambda t: setattr(t, "raw_data", b""), "onnx-broken"),
    "no data": (lambda t: t.ClearField("raw_data"), "onnx-broken"),
    "too few numbers": (typed, "onnx-broken"),
    "numbers in two fields": (lambda t: t.float_data.append(1), "onnx-broken"),
    "a negative size": (shaped(-2), "onnx-broken"),
    "two negative sizes": (shaped(-2, -1), "onnx-broken"),
    "no type": (lambda t: setattr(t, "data_type", 0), "onnx-unsupported"),
    "nothing of absurd size": (shaped(0, 1 << 62, 1 << 62), "onnx-too-large"),
    "many axes": (shaped(*[1] * 99, 2), "onnx-too-large"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors(name: str) -> None:
    edit, code = TENSORS[name]
    m = model([node("Add", ["x", "w"], ["y"])], [value("x", 2)], [value("y", 2)], w=f32(1, 2))
    edit(m.graph.initializer[0])
    e = refused(m)
    assert e.code == code
    assert "initializer w" in e.where


# Attributes that ask for too much ---------------------------------------------------------------

ABSURD: Sequence[tuple[str, Sequence[Sequence[int]], dict[str, Any], str]] = (
    ("LRN", [(1, 1 << 12, 2, 2)], {"size": 1 << 40}, "onnx-too-large"),
    ("LRN", [(1, 4, 2, 2)], {"size": 0}, "onnx-broken"),
    ("Conv", [(1, 1, 4, 4), (1, 1, 3, 3)], {"pads": [1 << 40] * 4}, "onnx-too-large"),
    ("Conv", [(1, 1, 4, 4), (1, 1, 3, 3)], {"kernel_shape": [9, 9]}, "onnx-broken"),
    ("Conv", [(1, 1, 4, 4), (1, 1, 3, 3)], {"strides": [0, 0]}, "bad-attr"),
    ("ConvTranspose", [(1, 1, 4, 4), (1, 1, 3, 3)], {"output_shape": [1 << 40] * 2},
     "onnx-too-large"),
    ("Split", [(7,)], {"num_outputs": 1 << 20}, "onnx-broken"),
    ("RandomNormal", [], {"shape": [1 << 40]}, "onnx-too-large"),
    ("Flatten", [(2, 3)], {"axis": 9}, "onnx-broken"),
    ("Transpose", [(2, 3)], {"perm": [0, 0]}, "bad-attr"),
)  # fmt: skip


@pytest.mark.parametrize(("op", "shapes", "attrs", "code"), ABSURD)
def test_absurd_attributes(
    op: str, shapes: Sequence[Sequence[int]], attrs: dict[str, Any], code: str
) -> None:
    start = time.process_time()
    assert refused(one(op, *shapes, opset=18, **attrs)).code == code
    assert time.process_time() - start < 5


def test_a_body_that_onnx_itself_cannot_make() -> None:
    newest = onnx.defs.onnx_opset_version()
    m = one("SpaceToDepth", (2, 2, 6, 6), opset=newest, blocksize=1 << 40)
    assert refused(m).code == "onnx-broken"


def test_windows_wider_than_the_channels_see_all_of_them() -> None:
    x = np.arange(8, dtype=np.float32).reshape(1, 4, 2, 1)
    wide = load_bytes(one("LRN", x.shape, size=1 << 40).SerializeToString(), "m.onnx")
    assert len(wide.entry.nodes) < 50
