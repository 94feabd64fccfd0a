"""Modules whose launches are watched, and modules as scripts, by what their programs compute.

A program is a chain of ops, each a kernel, so what each launch writes is known.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from hashlib import sha256
from io import StringIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any
from unittest import mock

import numpy as np

from didyma.codegen.emit import wrapper
from didyma.codegen.options import GraphOptions, Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.didyma_runtime import command
from didyma.codegen.runtime.didyma_runtime.host import here
from didyma.codegen.runtime.didyma_runtime.watch import Launch, dumped
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.objects import shared_object
from didyma.fuzz.parts.told import code_of, differ
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array

OPS: Mapping[str, Callable[..., Array]] = MappingProxyType({
    "negative": np.negative, "abs": np.abs, "add": np.add, "multiply": np.multiply,
})  # fmt: skip
ALONE = Options(graph=GraphOptions(level=0, simplify=False, fuse=False))  # a kernel for each op
LARGE = 2e38  # of f32, whose double is an infinity


@dataclass(frozen=True, slots=True)
class _Chain:
    """A module, the value of each op in order, and the inputs."""

    source: str
    objects: bytes
    values: tuple[Array, ...]
    ops: tuple[tuple[str, tuple[int, ...]], ...]
    x: Array
    symbol: str


def judged(r: Random, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with what a module tells of its launches, or prints as a script."""
    del engine
    c = _drawn(r)
    with TemporaryDirectory() as folder:
        (Path(folder) / "kernels.so").write_bytes(c.objects)
        space = modules.module(c.source, f"{folder}/module.py")
        asked = r.randrange(3)
        if asked == 0:
            yield from _watched(r, c, space["call"], Path(folder))
        elif asked == 1:
            yield from _finite(r, c, space["call"])
        else:
            yield from _script(r, c, space)


def _drawn(r: Random) -> _Chain:
    symbol, n = r.choice(("n", "")), r.randint(1, 4)
    x = np.array([[r.randint(-4, 4) for _ in range(3)] for _ in range(n)], np.float32)
    t = f"f32[{symbol or n}, 3]"
    values, names, rows = [x], ["%x"], list[str]()
    ops = list[tuple[str, tuple[int, ...]]]()
    for k in range(r.randint(1, 4)):
        op = r.choice([*OPS])
        last = len(values) - 1
        args = (last,) if op in ("negative", "abs") else (last, r.randrange(len(values)))
        rows.append(f"    %v{k} = {op}({', '.join(names[a] for a in args)}) : {t}\n")
        values.append(OPS[op](*(values[a] for a in args)))
        names.append(f"%v{k}")
        ops.append((op, args))
    dims = f"  dims {symbol} in [1, 9]\n" if symbol else ""
    text = f"module {{\n{dims}  func @main(%x: {t}) -> ({names[-1]}) {{\n{''.join(rows)}  }}\n}}\n"
    made = compile(parse_module(text), ALONE)
    code = shared_object(made.text)
    objects = {here(): ("kernels.so", sha256(code).hexdigest())}
    source = wrapper.emit(made.program, made.text, objects=objects)
    return _Chain(source, code, tuple(values[1:]), tuple(ops), x, symbol)


def _watched(r: Random, c: _Chain, call: Callable[..., Any], folder: Path) -> Iterator[str]:
    """Each launch is told once, in order, with what it wrote, and has its context around it."""
    told, around = list[Launch](), list[str]()
    copies = list[dict[str, Any]]()

    def watch(x: Launch) -> None:
        told.append(x)
        copies.append({k: a.reshape(-1).tolist() for k, a in x.results.items()})

    def context(kernel: str) -> AbstractContextManager[None]:
        around.append(kernel)
        return nullcontext()

    asked = {"watch": watch, "around": context, "synchronous": True, "finite": r.random() < 0.5}
    (got,) = call([c.x.copy()], **asked)
    yield from differ(got.tolist(), c.values[-1].tolist(), "the result of a watched call")
    want = [{f"v{k}": a.reshape(-1).tolist()} for k, a in enumerate(c.values)]
    yield from differ(copies, want, "what launches write")
    yield from differ([x.kernel for x in told], around, "kernels with a context")
    yield from differ([x.dtypes for x in told], [("f32",)] * len(want), "dtypes of launches")
    each = c.x.nbytes
    buffers = [1 + len({*args}) for _, args in c.ops]
    yield from differ([x.nbytes for x in told], [each * n for n in buffers], "bytes of launches")
    first = {x.kernel: f"v{k}" for k, x in reversed([*enumerate(told)])}  # equal kernels are one
    nodes = [(x.nodes, (first[x.kernel],)) for x in told]
    yield from differ([n for n, _ in nodes], [w for _, w in nodes], "nodes of launches")
    lines = [x.line.startswith("launch ") and f"%v{k}" in x.line for k, x in enumerate(told)]
    yield from differ(all(lines), True, f"{[x.line for x in told]} are lines of launches")
    call([c.x.copy()], watch=dumped(folder))
    found = {p.name: np.load(p).reshape(-1).tolist() for p in folder.glob("*.npy")}
    files = {f"{k:03}-v{k}.npy": a.reshape(-1).tolist() for k, a in enumerate(c.values)}
    yield from differ(found, files, "files of launches")
    rows = command.launches(lambda watch: call([c.x.copy()], watch=watch), 2)
    counts = sorted((row["kernel"], row["launches"], row["bytes"]) for row in rows)
    names = sorted({*around})
    sums = [(n, around.count(n), sum(x.nbytes for x in told if x.kernel == n)) for n in names]
    yield from differ(counts, sums, "launches and bytes of kernels")


def _finite(r: Random, c: _Chain, call: Callable[..., Any]) -> Iterator[str]:
    """What is not finite is refused where that is asked: in inputs, and in what kernels compute."""
    x = np.full_like(c.x, r.choice((LARGE, -LARGE)))
    values = [x]
    with np.errstate(all="ignore"):
        for op, args in c.ops:
            values.append(OPS[op](*(values[a] for a in args)))
    fine = all(bool(np.isfinite(a).all()) for a in values)
    code = code_of(lambda: call([x.copy()], finite=True))
    yield from differ(code, "" if fine else "not-finite", f"a call of {LARGE} by {c.ops}")
    bad = c.x.copy()
    bad[0, r.randrange(3)] = r.choice((np.nan, np.inf, -np.inf))
    code = code_of(lambda: call([bad.copy()], finite=True))
    yield from differ(code, "not-finite", "an input that is not finite")
    yield from differ(code_of(lambda: call([bad.copy()])), "", "such an input where nobody asks")


def _script(r: Random, c: _Chain, space: Mapping[str, Any]) -> Iterator[str]:
    """A module as a script calls it on random inputs of sizes that are asked for."""
    n = r.choice((1, 4, 9))
    shape = [n, 3] if c.symbol else [*c.x.shape]
    words = [f"{c.symbol}={n}"] if c.symbol else []
    if c.symbol and r.random() < 0.3:
        words, shape = [], [2, 3]
    out, code = _run([*words, "--json", *r.choice(((), ("--finite",), ("--strict",)))], space)
    told: Any = {} if code else json.loads(out)
    sizes = {c.symbol: shape[0]} if c.symbol else {}
    yield from differ((code, told.get("sizes")), (0, sizes), f"sizes of {words}")
    for side, name in (("inputs", "x"), ("outputs", "0")):
        dtype = "f32" if side == "inputs" else "float32"
        want = [{"name": name, "dtype": dtype, "shape": shape}]
        yield from differ(told.get(side), want, f"{side} of a script with {words}")
    odd = r.choice(("other=3", f"{c.symbol}=x", f"{c.symbol}=-1", "3"))
    yield from differ(_run([odd], space)[1], 2, f"the exit code for {odd}")
    if c.symbol:
        yield from differ(_run([f"{c.symbol}=10"], space)[1], 2, "the exit code beyond a range")


def _run(words: Sequence[str], space: Mapping[str, Any]) -> tuple[str, int]:
    """Return what a module prints as a script, and its exit code."""
    out = StringIO()
    given = space["by_line"], space["INPUTS"], space["shapes"], space["DIMS"]
    with (
        mock.patch.object(sys, "argv", ["module.py", *words]),
        redirect_stdout(out),
        redirect_stderr(StringIO()),
    ):
        try:
            command.main(*given)
        except SystemExit as e:
            return out.getvalue(), e.code if isinstance(e.code, int) else 1
    return out.getvalue(), 0
