"""Blocks that wait for those before them: in the loop language, in kernel text, on engines."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.emit.cuda import emit
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.host import Host
from didyma.codegen.runtime.nvrtc import NvrtcCompiler
from didyma.codegen.runtime.simt import Simt, Traffic
from didyma.oracle import chains, lanes
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.interp import loop as definition
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir.loop import Chain, PrimFunc
from didyma.refimpl.ir.target import PORTABLE, SM_90A
from didyma.refimpl.ir.text import parse_loop, show
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.verify import loop as laws
from didyma.tracer.tracing import Program
from didyma.tracer.types import Element

# Each of 6 blocks of a line gives a number, and keeps what those before it come to.
LINES = """
kernel @lines(a: {t}[18], states: i32[19], totals: {t}[36], y: {t}[18, 32])
    writes (states, totals, y) {{
  for line in 3 bound blockIdx.y {{
    for b in 6 bound blockIdx.x {{
      for t in 32 bound threadIdx.x {{
        exchange x = a[line * 6 + b] by 1
        chain {op} before = x from {start}:{t} by states, totals
        y[line * 6 + b, t] = before
      }}
    }}
  }}
}}
"""
DTYPES = ("f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
OPTIONS = dd.Options().changed({"target": "sm_90a", "kernels.waits": True, "graph.long_run": 1024})


def function(text: str) -> PrimFunc:
    (f,) = parse_loop(text)
    assert parse_loop(show(f)) == (f,)
    return f


def of_lines(t: str = "f32", op: str = "add") -> PrimFunc:
    return function(LINES.format(t=t, op=op, start="3.5" if t.startswith("f") else "3"))


def buffers(t: str) -> dict[str, Array]:
    dtype = DType(t).numpy
    a = (np.random.default_rng(1).random(18) * 9).astype(dtype)
    return {
        "a": a, "states": np.zeros(19, np.int32), "totals": np.zeros(36, dtype),
        "y": np.zeros((18, 32), dtype),
    }  # fmt: skip


def launched(on: Any, f: PrimFunc, given: Mapping[str, Array]) -> dict[str, Array]:
    device = [on.upload(x) for x in given.values()]
    on.load(emit([f])).launch(f.name, device, {})
    return {
        n: on.download(b, DType.of(x), x.shape)
        for b, (n, x) in zip(device, given.items(), strict=True)
    }


@pytest.mark.parametrize("op", ["add", "mul"])
@pytest.mark.parametrize("t", DTYPES)
def test_each_line_is_folded_in_the_order_of_its_blocks_at_every_level(t: str, op: str) -> None:
    f, given = of_lines(t, op), buffers(t)
    laws.verify(f, SM_90A)
    defined, fast = buffers(t), buffers(t)
    definition.run(f, defined, {})
    lanes.run(f, fast, {})
    combine = np.add if op == "add" else np.multiply
    start = DType(t).numpy.type(3.5 if t.startswith("f") else 3)
    with np.errstate(over="ignore"):
        want = [[*accumulate(line, combine, initial=start)] for line in given["a"].reshape(3, 6)]
    assert np.array_equal(defined["y"][:, 0].reshape(3, 6), np.array(want)[:, :-1])
    assert np.array_equal(defined["totals"][1::2].reshape(3, 6), np.array(want)[:, 1:])
    assert (defined["y"] == defined["y"][:, :1]).all()
    engines = [Simt(), Host(), Host(order="reverse"), Host(order=5)]
    for found in (fast, *(launched(e, f, given) for e in engines)):
        for name, x in defined.items():
            assert np.array_equal(found[name], x), name


def test_in_the_ring_a_block_has_what_those_before_it_have() -> None:
    f, given = of_lines(), buffers("f32")
    ring = Simt().in_ring()
    plain = launched(Simt(), f, given)
    assert np.array_equal(launched(ring, f, given)["y"]["value"], plain["y"])


def test_states_that_do_not_begin_as_zeros_are_a_fault() -> None:
    f = of_lines()
    for run in (definition.run, lanes.run):
        given = buffers("f32")
        given["states"][4] = 2
        with pytest.raises(LoopFault, match="does not begin as zeros"):
            run(f, given, {})
    with pytest.raises(KernelFault, match="does not begin as zeros"):
        launched(Simt(), f, given)


def test_a_buffer_without_a_place_for_each_block_is_a_fault() -> None:
    short = function(show(of_lines()).replace("f32[36]", "f32[35]"))
    given = buffers("f32") | {"totals": np.zeros(35, np.float32)}
    for run in (definition.run, lanes.run):
        with pytest.raises(LoopFault, match="out-of-bounds"):
            run(short, {k: x.copy() for k, x in given.items()}, {})
    with pytest.raises(KernelFault, match="no place for block 17"):
        launched(Simt(), short, given)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("i32[19]", "i64[19]", "i32 along one axis"),
        ("f32[36]", "f32[18, 2]", "f32 along one axis"),
        ("by states, totals", "by totals, totals", "i32 along one axis"),
        ("3.5:f32", "3.5:f64", "both of one dtype"),
        ("= x from", "= x == x from", "both of one dtype"),
        ("blockIdx.x", "blockIdx.z", "a grid along blockIdx.x"),
        ("32 bound", "48 bound", "whole warps"),
        ("chain", "for k in 2 {\n chain", "in no loop or condition"),
        ("= before", "= before + totals[0]", "buffers of its own"),
        ("writes (states, totals, y)", "writes (totals, y)", "an output"),
    ],
)
def test_laws(old: str, new: str, says: str) -> None:
    text = LINES.format(t="f32", op="add", start="3.5").replace(old, new)
    if "{\n" in new:
        text = text.rstrip() + "\n}\n"
    f = function(text.replace("y: f32[18, 32]", "y: f32[18, 48]"))
    with pytest.raises(DidymaError, match=r"L-chain|L-store") as e:
        laws.verify(f, SM_90A)
    assert says in str(e.value)


def test_a_target_whose_blocks_may_not_wait_is_refused() -> None:
    with pytest.raises(DidymaError, match="L-chain"):
        laws.verify(of_lines(), PORTABLE)
    assert SM_90A.covers(PORTABLE)
    assert not PORTABLE.covers(SM_90A)


def test_the_chain_of_additions_is_as_long_as_a_line_has_blocks() -> None:
    assert chains.longest([of_lines()], {}) == 6
    assert chains.longest([of_lines(op="mul")], {}) == 0


def test_nvrtc_compiles_chains_without_spills() -> None:
    try:
        compiler = NvrtcCompiler()
    except EngineMissing as e:
        pytest.skip(str(e))
    fs = [
        function(show(of_lines(t, op)).replace("@lines", f"@lines_{t}_{op}"))
        for t in DTYPES
        for op in ("add", "mul")
    ]
    found = compiler.compile(emit(fs)).resources
    assert len(found) == len(fs)
    assert not any(r.spills for r in found)


def running(
    length: int, dtype: str = "f32", lines: int = 1, how: Mapping[str, bool] | None = None
) -> Program:
    ends = how or {}

    def f(x: dd.Tensor) -> dd.Tensor:
        exclusive, reverse = (ends.get(k, False) for k in ("exclusive", "reverse"))
        return dd.cumulative_sum(x, axis=-1, exclusive=exclusive, reverse=reverse)

    return dd.trace(Element(DType(dtype))[lines, length])(f)


def chained(c: Compiled) -> list[str]:
    """Return the classes of kernels that have a chain."""
    funcs = [k for ks in c.kernels.values() for k in ks if isinstance(k, PrimFunc)]
    return [
        str(dict(k.attrs)["schedule"])
        for k in funcs
        if any(isinstance(s, Chain) for s in stmts(k.body))
    ]


@pytest.mark.parametrize(
    ("length", "dtype", "how"),
    [
        (2048, "f32", {}), (1025, "f32", {"reverse": True}), (2048, "bf16", {"exclusive": True}),
        (1025, "f64", {}), (2048, "i8", {"reverse": True, "exclusive": True}), (2048, "i32", {}),
    ],
)  # fmt: skip
def test_a_long_line_is_one_pass_that_is_right(
    length: int, dtype: str, how: dict[str, bool]
) -> None:
    p = running(length, dtype, 2, how)
    c = compile(p.module, OPTIONS)
    assert chained(c) == ["scan_chain"]
    report = dd.check(p, engines=["host", "simt"], tries=1, options=OPTIONS)
    assert report.agree, [str(f) for f in report.findings]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_each_element_of_a_long_line_is_read_and_written_once(dtype: str) -> None:
    p, traffic = running(1 << 17, dtype), Traffic()
    options = dd.Options().changed({"target": "sm_90a", "kernels.waits": True})
    x = np.ones((1, 1 << 17), compile(p.module, options).source.entry.params[0].type.dtype.numpy)
    got = dd.compile(p, engine=Simt(traffic=traffic), options=options)(x)
    assert np.array_equal(np.asarray(got), np.cumsum(x, 1, dtype=np.float32).astype(x.dtype))
    for counts in (traffic.read, traffic.written):
        assert x.nbytes <= counts.total() <= 1.02 * x.nbytes


@pytest.mark.parametrize(
    ("lines", "changes"),
    [(64, {}), (1, {"target": "portable"}), (1, {"kernels.waits": False})],
)
def test_many_lines_and_blocks_that_may_not_wait_have_no_chain(
    lines: int, changes: Mapping[str, object]
) -> None:
    p = running(2048, lines=lines)
    assert not chained(compile(p.module, OPTIONS.changed(changes)))


@pytest.mark.parametrize(
    ("length", "lines", "want"),
    [
        (1 << 20, 1, True),
        (1 << 21, 1, False),
        (1 << 18, 8, False),
        (3_000_017, 1, True),  # a prime, whose line would be padded
        (4_200_013, 1, False),
    ],
)
def test_lines_have_a_chain_up_to_where_it_is_fastest(length: int, lines: int, want: bool) -> None:
    made = compile(running(length, lines=lines).module, dd.Options(target="sm_90a"))
    assert bool(chained(made)) == want
