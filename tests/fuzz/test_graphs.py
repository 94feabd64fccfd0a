"""The graph strategy: every draw is a valid graph, and all that should be drawn is."""

from __future__ import annotations

import hashlib
import random
from collections import Counter

import numpy as np
from hypothesis import given, settings

from didyma.fuzz.graphs import BYTES, Case, decode
from didyma.fuzz.strategies import CASES
from didyma.refimpl.interp import graph
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import CALL, CONTROL, NO_INLINE, TO
from didyma.refimpl.ir.text import parse_module, show
from didyma.refimpl.ir.types import DType
from didyma.refimpl.ops import OPS
from didyma.refimpl.verify.graph import verify


@settings(max_examples=60, deadline=None)
@given(CASES)
def test_every_graph_is_valid_and_runs(case: Case) -> None:
    verify(case.module)
    out = graph.run(case.module, case.inputs())
    for array, t in zip(out, case.module.entry.result_types(), strict=True):
        assert array.dtype == t.dtype.numpy
    assert parse_module(show(case.module)) == case.module


def many(n: int) -> list[Case]:
    rng = random.Random(7)
    return [decode(rng.randbytes(BYTES)) for _ in range(n)]


def test_the_usual_graph_has_ten_nodes_or_more() -> None:
    sizes = sorted(sum(n.op != "constant" for n in c.module.entry.nodes) for c in many(200))
    assert sizes[100] >= 10


def test_every_op_rank_and_shape_of_graph_comes_up() -> None:
    cases = many(700)
    nodes = [n for c in cases for n in c.module.entry.nodes]
    ops = Counter(n.op for n in nodes)
    assert set(ops) == {*OPS, CALL, *CONTROL} - {TO}, "other draws place values on devices"
    types = [t for n in nodes for t in n.types]
    assert {t.rank for t in types} >= {0, 1, 2, 3, 4, 5}
    assert {t.dtype for t in types} == set(DType)
    shapes = [t.shape for t in types]
    assert any(0 in s for s in shapes)
    assert any(1 in s for s in shapes)
    assert any(c.module.dims for c in cases)
    assert any(len(c.module.entry.results) > 1 for c in cases)
    uses = [Counter(a for n in c.module.entry.nodes for a in n.args) for c in cases]
    assert any(max(u.values(), default=0) > 1 for u in uses)


def test_zero_bytes_are_the_empty_graph() -> None:
    case = decode(bytes(BYTES))
    assert case.module.entry.nodes == ()
    assert all(np.isfinite(a).all() for a in case.inputs())


def test_functions_that_stay_come_up() -> None:
    kept = [f for c in many(2000) for f in c.module.functions if NO_INLINE in f.attr]
    names = {f.name.rsplit("_", 1)[0] for f in kept}
    assert names >= {"kept", "twice", "whole", "sized"}
    assert any(dims.free(d for p in f.params for d in p.type.shape) for f in kept)
    assert {n.op for f in kept for n in f.nodes} >= {CALL, *CONTROL}


def test_what_bytes_decode_to_stays() -> None:
    """Fingerprints of two compilers are only comparable while equal bytes are equal programs."""
    seen = hashlib.blake2b(digest_size=16)
    for seed in range(60):
        case = decode(random.Random(seed).randbytes(BYTES))
        without = tuple(p.split(".")[-1] for p, value in case.changes if value is False)
        drawn = (show(case.module), case.env, case.seeds, without)
        seen.update(repr(drawn).encode())
        for x in case.inputs():
            seen.update(x.tobytes())
    assert seen.hexdigest() == "3b941add3621aacff7d29a80b131b9cf", (
        "a new op changes them; then save new fingerprints, too"
    )
