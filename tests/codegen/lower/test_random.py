"""Random graphs, fused: every kernel against the reference, unscheduled and scheduled."""

from __future__ import annotations

import pytest

from tests.codegen.graphs import bindings, graph, operands
from tests.codegen.lower.judged import agree_everywhere


@pytest.mark.parametrize("seed", range(60))
def test_kernels_of_static_graphs_agree(seed: int) -> None:
    m = graph(seed)
    agree_everywhere(m, operands(m, seed, {}), {})


@pytest.mark.parametrize("seed", range(60, 100))
def test_kernels_of_symbolic_graphs_agree(seed: int) -> None:
    m = graph(seed, symbolic=True)
    for binding in (seed, seed + 1):
        env = bindings(m, binding)
        agree_everywhere(m, operands(m, seed, env), env)
