"""Machine code that optimising compilers make for artifacts: the bits of TinyCC, and whole."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest

import didyma as dd
from didyma.artifacts.code import compile_kernels
from didyma.codegen.emit import prelude
from didyma.codegen.emit.program_json import program_json
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime import compiler
from didyma.codegen.runtime.compiler import CCompiler
from didyma.codegen.runtime.didyma_runtime import host, walk
from didyma.codegen.runtime.didyma_runtime.host import here
from didyma.codegen.runtime.didyma_runtime.kernels import Kernel
from didyma.codegen.runtime.fast.units import units
from didyma.codegen.runtime.objects import shared_object
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array
from tests.codegen.runtime.texts import kernel

pytestmark = pytest.mark.skipif(not any(compiler.each_found()), reason="no gcc, clang or Zig here")


def rows(x: dd.Tensor) -> dd.Tensor:
    return dd.cumulative_sum(dd.softmax(x, axis=-1), axis=1)


def run(c: Compiled, code: bytes, x: Array) -> list[Array]:
    objects = {here(): ("kernels.so", hashlib.sha256(code).hexdigest())}
    text = json.dumps(json.loads(program_json(c.program, c.text, objects)))
    return walk.read(text.encode(), lambda name, _: {"kernels.so": code}[name])([x])


def test_an_optimising_compiler_gives_the_bits_of_tinycc() -> None:
    c = dd.compile(dd.trace(dd.f32[33, 70])(rows)).compiled
    done: list[int] = []
    found = next(compiler.each_found())
    made = compile_kernels(c, compiler=CCompiler(found), done=lambda: done.append(1))
    usual = compile_kernels(c)
    assert made
    assert usual
    assert made.compiler == found.version.splitlines()[0]
    assert len(done) == len(c.text.kernels) + 1
    x = np.random.default_rng(0).normal(size=(33, 70)).astype(np.float32)
    for got, want in zip(run(c, made.data, x), run(c, usual.data, x), strict=True):
        assert got.tobytes() == want.tobytes()


def test_threads_that_meet_run_as_fibers() -> None:
    text = kernel("y[threadIdx.x] = twice(x[7 - threadIdx.x]); __syncthreads();")
    text = replace(text, source=f"static f32 twice(f32 v) {{ return v + v; }}\n{text.source}")
    assert [u.part is not None for u in units(text, prelude.load("host"), "", "")] == [True]
    data = shared_object(text, compiler=CCompiler(next(compiler.each_found())))
    on = host.Host()
    eight = Kernel(
        (("x", "f32"), ("y", "f32")), ("y",), (), lambda _: (1, 1, 1), lambda _: (8, 8), (8, 1, 1),
        lambda _: ((8,),),
    )  # fmt: skip
    x, y = np.arange(8, dtype=np.float32), on.allocate(32)
    host.Kernels(host.library(data, "k"), {"k": eight}).launch("k", [on.upload(x), y], {})
    assert on.download(y, "f32", (8,)).tolist() == [14, 12, 10, 8, 6, 4, 2, 0]


def test_text_that_is_not_c_is_refused() -> None:
    broken = kernel("y[0] = nothing_like_it;")
    with pytest.raises(DidymaError) as e:
        shared_object(broken, compiler=CCompiler(next(compiler.each_found())))
    assert e.value.code == "kernel-text"
    assert "nothing_like_it" in e.value.got
