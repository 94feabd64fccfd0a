"""Candidates whose products would wait for each other are not timed."""

from __future__ import annotations

import json

import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.simt import Simt
from didyma.codegen.select import worker
from didyma.codegen.select.choice import Choice
from didyma.refimpl.ir.kernel import KernelText


@dd.trace(dd.f32[8])
def doubled(x: dd.Tensor) -> dd.Tensor:
    return x + x


class Remarking(Simt):
    """An engine whose compiler finds fault with every text."""

    def remarks(self, text: KernelText) -> tuple[str, ...]:
        assert "__global__" in text.source
        return ("(C7510) Potential Performance Loss", "(C7510) Potential Performance Loss")


@pytest.mark.parametrize("made", [Simt, Remarking])
def test_remarks_are_the_reason(made: type[Simt], monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = compile(doubled.module, Options(), until="lower")
    ((_, loop),) = lowered.loops.items()
    task = worker.Task(loop, Options(), "simt", {}, 0)

    def chosen(name: str) -> Simt:
        return made(name)

    monkeypatch.setattr(worker, "engine_by_name", chosen)
    said: list[str] = []
    choice = Choice.parse("pointwise(block=256, each=1, wide=1)")
    worker.examine(task, lambda c, e: "", (choice,), 1.0, said.append)
    want = "(C7510) Potential Performance Loss" if made is Remarking else ""
    assert json.loads(said[-1])["reason"] == want
