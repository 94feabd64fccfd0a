"""The judge walks branches, loops and scans, and finds what is planted in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from didyma.codegen import pipeline
from didyma.codegen.options import GraphOptions, Options
from didyma.oracle.recorder import ALWAYS_JUDGED
from didyma.oracle.report import Report
from didyma.oracle.stages import judge
from didyma.oracle.subject import Subject
from didyma.refimpl.ir.graph import Function, Module
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.loop import Binary, Expr, PrimFunc, Stmt
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.walk import map_expr, map_stmt
from didyma.refimpl.verify.graph import verify

# y is doubled while its sum is below 40, n times at most; what comes of it depends on a branch.
TEXT = """module {
  dims n in [0, 40], u in [0, 40]
  func @test(%i: i64[], %y: f32[3], %k: i64[]) -> (%c) {
    %c = less(%i, %k) : bool[]
  }
  func @body(%i: i64[], %y: f32[3], %k: i64[]) -> (%j, %z) {
    %one = constant(value=i64[] 1) : i64[]
    %j = add(%i, %one) : i64[]
    %half = constant(value=f32[] 0.75) : f32[]
    %e = exp(%y) : f32[3]
    %z = multiply(%e, %half) : f32[3]
  }
  func @rows(%i: i64[], %y: f32[3]) -> (%s) {
    () = bind(%i, dim="u")
    %r = iota(axis=0, dtype=f32, shape=(u, 3)) : f32[u, 3]
    %t = add(%r, %y) : f32[u, 3]
    %s = sum(%t, axes=(0,), keepdims=false) : f32[3]
  }
  func @same(%i: i64[], %y: f32[3]) -> (%y) { }
  func @main(%y: f32[3], %k: i64[], %c: bool[]) -> (%z, %s) {
    %zero = constant(value=i64[] 0) : i64[]
    %i, %z = while(%zero, %y, %k, binds=(), body="body", carried=2, cond="test") : i64[], f32[3]
    %s = if(%c, %i, %z, binds=(), otherwise="same", then="rows") : f32[3]
  }
}"""


def compiled(m: Module, options: Options) -> Subject:
    """Every level but the text."""
    c = pipeline.compile(m, options, until="plan")
    return Subject(m, c.passes, c.fused, c.loops, c.kernels, c.program)


def subject(options: Options | None = None) -> Subject:
    """The module above, compiled."""
    m = parse_module(TEXT)
    verify(m)
    return compiled(m, options or Options())


def inputs(k: int, c: bool) -> list[Array]:
    """Rounds, and the branch."""
    return [
        np.linspace(-2, -1, 3).astype(np.float32),
        np.asarray(np.int64(k)),
        np.asarray(np.bool_(c)),
    ]


def level(r: Report, name: str) -> tuple[int, int, int]:
    """Findings, comparisons and unjudged uses of a level."""
    (found,) = (x for x in r.levels if x.name == name)
    return len(found.findings), len(found.comparisons), found.unjudged


def test_all_levels_agree() -> None:
    for options in (
        Options(),
        Options(graph=GraphOptions(fuse=False)),
        Options(graph=GraphOptions(simplify=False)),
    ):
        s = subject(options)
        for k, c in ((0, True), (1, False), (3, True)):
            r = judge(s, inputs(k, c))
            assert not r.findings, r.findings[0]
            assert r.checked_share == 1


def test_uses_beyond_some_are_counted() -> None:
    r = judge(subject(), inputs(20, c=False))
    assert not r.findings
    # Of 20 rounds 8 and the 16th are judged, and so of 21 tests; a round has two kernels of one
    # result, or one of two.
    judged = ALWAYS_JUDGED + 1
    findings, comparisons, unjudged = level(r, "kernel")
    assert findings == 0
    assert comparisons == 3 * judged
    assert unjudged in (21 - judged + 20 - judged, 21 - judged + 2 * (20 - judged))


def wrong(f: PrimFunc) -> PrimFunc:
    """A kernel that adds where it should multiply."""

    def expr(e: Expr) -> Expr:
        if isinstance(e, Binary) and e.op == "mul" and e.dtype.is_float:
            return Binary("add", e.lhs, e.rhs)
        return map_expr(expr, e)

    def stmt(s: Stmt) -> Stmt:
        return map_stmt(s, expr, stmt)

    return replace(f, body=stmt(f.body))


def test_a_wrong_kernel_of_a_body_is_blamed_alone() -> None:
    s = subject()
    kernels = {k: tuple(wrong(loops(f)) for f in fs) for k, fs in s.kernels.items()}
    r = judge(replace(s, kernels=kernels), inputs(2, c=True))
    assert level(r, "loop")[0] == 0
    found = [f for f in r.findings if f.level == "kernel"]
    assert len(found) == 2  # one a round, since the reference's values follow
    assert {f.where for f in found} == {k for k in s.kernels if "multiply" in k}


def test_interpreters_do_not_run_what_is_left_to_engines() -> None:
    s = subject()
    kernels = {k: tuple(wrong(loops(f)) for f in fs) for k, fs in s.kernels.items()}
    large = frozenset(k for k in kernels if "multiply" in k)
    r = judge(replace(s, kernels=kernels), inputs(2, c=True), engines_only=large)
    assert not r.findings
    notes = {x.name: x.note for x in r.levels if x.note}
    assert notes.keys() >= {"loop", "kernel", "program"}
    assert all(k in notes[name] for k in large for name in ("loop", "kernel", "program"))
    (program,) = (x for x in r.levels if x.name == "program")
    assert not program.comparisons


def test_a_pass_that_takes_the_wrong_branch() -> None:
    def swapped(f: Function) -> Function:
        nodes = tuple(
            replace(n, attrs=(*n.attrs[:1], ("otherwise", "rows"), ("then", "same")))
            if n.op == "if"
            else n
            for n in f.nodes
        )
        return replace(f, nodes=nodes)

    s = subject()
    bad = replace(s.source, functions=tuple(swapped(f) for f in s.source.functions))
    verify(bad)
    r = judge(replace(s, passes=(*s.passes, ("swap", bad))), inputs(2, c=True))
    assert [f.where for f in r.findings] == ["swap"]


def test_results_in_doubt_raise_no_alarm() -> None:
    m = parse_module("""module {
  dims u in [0, 40]
  func @main(%x: f32[]) -> (%y, %z) {
    %e = exp(%x) : f32[]
    %l = log(%e) : f32[]
    %k = cast(%l, dtype=i64) : i64[]
    () = bind(%k, dim="u")
    %y = iota(axis=0, dtype=f32, shape=(u,)) : f32[u]
    %z = add(%x, %x) : f32[]
  }
}""")
    verify(m)
    s = compiled(m, Options())
    # log(exp(3)) may be just below 3: a pass may find a size of 2.
    other = parse_module(
        "module { dims u in [0, 40] func @main(%x: f32[]) -> (%y, %z) {"
        " %y = constant(value=f32[2] [0.0, 1.0]) : f32[2]"
        " %z = add(%x, %x) : f32[] } }"
    )
    r = judge(replace(s, passes=(("other", other),)), [np.asarray(np.float32(3))])
    assert not [f for f in r.findings if f.level == "passes"]
    (passes,) = (x for x in r.levels if x.name == "passes")
    assert passes.checked_share < 1
    r = judge(replace(s, passes=(("other", other),)), [np.asarray(np.float32(3.5))])
    assert [f.where for f in r.findings if f.level == "passes"] == ["other"]


def test_what_the_reference_refuses_all_levels_refuse() -> None:
    s = subject()
    refused = [*inputs(60, c=True)]  # 60 rows, of at most 40
    r = judge(s, refused)
    assert not r.findings, r.findings[0]
    assert "u = 60" in r.refused
    wide = tuple(replace(v, hi=100) for v in s.program.dims)
    lax = replace(s, program=replace(s.program, dims=wide), passes=())
    (found,) = judge(lax, refused).findings
    assert found.level == "program"
    assert "it runs, where the reference says" in found.message


EXTERNAL = """module {
  func @main(%x: f32[7, 300]) -> (%s) attrs(Compiler="library") {
    %t = permute_dims(%x, axes=(1, 0)) : f32[300, 7]
    %s = sum(%t, axes=(0,), keepdims=false) : f32[7]
  }
}"""


def test_the_body_of_an_external_function_adds_up_terms_in_one_order() -> None:
    x = np.random.default_rng(1).standard_normal((7, 300)).astype(np.float32)
    r = judge(compiled(parse_module(EXTERNAL), Options()), [x])
    assert not r.findings, r.findings[0]
