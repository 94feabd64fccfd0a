"""Slips in what is made of blocks, vectors, producers and external calls in loop functions."""

from __future__ import annotations

from tests.mutants.faults import Fault

FAULTS: tuple[Fault, ...] = (
    Fault(
        "a block begins where its spatial variables are 0", "refimpl/ir/blocks.py",
        "if v.kind is ir.IterKind.REDUCE", "if v.kind is ir.IterKind.SPATIAL", ("loop",),
    ),
    Fault(
        "a ramp runs forwards always", "refimpl/ir/vectors.py",
        "index(stride)", "index(abs(stride))", ("loop",),
    ),
    Fault(
        "a producer computes its first elements whatever is asked for", "refimpl/ir/tensors.py",
        "ir.Let(v, ix.add(start, w), fill)", "ir.Let(v, w, fill)", ("loop",),
    ),
    Fault(
        "an external call made before what stands before it", "codegen/schedule/steps/kernels.py",
        "        yield from (replace(f, body=x) for x in _several(run))\n        yield s\n",
        "        yield s\n        yield from (replace(f, body=x) for x in _several(run))\n",
        ("host",),
    ),
    Fault(
        "what a library routine writes left on the host", "codegen/runtime/loop_externs.py",
        "engine.copy(held[n], source)", "pass", ("host",),
    ),
    Fault(
        "every vector of neighbours", "codegen/schedule/steps/vectors.py",
        "return Ramp(rest, stride, self.count) if stride",
        "return Ramp(rest, 1, self.count) if stride", ("loop", "schedule", "host"),
    ),
)  # fmt: skip
