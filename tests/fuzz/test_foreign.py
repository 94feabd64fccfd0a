"""The domain of foreign kernels: engines agree with C, and slips of the reader are found."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from didyma.codegen.emit import plain_expressions, text_kernel
from didyma.codegen.emit.plain import Plain, plain
from didyma.codegen.emit.plain_expressions import Expressions, Outside, Typed
from didyma.fuzz.domains import foreign
from didyma.fuzz.domains.domain import Judge
from didyma.fuzz.domains.foreign import Foreign
from didyma.fuzz.foreign import heads
from didyma.fuzz.foreign.texts import OUTSIDE, Case, draw

WORDS = (
    "if (i >= n) return", "for (int", "while (", "__shared__", "__syncthreads", "atomicAdd",
    "atomicMax", "__ldg(&", "*(", "++", " -= 2", "#define", "static __device__", "? ", "(double)",
    "fmaxf", "copysignf", "min(", "% ", "<< ", "~", "#pragma", "long long", "signed char",
    "gridDim.x", "][", "abs(", "&&", "!(", "k += 2", "return; }", "isnan(", "__fdividef", "uint8_t",
    "long int", "/**/", "else if", " <<= 5", " %= ", ", v", ")[0]", "+ 2 - 2)",
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


def whatever(text: str) -> Plain:
    return Plain(text, "kernel", (), ())


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


_ROWS = """
__global__ void kernel(int *bins, long long *x, int n) {{
  int i = threadIdx.x;
  {}
  if (i < n) {{ bins[i] = i; }}
}}
"""


@pytest.mark.parametrize("row", OUTSIDE)
def test_what_is_no_plain_c_is_refused(row: str) -> None:
    with pytest.raises(Outside):
        plain(_ROWS.format(row))


def test_a_text_that_should_be_refused_and_is_not_is_found(
    judge: Judge[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [case for case in map(Foreign(()).draw, [5] * 200, range(200)) if case.refused]
    assert some, "one in twelve"
    assert not [case.text for case in some if judge(case).findings]
    monkeypatch.setattr(foreign, "plain", whatever)
    assert all(judge(case).findings[0].kind == "accepted" for case in some)


@pytest.mark.parametrize(
    "row",
    [
        "for (int j = 0; j < n; ++j) { if (i == j) return; bins[j] = i; }",
        "if (i > 0) { if (i > 1) return; bins[i] = 2; } else { bins[i] = 3; }\n bins[i] = 4;",
        "int t[2][2]; bins[i] = t[1];",
        "int t[2][2]; bins[i] = *(t + 1);",
        "int *p = bins[i];",
    ],
)
def test_what_was_read_wrongly_once_is_refused(row: str) -> None:
    with pytest.raises(Outside):
        plain(f"__global__ void k(int *bins, int n) {{ int i = threadIdx.x; {row} }}")


def test_heads_of_kernel_text_are_as_they_were_put_together() -> None:
    texts = [heads.drawn(Random(n)) for n in range(300)]
    assert [f for text in texts for f in heads.judged(text)] == []
    assert {text.line > 0 for text in texts if text.head is None} == {True, False}
    assert any(text.line == text.source.count("\n") + 1 for text in texts), "a last line is wrong"
    heard = [text.head for text in texts if text.head is not None]
    assert any(h.idle for h in heard)
    assert any(h.maps for h in heard)
    assert {h.cluster for h in heard} == {1, 2, 4}


def nowhere(address: object) -> tuple[str, None]:
    return str(address), None


def nothing(_: object) -> tuple[str, ...]:
    return ()


@pytest.mark.parametrize(
    ("name", "slip"), [("place", nowhere), ("_stored", nothing), ("_is_array", bool)]
)
def test_slips_of_the_reader_of_kernel_text_are_found(
    name: str, slip: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_kernel, name, slip)
    d = Foreign(("host",))
    judge = d.judge()
    found = (f for index in range(100) for f in judge(d.draw(7, index)).findings)
    assert next(found).where == "kernel text"


def test_a_block_that_ends_a_kernel_may_return() -> None:
    rows = "if (i < n) { x[i] = 1; if (i > 1) return; x[i] = 2; }"
    made = plain(f"__global__ void k(int *x, int n) {{ int i = threadIdx.x; {rows} }}")
    assert "if (!((i > 1))) { x[(i64)(i)] = 2; }" in made.source


@pytest.mark.parametrize(
    ("literal", "read"),
    [
        ("0xffffffff", "4294967295u"), ("017", "15"), ("2147483648", "2147483648LL"),
        ("4294967296u", "4294967296uLL"), ("0x1ffffffff", "8589934591LL"), ("3U", "3u"),
        ("0xffffffffffffffff", "18446744073709551615uLL"), ("00", "0"), ("5L", "5LL"),
    ],
)  # fmt: skip
def test_a_literal_has_the_first_type_of_c_that_holds_it(literal: str, read: str) -> None:
    made = plain(f"__global__ void k(signed char *x) {{ x[0] = {literal}; }}")
    assert f"= (i8)({read});" in made.source


def test_a_file_shows_the_kernel_and_how_it_is_launched(judge: Judge[Case]) -> None:
    d = Foreign(("host",))
    case = d.draw(1, 3)
    text = d.text(case, judge(case), "", 1)
    assert text.endswith(case.text)
    assert f"<<<{case.blocks}, {case.threads}>>> of {case.count} elements" in text
    assert d.size(case) == (case.text.count("\n"), len(case.text))
