"""Kernels of a user's own: they run and are judged as what their references mean."""

from __future__ import annotations

import codecs
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import compile as compile_module
from didyma.codegen.select.cache import Cache
from didyma.codegen.select.choice import ranked
from didyma.codegen.select.choosers import Request
from didyma.codegen.select.selector import Limits
from didyma.kernels import KernelOp
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.kernel import ClaimedKernel
from didyma.refimpl.ir.text import parse, show
from didyma.tuning import Tuner
from tests.codegen.select.make import inline
from tests.errors.test_codes import says

n = dd.dim("n", 1, 4096)
k = dd.dim("k", 1, 64)
ROWS = """extern "C" __global__ void spread(
    const f32 *x, const f32 *w, f32 *y, f32 *s, i64 n, i64 k) {
  __shared__ f32 part[{{ threads }}];
  const i64 row = blockIdx.x;
  f32 sum = 0.0f;
  for (i64 m = threadIdx.x; m < k; m += {{ threads }}) {
    sum = sum + x[row * k + m];
  }
  part[threadIdx.x] = sum;
  __syncthreads();
  f32 all = 0.0f;
  for (i64 m = 0; m < {{ threads }}; ++m) {
    all = all + part[m];
  }
  if (threadIdx.x == 0) {
    s[row] = all;
  }
  for (i64 m = threadIdx.x; m < k; m += {{ threads }}) {
    y[row * k + m] = x[row * k + m] * all + w[m];
  }
}
"""
SIGNATURE = {"x": dd.f32[n, k], "w": dd.f32[k], "y": dd.f32[n, k], "s": dd.f32[n]}


def totals(x: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    s = dd.sum(x, axis=1)
    return x * s[:, None] + w, s


def each_row(n: dd.Size) -> dd.Size:
    return n


def so_many(threads: int) -> int:
    return threads


def rows(text: str | Path = ROWS, **changed: Any) -> KernelOp:
    given: dict[str, Any] = {
        "signature": SIGNATURE,
        "reference": totals,
        "grid": each_row,
        "block": so_many,
        "configs": [{"threads": t} for t in (4, 8, 4, 2048)],
    }
    return dd.kernel(text, **(given | changed))


def program(op: KernelOp) -> dd.Program:
    """Call a kernel with other symbols, one of them the name of a word of its text."""
    m, n = dd.dim("m", 1, 9), dd.dim("n", 1, 5)

    @dd.trace(dd.f32[m, 2 * n], dd.f32[2 * n])
    def around(x: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        y, s = op(x - 1.0, w)
        return dd.exp(y * 0.1), s

    return around


def known(op: KernelOp) -> dd.Program:
    """Call a kernel alone, with sizes that are known."""

    @dd.trace(dd.f32[3, 5], dd.f32[5])
    def alone(x: dd.Tensor, w: dd.Tensor) -> Sequence[dd.Tensor]:
        return tuple(op(x, w))

    return alone


def test_a_kernel_is_called_with_sizes_of_its_callers_and_fused_around() -> None:
    made = program(rows())
    run = dd.compile(made)
    assert [s.name for s in run.compiled.text.kernels][1] == "spread"
    assert len(run.compiled.text.kernels) == 3
    x, w = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6), np.arange(6, dtype=np.float32)
    assert dd.interpret(made, x, w).contains(run(x, w))
    report = dd.check(made, tries=2)
    assert report.agree, report.findings
    assert parse(show(run.compiled.program)) == run.compiled.program


def test_known_sizes_are_constants_of_the_text() -> None:
    op = rows()
    fixed = known(op)
    (kernel,) = compile_module(
        fixed.module, dd.Options().with_codegens(fixed.kernels)
    ).program.kernels
    assert isinstance(kernel, ClaimedKernel)
    assert not kernel.dims
    assert kernel.text.grid == (3, 1, 1)
    assert dd.check(fixed, tries=1).agree


def test_a_program_without_its_kernels_means_the_same() -> None:
    """What is loaded from a file has the reference, for which there are kernels as for any."""
    m = parse(show(program(rows()).module))
    assert isinstance(m, Module)
    assert "Kernel" in show(m)
    kernels = compile_module(m).program.kernels
    assert not any(isinstance(k, ClaimedKernel) for k in kernels)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "m < k; m += {{ threads }}) {\n    sum",
            "m + 1 < k; m += {{ threads }}) {\n    sum",
            "spread",
        ),
        ("  __syncthreads();\n", "", "race"),
        ("all + w[m]", "all", "spread"),
        ("row * k + m] = x", "row * k + m + 1] = x", "out-of-bounds"),
        ("threadIdx.x == 0", "threadIdx.x == 1000", "spread"),
    ],
)
def test_a_wrong_text_is_found_on_simt_and_named(old: str, new: str, words: str) -> None:
    assert old in ROWS
    report = dd.check(known(rows(ROWS.replace(old, new, 1))), engines="simt", tries=1)
    assert {f.level for f in report.findings} == {"simt"}
    assert any(words in f"{f.where} {f.message}" for f in report.findings), report.findings


COUNT = """extern "C" __global__ void count(const f32 *x, f32 *y, {0} *seen, i64 n) {{
  for (i64 i = threadIdx.x; i < n; i += 32) {{
    if (seen[i] == {1}) {{
      seen[i] = {2};
      y[i] = -x[i];
    }} else {{
      y[i] = x[i];
    }}
  }}
}}
"""


@pytest.mark.parametrize(("dtype", "zero", "one"), [("f32", "0.0f", "1.0f"), ("i64", "0", "1")])
def test_workspace_is_zeroed_where_that_is_asked(dtype: str, zero: str, one: str) -> None:
    types = {"f32": dd.f32, "i64": dd.i64}

    def judged(zeroed: Sequence[str]) -> bool:
        op = dd.kernel(
            COUNT.format(dtype, zero, one), {"x": dd.f32[n], "y": dd.f32[n]},
            reference=dd.negative, grid=1, block=32,
            workspace={"seen": types[dtype][n]}, zeroed=zeroed,
        )  # fmt: skip
        m = dd.dim("m", 3, 40)

        @dd.trace(dd.f32[m])
        def twice(x: dd.Tensor) -> dd.Tensor:
            y = op(x)
            assert isinstance(y, dd.Tensor)
            z = op(y)
            assert isinstance(z, dd.Tensor)
            return z

        return dd.check(twice, tries=1).agree

    assert judged(["seen"])
    assert not judged([])


def test_tuning_measures_the_configurations_that_the_target_holds(tmp_path: Path) -> None:
    op = rows()
    configurations = op.kernel.configurations
    assert [dict(c.values)["threads"] for c in configurations] == [4, 8, 2048], "each once"
    assert pickle.loads(pickle.dumps(op.kernel)) == op.kernel, "as it goes to a child"
    fixed = known(op)
    options = dd.Options().with_codegens(fixed.kernels)
    made = compile_module(fixed.module, options, until="lower")
    ((name, loop),) = made.loops.items()
    request = Request(name, loop, options, "host", "here", {}, made.fused.function(name))
    offered = [str(c) for c in ranked(loop, options, request.source)]
    assert offered[0] == str(request.usual) == "spread(threads=4)"
    assert "spread(threads=8)" in offered
    assert "spread(threads=2048)" not in offered
    limits = Limits(seconds=0.5, candidates=2)
    tuner = Tuner(made.fused, Cache(tmp_path / "c"), limits, isolate=inline)
    _, found = tuner.tune(request)
    assert next(t.choice for t in found.trials if not t.reason) == "spread(threads=4)"


def test_configurations_that_do_not_fit_or_are_unknown_are_refused() -> None:
    made = program(rows())

    def chosen(choice: str) -> dd.Options:
        return dd.Options(kernels=dd.KernelOptions(choices=f"spread: {choice}"))

    assert (
        dd.compile(made, options=chosen("spread(threads=8)")).compiled.text.kernels[1].block[0] == 8
    )
    with says("target-lacks", "spread(threads=2048)", "2048 x 1 x 1 threads"):
        dd.compile(made, options=chosen("spread(threads=2048)"))
    with says("bad-choice", "spread(threads=5)", "one of spread(threads=4), spread(threads=8)"):
        dd.compile(made, options=chosen("spread(threads=5)"))
    large = rows(ROWS.replace("part[{{ threads }}]", "part[16384]"), configs=[{"threads": 4}])
    with says("target-lacks", "65536 bytes of shared memory"):
        dd.compile(program(large))
    together = ROWS.replace("void spread", "void __cluster_dims__(4, 1, 1) spread")
    with says("target-lacks", "clusters of 4 blocks"):
        dd.compile(program(rows(together)))


def two_products(x: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return x @ (dd.transpose(x) @ x) + w, dd.sum(x, axis=1)


def one_result(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
    return x + w


def broken(threads: int) -> int:
    return threads // 0


def unknown(q: int) -> int:
    return q


NO_RESULT = ROWS.replace("f32 *y, f32 *s", "const f32 *y, const f32 *s")
ROWS_ALONE = {**SIGNATURE, "x": dd.f32[n], "w": dd.f32[3], "y": dd.f32[n]}


def below(threads: int) -> int:
    return -threads


WRONG: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a parameter without a value": ("bad-kernel", "line 3", {"configs": [{"lanes": 4}]}),
    "no configuration": ("bad-kernel", "one dict", {"configs": []}),
    "no list of configurations": ("bad-kernel", "one dict", {"configs": None}),
    "configurations that are numbers": ("bad-kernel", "one dict", {"configs": [3]}),
    "a text that is none": ("bad-kernel", "a Path to a file", {"text": 3}),
    "no blocks": ("bad-kernel", "a grid of 0", {"grid": 0}),
    "blocks below none": ("bad-kernel", "a grid of (n, -1)", {"grid": (n, -1)}),
    "four axes of blocks": ("bad-kernel", "one to three", {"grid": (1, 1, 1, 1)}),
    "no threads": ("bad-kernel", "a block of 0", {"block": 0}),
    "a value of text": ("bad-kernel", "threads='x'", {"configs": [{"threads": "x"}]}),
    "a parameter that is a size": ("bad-kernel", "is a size", {"configs": [{"n": 4}]}),
    "too few pointers": ("bad-kernel", "pointers x, w, y, s", {"signature": {"x": dd.f32[n, k]}}),
    "another dtype": ("bad-kernel", "f32 *w", {"signature": {**SIGNATURE, "w": dd.f64[k]}}),
    "another size": ("bad-kernel", "the argument k", {"signature": ROWS_ALONE}),
    "no type": ("bad-kernel", "3 for x", {"signature": {**SIGNATURE, "x": 3}}),
    "no result": ("bad-kernel", "not const", {"text": NO_RESULT}),
    "an unwritten result": (
        "bad-kernel", "no statement that writes s", {"text": ROWS.replace("s[row] =", "sum =")},
    ),
    "a grid of an unknown name": ("bad-kernel", "grid of q", {"grid": unknown}),
    "a block of a size": ("bad-kernel", "numbers of threads", {"block": n}),
    "a chain below zero": ("bad-kernel", "a chain of -1 additions", {"chain": -1}),
    "a chain of a function below zero": (
        "bad-kernel", "a chain of -4 additions", {"chain": below},
    ),
    "a workspace without a type": ("bad-kernel", "3 for workspace z", {"workspace": {"z": 3}}),
    "a reserved name": ("bad-kernel", "the name __spread", {"name": "__spread"}),
    "the name of a recipe": ("bad-kernel", "no recipe", {"name": "matmul"}),
    "a file that is not there": ("unreadable-file", "none.cu", {"text": Path("none.cu")}),
    "other operands": ("bad-reference", "1 parameters", {"reference": dd.exp}),
    "a number": ("bad-reference", "3", {"reference": 3}),
    "other results": ("bad-reference", "f32[n, k], f32[n]", {"reference": one_result}),
    "two products": ("bad-reference", "matmul", {"reference": two_products}),
    "zeros that are no workspace": ("bad-kernel", "zeros in y", {"zeroed": ["y"]}),
    "grid that raises": (
        "bad-kernel", "grid: ZeroDivisionError: integer division or modulo by zero, of the "
        "configuration threads=4", {"grid": broken}),
}  # fmt: skip


def test_a_file_may_begin_with_a_byte_order_mark_and_end_lines_as_windows_does(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.cu"
    path.write_bytes(codecs.BOM_UTF8 + ROWS.replace("\n", "\r\n").encode())
    assert rows(path).kernel == rows(ROWS).kernel


def test_a_text_may_have_comments_of_both_kinds() -> None:
    text = "/* one\ntwo */\n" + ROWS.replace("f32 sum = 0.0f;", "f32 sum/* of k */= 0.0f; // é")
    report = dd.check(program(rows(text)), tries=1, sizes={"m": 3, "n": 4})
    assert report.agree, report.findings


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_is_refused_with_its_place(what: str) -> None:
    code, words, changed = WRONG[what]
    with says(code, words):
        rows(**changed)


def test_calls_that_do_not_fit_are_refused() -> None:
    op, other = rows(), rows(ROWS.replace("* all", "* sum"))

    def wrong(x: dd.Tensor) -> Sequence[dd.Tensor]:
        return tuple(op(x))

    def called(x: dd.Tensor, w: dd.Tensor) -> Sequence[dd.Tensor]:
        return tuple(op(x, w))

    def both(x: dd.Tensor, w: dd.Tensor) -> Sequence[dd.Tensor]:
        return (*op(x, w), *other(x, w))

    x, w = dd.f32[3, 5], dd.f32[5]
    with says("arity", "1 argument", "x, w"):
        dd.trace(x)(wrong)
    with says("type-mismatch", "spread(w)"):
        dd.trace(x, dd.f32[4])(called)
    with says("bad-kernel", "two kernels called spread"):
        dd.trace(x, w)(both)


def test_equal_calls_share_a_function_and_a_reference_takes_nothing_from_around() -> None:
    op = rows()

    @dd.trace(dd.f32[3, 5], dd.f32[5])
    def twice(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return dd.concat([*op(x, w)][:1] + [*op(x + 1.0, w)][:1])

    assert [f.name for f in twice.module.functions] == ["spread", "twice"]

    def inner(x: dd.Tensor, w: dd.Tensor) -> Sequence[dd.Tensor]:
        around = x + 1.0
        changes = iter((0.0, around))

        def reference(x: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
            return totals(x + next(changes), w)

        return tuple(rows(reference=reference)(x, w))

    with says("bad-reference", "from around it"):
        dd.trace(dd.f32[3, 5], dd.f32[5])(inner)


def test_a_text_is_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "rows.cu").write_text(ROWS, encoding="utf-8")
    assert rows(tmp_path / "rows.cu").kernel == rows().kernel
    assert replace(rows().kernel, name="other") != rows().kernel
