"""Emitted kernels against the interpreter of loop programs, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from didyma.codegen.emit.cuda import emit
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import engine
from didyma.oracle import lanes
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.text import parse_loop
from didyma.refimpl.ir.types import Array
from tests.codegen.emit import programs

MAKERS = (programs.pointwise, programs.reduction, programs.vectorised, programs.shared)


def inputs(f: PrimFunc, env: dict[str, int], seed: int) -> dict[str, Array]:
    shapes = (tuple(dims.evaluate(d, env) for d in b.shape) for b in f.params)
    return {
        b.name: programs.data(b.dtype, shape, seed + n)
        for n, (b, shape) in enumerate(zip(f.params, shapes, strict=True))
    }


def launch(on: Engine, f: PrimFunc, given: dict[str, Array], env: dict[str, int]) -> list[Array]:
    kernels = on.load(emit([f]))
    buffers = [on.upload(a) for a in given.values()]
    kernels.launch(f.name, buffers, env)
    found = [
        on.download(b, p.dtype, given[p.name].shape) for b, p in zip(buffers, f.params, strict=True)
    ]
    for b in buffers:
        on.free(b)
    return found


def same(a: Array, b: Array) -> bool:
    """Tell whether two arrays agree bit for bit, but for what a NaN looks like inside."""
    if a.dtype.kind in "iub":
        return np.array_equal(a, b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    nan = np.isnan(x)
    return np.array_equal(nan, np.isnan(y)) and x[~nan].tobytes() == y[~nan].tobytes()


@pytest.mark.parametrize("name", ["host", "simt"])
@pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__)
def test_kernels_do_what_their_loop_programs_mean(
    make: Callable[[int], PrimFunc], name: str
) -> None:
    on = engine(name)
    varied = 0
    count = 100 if name == "host" else 30
    for seed in range(count):
        f = make(seed)
        env = {"n": seed * 7 % 41} if f.dims else {}
        given = inputs(f, env, seed)
        found = launch(on, f, given, env)
        meant = {k: a.copy() for k, a in given.items()}
        lanes.run(f, meant, env)
        for p, got in zip(f.params, found, strict=True):
            assert same(got, meant[p.name]), f"{make.__name__}({seed}): {p.name}"
            varied += p.name in f.outputs and len(set(got.tolist())) > 2
    assert varied > count // 8, "the kernels compute little"


CHOICES = ("select(t < 5, 2147483647, 3)", "select(n < 9, 2147483647, t)", "select(n > 9, t, 3)")


@pytest.mark.parametrize("name", ["host", "simt"])
@pytest.mark.parametrize("choice", CHOICES)
def test_choices_of_indices_are_computed_with_in_64_bits(choice: str, name: str) -> None:
    text = f"""kernel @k(y: i64[8]) writes (y) dims n in [0, 9] {{
      for t in 8 bound threadIdx.x {{
        y[t] = {choice} * -3 - {choice} // 2 * 5
      }}
    }}"""
    (f,) = parse_loop(text)
    env = {"n": 4}
    given = inputs(f, env, 1)
    want = {k: a.copy() for k, a in given.items()}
    lanes.run(f, want, env)
    assert same(launch(engine(name), f, given, env)[0], want["y"])
