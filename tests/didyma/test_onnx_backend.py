"""A sample of ONNX's node tests at every level that runs everywhere; the whole is in the bench."""

from __future__ import annotations

import unittest
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.backend.test import BackendTest
from onnx.backend.test.case.test_case import TestCase as Case

from didyma.onnx_backend import backend_for
from didyma.refimpl.errors import DidymaError
from tests.bench.onnx_nodes import NodeOutcome, page, run_case
from tests.bench.onnx_suites import MODELS, cases

pytestmark = pytest.mark.filterwarnings("ignore")  # onnx warns while it makes its cases

SAMPLE = (
    "test_add_bcast", "test_argmax_keepdims_random_select_last_index", "test_averagepool_2d_ceil",
    "test_basic_conv_with_padding", "test_batchnorm_example", "test_clip_default_min",
    "test_convtranspose_group_2", "test_cumsum_2d_axis_1", "test_dft", "test_einsum_batch_diagonal",
    "test_gather_elements_negative_indices", "test_gathernd_example_int32_batch_dim1",
    "test_gelu_tanh_1", "test_gridsample_bicubic", "test_group_normalization_example",
    "test_layer_normalization_3d_axis1_epsilon", "test_logsoftmax_axis_1_expanded",
    "test_lstm_with_peepholes", "test_maxpool_with_argmax_2d_precomputed_pads",
    "test_mod_mixed_sign_int64", "test_onehot_with_axis", "test_quantizelinear_axis",
    "test_reduce_max_bool_inputs", "test_reshape_zero_and_negative_dim",
    "test_resize_upsample_scales_cubic", "test_scan9_sum", "test_scatternd_add",
    "test_slice_neg_steps",
    "test_softmax_axis_0", "test_top_k", "test_tril_neg", "test_where_example",
)  # fmt: skip


@pytest.fixture(scope="module")
def every() -> dict[str, Case]:
    return {c.name: c for c in cases()}


@pytest.mark.parametrize("level", ["graph", "loop", "program", "host"])
def test_sample(level: str, every: dict[str, Case]) -> None:
    outcomes = [run_case(every[name], level) for name in SAMPLE]
    assert {o.name: o.reason for o in outcomes if o.reason} == {}


# What no level can express: strings, and the gradient of a part of a graph.
NOT_OURS = {
    "test_gradient_of_add": "onnx-unsupported: the operator ai.onnx.preview.training::Gradient",
    "test_gradient_of_add_and_mul": "onnx-unsupported: the operator "
    "ai.onnx.preview.training::Gradient",
    **{
        f"test_strnorm_model_{name}": "onnx-unsupported: element type STRING"
        for name in (
            "monday_casesensintive_lower", "monday_casesensintive_nochangecase",
            "monday_casesensintive_upper", "monday_empty_output",
            "monday_insensintive_upper_twodim", "nostopwords_nochangecase",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("level", ["graph", "host"])
def test_every_model_of_onnx_passes_that_can_be_expressed(level: str) -> None:
    outcomes = [run_case(case, level) for case in cases(MODELS)]
    assert len(outcomes) >= 140
    assert {o.name: o.reason for o in outcomes if o.reason} == NOT_OURS


def test_a_wrong_result_is_seen(
    every: dict[str, Case],
) -> None:
    case = every["test_add_bcast"]
    wrong = replace(case, data_sets=[(i, [o[0] + 1]) for i, o in case.data_sets or ()])
    assert "values differ" in run_case(wrong, "graph").reason


def test_backend_test_runs_unchanged() -> None:
    suite = BackendTest(backend_for("graph"), __name__)
    suite.include("test_relu_cpu")
    suite.include("test_reshape_one_dim_cpu")
    result = unittest.TestResult()
    suite.test_suite.run(result)
    assert result.testsRun - len(result.skipped) == 2
    assert result.wasSuccessful()


def test_inputs_that_must_be_known_are_followed_from_call_to_call() -> None:
    node = helper.make_node("Reshape", ["x", "to"], ["y"])
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [6]),
            helper.make_tensor_value_info("to", TensorProto.INT64, [2]),
        ],
        [helper.make_empty_tensor_value_info("y")],
    )
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    ready = backend_for("graph").prepare(m)
    x = np.arange(6, dtype=np.float32)
    for shape in ([2, 3], [3, -1], [2, 3]):
        (y,) = ready.run([x, np.array(shape, np.int64)])
        assert y.tolist() == x.reshape(shape).tolist()
    assert len(ready.ready) == 2


def test_unknown_level() -> None:
    with pytest.raises(DidymaError) as e:
        backend_for("gpu")
    assert e.value.code == "unknown-level"
    assert "simt" in e.value.want


def test_page_counts_and_groups() -> None:
    rows = [
        NodeOutcome("test_a", "", False, 1.0, True),
        NodeOutcome("test_b", "code: no", False, 1.0, False),
    ]
    other = [
        NodeOutcome("test_a", "code: worse", False, 1.0, True),
        NodeOutcome("test_b", "", True, 1.0, False),
    ]
    text = page({"graph": rows, "host": other})
    assert "| graph | 1 | 2 | 1 of 1 | 0 | 2 |" in text
    assert "| host | 1 | 2 | 0 of 1 | 1 | 2 |" in text
    assert "- **1: code: no**<br>b" in text
    assert "- **1: code: worse**<br>a" in text
    assert "also passes: test_b" in text
