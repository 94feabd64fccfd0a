"""Faults stay where they are planted: those of which a test plants one of a kind, too."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from didyma.codegen.templates import (
    attention,
    attention_mma,
    attention_tma,
    attention_wgmma,
    cluster,
    depthwise,
    fma_text,
    gemm,
    mma,
    tma,
    weighted_mma,
    weighted_text,
    wgmma,
)
from tests.bench.template_faults import CASES

TEXTS = {
    "tiled_gemm": gemm.TEXT,
    "fma_gemm": fma_text.FETCHED,
    "fma_gemm of copies": fma_text.COPIED,
    "mma_gemm": mma.TEXT,
    "wgmma_gemm": wgmma.TEXT,
    "wgmma_gemm of pieces": wgmma.TEXT,
    "wgmma_gemm of tf32": wgmma.TEXT,
    "wgmma_gemm of integers": wgmma.TEXT,
    "wgmma_gemm of many tiles": wgmma.TEXT,
    "cluster_gemm": cluster.TEXT,
    "tma_gemm": tma.TEXT,
    "tma_gemm by two blocks": tma.TEXT,
    "tma_gemm by boxes": tma.TEXT,
    "tma_gemm of windows": tma.TEXT,
    "depthwise_conv": depthwise.TEXT,
    "depthwise_conv of channels": depthwise.LAST,
    "tiled_attention": attention.TEXT,
    "mma_attention": attention_mma.TEXT,
    "wgmma_attention": attention_wgmma.TEXT,
    "tma_attention": attention_tma.TEXT,
    "mma_weighted": weighted_mma.TEXT,
    "tma_weighted": weighted_text.TEXT,
}


def places(name: str) -> Iterator[tuple[str, str, str]]:
    """Yield the text of each fault, what it changes there, and to what."""
    for found in CASES[name].faults.values():
        match found:
            case (str(old), str(new)):
                yield TEXTS[name].source, old, new
            case (ModuleType() as module, str(old), str(new)):
                yield module.TEXT.source, old, new
            case _:
                raise AssertionError(found)


@pytest.mark.parametrize("name", CASES)
def test_each_fault_has_its_place(name: str) -> None:
    assert all(old in text and old != new for text, old, new in places(name))
