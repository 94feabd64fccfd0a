"""Contraction: whether a product and a sum may be rounded once."""

from __future__ import annotations

from pathlib import Path

import pytest

import didyma as dd
from didyma.codegen.options import KernelOptions, Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.engine import Loaded
from didyma.codegen.runtime.host import Host
from didyma.codegen.select.choice import build, first
from didyma.codegen.select.keys import conditions
from didyma.fuzz.conform import suite
from didyma.fuzz.domains.registry import Setup, make
from didyma.fuzz.levels import contract_of
from didyma.refimpl.ir.kernel import KernelText

LOOP = """primfunc @f(x: f32[4], y: f32[4]) writes (y) {
  for i in 4 {
    y[i] = x[i] * x[i] + x[i]
  }
}
"""
APART = Options(kernels=KernelOptions(contract=False))


class Listening(Host):
    """The engine ``host``, which keeps the texts that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[KernelText] = []

    def load(self, text: KernelText) -> Loaded:
        self.texts.append(text)
        return super().load(text)


def product(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
    return x * y + x


MODULE = dd.trace(dd.f32[8], dd.f32[8])(product).module


def test_the_option_reaches_the_text_and_the_bars() -> None:
    usual, apart = compile(MODULE), compile(MODULE, APART)
    assert usual.text.contract
    assert not apart.text.contract
    assert usual.text.source == apart.text.source
    assert contract_of(usual).contraction
    assert not contract_of(apart).contraction


def test_a_pick_is_measured_and_kept_under_the_option() -> None:
    (loop,) = compile(MODULE).loops.values()
    choice = first(loop, APART)
    assert not build(loop, APART, choice).text.contract
    assert conditions(APART) != conditions(Options())


@pytest.mark.parametrize("name", ["emission", "schedules", "forms"])
def test_what_is_judged_bit_for_bit_is_not_contracted(name: str) -> None:
    engine = Listening()
    (made,) = make(Setup((engine,)), (name,))
    run, n = made.judge(), 0
    while not engine.texts:
        run(made.draw(7, n))
        n += 1
    assert not any(text.contract for text in engine.texts)


def test_loop_functions_are_judged_without_and_run_as_options_say(tmp_path: Path) -> None:
    file = tmp_path / "f.dym"
    file.write_text(LOOP)
    f = dd.load(file)
    engine = Listening()
    assert dd.check(f, engines=(engine,)).agree
    assert not any(text.contract for text in engine.texts)
    engine.texts.clear()
    dd.compile(f, engine=engine)
    dd.compile(f, engine=engine, options=APART)
    assert [text.contract for text in engine.texts] == [True, False]


def test_the_conformance_suite_allows_no_contraction() -> None:
    groups = {case.group for case in suite() if case.text.contract}
    assert not groups
