"""Modules that call an external function: one that they are given, and one that they carry.

The function has attributes of every kind, which the routine that a module is given must be told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from didyma.codegen.emit import wrapper
from didyma.codegen.emit.externs import Entry
from didyma.codegen.emit.program_json import program_json
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.didyma_runtime import walk
from didyma.codegen.runtime.engine import Engine
from didyma.fuzz.parts.externs import SIZES, Case, carried, drawn
from didyma.fuzz.parts.told import differ
from didyma.refimpl.ir.external import External, externals
from didyma.refimpl.ir.graph import Attr, attrs
from didyma.refimpl.ir.types import DType, Tensor

# Attributes by kinds, and what a routine is told of each.
ATTRS: Mapping[str, tuple[Attr, Any]] = {
    "word": ("left 'right'", "left 'right'"), "count": (-3, -3), "flag": (True, True),
    "scale": (0.1, 0.1), "most": (float("inf"), float("inf")), "least": (-np.inf, -np.inf),
    "kind": (DType.BF16, "bf16"), "row": ((1, 2), (1, 2)), "none": ((), ()),
    "nested": (((1, 2), (3,)), ((1, 2), (3,))), "kinds": ((DType.F32, DType.I8), ("f32", "i8")),
    "table": (Tensor.of(np.array([[1, 2]], np.float32)), [[1.0, 2.0]]),
}  # fmt: skip


def judged(r: Random, engine: Engine) -> Iterator[str]:
    """Yield what is wrong with a module that calls an external function."""
    del engine
    c, told = drawn(r), r.sample([*ATTRS], r.randint(0, 3))
    *rest, f, main = c.module.functions
    marked = replace(f, attrs=attrs({**f.attr, **{k: ATTRS[k][0] for k in told}}))
    made = compile(replace(c.module, functions=(*rest, marked, main)), Options())
    (x,) = externals(made.fused).values()
    tag = r.randint(1, 9)
    want = [a.tolist() for a in c.results(tag)]
    if r.random() < 0.5:
        yield from _given(c, made, x, told, tag)
    else:
        yield from _carried(r, c, made, x, tag, want)


def _given(c: Case, made: Compiled, x: External, told: Sequence[str], tag: int) -> Iterator[str]:
    """A routine that a call is given gets the attributes, the sizes and the buffers."""
    heard = dict[str, Any]()

    def routine(engine: Any, outputs: Any, inputs: Any, attrs: Mapping[str, Any]) -> None:
        heard.update(attrs)
        down = getattr(engine, "reads", engine).download
        got = [down(b, *t).tolist() for b, t in zip(inputs, c.types, strict=False)]
        heard["given"] = got
        for b, a in zip(outputs, c.results(tag), strict=True):
            source = engine.upload(a)
            engine.copy(b, source)
            engine.free(source)

    space = modules.module(wrapper.emit(made.program, made.text))
    found = space["call"]([a.copy() for a in c.inputs], externs={x.routine: routine})
    yield from differ([a.tolist() for a in found], [a.tolist() for a in c.results(tag)], "results")
    yield from differ(heard.pop("given"), [a.tolist() for a in c.inputs], "the inputs of a routine")
    want = {"Compiler": "blas"} | {k: ATTRS[k][1] for k in told}
    want |= {"sizes": tuple(SIZES[s] for s in x.sizes)} if x.sizes else {}
    got = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in heard.items()}
    yield from differ(got, want, "the attributes of a routine")


def _carried(
    r: Random, c: Case, made: Compiled, x: External, tag: int, want: Sequence[Any]
) -> Iterator[str]:
    """A module, and what walks its JSON, read an implementation from the files beside them."""
    out = r.random() < 0.5
    given = carried(c, tag, out=out)
    files = {"own.py": given.source.encode(), "own.npz": given.arrays() or b""}
    names = {n: (n, sha256(data).hexdigest()) for n, data in files.items()}
    entries = {x.routine: Entry(x, "own", out, names["own.py"], None, names["own.npz"])}
    source = wrapper.emit(made.program, made.text, externs=entries)
    files["program.json"] = program_json(made.program, made.text, {}, externs=entries).encode()
    with TemporaryDirectory() as folder:
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
        calls = (
            modules.module(source, f"{folder}/module.py")["call"],
            walk.program(Path(folder) / "program.json"),
        )
        for number, call in enumerate((*calls, *calls), 1):
            found = call([a.copy() for a in c.inputs])
            yield from differ([a.tolist() for a in found], want, f"results of call {number}")
