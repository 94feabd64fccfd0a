"""Specifications as tasks of other judges: what they say, and that PyTorch computes the same."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.judging.adapters import flashinfer, gpumode, kernelbench, torch_text, written
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array, DType
from didyma.testing import assert_agree
from didyma.tracer.tracing import Program

r, n = dd.dim("r", 1, 512), dd.dim("n", 1, 32)


@dd.trace(dd.f16[r, n])
def softmax(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x.astype("f32"), axis=1).astype("f16")


@dd.trace(dd.f32[r, 8, 2], dd.f32[r, 8])
def rotated(x: dd.Tensor, c: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    a, b = x[:, :, 0], x[:, :, 1]
    return dd.stack([a * c - b, b * c + a], axis=2), dd.sum(x[0] > 0, axis=1).astype("i32")


@dd.trace(dd.i32[n])
def counted(x: dd.Tensor) -> dd.Tensor:
    equal = x[:, None] == dd.arange(16, dtype=dd.i32)[None, :]
    return dd.sum(equal.astype("i32"), axis=0).astype("i32")


@dd.trace(dd.f32[r, n], dd.i64[3])
def blurred(x: dd.Tensor, at: dd.Tensor) -> dd.Tensor:
    p = dd.pad(x, ((0, 0), (1, 1)))
    return dd.take((p[:, :-2] + p[:, 1:-1] + p[:, 2:]) / 3.0, dd.minimum(at, 0), axis=0)


SPECS = (softmax, rotated, counted, blurred)


def test_a_definition_says_what_a_specification_does(tmp_path: Path) -> None:
    made = written.definition(rotated.module, "rotated_pairs")
    path = tmp_path / "definition.json"
    path.write_text(json.dumps(made))
    read = flashinfer.read(path)
    assert (read.name, read.variables) == ("rotated_pairs", ("r",))
    assert read.constants == {"const_8": 8, "const_2": 2}
    assert read.inputs["x"].axes == ("r", "const_8", "const_2")
    assert [t.dtype for t in read.outputs.values()] == [DType.F32, DType.I32]
    assert "def run(x, c):" in read.reference


@pytest.mark.parametrize("spec", SPECS)
def test_tasks_are_read_as_such(spec: Program) -> None:
    task = written.kernelbench(spec.module)
    assert kernelbench.is_task(task)
    compile(task, "task.py", "exec")
    files = written.gpumode(spec.module)
    assert gpumode.is_task(files["reference.py"])
    compile(files["reference.py"], "reference.py", "exec")
    rows = [*gpumode.arguments(files["task.yml"])]
    assert [a["seed"] for a in rows] == [1, 2, 3, 3]
    assert all(a.get("n", 1) <= 32 for a in rows)  # as its range says


def test_sizes_of_a_task_are_chosen() -> None:
    assert "r = 100\nn = 32\n" in written.kernelbench(softmax.module, {"r": 100})
    with pytest.raises(DidymaError, match="from 1 to 32"):
        written.kernelbench(softmax.module, {"n": 33})


def traced(f: Callable[[dd.Tensor], dd.Tensor], *types: Any) -> Module:
    program: Program = dd.trace(*types)(f)
    return program.module


@pytest.mark.parametrize(
    "m",
    [
        traced(lambda x: dd.conv2d(x, x), dd.f32[1, 1, 3, 3]),
        traced(lambda x: x[::-1], dd.f32[5]),
        traced(lambda x: x + 1, dd.u16[5]),
        traced(lambda x: x * dd.asarray(np.zeros(5000, np.float32)), dd.f32[5000]),
    ],
)
def test_what_has_no_text_is_refused(m: Module) -> None:
    for write in (written.kernelbench, written.gpumode, written.definition):
        with pytest.raises(DidymaError, match="bad-spec"):
            write(m)


def test_a_size_that_a_specification_lacks_is_refused() -> None:
    m = traced(lambda x: x + 1, dd.f32[n])
    with pytest.raises(DidymaError, match="want: one of n"):
        written.kernelbench(m, {"q": 3})


def test_a_definition_has_axes_of_one_symbol() -> None:
    m = traced(lambda x: dd.pad(x, ((0, 1),)), dd.f32[r])
    with pytest.raises(DidymaError, match="an axis of r \\+ 1 elements"):
        written.definition(m)


def test_names_are_those_of_python() -> None:
    m = traced(lambda lambda_: lambda_ + 1, dd.f32[n])
    assert [torch_text.word(w) for w in ("lambda", "max", "3d", "a.b")] == [
        "lambda_", "max_", "_3d", "a_b",
    ]  # fmt: skip
    compile(torch_text.source(m, "run"), "run.py", "exec")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
@pytest.mark.parametrize("spec", SPECS)
def test_pytorch_computes_the_same(spec: Program) -> None:
    space: dict[str, Any] = {"__name__": "task"}
    exec(written.kernelbench(spec.module), space)
    inputs = space["get_inputs"]()
    out: Any = space["Model"](*space["get_init_inputs"]())(*inputs)
    tensors: list[Any] = [*out] if len(spec.module.entry.results) > 1 else [out]
    got: list[Array] = [t.numpy() for t in tensors]
    assert_agree(tuple(got) if len(got) > 1 else got[0], spec, *(t.numpy() for t in inputs))
