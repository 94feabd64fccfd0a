"""First guesses that cannot work end in a code and the name of the call that does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import didyma as dd
from tests.didyma.tracing import fail

N = dd.dim("n", 1, 9)
EYE = np.eye(2, dtype=np.float32)

# An expression over x: f32[2, 3], i: i32[3], k: i8[3], u: u8[3], b: bool[3], y: f32[n], h: f16[3].
REFUSED: dict[str, tuple[str, str]] = {
    # operands
    "x + None": ("bad-operand", "NoneType"),
    "None + x": ("bad-operand", "NoneType"),
    "x + '3'": ("bad-operand", "'3'"),
    "x + 1j": ("bad-operand", "dd.complex"),
    "x * np.complex64(1j)": ("dtype-mismatch", "complex"),
    "x + np.array(['a', 'b', 'c'])": ("dtype-mismatch", "astype"),
    "x + [1, 2, 3]": ("bad-operand", "np.array"),
    "x == None": ("bad-operand", "NoneType"),
    "dd.where(b, i, None)": ("bad-", "None"),
    "dd.where(b, i, 2.5)": ("dtype-mismatch", "astype"),
    "i + np.array([.5, 1.5, 2.5])": ("dtype-mismatch", "astype"),
    "i + np.float32(2.5)": ("dtype-mismatch", "astype"),
    "np.float32(2.5) * i": ("dtype-mismatch", "astype"),
    "i + 2.5": ("dtype-mismatch", "astype"),
    "i + float('nan')": ("dtype-mismatch", "astype"),
    "b + 1": ("dtype-mismatch", "astype"),
    "b + i": ("dtype-mismatch", "astype"),
    "i + x[0]": ("dtype-mismatch", "astype"),
    "k + 300": ("bad-number", "300"),
    "300 - k": ("bad-number", "300"),
    "u + -1": ("bad-number", "-1"),
    "x + 10**400": ("bad-number", "many digits"),
    "x * 1e300": ("bad-number", "1e+300"),
    "x * 1e39": ("bad-number", "1e+39"),
    "h + 70000": ("bad-number", "70000"),
    "x @ 2.0": ("shape-mismatch", "matmul"),
    "x + np.ones(5, np.float32)": ("shape-mismatch", "equal or 1"),
    "y / (N / 2)": ("bad-size", "//"),
    "k + 100 * N": ("bad-number", "100*n"),
    # values
    "x if x.sum() > 0 else -x": ("traced-branch", "dd.where"),
    "max(x[0], x[1])": ("traced-branch", "dd.maximum"),
    "b and b": ("traced-branch", "&"),
    "float(x.sum())": ("traced-value", "dd.interpret"),
    "int(i[0])": ("traced-value", "dd.compile"),
    "complex(x[0, 0])": ("traced-value", "dd.compile"),
    "[1, 2, 3][i[0]]": ("traced-value", "dd.compile"),
    "np.asarray(x)": ("traced-value", "dd.compile"),
    "2.0 in x": ("traced-value", "dd.any"),
    "{x: 1}": ("traced-value", "key"),
    "x.numpy()": ("unknown-attribute", "dd.compile"),
    "x.item()": ("unknown-attribute", "dd.interpret"),
    "x.__setitem__(0, 1)": ("immutable", "dd.where"),
    "x.__delitem__(0)": ("immutable", "dd.concat"),
    "y if y.shape[0] > 3 else -y": ("traced-branch", "dd.dim"),
    "y if y.shape[0] == 3 else -y": ("traced-branch", "range"),
    "[y for _ in range(y.shape[0])]": ("bad-size", "dd.scan"),
    "y * float(y.shape[0])": ("bad-size", "symbolic"),
    # methods
    "x.sum(dim=1)": ("bad-call", "dim is called axis"),
    "x.max(axis=1, keepdim=True)": ("bad-call", "keepdim is called keepdims"),
    "x.mean(1, 2)": ("bad-call", "mean(axis"),
    "x.var(ddof=1)": ("bad-call", "correction="),
    "x.max(x)": ("bad-axis", "dd.maximum"),
    "x.sum(axis=1.5)": ("bad-axis", "1.5"),
    "x.sum(axis=2)": ("bad-axis", "axis 2"),
    "x.size(0)": ("bad-call", "x.shape[0]"),
    "y.size(0)": ("bad-call", "x.shape[0]"),
    "f'{x.sum():.3f}'": ("traced-value", "format"),
    "x.transpose(0, 1)": ("bad-axis", "swapaxes"),
    "x.permute(0, 0)": ("bad-axis", "once"),
    "x.swapaxes(0, 2)": ("bad-axis", "axis 2"),
    "x.unsqueeze(5)": ("bad-axis", "axis 5"),
    "x[0].mT": ("bad-axis", "axis"),
    "x.reshape(4, 4)": ("shape-mismatch", "elements"),
    "x.reshape('a')": ("bad-", "'a'"),
    "x.astype('float7')": ("unknown-dtype", "float7"),
    "x.astype('i8')": ("unknown-dtype", "bytes in NumPy"),
    "x.astype(None)": ("unknown-dtype", "f32"),
    "x.astype(np.complex64)": ("unknown-dtype", "dd.complex"),
    "x.to('cuda')": ("unknown-dtype", "cuda"),
    "x.foo": ("unknown-attribute", "foo"),
    "x.contiguous()": ("unknown-attribute", "leave it out"),
    "x.float()": ("unknown-attribute", "astype(dd.f32)"),
    "x.masked_fill(x > 0, 1)": ("unknown-attribute", "dd.where"),
    "x.sotfmax(1)": ("unknown-attribute", "x.softmax"),
    "x.concat(x)": ("unknown-attribute", "dd.concat(x, ...)"),
    "x.backward()": ("unknown-attribute", "gradients"),
    "x.T()": ("bad-call", "are no methods"),
    # NumPy
    "np.sum(x)": ("numpy-function", "dd.sum"),
    "np.concatenate([x, x])": ("numpy-function", "dd.concat"),
    "np.add.reduce(x)": ("numpy-function", "np.add.reduce"),
    "np.sin(x, out=EYE)": ("numpy-function", "dd.sin"),
    "np.frexp(x)": ("numpy-function", "np.frexp"),
    # control
    "dd.cond(x.sum() > 0, lambda: 1.0, lambda: 2.0)": ("bad-result", "dd.asarray"),
    "dd.cond(x.sum() > 0, lambda y: y, lambda: x, x)": ("bad-call", "positional"),
    "dd.cond(x.sum() > 0, x, x)": ("bad-call", "function"),
    "dd.cond(x.sum() > 0, lambda: x, lambda: (x, x))": ("branch-mismatch", "as many"),
    "dd.while_loop(lambda i: i < 3, lambda i: 1, i[0])": ("bad-result", "1"),
    "dd.while_loop(lambda i: True, lambda i: i + 1, i[0])": ("bad-result", "True"),
    "dd.while_loop(lambda i: i < 3, lambda i, j: i, i[0])": ("bad-call", "missing"),
    "dd.scan(lambda s, v: (), x[0, 0], y)": ("bad-result", "nothing"),
    "dd.scan(lambda s: s, x[0, 0], y)": ("bad-call", "positional"),
    "dd.scan(lambda s, v: s, (x[0, 0], x[0, 1]), y)": ("bad-call", "of their own: 2 and 1 here"),
    "dd.layer_norm(x, gamma=y)": ("bad-call", "gamma is called weight here"),
    "dd.scan(lambda s, v: (s, v), x[0, 0], x[0, 0])": ("scan-length", "rank 1"),
    "dd.scan(lambda s, v: (s, v), 0.0, EYE)": ("bad-operand", "no tensor"),
    "dd.while_loop(lambda i: i < 10**30, lambda i: i, 10**30, x)": ("bad-number", "i64"),
    "dd.noinline(lambda v, w: v)(x, q=x)": ("bad-call", "missing"),
    "dd.noinline(lambda v: None)(x)": ("bad-result", "nothing"),
    "dd.compress(y, y > 0, axis=3)": ("bad-axis", "axis 3"),
    "dd.compress(x, x > 0)": ("rank-mismatch", "x[mask]"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_wrong_guess_is_told_in_codes(text: str) -> None:
    types = dd.f32[2, 3], dd.i32[3], dd.i8[3], dd.u8[3], dd.bool[3], dd.f32[N], dd.f16[3]

    @dd.trace(*types)
    def empty(x: Any, i: Any, k: Any, u: Any, b: Any, y: Any, h: Any) -> Any:
        names = {"x": x, "i": i, "k": k, "u": u, "b": b, "y": y, "h": h}
        code, word = REFUSED[text]
        with fail(code, word):
            eval(text, {**names, "dd": dd, "np": np, "N": N, "EYE": EYE})
        return x

    assert empty.module.entry.results == ("x",)


OUTSIDE: dict[str, tuple[str, str]] = {
    "dd.f32[1.5]": ("bad-size", "1.5"),
    "dd.f32[-1]": ("bad-size", "dd.dim"),
    "dd.f32['n']": ("bad-size", "'n'"),
    "dd.f32[:]": ("bad-size", "slice"),
    "dd.f32[N / 2]": ("bad-size", "//"),
    "dd.f32[N // 0]": ("bad-size", "zero"),
    "dd.f32(3)": ("bad-call", "x.astype(dd.f32)"),
    "N ** -1": ("bad-size", "exponent"),
    "dd.dim('n', 3, 1)": ("bad-range", "3..1"),
    "dd.dim('1x', 1, 3)": ("bad-range", "identifier"),
    "dd.dim('n', 1.5, 3)": ("bad-range", "1.5"),
    "dd.dim('n')": ("bad-call", "dim(name, lo, hi)"),
    "range(N)": ("bad-size", "dd.scan"),
    "bool(N == 3)": ("traced-branch", "n == 3"),
    "N < 5": ("traced-branch", "n < 5"),
    "dd.add(1, 2)": ("bad-", "tensor"),
    "dd.exp(None)": ("bad-", "None"),
}


@pytest.mark.parametrize("text", OUTSIDE)
def test_a_wrong_guess_outside_a_trace_is_told_in_codes(text: str) -> None:
    code, word = OUTSIDE[text]
    with fail(code, word):
        eval(text, {"dd": dd, "N": N})


def test_comparisons_that_the_range_decides_are_answered() -> None:
    assert N**2 == N * N
    assert N > 0
    assert N <= 9
    assert N < 10
    assert N >= 1
    assert N != 10
    assert N == N * 2 - N
    assert bool(N)
    assert not N + 1 == N  # noqa: SIM201  # the operator under test
    assert N != "n"
