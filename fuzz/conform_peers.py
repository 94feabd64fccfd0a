"""The conformance suite of peers: every op on its example, and programs of several ops.

A peer may refuse a program with ``peer-refused``; results that it returns must lie in their bars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from didyma.fuzz.peers.judge import end_to_end
from didyma.fuzz.peers.peer import REFUSALS, Peer
from didyma.fuzz.values import Distribution, array
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Function, Module, Node, Param, attrs
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.ops.spec import Op

Check: TypeAlias = Callable[[Peer], Sequence[str]]  # returns what is wrong, in words

_PROGRAMS = {
    "inputs of three shapes": """
        func @main(%x: f32[4, 3], %w: f32[3, 2], %b: f32[2]) -> (%y) {
          %p = matmul(%x, %w) : f32[4, 2]
          %y = add(%p, %b) : f32[4, 2]
        }""",
    "results in another order, one of them twice": """
        func @main(%x: f32[3], %y: f32[2]) -> (%b, %a, %b) {
          %a = exp(%x) : f32[3]
          %b = abs(%y) : f32[2]
        }""",
    "an input that is a result, and one that is unused": """
        func @main(%x: f32[3], %y: f32[2]) -> (%x, %z) {
          %z = negative(%x) : f32[3]
        }""",
    "values of rank 0 and without elements": """
        func @main(%x: f32[], %y: f32[0, 3]) -> (%a, %b) {
          %a = exp(%x) : f32[]
          %b = add(%y, %x) : f32[0, 3]
        }""",
    "a value that is used often": """
        func @main(%x: f32[8]) -> (%y) {
          %e = tanh(%x) : f32[8]
          %f = multiply(%e, %e) : f32[8]
          %g = subtract(%f, %e) : f32[8]
          %y = maximum(%g, %f) : f32[8]
        }""",
    "a dtype that is a result of another": """
        func @main(%x: f32[5], %y: f32[5]) -> (%c, %z) {
          %c = less(%x, %y) : bool[5]
          %z = where(%c, %x, %y) : f32[5]
        }""",
}


def suite() -> Iterator[tuple[str, Check]]:
    """Yield the checks by name."""
    yield "the f32 add is not refused", _runs
    for name in sorted(OPS):
        yield f"op {name}", partial(_judged, *_example(OPS[name]))
    for seed, (name, text) in enumerate(_PROGRAMS.items()):
        m = parse_module(f"module {{{text}\n}}")
        types = [p.type for p in m.entry.params]
        inputs = [
            array(seed + i, t.dtype, _shape(t), None, Distribution.NORMAL)
            for i, t in enumerate(types)
        ]
        yield name, partial(_judged, m, inputs)


def _shape(t: TensorType) -> tuple[int, ...]:
    return dims.values(t.shape, {})


def _runs(peer: Peer) -> Sequence[str]:
    peer.run(*_example(OPS["add"]))  # a refusal is raised here
    return ()


def _judged(m: Module, inputs: Sequence[Array], peer: Peer) -> Sequence[str]:
    """Run a peer on copies of the inputs; judge the results, and that the copies are unchanged."""
    copies = [a.copy() for a in inputs]
    try:
        peer.run(m, copies)
    except DidymaError as e:
        if e.code in REFUSALS:
            return ()
        raise
    changed = [
        f"%{p.name} is an input, and was written"
        for p, a, b in zip(m.entry.params, inputs, copies, strict=True)
        if a.tobytes() != b.tobytes()
    ]
    return *changed, *(f.message for f in end_to_end(peer, m, inputs, {}).findings)


def _example(op: Op) -> tuple[Module, Sequence[Array]]:
    """Return a program of one op, and the inputs of its example."""
    operands = op.example.operands
    types = [TensorType(DType.of(a), a.shape) for a in operands]
    params = tuple(Param(f"x{i}", t) for i, t in enumerate(types))
    given = dict(op.example.attrs)
    result = op.infer(types, given)
    node = Node(("y",), op.name, tuple(p.name for p in params), (result,), attrs(given))
    return Module((Function("main", params, (node,), ("y",)),)), operands
