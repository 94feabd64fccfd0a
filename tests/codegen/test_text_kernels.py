"""Kernels that a caller hands in as text: right ones run, wrong ones are found and named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.memory.views import movers
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile as compile_module
from didyma.fuzz import levels
from didyma.oracle import chains
from didyma.refimpl.ir.dims import symbol
from didyma.refimpl.ir.graph import structural_hash
from didyma.refimpl.ir.kernel import ClaimedKernel, loops
from didyma.refimpl.ir.text import parse, show
from didyma.refimpl.ir.types import DType
from didyma.refimpl.verify import program as laws
from didyma.refimpl.verify.sharing import may_share
from didyma.tracer.tracing import Program
from tests.errors.test_codes import says

ROWS = """extern "C" __global__ void rows(const f32 *x, f32 *y, f32 *part, i64 n) {
  i64 row = blockIdx.x;
  i64 t = threadIdx.x;
  f32 acc = 0.0f;
  for (i64 k = t; k < 100; k = k + 32) {
    acc = acc + x[row * 100 + k];
  }
  part[row * 32 + t] = acc;
  __syncthreads();
  if (t == 0) {
    f32 all = 0.0f;
    for (i64 k = 0; k < 32; k = k + 1) {
      all = all + part[row * 32 + k];
    }
    y[row] = exp_f32(all);
  }
}
"""
NAME = "fused_sum_exp_0"
KERNEL = dd.TextKernel(
    ROWS,
    reads=("x",),
    writes=("y",),
    grid=(symbol("n"), 1, 1),
    block=(32, 1, 1),
    workspace=(dd.Buffer("part", DType.F32, (symbol("n"), 32)),),
    chain=35,
)
n = dd.dim("n", 1, 64)


@pytest.fixture(scope="module")
def program() -> Program:
    @dd.trace(dd.f32[n, 100])
    def g(x: dd.Tensor) -> dd.Tensor:
        return dd.exp(dd.sum(x, axis=1))

    return g


def test_an_array_has_a_literal_size(program: Program) -> None:
    kernel = changed("  i64 t = ", "  __shared__ f32 kept[2 * 16];\n  i64 t = ")
    with says("bad-kernel", "an array of a literal size"):
        dd.compile(program, kernels={NAME: kernel})


def changed(old: str, new: str) -> dd.TextKernel:
    assert old in ROWS
    return replace(KERNEL, source=ROWS.replace(old, new))


def test_a_text_runs_in_place_of_the_kernel_and_is_judged(program: Program) -> None:
    x = np.linspace(-1, 1, 700, dtype=np.float32).reshape(7, 100)
    executable = dd.compile(program, kernels={NAME: KERNEL})
    assert "part[row * 32 + t] = acc;" in executable.text
    assert f"void {NAME}(" in executable.text, "its name in the program"
    assert executable.choices["choices"] == {}, "no recipe made the kernel"
    assert dd.interpret(program, x).contains(executable(x))
    report = dd.check(program, kernels={NAME: KERNEL}, tries=2)
    assert report.agree, report.findings
    assert [level.name for level in report.levels][-2:] == ["simt", "host"]


def test_a_function_is_claimed_by_its_structural_hash(program: Program) -> None:
    c = compile_module(program.module)
    key = structural_hash(c.fused.function(NAME))
    by_hash = compile_module(program.module, kernels={key: KERNEL})
    assert by_hash.text == compile_module(program.module, kernels={NAME: KERNEL}).text


def test_the_program_prints_parses_and_obeys_the_laws(program: Program) -> None:
    p = compile_module(program.module, kernels={NAME: KERNEL}).program
    (k,) = p.kernels
    assert isinstance(k, ClaimedKernel)
    assert [b.name for b in k.params if b.name not in k.outputs] == list(k.inputs)
    assert not may_share(k, k.outputs[0], k.inputs[0])
    assert parse(show(p)) == p
    laws.verify(p)
    assert "workspace (part: f32[n, 32]) grid (n, 1, 1) block (32, 1, 1) chain 35" in show(p)


def test_a_longer_chain_than_that_of_the_loops_is_not_believed(program: Program) -> None:
    (k,) = compile_module(program.module, kernels={NAME: KERNEL}).program.kernels
    assert isinstance(k, ClaimedKernel)
    longer = replace(k, text=replace(k.text, chain=10**6))
    silent = replace(k, text=replace(k.text, chain=None))
    lengths = [chains.longest([one], {"n": 4}) for one in (k, longer, silent, loops(k))]
    assert lengths[0] == 35
    assert lengths[1] == lengths[2] == lengths[3]


@pytest.mark.parametrize(
    ("text", "level", "kind"),
    [
        (changed("k < 100", "k < 99"), "host", "value"),
        (changed("k < 100", "k < 99"), "simt", "value"),
        (changed("  __syncthreads();\n", ""), "simt", "race"),
        (changed("row * 100 + k]", "row * 100 + k + 1]"), "simt", "out-of-bounds"),
        (changed("if (t == 0)", "if (t == 0 && row > 0)"), "simt", "value"),
        (changed("f32 all = 0.0f", "f32 all = part[row * 32 + t + 1]"), "simt", "value"),
    ],
    ids=["a dropped term", "a dropped term on simt", "a race", "out of bounds", "unwritten",
         "a term twice"],
)  # fmt: skip
def test_a_wrong_text_is_a_disagreement_that_names_it(
    program: Program, text: dd.TextKernel, level: str, kind: str
) -> None:
    report = dd.check(program, kernels={NAME: text}, engines=level, tries=3, sizes={"n": 5})
    found = [f for f in report.findings if f.level == level]
    assert not report.agree
    assert NAME in {f.where for f in found}
    assert kind in {f.kind for f in found} or any(kind in f.message for f in found), found
    assert {f.level for f in report.findings} == {level}, "no other level is to blame"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (changed("exp_f32(all)", "expf(all)"), ("line 15", "the function expf", "exp_f32")),
        (changed("f32 acc = 0.0f", "f32 acc = start"), ("line 4", "the name start")),
        (changed("k = k + 32", "k = k + "), ("line 5",)),
        (changed("const f32 *x", "const f64 *x"), ("line 1", "f64 *x", "f32 *x")),
        (changed("f32 *y", "const f32 *y"), ("line 15", "an assignment to y, which is const")),
        (
            replace(
                KERNEL,
                source=ROWS.replace("f32 *y", "const f32 *y").replace(
                    "y[row] = exp_f32(all)", "atomic_add_f32(&y[row], all)"
                ),
            ),
            ("line 1", "const f32 *y", "which is written"),
        ),
        (changed("i64 n)", "i64 m)"), ("line 1", "the symbol m", NAME)),
        (changed("i64 n)", "i32 n)"), ("line 1", "the argument n")),
        (
            replace(KERNEL, source=ROWS.replace("part", "w")),
            ("line 1", "the buffers x, y, w", "x, y, part"),
        ),
        (changed("__global__", ""), ("0 of them",)),
        (replace(KERNEL, source=ROWS + ROWS.replace("rows", "more")), ("2 of them",)),
        (replace(KERNEL, source=f"f32 two() {{ return 2.0f; }}\n{ROWS}"), ("two, rows",)),
        (replace(KERNEL, workspace=()), ("the buffers x, y, part", "x, y")),
        (
            replace(changed("const f32 *x", "const f32 *x, const f32 *z"), reads=("x", "z")),
            ("2 read and 1 written buffers", "1 and 1"),
        ),
    ],
)  # fmt: skip
def test_a_text_that_cannot_run_is_refused_with_its_place(
    program: Program, text: dd.TextKernel, words: tuple[str, ...]
) -> None:
    with says("bad-kernel", f"the kernel for {NAME}", *words):
        dd.compile(program, kernels={NAME: text})
    with says("bad-kernel", *words):
        dd.check(program, kernels={NAME: text})


WIDE = """extern "C" __global__ void doubled(const f32 *x, f32 *y) {
  i64 i = 4 * threadIdx.x;
  f32x4 v = load4_f32(x + i);
  v.x = v.x + v.x;
  v.y = v.y + v.y;
  v.z = v.z + v.z;
  v.w = v.w + v.w;
  prefetch_f32(x);
  store4_f32(y + i, v);
}
"""


@pytest.mark.parametrize("engine", ["host", "simt"])
def test_addresses_of_wide_accesses_are_sums_too(engine: str) -> None:
    @dd.trace(dd.f32[64])
    def twice(x: dd.Tensor) -> dd.Tensor:
        return x + x

    def kernel(source: str) -> dict[str, dd.TextKernel]:
        return {
            "fused_add_0": dd.TextKernel(source, ("x",), ("y",), grid=(1, 1, 1), block=(16, 1, 1))
        }

    x = np.arange(64, dtype=np.float32)
    found = dd.compile(twice, engine=engine, kernels=kernel(WIDE))(x)
    assert np.array_equal(np.asarray(found), 2 * x)
    for wrong in ("&x[i] + 0", "i + x", "v", "*x"):
        with says("bad-kernel", "line 3", "load4_f32", "&a[i], a + i or a"):
            dd.compile(twice, engine=engine, kernels=kernel(WIDE.replace("x + i", wrong)))


def test_what_is_claimed_must_be_there(program: Program) -> None:
    with says("unknown-primitive", "softmax", NAME):
        dd.compile(program, kernels={"softmax": KERNEL})
    with says("P-text", "a block of 32 x 64 x 1 threads"):
        dd.compile(program, kernels={NAME: replace(KERNEL, block=(32, 64, 1))})
    with says("P-text", "a grid of 1 x -1 x 1 blocks", "none of them negative"):
        dd.compile(program, kernels={NAME: replace(KERNEL, grid=(1, -1, 1))})
    with says("P-text", "a chain of -1 additions", "0 or more"):
        dd.compile(program, kernels={NAME: replace(KERNEL, chain=-1)})
    key = structural_hash(compile_module(program.module).fused.function(NAME))
    with says("bad-kernel", "a second kernel"):
        dd.compile(program, kernels={NAME: KERNEL, key: KERNEL})


def test_a_text_for_a_move_is_launched_and_no_view() -> None:
    @dd.trace(dd.f32[4], dd.f32[4])
    def joined(a: dd.Tensor, b: dd.Tensor) -> dd.Tensor:
        return dd.concat([a, b])

    text = dd.TextKernel(
        """extern "C" __global__ void join(const f32 *a, const f32 *b, f32 *c) {
  i64 t = threadIdx.x;
  c[t] = a[t];
  c[t + 4] = b[t];
}
""",
        ("a", "b"),
        ("c",),
        (1, 1, 1),
        (4, 1, 1),
    )
    (name,) = compile_module(joined.module).loops
    c = compile_module(joined.module, Options(), kernels={name: text})
    assert not movers(c.fused, c.loops, c.kernels)
    assert levels.check(joined.module, [np.arange(4, dtype=np.float32)] * 2, []).agree
    assert dd.check(joined, kernels={name: text}, tries=1).agree
