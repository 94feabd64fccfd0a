"""Each statement of loop programs has goldens of its text, a test of its meaning and a misuse.

A file has a function with the statement, its kernels, the same function misusing the statement, and
what that is refused with.  ``python -m tests.codegen.emit.test_statements`` writes the kernels and
errors anew; read the difference before you commit it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from didyma.codegen.runtime.registry import engine
from didyma.loops import LoopProgram, compiled
from didyma.oracle import lanes
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import loop as definition
from didyma.refimpl.ir.loop import PrimFunc, Stmt
from didyma.refimpl.ir.target import SM_90A
from didyma.refimpl.ir.text import parse_loop, show
from didyma.refimpl.ir.types import Array
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.verify import loop as laws

HERE = Path(__file__).parent / "statements"
BAR = "=====\n"
NAMES = sorted(p.stem for p in HERE.glob("*.txt"))


def parts(name: str) -> list[str]:
    return (HERE / f"{name}.txt").read_text().split(BAR)


def verified(text: str) -> PrimFunc:
    (f,) = parse_loop(text)
    laws.verify(f, SM_90A)
    return f


def reverse(outputs: Any, inputs: Any, attrs: Mapping[str, Any]) -> None:
    outputs[0][...] = inputs[0][:, ::-1] * attrs["by"]


def transposed(outputs: Any, inputs: Any, attrs: Any) -> tuple[Array, Array]:
    del outputs, attrs
    return np.ascontiguousarray(inputs[0].T), np.asarray(inputs[0].shape[0])


ROUTINES: Mapping[str, Any] = {"reverse": reverse, "transposed": transposed}


def reversed_by(x: Array, out: Array, by: int) -> None:
    reverse([out], [x], {"by": by})


def transposed_of(x: Array) -> tuple[Array, Array]:
    return transposed([], [x], {})


IMPLEMENTATIONS: Mapping[str, Any] = {"reverse": reversed_by, "transposed": transposed_of}


def used(name: str) -> dict[str, Any]:
    """Return those of the implementations that a function calls."""
    return {k: v for k, v in IMPLEMENTATIONS.items() if f'"{k}"' in parts(name)[0]}


def kernels(name: str) -> str:
    program = LoopProgram(verified(parts(name)[0]))
    return compiled(program, engine("simt"), target=SM_90A, externs=used(name)).text


def refusal(name: str) -> str:
    with pytest.raises(DidymaError) as e:
        verified(parts(name)[2])
    return f"{e.value}\n"


def test_every_statement_is_here() -> None:
    assert set(NAMES) == {c.__name__ for c in get_args(Stmt)}
    for name in NAMES:
        body = stmts(verified(parts(name)[0]).body)
        assert name in {type(s).__name__ for s in body}


@pytest.mark.parametrize("name", NAMES)
def test_text(name: str) -> None:
    function, text, misuse, error = parts(name)
    assert show(verified(function)) == function
    assert kernels(name) == text
    assert misuse != function
    assert refusal(name) == error


def over(y: Array, *columns: Any) -> Array:
    """Return an array with some of its first columns replaced."""
    out = y.copy()
    for n, column in enumerate(columns):
        out[:, n] = column
    return out


X = np.random.default_rng(0).integers(-9, 10, (5, 8)).astype(np.int32)
SIX = X[0, :6]
NONE = np.zeros_like(X)
EVEN = np.arange(8) % 2 == 0
NEIGHBOUR = (np.arange(8) + 1) % 8
# What each function leaves in ``y``, by NumPy.
MEANING: Mapping[str, Callable[[], Any]] = {
    "Allocate": lambda: X[:, ::-1] + 1,
    "Assert": lambda: X,
    "Atomic": lambda: over(NONE, X[:, EVEN].sum(1), X[:, ~EVEN].sum(1), np.maximum(X.max(1), 0)),
    "AttrStmt": lambda: X,
    "Barrier": lambda: X[:, NEIGHBOUR],
    "Block": lambda: X * 2,
    "BlockRealize": lambda: over(NONE, 100 + X.sum(1)),
    "BufferRealize": lambda: over(NONE, *(X[:, 5:1:-1] * 2).T),
    "Call": lambda: X * np.arange(1, 6)[:, None],
    "Chain": lambda: np.tile(7 + np.cumsum([0, *SIX[:5]])[:, None], 32),
    "Compute": lambda: over(NONE, *(X[:, 1:] ** 2).T),
    "Evaluate": lambda: X,
    "Exchange": lambda: X[:, np.arange(8) ^ 3] - X,
    "ExternalAllocate": lambda: X + 5,
    "ExternalCall": lambda: np.hstack([X[:, :0:-1] * 3, np.full((5, 1), 9)]),
    "Fold": lambda: over(NONE, X.max(1), X.argmax(1)),
    "For": lambda: X[:, ::-1],
    "Free": lambda: over(NONE, X[:, 0] - 2, X[:, 1]),
    "If": lambda: np.where(X < 0, -X, X * 3),
    "Let": lambda: (X - 4) ** 2,
    "PlacementAllocate": lambda: over(NONE, X[:, 3], 3),
    "Prefetch": lambda: X,
    "ProducerRealize": lambda: over(NONE, *(X[:, 4::-1] + 1).T),
    "Return": lambda: over(NONE, X[:, 0]),
    "Store": lambda: X[:, ::-1] ^ 5,
    "While": lambda: np.where(np.arange(8) % 3 == 0, X - 1, 0),
    "Yield": lambda: over(np.maximum(X, 0), X.sum(1) * 5),
}


def inputs(program: LoopProgram) -> list[Array]:
    """Return ``x``, and zeros for what else a function reads before it writes it."""
    shapes = {
        b.name: [n if isinstance(n, int) else len(X) for n in b.shape] for b in program.func.params
    }
    x = SIX if len(shapes["x"]) == 1 else X
    return [x if name == "x" else np.zeros(shapes[name], np.int32) for name in program.inputs]


@pytest.mark.parametrize("name", NAMES)
def test_meaning(name: str) -> None:
    program = LoopProgram(verified(parts(name)[0]))
    want = MEANING[name]()
    returned = 2 * X[4, 0] if name == "Return" else None
    for run in (definition.run, lanes.run):
        held, env = program.buffers(inputs(program))
        assert run(program.func, held, env, ROUTINES) == returned
        assert np.array_equal(held["y"], want)
    for where in ("host", "simt"):
        made = compiled(program, engine(where), target=SM_90A, externs=used(name))
        after = made.run(*program.buffers(inputs(program)), {})
        assert np.array_equal(after["y"], want)
        assert returned is None or after[program.stored.outputs[-1]] == returned


if __name__ == "__main__":
    for case in NAMES:
        good, _, bad, _ = parts(case)
        (HERE / f"{case}.txt").write_text(BAR.join([good, kernels(case), bad, refusal(case)]))
