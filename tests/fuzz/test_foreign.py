"""The domain of foreign kernels: engines agree with C, and slips of the reader are found."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from didyma.codegen.emit import plain_expressions
from didyma.codegen.emit.plain import Plain, plain
from didyma.codegen.emit.plain_expressions import Expressions, Typed
from didyma.fuzz.domains.domain import Judge
from didyma.fuzz.domains.foreign import Foreign
from didyma.fuzz.foreign.texts import Case, draw

WORDS = (
    "if (i >= n) return", "for (int", "while (", "__shared__", "__syncthreads", "atomicAdd",
    "atomicMax", "__ldg(&", "*(", "++", " -= 2", "#define", "static __device__", "? ", "(double)",
    "fmaxf", "copysignf", "min(", "% ", "<< ", "~", "#pragma", "long long", "signed char",
    "gridDim.x", "][", "abs(", "&&", "!(", "k += 2",
)  # fmt: skip


@pytest.fixture(scope="module")
def judge() -> Judge[Case]:
    return Foreign(("host", "simt")).judge()


def test_engines_agree_with_c(judge: Judge[Case]) -> None:
    d = Foreign(("host", "simt"))
    outcomes = [judge(d.draw(5, index)) for index in range(120)]
    assert [o.findings for o in outcomes if o.findings] == []
    assert {k for o in outcomes for k in o.covered} == {("engine", "host"), ("engine", "simt")}
    assert all(o.checked == o.total > 0 for o in outcomes)


def test_kernels_are_as_others_write_them() -> None:
    text = "\n".join(draw(Random(n)).text for n in range(600))
    assert [w for w in WORDS if w not in text] == []


_binary = Expressions.binary


def always(_: Plain, name: str) -> bool:
    return bool(name)


def forward(self: Expressions, op: str, a: Typed, b: Typed, line: int) -> Typed:
    return _binary(self, "+" if op == "-" else op, a, b, line)


def narrow(a: Typed, _: Typed) -> str:
    return a.kind


def first(_: Expressions, name: str, given: Sequence[Typed]) -> Typed:
    return Typed(given[0].text, given[0].kind if name else "")


@pytest.mark.parametrize(
    ("where", "name", "slip"),
    [
        (Plain, "constant", always),
        (Expressions, "binary", forward),
        (plain_expressions, "_common", narrow),
        (Expressions, "_extreme", first),
    ],
)
def test_slips_of_the_reader_are_found(
    where: object, name: str, slip: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    d = Foreign(("simt",))  # which checks bounds, so that no slip ends the process
    judge = d.judge()
    monkeypatch.setattr(where, name, slip)
    assert any(judge(d.draw(7, index)).findings for index in range(150))


@pytest.mark.parametrize(
    "rows", [("#define A 3", "#define B (2 * A + 1)"), ("#define B (2 * A + 1)", "#define A 3")]
)
def test_a_macro_may_mention_one_of_any_line(rows: tuple[str, str]) -> None:
    text = "\n".join((*rows, "__global__ void k(int *x) { x[0] = B; }"))
    assert "= ((2 * 3) + 1);" in plain(text).source


def test_a_file_shows_the_kernel_and_how_it_is_launched(judge: Judge[Case]) -> None:
    d = Foreign(("host",))
    case = d.draw(1, 3)
    text = d.text(case, judge(case), "", 1)
    assert text.endswith(case.text)
    assert f"<<<{case.blocks}, {case.threads}>>> of {case.count} elements" in text
    assert d.size(case) == (case.text.count("\n"), len(case.text))
