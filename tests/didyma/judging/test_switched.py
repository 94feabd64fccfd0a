"""Edits that are tried together, as choices of one text, do what each of them does alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from didyma.codegen.runtime.ptx.code import Imm
from didyma.codegen.runtime.ptx.machine import Shape
from didyma.codegen.runtime.ptx.sanitize import Argument, bytes_of
from didyma.codegen.runtime.ptx.shape import COPY
from didyma.codegen.runtime.ptx.side_by_side import side_by_side
from didyma.codegen.runtime.ptx.sources import Source, compiled
from didyma.codegen.runtime.registry import probe
from didyma.fuzz.values import Distribution
from didyma.judging.edited import Way, fastest
from didyma.judging.edits import Edit, edits
from didyma.judging.inputs import Case
from didyma.judging.launching import side_by_side as side_by_side_of
from didyma.judging.making import make_task
from didyma.judging.parts import Parts
from didyma.judging.rounds import Round, later
from didyma.judging.switched import choice, switched
from didyma.judging.task import Task
from didyma.judging.together import copies, outcomes, passing
from tests.didyma.judging.kernels import KERNELS

needs_ptx = pytest.mark.skipif(not probe("ptx").runs, reason="needs NVRTC")


def chosen(old: str, new: str) -> tuple[str, str] | None:
    head = "__global__ void f(float* y, const float* x, int n) {\n"
    end = "}" * (1 + old.count("{") - old.count("}"))
    found = choice(Parts(f"{head}{old}\n{end}"), len(head), Edit(2, old, new))
    return (found.kind, found.new.strip()) if found else None


@pytest.mark.parametrize(
    ("old", "new", "kind", "part"),
    [
        ("y[i] = x[i + 1];", "y[i] = x[i - 1];", "value", "i - 1"),
        ("y[i] = a * b;", "y[i] = a + b;", "value", "a + b"),
        ("int i = a * b, j = 3;", "int i = a * b, j = 4;", "value", "4"),
        ("y[i] += a;", "y[i] = a;", "statement", "y[i] = a;"),
        ("if (i < n) y[i] = a;", "if (i <= n) y[i] = a;", "value", "i <= n"),
        ("for (i = 0; i < n; ++i) {", "for (i = 0; i <= n; ++i) {", "value", "i <= n"),
        ("for (i = 0; i < n; ++i) {", "for (i = 0; i < n; --i) {", "step of a loop", "--i"),
        ("for (i = 0; i < n; i += 1) {", "for (i = 0; i < n; i += 2) {", "value", "2"),
        ("return a + b;", "return a - b;", "value", "a - b"),
        ("return a[1];", "return a[0];", "value", "0"),
        ("float t[2] = {x[0], x[1]};", "float t[2] = {x[0], x[2]};", "value", "2"),
        ("y[i] = (float)a;", "y[i] = (int)a;", "value", "(int)a"),
        ("y[i] = f(a, b);", "y[i] = f(a, c);", "value", "c"),
        ("y[i] = a;", "y[i] = a; a = b;", "statement before", "a = b;"),
        ("atomicAdd(&y[i], a);", "atomicSub(&y[i], a);", "statement", "atomicSub(&y[i], a);"),
        ("for (;;) s += a;", "for (;;) s = a;", "statement", "for (;;) s = a;"),
        ("y[i] = a; }", "z[i] = a; }", "statement", "z[i] = a;"),
    ],
)
def test_an_edit_is_a_choice(old: str, new: str, kind: str, part: str) -> None:
    assert chosen(old, new) == (kind, part)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("float a = b;", "double a = b;"),
        ("int i = 0; // one", "int i = 0; // two"),
        ("#pragma unroll 4", "#pragma unroll 2"),
        ("for (int i = 0; i < n; ++i) {", "for (int j = 0; i < n; ++i) {"),
        ("if (i < n)", "while (i < n)"),
        ("__shared__ float part[8][n];", "__shared__ float part[9][n];"),
        ("float a[4], b[8];", "float a[4], b[4];"),
        ("constexpr int T = 8 * 4;", "constexpr int T = 8 / 4;"),
    ],
)
def test_what_is_no_choice_is_left_out(old: str, new: str) -> None:
    assert chosen(old, new) is None


def test_an_edit_names_nothing_that_is_unknown_at_its_place() -> None:
    text = "void f(int n) {\n  for (int k = 0; k < n; ++k) g(k);\n  g(n);\n}"
    tried = [Edit(3, "  g(n);", new) for new in ("  g(k);", "  g(n + 1);")]
    assert switched(text, tried).edits == (tried[1],)


def task_of(name: str, old: str = "", new: str = "") -> Task:
    kernel = KERNELS[name]
    text = kernel.text.replace(old, new)
    return make_task(Source(text, "k.cu"), kernel.spec.module, kernel.launch, kernel.contract)


def way_of(task: Task, r: Round) -> Way:
    return fastest(task, r.run)


@needs_ptx
def test_edits_do_together_what_each_does_alone() -> None:
    task = task_of("softmax")
    env = {v.name: {"r": 2, "n": 40}[v.name] for v in task.spec.dims}
    r = Round.of(task, Case(0, env, Distribution.NORMAL))
    way, lines = way_of(task, r), range(1, task.source.text.count("\n") + 2)
    tried = edits(task.source.text, lines)[:400:20]
    together = copies(way, tried).copies
    assert together is not None
    assert len(together.edits) > len(tried) / 3
    found = [*outcomes(together, r, None, 20.0)]
    assert len(found) > len(together.edits) / 2
    texts = [e.of(task.source.text) for e, *_ in found]
    for alone, (e, _, outputs, right, _) in zip(way.compiled(texts), found, strict=True):
        assert alone is not None
        ran = r.run(replace(alone, timeout=0.2))
        if not ran.faults:
            assert r.right(task, ran.outputs).tolist() == right.tolist(), e
            assert len(outputs) == len(ran.outputs)


@needs_ptx
def test_what_the_compiler_refuses_and_what_other_rounds_refute_is_left_out() -> None:
    task = task_of("add", "+ b", "- b")
    row = next(r for r in task.source.text.split("\n") if "- b" in r)
    line = task.source.text.split("\n").index(row) + 1
    news = [row.replace("- b", x) for x in ("+ b", "+ unheard_of", "% b", "- 2.0f * b")]
    rounds = [
        later(task, Case(k, {"n": size}, kind))
        for k, (size, kind) in enumerate(((40, Distribution.NORMAL), (1, Distribution.SMALL)))
    ]
    way = way_of(task, rounds[0]())
    tried = [Edit(line, row, n) for n in news]
    made = copies(way, tried).copies
    assert made is not None
    assert {e.new for e in made.edits} == {news[0], news[3]}
    assert [e.new for e in passing(way, made.edits, rounds, 10.0)] == [news[0]]


def test_what_a_call_is_given_in_another_order_is_a_choice_of_the_call() -> None:
    row = "  int v = 2 * fetch<4>(a, k0, d, n);"
    text = f"__device__ void g(float* a, int k0, int d, int n) {{\n{row}\n}}"
    made = switched(text, [Edit(2, row, row.replace("d, n", "n, d"))])
    assert len(made.edits) == 1
    assert "2 * fetch<4>(a, k0, n, d)" in made.text


def test_edits_that_lie_across_others_are_kept_for_another_text() -> None:
    row = "  float v = f(a + b) * c;"
    text = f"__device__ float g(float a, float b, float c) {{\n{row}\n  return v;\n}}"
    news = ("f(a - b) * c", "f((a + b) * c)", "f(a + c) * c")
    tried = [Edit(2, row, row.replace("f(a + b) * c", n)) for n in news]
    made = switched(text, tried)
    assert not made.alone
    assert {*made.edits, *made.beside} == {*tried}
    comment = Edit(3, "  return v;", "  return v; // sum")
    assert switched(text, [comment]).edits == ()


@needs_ptx
def test_hundreds_of_edits_take_a_few_compilations(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    plain = Way.switched

    def switched_(self: Way, text: str) -> Task | str:
        calls.append(text)
        return plain(self, text)

    monkeypatch.setattr(Way, "switched", switched_)
    task = task_of("softmax")
    env = {"r": 1, "n": 3}
    way = way_of(task, Round.of(task, Case(0, env, Distribution.NORMAL)))
    tried = edits(task.source.text, range(1, task.source.text.count("\n") + 2))[:300]
    made = copies(way, tried).copies
    assert made is not None
    assert len(made.edits) >= 100
    assert len(calls) <= 8


@needs_ptx
def test_a_launch_of_no_blocks_leaves_each_copy_what_was_there() -> None:
    task = task_of("softmax")
    r = Round.of(task, Case(0, {"r": 0, "n": 3}, Distribution.NORMAL))
    found, _ = side_by_side_of(task, r.case.env, r.arrays, range(1, 3), 1.0)
    assert [y.shape for (y,) in filter(None, found)] == [(0, 3)] * 3


COPIED = f"""__global__ void f(const float* x, float* y, int n) {{
  unsigned copy;
  asm("mov.u32 %0, %{COPY};" : "=r"(copy));
  float* input = (float*)x;
  if (copy == 2) input[threadIdx.x] = 7;
  if (copy == 3) for (volatile int k = 0; k < 2; k *= 2) {{}}
  if (copy == 5) for (volatile int k = 0; k < 9; ++k) {{}}
  y[blockIdx.x * 32 + threadIdx.x] += x[threadIdx.x] * n + copy;
}}
"""


@needs_ptx
def test_copies_have_memory_of_their_own_and_others_end_though_one_hangs() -> None:
    kernel = compiled(Source(COPIED, "k.cu"), "f")
    x, y, n = np.arange(32, dtype=np.float32), np.zeros(64, np.float32), np.array(3, np.int32)
    args = [Argument("x", x), Argument("y", y), Argument("n", n)]
    own = [None, np.tile(bytes_of(y), (5, 1)), None]
    shape = Shape((2, 1, 1), (32, 1, 1), copies=5, second=2)
    (_, rows, _), ended, given_up, strayed = side_by_side(kernel, shape, args, own, 0, 10.0)
    assert rows is not None
    want = [np.tile(x * 3 + k, 2) for k in (0, 2, 4, 5)]
    got = rows.view(np.float32)
    assert [r.tolist() for r in got[[0, 1, 3, 4]]] == [w.tolist() for w in want]
    assert ended.tolist() == [True, True, False, True, True]
    assert given_up.tolist() == [False, False, True, False, False]
    assert not strayed.any()


FAR = f"""__global__ void f(float* y) {{
  unsigned copy;
  asm("mov.u32 %0, %{COPY};" : "=r"(copy));
  if (copy == 0) y[threadIdx.x + (4096 + 256) / 4] = 7;
  if (copy == 2) y[32] = 7;
  y[threadIdx.x] = copy;
}}
"""


@needs_ptx
def test_a_copy_that_leaves_its_memory_is_told_and_changes_no_other() -> None:
    kernel = compiled(Source(FAR, "k.cu"), "f")
    y = np.zeros(32, np.float32)
    own = [np.tile(bytes_of(y), (4, 1))]
    shape = Shape((1, 1, 1), (32, 1, 1), copies=4, second=1)
    (rows,), *_, strayed = side_by_side(kernel, shape, [Argument("y", y)], own, 0, 10.0)
    assert rows is not None
    assert rows.view(np.float32).tolist() == [[k] * 32 for k in range(4)]
    assert strayed.tolist() == [True, False, True, False]


COUNTED = """__device__ int count = 1;
__global__ void f(int* y) {
  y[threadIdx.x] = atomicAdd(&count, 1);
}
"""


@needs_ptx
def test_copies_have_variables_of_their_own() -> None:
    kernel = compiled(Source(COUNTED, "k.cu"), "f")
    y = np.zeros(4, np.int32)
    own = [np.tile(bytes_of(y), (3, 1))]
    shape = Shape((1, 1, 1), (4, 1, 1), copies=3, second=1)
    (rows,), *_ = side_by_side(kernel, shape, [Argument("y", y)], own, 0, 10.0)
    assert rows is not None
    assert [sorted(r) for r in rows.view(np.int32).tolist()] == [[1, 2, 3, 4]] * 3


@needs_ptx
def test_copies_may_have_other_instructions() -> None:
    kernel = compiled(Source(COUNTED, "k.cu"), "f")
    at, add = next((k, i) for k, i in enumerate(kernel.program.instrs) if i.op == "atom")
    two = replace(add, args=(*add.args[:2], Imm("2")))
    y = np.zeros(4, np.int32)
    own = [np.tile(bytes_of(y), (4, 1))]
    shape = Shape((1, 1, 1), (4, 1, 1), copies=4, second=7)
    varied = kernel.varied({8: {at: (two,)}, 9: {at: (replace(add, op="nothing"),)}})
    (rows,), *_ = side_by_side(varied, shape, [Argument("y", y)], own, 0, 10.0)
    assert rows is not None
    found = [sorted(r) for r in rows.view(np.int32).tolist()]
    assert found == [[1, 2, 3, 4], [1, 2, 3, 4], [1, 3, 5, 7], [1, 2, 3, 4]]
