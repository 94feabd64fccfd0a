"""Arrays of PyTorch, CuPy, JAX and PyCUDA in programs on a machine with a GPU, without pytest.

    python3 -m tests.gpu.arrays [--calls 100000]

Programs are called with arrays of each library that is installed, on its streams, with results
inside the reference's bars, and with copies between host and GPU forbidden; many calls leave no
memory behind.  Prints what was tried and the time of a call, and ends with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import didyma as dd
from didyma.codegen.runtime import dlpack
from didyma.codegen.runtime.cuda import Cuda
from didyma.refimpl.errors import DidymaError

Made = tuple[Callable[[np.ndarray[Any, Any]], Any], Callable[[Any], np.ndarray[Any, Any]]]


@dd.trace(dd.f32[64, 96], dd.f32[96])
def scaled(x: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return dd.softmax(x * w, axis=-1), dd.sum(x, axis=0)


@dd.trace(dd.f32[1024, 1024])
def chain(x: dd.Tensor) -> dd.Tensor:
    return dd.tanh(dd.matmul(x, x) * 0.001)


@dd.trace(dd.bf16[33, 65])
def halves(x: dd.Tensor) -> dd.Tensor:
    return x + x


def libraries() -> Iterator[tuple[str, Made]]:
    """Yield how arrays of each library are made of NumPy's, and read back."""
    torch = _found("torch")
    if torch is not None:
        yield "torch", (lambda a: torch.from_numpy(a).cuda(), lambda t: t.cpu().numpy())
    cupy = _found("cupy")
    if cupy is not None:
        yield "cupy", (cupy.asarray, cupy.asnumpy)
    jax = _found("jax")
    if jax is not None:
        yield "jax", (jax.numpy.asarray, np.asarray)
    gpuarray = _found("pycuda.gpuarray")
    if gpuarray is not None:
        yield "pycuda", (gpuarray.to_gpu, lambda g: g.get())


def _found(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


@contextmanager
def no_copies(engine: Cuda) -> Generator[None]:
    """Forbid copies between host and GPU by an engine."""
    own = vars(engine)
    real = own["_driver"]

    class Guarded:
        def __getattr__(self, name: str) -> Any:
            if name in ("memcpy_htod", "memcpy_dtoh"):
                raise AssertionError(f"{name} in a call with arrays on the GPU")
            return getattr(real, name)

    own["_driver"] = Guarded()
    try:
        yield
    finally:
        own["_driver"] = real


def by_library(engine: Cuda) -> Iterator[str]:
    """Judge the results of programs on arrays of each library; yield what was wrong."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((64, 96), np.float32)
    w = rng.standard_normal(96, np.float32)
    exe = dd.compile(scaled, engine=engine)
    truth = dd.interpret(scaled, x, w)
    for name, (make, read) in libraries():
        given = make(x), make(w)
        with no_copies(engine):
            out = exe(*given)
        if any(type(y) is not type(given[0]) for y in out):
            yield f"{name}: results are {[type(y).__name__ for y in out]}"
        elif not truth.contains(tuple(read(y) for y in out)):
            yield f"{name}: results outside their bars"
        mixed = exe(given[0], w)
        if not truth.contains(tuple(read(y) for y in mixed)):
            yield f"{name}: results of mixed arrays outside their bars"
        print(f"{name}: results are {type(out[0]).__module__}.{type(out[0]).__name__}")


def on_streams(engine: Cuda, rounds: int = 50) -> Iterator[str]:
    """Call between two kernels of PyTorch on a stream of its own; yield what was wrong."""
    torch = _found("torch")
    if torch is None:
        return
    exe = dd.compile(chain, engine=engine)
    x = torch.randn(1024, 1024, device="cuda")
    want = torch.tanh(x @ x * 0.001)
    stream = torch.cuda.Stream()
    for _ in range(rounds):
        with torch.cuda.stream(stream):
            late = torch.zeros_like(x)
            torch.cuda._sleep(2_000_000)
            late += x
            got = exe(late) * 2
            late.zero_()
        stream.synchronize()
        if not torch.allclose(got, 2 * want, atol=1e-2):
            yield f"a call on a stream of PyTorch's is off by {(got - 2 * want).abs().max()}"
            return
    b = torch.randn(33, 65, device="cuda", dtype=torch.bfloat16)
    if not torch.equal(dd.compile(halves, engine=engine)(b), b + b):
        yield "bf16 tensors differ"
    if not torch.allclose(exe(x.T), torch.tanh(x.T @ x.T * 0.001), atol=1e-2):
        yield "a transposed tensor gives something else"


def in_other_orders(engine: Cuda) -> Iterator[str]:
    """Call with tensors of strides; yield which give other bits than their copies."""
    torch = _found("torch")
    if torch is None:
        return
    exe = dd.compile(scaled, engine=engine)
    w, wide = torch.randn(96, device="cuda"), torch.randn(128, 128, device="cuda")
    views = (
        wide[:64, :96], wide[64:, 32:], wide[::2, 4:100], wide[:64, 1:97], wide[:96, :64].T,
        wide[:1, :96].expand(64, 96),
    )  # fmt: skip
    for number, x in enumerate(views):
        pairs = zip(exe(x, w), exe(x.contiguous(), w), strict=True)
        if not all(torch.equal(a, b) for a, b in pairs):
            yield f"view {number} gives other bits than its copy"
    for s in exe.strided:
        print(f"{s.name}, {s.layout or 'no layout'}: {s.copied or 'read as it lies'}")
    if all(s.copied for s in exe.strided):
        yield "every view was copied"


def many(engine: Cuda, calls: int) -> Iterator[str]:
    """Call often; yield what was wrong with the memory afterwards."""
    torch = _found("torch")
    if torch is None:
        return
    exe = dd.compile(scaled, engine=engine)
    x, w = torch.randn(64, 96, device="cuda"), torch.randn(96, device="cuda")
    for _ in range(100):
        exe(x, w)
    torch.cuda.synchronize()
    before, lent = torch.cuda.mem_get_info()[0], dlpack.lent()
    start = time.perf_counter()
    for _ in range(calls):
        exe(x, w)
    host = time.perf_counter() - start
    torch.cuda.synchronize()
    lost = before - torch.cuda.mem_get_info()[0]
    launches = len(exe.compiled.kernels)
    print(f"{calls} calls of {launches} launches: {host / calls * 1e6:.1f} us of host time each")
    if lost > 0:
        yield f"{calls} calls keep {lost} bytes"
    if dlpack.lent() != lent:
        yield f"{calls} calls keep {dlpack.lent() - lent} arrays lent"


def main(argv: Sequence[str] | None = None) -> int:
    """Run; 0 if all is right, 1 if not, 4 without a GPU."""
    parser = argparse.ArgumentParser(description="Call programs with arrays on the GPU.")
    parser.add_argument("--calls", type=int, default=100_000)
    options = parser.parse_args(argv)
    try:
        engine = Cuda(checked=False)
    except DidymaError as e:
        print(e, file=sys.stderr)
        return 4
    wrong = [
        *by_library(engine),
        *on_streams(engine),
        *in_other_orders(engine),
        *many(engine, options.calls),
    ]
    for w in wrong:
        print(f"WRONG {w}")
    print("all agree" if not wrong else f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
