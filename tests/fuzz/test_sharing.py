"""Graphs are drawn around values that share bytes: parts, views, what is carried and captured."""

from __future__ import annotations

from collections import Counter

import pytest

from didyma.fuzz import control, control_bytes
from didyma.fuzz.builder import GraphBuilder
from didyma.fuzz.chooser import Dice
from didyma.fuzz.graphs import finished
from didyma.fuzz.steering import sharing
from didyma.fuzz.steering.draw import symbols
from didyma.fuzz.steering.motifs import carried
from didyma.fuzz.steering.sketch import Sketch
from didyma.refimpl.ir.graph import CALL, Module
from didyma.refimpl.verify.graph import verify

WANTED = {
    "rotated": "while", "states": "scan", "given back": "if", "fixed results": CALL,
    "carried test": "while", "idle sides": "if", "views returned": CALL,
    "rounds apart": "while", "rounds in turn": "while", "rounds in other shapes": "while",
    "rounds of parts": "concat", "sizes exchanged": "while", "rounds of growth": "concat",
    "rounds of a part": "slice", "rounds of views": "reshape", "counted scans": "scan",
    "parts": "concat", "views": "slice", "cuts": "slice", "boxes": "slice", "results": "reshape",
    "packed": "slice", "turned": "flip", "nested": "scan", "across": "scan",
}  # fmt: skip


@pytest.mark.parametrize("kind", [*control_bytes.KINDS, *sharing.KINDS])
def test_graphs_share_bytes_in_many_ways(kind: str) -> None:
    made: list[Module] = []
    for seed in range(12):
        c = Dice(seed)
        s = Sketch(GraphBuilder(control.draw, symbols(c)), c)
        s.bind_symbols()
        (sharing.shared if kind in sharing.KINDS else carried)(s, kind)
        made.append(finished(s.b, c).module)
    for m in made:
        verify(m)
    ops = Counter(n.op for m in made for f in m.functions for n in f.nodes)
    assert ops[WANTED[kind]] > 4
