"""The bench of light models, on a model that is lighter still."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from didyma.refimpl.ir.types import Array
from tests.bench import light


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """``y = relu(x - 1)`` for the dummy input that the bench makes."""
    one = numpy_helper.from_array(np.ones((), np.float32), "one")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    nodes = [helper.make_node("Sub", ["x", "one"], ["d"]), helper.make_node("Relu", ["d"], ["y"])]
    graph = helper.make_graph(nodes, "small", [x], [y], [one])
    path = tmp_path / "small.onnx"
    path.write_bytes(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
        ).SerializeToString()
    )
    (given,) = light.inputs(helper.make_model(graph)).values()
    keep(path, np.maximum(given - 1, 0))
    return path


def keep(path: Path, output: Array) -> None:
    file = path.with_name(f"{path.stem}_output_0.pb")
    file.write_bytes(numpy_helper.from_array(output).SerializeToString())


def test_levels_are_timed_and_held_to_the_outputs(model: Path) -> None:
    row = light.measure(model)
    assert row.passes == {"graph": True, "host": True}
    assert set(row.seconds) == {"graph", "host", "reference"}
    assert min(row.seconds.values()) > 0
    (_, _, line, *_, total) = light.table([row, row])
    assert line.startswith("| small | yes | yes | ")
    assert total == f"Geometric mean: {row.ratio:.1f} times."


def test_another_output_is_seen(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(model, np.full((2, 3), 7, np.float32))
    assert light.measure(model, ["graph"]).passes == {"graph": False}
    assert "small on graph" in capsys.readouterr().err


def test_what_is_slow_runs_once() -> None:
    now = 0.0
    runs: list[int] = []

    def clock() -> float:
        return now

    def run() -> list[int]:
        nonlocal now
        runs.append(len(runs))
        now += 20 if len(runs) == 1 else 0.25
        return runs

    found, best = light.timed(run, clock)
    assert (len(found), best) == (1, 20)
    found, best = light.timed(run, clock)
    assert (len(found), best) == (6, 0.25)
