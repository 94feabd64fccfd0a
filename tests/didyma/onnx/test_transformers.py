"""Layers of transformers as exporters write them: what they mean, and their launches."""

from __future__ import annotations

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.onnx.load import load_model
from didyma.refimpl.ir.graph import CALL, RESHAPE_ONLY, STAGES
from didyma.refimpl.ir.types import Array
from tests.didyma.onnx.models import agrees
from tests.didyma.onnx.transformers import LAYERS, WIDE, Writer

OPSETS = {"bert": (14, 20), "gpt2": (18,), "vit": (14,), "one_op": (23,)}
CASES = [(name, opset) for name in LAYERS for opset in OPSETS.get(name, (17,))]
LAUNCHES = {
    "bert": 9, "gpt2": 12, "vit": 12, "padded": 8, "causal": 8, "whisper": 8, "llama": 15,
    "one_op": 10,
}  # fmt: skip


@pytest.mark.parametrize(("name", "opset"), CASES)
def test_a_layer_means_what_onnx_runtime_computes(name: str, opset: int) -> None:
    m = LAYERS[name](Writer(np.float32), opset)
    r = np.random.default_rng(1)
    mask = np.ones((2, 7), np.int64)
    mask[1, 4:] = 0
    feeds: dict[str, Array] = {
        "x": r.standard_normal((2, 7, WIDE)).astype(np.float32),
        "heard": r.standard_normal((2, 11, WIDE)).astype(np.float32),
        "mask": mask,
        "at": np.tile(np.arange(7), (2, 1)),
    }
    agrees(m, {i.name: feeds[i.name] for i in m.graph.input}, atol=1e-5)


@pytest.mark.parametrize(("name", "opset"), CASES)
def test_the_attention_of_a_layer_is_one_kernel(name: str, opset: int) -> None:
    m = load_model(LAYERS[name](Writer(np.float16), opset))
    made = compile(m, dd.Options(target="sm_90a"), until="schedule")
    functions = {f.name: f for f in made.fused.functions}
    called = [functions[str(n.attr["callee"])] for n in made.fused.entry.nodes if n.op == CALL]
    launched = [f for f in called if RESHAPE_ONLY not in f.attr]
    joined = [f.name for f in launched if STAGES in f.attr]
    assert len(launched) == LAUNCHES[name]
    assert [len(made.kernels[name]) for name in joined] == [1]
