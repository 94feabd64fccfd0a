"""A transformer decoder of unknown batch and length, compiled in full."""

from __future__ import annotations

from didyma.refimpl.verify import program as laws
from tests.bench.decoder import decoder
from tests.bench.symbolic_plans import BATCH, TOKENS, agree, made, worst


def test_a_decoder_of_unknown_sizes_is_planned_at_the_bound() -> None:
    m = made(decoder(2, 16, 2, BATCH, TOKENS))
    laws.verify(m.compiled.program, kernels=False)
    ratio, _ = worst(m.compiled.program, 30)
    assert ratio <= 1.05
    assert m.planning < 10
    for b, s in ((1, 1), (2, 5), (1, 17)):
        assert agree(m.compiled, {"B": b, "S": s})
