"""The order in which blocks take tiles, where these are more than a group of rows has."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import ModuleType

import pytest

import didyma as dd
from didyma.codegen.codegens import Template
from didyma.codegen.options import Options
from didyma.codegen.templates import cluster, fma, fma_text, mma, tma, wgmma
from didyma.codegen.templates.language import Text
from tests.codegen.templates import test_mma, test_tma, test_wgmma
from tests.codegen.templates.faults import one_of_each
from tests.codegen.templates.judging import judged
from tests.codegen.templates.test_fma import POINT as BY_THREADS


@dd.trace(dd.bf16[2, 600, 16], dd.bf16[2, 16, 136])
def halves(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return x @ w


@dd.trace(dd.f32[2, 600, 16], dd.f32[2, 16, 136])
def singles(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return x @ w


# Tiles of 64 rows are 10 down and 3 across: a group of 8 has its own order, and so has one of 2.
CASES = {
    "tma_gemm": (tma, halves, test_tma.IN_TURN, test_tma.FEW),
    "cluster_gemm": (
        cluster, halves, "cluster_gemm(group=8, height=64, parts=2, turned=0, width=64)",
        test_tma.GPU,
    ),
    "wgmma_gemm": (wgmma, halves, test_wgmma.POINT.format(apart=1, free=2), test_wgmma.GPU),
    "mma_gemm": (mma, halves, test_mma.POINT, test_mma.GPU),
    "fma_gemm": (fma, singles, BY_THREADS, Options(target="sm_80")),
}  # fmt: skip
FAULTS = {
    "batch": ("{{ number }} % (down * across)", "{{ number }} % (down * across + 1)"),
    "first rows of a group": ("* across) * {{ group }};", "* across) * {{ group // 2 }};"),
    "rows of the last group": ("down - first < {{ group }} ?", "down < 0 ?"),
    "columns of the last group": ("/ together * {{ width }}", "/ {{ group }} * {{ width }}"),
    "rows in a group": ("across) % together)", "across) % (together - 1))"),
    "last tile down": ("({{ rows }} + {{ height - 1 }})", "({{ rows }})"),
    "last tile across": ("({{ columns }} + {{ width - 1 }})", "({{ columns }})"),
}  # fmt: skip


def said(name: str, fault: str = "") -> set[str]:
    module, program, point, options = CASES[name]
    return judged(program, point, _changed(module, *FAULTS.get(fault, ("", ""))), options)


def _changed(module: ModuleType, old: str, new: str) -> Template:
    right = fma_text.FETCHED if module is fma else module.TEXT
    assert old in right.source
    text = Text(module.TEMPLATE.name, right.source.replace(old, new))
    wrong: Template = replace(module.TEMPLATE, render=partial(module.render, text=text))
    return wrong


@pytest.mark.parametrize("name", CASES)
def test_every_tile_is_computed_once(name: str) -> None:
    assert said(name) == {""}


@pytest.mark.parametrize("fault", one_of_each(FAULTS))
def test_a_planted_fault_is_found(fault: str) -> None:
    assert "" not in said("wgmma_gemm", fault)
