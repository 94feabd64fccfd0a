"""What a call with arrays on the GPU costs the host, on a machine without one.

    python3 -m tests.bench.calls

The driver's functions that calls use return at once here, so the times, in microseconds of this
process, are those of Didyma and of leaving Python.  Tensors are PyTorch's as far as their
attributes go; PyTorch's own allocations are not in the times.
"""

from __future__ import annotations

import ctypes
import sys
import time
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.runtime import driver
from didyma.codegen.runtime.cuda import Cuda
from didyma.codegen.runtime.tinycc import TinyCC
from didyma.fuzz.gpu import Library as NoDriver
from tests.codegen.runtime import fake_cuda, fake_torch

CALLS, TURNS = 200, 40
_QUICK = r"""
int cuLaunchKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g,
                   unsigned s, void *stream, void **args, void **more) { return f == 0; }
int cuGraphLaunch(void *graph, void *stream) { return 0; }
int cuGraphExecKernelNodeSetParams_v2(void *graph, void *node, void *params) { return 0; }
int cuStreamIsCapturing(void *stream, int *out) { *out = 0; return 0; }
"""
_NAMES = (
    "cuLaunchKernel", "cuGraphLaunch", "cuGraphExecKernelNodeSetParams_v2", "cuStreamIsCapturing",
)  # fmt: skip


class Library(NoDriver):
    """The driver, some of whose functions do nothing."""

    def __init__(self, gpu: fake_cuda.Gpu) -> None:
        super().__init__(gpu)
        self._native = TinyCC().compile(_QUICK, "a driver", list(_NAMES))
        made = ctypes.CFUNCTYPE(ctypes.c_int)
        self._quick = {name: made(self._native.addresses[name]) for name in _NAMES}

    def __getitem__(self, name: str) -> Any:
        return self._quick.get(name) or super().__getitem__(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]


@dd.trace(dd.f32[64, 64])
def one(x: dd.Tensor) -> dd.Tensor:
    return x * 2.0 + 1.0


@dd.trace(dd.f32[32, 32])
def fifty(x: dd.Tensor) -> dd.Tensor:
    y = x
    for _ in range(50):
        y = dd.matmul(y, x)
    return y


def cost(exe: Any, given: Any) -> float:
    """Return the least microseconds of a call, by the time of the process."""
    times = list[float]()
    for _ in range(TURNS):
        start = time.process_time()
        for _ in range(CALLS):
            exe(given)
        times.append((time.process_time() - start) / CALLS * 1e6)
    return min(times)


def main() -> int:
    """Print a row for each program, started launch by launch and replayed."""
    patch, gpu = pytest.MonkeyPatch(), fake_cuda.Gpu()
    fake_cuda.planted(patch, gpu)
    library, torch = Library(gpu), fake_torch.torch(gpu)
    patch.setattr(driver, "library", lambda: library)
    results = {n: cycle([fake_torch.put(gpu, square(n)) for _ in range(2)]) for n in (64, 32)}

    def empty(shape: tuple[int, ...], *_: object) -> Any:
        return next(results[shape[0]]) if shape[0] in results else scratch

    scratch = fake_torch.put(gpu, np.zeros(1 << 20, np.uint8))
    torch._C._dynamo.guards._empty_strided_cuda = empty
    patch.setitem(sys.modules, "torch", torch)
    with TemporaryDirectory() as folder:
        for program, n in ((one, 64), (fifty, 32)):
            for graphs in (False, True):
                on = Cuda(checked=False, graphs=graphs, cache=Path(folder))
                exe: Any = dd.compile(program, engine=on)
                spent = cost(exe, fake_torch.put(gpu, square(n)))
                print(f"{program.module.entry.name}, graphs {graphs}: {spent:.2f} us a call")
    return 0


def square(n: int) -> Any:
    return np.zeros((n, n), np.float32)


if __name__ == "__main__":
    sys.exit(main())
