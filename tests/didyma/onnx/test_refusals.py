"""Models that are broken, that lie, or that ask for what there is not: coded errors."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from didyma.onnx import load, load_bytes
from didyma.onnx.load import load_model
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Tensor
from tests.didyma.onnx.models import f32, model, one, value


def refused(m: onnx.ModelProto) -> DidymaError:
    with pytest.raises(DidymaError) as e:
        load_bytes(m.SerializeToString(), "m.onnx")
    return e.value


def relu(x: str, y: str) -> onnx.NodeProto:
    return helper.make_node("Relu", [x], [y])


IN, OUT = [value("x", 2)], [value("y", 2)]

BROKEN: dict[str, Callable[[], onnx.ModelProto]] = {
    "cycle": lambda: model([relu("b", "a"), relu("a", "b")], IN, [value("b", 2)]),
    "order": lambda: model([relu("a", "y"), relu("x", "a")], IN, OUT),
    "redefined": lambda: model([relu("x", "y"), relu("x", "y")], IN, OUT),
    "result over input": lambda: model([relu("x", "x")], IN, [value("x", 2)]),
    "two inputs": lambda: model([relu("x", "y")], IN * 2, OUT),
    "no such value": lambda: model([helper.make_node("Add", ["x", "w"], ["y"])], IN, OUT),
    "no such output": lambda: model([relu("x", "z")], IN, OUT),
    "unknown attribute": lambda: one("Relu", (2,), slope=1.0),
    "attribute of another type": lambda: one("LeakyRelu", (2,), alpha=1),
    "missing attribute": lambda: one("Concat", (2,), (2,)),
    "too many operands": lambda: one("Relu", (2,), (2,)),
    "too few operands": lambda: one("Add", (2,)),
    "axis": lambda: one("Softmax", (2, 3), axis=2),
    "an axis twice": lambda: one("Unsqueeze", (2, 3), opset=11, axes=[0, -4]),
    "unknown word": lambda: one("Conv", (1, 1, 4, 4), (1, 1, 3, 3), auto_pad="SOME"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name: str) -> None:
    assert refused(BROKEN[name]()).code == "onnx-broken"


@pytest.mark.parametrize(
    "out", [value("y", 3), value("y", 2, 1), value("y", 2, type=TensorProto.INT64)]
)
def test_declared_output_must_be_what_comes_out(out: onnx.ValueInfoProto) -> None:
    assert refused(model([relu("x", "y")], IN, [out])).code == "onnx-mismatch"


def test_declared_intermediate_must_be_what_comes_out() -> None:
    m = model([relu("x", "a"), relu("a", "y")], IN, OUT)
    m.graph.value_info.append(value("a", 5))
    e = refused(m)
    assert e.code == "onnx-mismatch"
    assert "f32[5]" in e.got
    assert e.want == "f32[2]"


def test_unknown_operator_names_node_opset_and_what_is_near() -> None:
    m = one("ImageDecoder", (4,), opset=20)
    e = refused(m)
    assert e.code == "onnx-unsupported"
    assert "the_node" in e.where
    assert "opset 20" in e.where
    assert "docs/onnx.md" in e.want
    assert len(e.want) < 200


def test_operator_of_a_later_opset() -> None:
    assert refused(one("Gelu", (2,), opset=19)).code == "onnx-unsupported"


def test_opset_that_is_not_yet() -> None:
    m = one("Relu", (2,))
    m.opset_import[0].version = 10_000
    assert "opset 10000" in refused(m).got


@pytest.mark.parametrize("code", [TensorProto.COMPLEX64, TensorProto.STRING])
def test_types_that_there_are_not_are_named(code: int) -> None:
    e = refused(model([relu("x", "y")], [value("x", 2, type=code)], OUT))
    assert e.code == "onnx-unsupported"
    assert TensorProto.DataType.Name(code) in e.got


def test_sparse_tensors() -> None:
    m = model([relu("x", "y")], IN, OUT)
    m.graph.sparse_initializer.add()
    assert refused(m).code == "onnx-unsupported"


def test_sequence_input() -> None:
    held = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [2])
    assert refused(model([relu("x", "y")], [held], OUT)).code == "onnx-unsupported"


def test_absurd_sizes_are_refused_before_anything_is_made() -> None:
    start = time.perf_counter()
    huge = np.array([1 << 20, 1 << 20, 1 << 20], np.int64)
    m = model(
        [helper.make_node("Expand", ["x", "s"], ["y"])],
        [value("x", 1)],
        [value("y", "a", "b", "c")],
        s=huge,
    )
    e = refused(m)
    assert e.code == "onnx-too-large"
    assert "4,611,686,018,427,387,904" in e.got
    assert refused(one("Relu", (1 << 30, 1 << 30))).code == "onnx-too-large"
    t = TensorProto(data_type=TensorProto.FLOAT, dims=[1 << 40], name="w")
    lying = model([relu("x", "y")], IN, OUT)
    lying.graph.initializer.append(t)
    assert refused(lying).code == "onnx-too-large"
    assert time.perf_counter() - start < 2


def test_absurd_windows_are_refused() -> None:
    window = one("LpPool", (1, 1, 4, 4), kernel_shape=[1 << 31, 2])
    assert refused(window).got == "4,294,967,296 elements in a window"


def test_an_absurd_count_of_axes_is_refused() -> None:
    shape = value("x", 1 << 31, type=TensorProto.INT64)
    node = helper.make_node("ConstantOfShape", ["x"], ["y"])
    e = refused(model([node], [shape], [value("y", "a")]))
    assert (e.code, e.got) == ("onnx-too-large", "2,147,483,648 axes")


def test_absurd_sizes_have_a_text() -> None:
    many = one("Relu", (1 << 62,) * 64)
    assert "2**" in refused(many).got
    t = TensorProto(data_type=TensorProto.FLOAT, dims=[1 << 62] * 64, name="w")
    lying = model([relu("x", "y")], IN, OUT)
    lying.graph.initializer.append(t)
    assert refused(lying).code == "onnx-too-large"


@pytest.mark.parametrize("values", [False, True])
def test_sizes_do_not_grow_without_end(values: bool) -> None:
    """A sum of sizes squared thirty times over has more terms than anybody can write out."""
    names = [f"x{i}" for i in range(6)]
    nodes: list[onnx.NodeProto] = []
    for i, name in enumerate(names):
        nodes.append(helper.make_node("Shape", [name], [f"s{i}"]))
        parts = [name if values else f"s{i}"] + ([f"t{i - 1}"] if i else [])
        nodes.append(helper.make_node("Sum", parts, [f"t{i}"]))
    nodes += [helper.make_node("Mul", [f"t{i}"] * 2, [f"t{i + 1}"]) for i in range(5, 35)]
    nodes.append(helper.make_node("Expand", ["one", "t35"], ["y"]))
    kind = TensorProto.INT64
    inputs = [value(n, 1 if values else n, type=kind) for n in names]
    m = model(nodes, inputs, [value("y", "m")], one=f32(1))
    start = time.perf_counter()
    load_model(m)
    assert time.perf_counter() - start < 10


def test_tensor_with_too_few_bytes() -> None:
    m = model([helper.make_node("Add", ["x", "w"], ["y"])], IN, OUT, w=f32(1, 2))
    m.graph.initializer[0].raw_data = b"1234"
    assert refused(m).code == "onnx-broken"


# External data ----------------------------------------------------------------------------------


def external(folder: Path, location: str, **entries: str) -> Path:
    m = model([helper.make_node("Add", ["x", "w"], ["y"])], IN, OUT, w=f32(1, 2))
    t = m.graph.initializer[0]
    t.ClearField("raw_data")
    t.data_location = TensorProto.EXTERNAL
    for k, v in {"location": location, **entries}.items():
        t.external_data.add(key=k, value=v)
    path = folder / "m.onnx"
    path.write_bytes(m.SerializeToString())
    return path


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "outside").write_bytes(f32(3, 4).tobytes())
    (folder / "w").write_bytes(f32(9, 1, 2).tobytes())
    return folder


def test_external_data_is_read_from_the_models_folder(inside: Path) -> None:
    m = load(external(inside, "w", offset="4", length="8"))
    constants = [n.attr["value"] for n in m.entry.nodes if n.op == "constant"]
    assert [c.array().tolist() for c in constants if isinstance(c, Tensor)] == [[1, 2]]


@pytest.mark.parametrize(
    "location", ["../outside", "/etc/hostname", "link", "folder/outside", "", "none", "w\0"]
)
def test_external_data_elsewhere_is_refused(inside: Path, location: str) -> None:
    os.symlink(inside.parent / "outside", inside / "link")
    os.symlink(inside.parent, inside / "folder")
    with pytest.raises(DidymaError) as e:
        load(external(inside, location))
    assert e.value.code == "onnx-external-data"


@pytest.mark.parametrize("entries", [{"offset": "8"}, {"offset": "-4"}, {"length": "4"}])
def test_external_data_must_be_there(inside: Path, entries: dict[str, str]) -> None:
    with pytest.raises(DidymaError) as e:
        load(external(inside, "w", **entries))
    assert e.value.code == "onnx-broken"


# Damage -----------------------------------------------------------------------------------------


def damaged(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.2:
        return data[: rng.randrange(len(data))]
    held = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        held[rng.randrange(len(held))] = rng.randrange(256)
    return bytes(held)


def test_damaged_models_give_coded_errors_alone() -> None:
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    sound = [f.read_bytes() for f in sorted(folder.glob("pytorch-operator/*/model.onnx"))]
    sound += [m().SerializeToString() for m in BROKEN.values()]
    assert len(sound) > 40
    rng = random.Random(5)
    outcomes = {"sound": 0, "refused": 0}
    for _ in range(2000):
        try:
            load_bytes(damaged(rng, rng.choice(sound)), "m.onnx")
            outcomes["sound"] += 1
        except DidymaError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 20


def test_garbage_and_nothing() -> None:
    for data in (b"", b"\0" * 100, os.urandom(1000), b"ONNX"):
        with pytest.raises(DidymaError) as e:
            load_bytes(data, "m.onnx")
        assert e.value.code == "onnx-broken"


def test_empty_graph_hands_its_input_on() -> None:
    m = load_model(model([], IN, [value("x", 2)]))
    assert m.entry.results == ("x",)
    assert m.entry.nodes == ()


def test_function_that_calls_itself() -> None:
    m = model([helper.make_node("f", ["x"], ["y"], domain="own")], IN, OUT)
    m.opset_import.append(helper.make_opsetid("own", 1))
    body = [helper.make_node("f", ["a"], ["b"], domain="own")]
    m.functions.append(
        helper.make_function("own", "f", ["a"], ["b"], body, [helper.make_opsetid("own", 1)])
    )
    assert refused(m).code == "onnx-broken"


def test_initializer_twice() -> None:
    m = model([relu("x", "y")], IN, OUT, w=f32(1))
    m.graph.initializer.append(numpy_helper.from_array(f32(2), "w"))
    assert refused(m).code == "onnx-broken"
