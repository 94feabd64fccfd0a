"""Confused programs are refused with a code, or are sound: never another exception."""

from __future__ import annotations

from collections import Counter
from random import Random

from didyma.refimpl.ir.text import show
from didyma.refimpl.ops import OPS
from tests.refimpl.text.mutate import confused, verdict
from tests.refimpl.verify.test_sound import CALLS, KERNEL, LOOPS, planned, uses


def sound_texts() -> list[str]:
    """A graph for each op, as many loops and programs."""
    graphs = [show(m) for op in OPS.values() for m in uses(op)[::9]]
    others = [KERNEL, LOOPS, CALLS, show(planned())]
    return graphs + others * (len(graphs) // 6)


def test_confused_programs() -> None:
    texts = sound_texts()
    r = Random(0)
    codes = Counter(verdict(confused(r.choice(texts), r)) for _ in range(2000))
    levels = Counter(code[:2] for code in codes)
    assert codes[""] > 50
    assert levels["G-"] > 5
    assert levels["L-"] > 5
    assert levels["P-"] > 5
