"""The template whose blocks share the terms of a tile: drawn problems and planted faults."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from ml_dtypes import bfloat16

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.runtime.registry import probe
from didyma.codegen.templates import cluster
from didyma.codegen.templates.language import Text
from didyma.refimpl.ir.target import SM_90A
from tests.codegen.templates.draw import FAMILIES, drawn
from tests.codegen.templates.faults import one_of_each
from tests.codegen.templates.judging import judged, points, request

GPU = Options(target="sm_90a")
# So little shared memory that stages are filled again.
FEW = replace(GPU, target=replace(SM_90A, dynamic=72 << 10))
_, DTYPES, SIZES = FAMILIES["cluster_gemm"]
SEEDS = (1, 8, 10, 11)  # whose operands lie in runs of 16 bytes
POINT = "cluster_gemm(group=8, height=64, parts=3, turned=0, width=64)"
TALL = "cluster_gemm(group=8, height=128, parts=2, turned=0, width=32)"
TURNED = "cluster_gemm(group=8, height=64, parts=2, turned=1, width=32)"
MEET = "  cluster_barrier();\n  if (threadIdx.x >= 128) {\n"
FAULTS = {
    "wait for a tile": ("      mbarrier_wait(&full[stage], phase);\n", ""),
    "wait for room": ("        mbarrier_wait(&empty[stage], phase);\n", ""),
    "released at once": ("mbarrier_arrive(&empty[before])", "mbarrier_arrive(&empty[stage])"),
    "few arrivals": ("{{ height // 16 }}", "{{ height // 32 }}"),
    "sums": ("    wgmma_wait(0);\n", ""),
    "registers": ("      wgmma_fence();\n", ""),
    "first term of a part": ("(start + turn)", "turn"),
    "last term of a part": ("all_turns * ((i32)rank + 1) / {{ parts }} - start",
                            "all_turns / {{ parts }}"),
    "every part": ("u32 other = 0; other <", "u32 other = 1; other <"),
    "its own part": ("threadIdx.x - 128], other)", "threadIdx.x - 128], rank)"),
    "all have come": (MEET, MEET.replace("  cluster_barrier();\n", "")),
    "blocks have come": (MEET, MEET.replace("cluster_barrier", "__syncthreads")),
    "barrier of blocks that may have ended": ("  cluster_barrier();\n}\n", "}\n"),
    "share of a block": ("i = i + {{ parts }}", "i = i + 1"),
    "share of none": ("u32 i = rank;", "u32 i = rank + 1;"),
    "columns of a tile": ("side + i / 2 * 32 + lane % 4 * 8", "side + lane % 4 * 8"),
    "order of sums": ("i / 2 * 16 + j / 2 * 4 + i % 2 * 2", "i / 2 * 16 + j / 2 * 2 + i % 2 * 8"),
    "fragment": ("warp * 16 + i % 2 * 8 + lane / 4", "warp * 16 + i % 2 * 8 + lane % 8"),
}  # fmt: skip


@dd.trace(dd.bf16[72, 776], dd.bf16[776, 72], dd.f32[72])
def layer(x: dd.Tensor, w: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
    return dd.tanh(x @ w + b)


@dd.trace(dd.f16[5, 264], dd.f16[71, 264])
def few(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return x @ dd.permute_dims(w, (1, 0))


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_products_are_right(seed: int) -> None:
    d = drawn(seed, DTYPES, SIZES)
    every = points(request(d.program, FEW), cluster.TEMPLATE)
    point = every[int(d.share * len(every))]
    assert judged(d.program, point, options=FEW, engines=("simt",)) == {""}, f"{d.about}: {point}"


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_a_planted_fault_is_found_before_anything_is_timed(fault: str) -> None:
    old, new = FAULTS[fault]
    assert old in cluster.TEXT.source
    text = Text("cluster_gemm", cluster.TEXT.source.replace(old, new))
    wrong = replace(cluster.TEMPLATE, render=partial(cluster.render, text=text))
    assert judged(layer, POINT, wrong, FEW, engines=("simt",)) != {""}


def test_the_kernels_without_a_fault_are_right() -> None:
    for point in (POINT, TALL):
        assert judged(layer, point, options=FEW, engines=("simt",)) == {""}
    assert judged(few, TURNED, options=FEW, engines=("simt",)) == {""}


def test_what_nvrtc_makes_of_the_kernel_is_right() -> None:
    state = probe("ptx")
    if not state.runs:
        pytest.skip(f"ptx: {state.why}")
    for program, point in ((layer, POINT), (few, TURNED)):
        assert judged(program, point, options=FEW, engines=("ptx",)) == {""}


@dd.trace(dd.bf16[4, 8], dd.bf16[8, 0])
def no_columns(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return x @ w


def test_no_cluster_shares_the_terms_of_no_results() -> None:
    options = Options().changed({"target": "sm_90a", "kernels.variants": 2})
    exe = dd.compile(no_columns, engine="simt", options=options)
    assert np.shape(exe(np.zeros((4, 8), bfloat16), np.zeros((8, 0), bfloat16))) == (4, 0)
