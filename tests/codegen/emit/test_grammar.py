"""What takes a kernel's text out of the subset is refused before an engine sees it."""

from __future__ import annotations

import pytest

import didyma as dd
from didyma.codegen.emit.text_kernel import Reader
from tests.errors.test_codes import says

HEAD = 'extern "C" __global__ void f(const f32 *x, f32 *y, i64 n) {\n  const i64 i = threadIdx.x;\n'


def read(line: str) -> None:
    Reader(f"{HEAD}  {line}\n}}\n", "a kernel").head()


@pytest.mark.parametrize(
    ("line", "got"),
    [
        ("f32 v = 0.0f; f32 v = 1.0f;", "v again"),
        ("f32 v = 0.0f; if (i < n) { f32 v = x[i]; y[i] = v; }", "v again"),
        ("for (i64 k = 0; k < 2; ++k) { const i64 k = 1; y[k] = 0.0f; }", "k again"),
        ("f32 n = 1.0f; y[i] = n;", "n again"),
        ("f32 threadIdx = 1.0f;", "threadIdx again"),
        ("if (i < n) { f32 v = x[i]; y[i] = v; } y[i] = v;", "the name v"),
        ("y[i] = v; f32 v = 3.0f;", "the name v"),
        ("f32 v = v;", "the name v"),
        ("for (i64 k = 0; k < 2; ++k) { } y[i] = x[k];", "the name k"),
        ("y[i] = x[i + k];", "the name k"),
        ("i = 3;", "an assignment to i, which is const"),
        ("++i;", "an assignment to i, which is const"),
        ("x[i] = 1.0f;", "an assignment to x, which is const"),
        ("y = x;", "an assignment to y"),
        ("f32x4 v; v[0] = 1.0f;", "an assignment to v"),
        ("threadIdx.x = 0;", "an assignment to threadIdx"),
        ("y[i].x = 1.0f;", "an assignment to structref"),
        ("f32 *p = y; p[i] = 1.0f;", "the declaration of p"),
        ("f32 t[4][4]; y[i] = 1.0f;", "the declaration of t"),
        ("f32 t[2 * 2]; y[i] = 1.0f;", "an array of another size"),
        ("f32 t[2] = {1.0f, 2.0f}; y[i] = t[0];", "values for the array t"),
        ("float v = x[i]; y[i] = v;", "the type float"),
        ("y[i] = (double)x[i];", "a cast to double"),
        ("do { y[i] = 1.0f; } while (i > n);", "do as a statement"),
        ("switch (i) { default: y[i] = 1.0f; }", "switch as a statement"),
        ("if (i >= n) return;", "return as a statement"),
        ("while (i < n) { break; }", "break as a statement"),
        ("for (;;) { y[i] = 1.0f; }", "a for loop without one of its parts"),
        ("i64 k = 0; for (k = 0; k < 2; ++k, ++k) { }", "exprlist as a statement"),
        ("i64 k = 0; y[k = i] = 1.0f;", "assignment as a value"),
        ("y[i] = +x[i];", "UnaryOp(+) as a value"),
        ("y[i] = *x;", "UnaryOp(*) as a value"),
        ("y[i]++;", "UnaryOp(p++) as a value"),
        ("y[i] = (*x)(1.0f);", "the function of an expression"),
    ],
)
def test_what_engines_could_read_differently_is_refused(line: str, got: str) -> None:
    with says("bad-kernel", "a kernel, line 3", got):
        read(line)


@pytest.mark.parametrize(
    "line",
    [
        "for (i64 k = 0; k < 2; ++k) { } for (i64 k = 0; k < 2; k = k + 1) { y[k] = 0.0f; }",
        "if (i < n) { f32 v = x[i]; y[i] = v; } else { i32 v = 1; y[i] = v; }",
        "f32x4 v; v.x = x[i]; y[i] = v.x;",
        "const f32 t[2]; y[i] = t[0];",
        "i64 k = 0, l = 1; while (k < l) { k++; } y[i] = i % 2 == 0 ? -x[i] : (f32)!k;",
        "(void)x[i]; ; if (i < n) y[i] = 1.0f;",
        "__shared__ f32 t[32]; t[i] = x[i]; __syncthreads(); y[i] = t[31 - i];",
    ],
)
def test_the_rest_is_read(line: str) -> None:
    read(line)


def test_a_kernel_whose_variable_hides_another_is_not_run() -> None:
    """Engine ``simt`` has one table of variables: an inner one would overwrite the outer."""
    text = f"{HEAD}  f32 v = 0.0f;\n  if (i < n) {{ f32 v = x[i]; y[i] = v; }}\n  y[i] = v;\n}}\n"
    n = dd.dim("n", 1, 32)
    with says("bad-kernel", "line 4", "v again"):
        dd.kernel(text, {"x": dd.f32[n], "y": dd.f32[n]}, reference=dd.abs, grid=1, block=32)
