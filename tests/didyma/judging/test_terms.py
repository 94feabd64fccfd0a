"""The terms of kernels in the ring: of plain C on ``simt``, of templates and PTX on ``ptx``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from didyma.codegen.runtime.ptx.sources import Source
from didyma.codegen.runtime.registry import probe
from didyma.judging.contracts import Declared
from didyma.judging.judge import Judgement, Outcome, judge
from didyma.judging.making import Launch, make_task
from didyma.judging.task import Draw
from tests.bench.judged_kernels import MORE
from tests.didyma.judging.kernels import KERNELS, SUMS, sums

pytestmark = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")

LONG = Draw({"r": (2,), "n": (4000,)}, ranges={"x": (1.0, 2.0)}, rounds=1)
TEMPLATE = SUMS.replace('extern "C"', "template <int T>").replace("64", "T")


def judged(text: str, kernel: str, structure: bool) -> Judgement:
    contract = Declared(finite=True, structure=structure)
    launch = Launch(kernel, "r", "64")
    return judge(make_task(Source(text, "k.cu"), sums.module, launch, contract, LONG))


@pytest.mark.parametrize(
    ("text", "kernel", "engine"), [(SUMS, "sums", "simt"), (TEMPLATE, "sums<64>", "ptx")]
)
def test_the_ring_shows_a_wrong_term_that_bars_cannot(text: str, kernel: str, engine: str) -> None:
    """One of 4,000 terms is another one, which the bar of a sum in any order is too wide to see."""
    old = "x[blockIdx.x * n + k]"
    assert text.count(old) == 1
    slip = text.replace(old, "x[blockIdx.x * n + max(k, 1)]")
    right = judged(text, kernel, structure=True)
    assert (right.outcome, right.terms.engine) == (Outcome.CORRECT, engine)
    assert right.terms.checked == right.terms.total == 2
    assert judged(slip, kernel, structure=False).outcome is Outcome.CORRECT, "the bar is too wide"
    assert judged(slip, kernel, structure=True).outcome is Outcome.WRONG


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "gelu", "product", "columns"])
def test_right_kernels_have_the_terms_of_their_references(name: str) -> None:
    """Each of their floats is compared on engine ``ptx``, where ``simt`` does not run a kernel."""
    kernel = {**KERNELS, **MORE}[name]
    text, launch = kernel.text, kernel.launch
    if "template" not in text:
        text = text.replace("__global__", "template <int T> __global__")
        launch = replace(launch, kernel=f"{name}<0>")
    draw = Draw(rounds=4, most=1 << 10)
    task = make_task(Source(text, "k.cu"), kernel.spec.module, launch, kernel.contract, draw)
    found = judge(task).terms
    assert found.engine == "ptx"
    assert found.in_ring > 0
    assert not found.unequal, found.example
    assert found.checked == found.total
