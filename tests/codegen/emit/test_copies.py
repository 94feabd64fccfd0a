"""Copies to shared memory that run while a thread goes on: as text, by law, and where they pay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.emit.cuda import emit
from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.registry import engine, probe
from didyma.codegen.runtime.simt.access import Traffic
from didyma.codegen.runtime.simt.engine import Simt
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.target import SM_80, SM_90A
from didyma.refimpl.ir.text import parse_loop, show
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify import loop as laws
from tests.codegen.emit.test_runs import launch
from tests.oracle.lanes import both

COPY = """
kernel @copy(x: f32[16], y: f32[16]) writes (y) {
  alloc s: f32[16] shared
  for t in 4 bound threadIdx.x {
    attr copies = "begin" { for v in 4 vectorized { s[t * 4 + v] = x[t * 4 + v] } }
    attr copies = "end" { for w in 4 vectorized { y[t * 4 + w] = s[t * 4 + w] } }
  }
}
"""
ROWS, LENGTH = 7, 1280
PAIRED = (
    "streamed(blocks=2, groups=1, keep=1, lanes=64, online=1, wide=4)",
    "shared(blocks=2, clusters=2, keep=1, lanes=64, wide=4)",
    "shared(blocks=4, clusters=1, keep=0, lanes=32, wide=4)",
)


def kernel(text: str = COPY) -> PrimFunc:
    (f,) = parse_loop(text)
    laws.verify(f, SM_80)
    assert parse_loop(show((f,))) == (f,)
    return f


def on(name: str, f: PrimFunc) -> Array:
    held = {"x": np.arange(16, dtype=np.float32), "y": np.zeros(16, np.float32)}
    if name == "interpreters":
        both.run(f, held, {})
        return held["y"]
    return launch(engine(name), f, held, {})[1]


@pytest.mark.parametrize("name", ["interpreters", "simt", "host"])
def test_what_is_copied_arrives(name: str) -> None:
    assert on(name, kernel()).tolist() == [*range(16)]


def test_a_thread_copies_and_reads_whole_accesses() -> None:
    source = emit([kernel()]).source
    order = [
        "__shared__ __align__(16) f32 s[16];", "cp_async16_f32(&s[t * 4], &x[t * 4]);",
        "cp_async_commit();", "cp_async_wait(0);", "load4_f32(&s[t * 4])", "store4_f32(&y[t * 4]",
    ]  # fmt: skip
    places = [source.index(x) for x in order]
    assert places == sorted(places)


def test_single_elements_of_four_bytes_are_copied_and_smaller_ones_stored() -> None:
    text = COPY.replace("for v in 4 vectorized { s[t * 4 + v] = x[t * 4 + v] }", "s[t] = x[t]")
    assert "cp_async4_f32(&s[t], &x[t]);" in emit([kernel(text)]).source
    narrow = emit([kernel(text.replace("f32", "bf16"))]).source
    assert "s[t] = x[t];" in narrow
    assert "cp_async2" not in narrow


def test_eight_elements_of_four_bytes_are_two_copies() -> None:
    text = COPY.replace("t * 4", "t * 8").replace("in 4 vec", "in 8 vec")
    source = emit([kernel(text.replace("[16]", "[32]"))]).source
    assert "cp_async16_f32(&s[t * 8], &x[t * 8]);" in source
    assert "cp_async16_f32(&s[t * 8 + 4], &x[t * 8 + 4]);" in source


@pytest.mark.parametrize("name", ["interpreters", "simt", "host"])
def test_lanes_that_are_no_copies_beside_some_that_are_go_through_registers(name: str) -> None:
    text = COPY.replace("4 vectorized", "2 vectorized").replace("t * 4", "t * 2")
    text = text.replace("t in 4", "t in 8").replace(
        "alloc s:", "alloc r: i8[16] shared\n  alloc s:"
    )
    text = text.replace("x: f32[16],", "x: f32[16], z: i8[16],").replace(
        "= x[t * 2 + v] }", "= x[t * 2 + v]\n r[t * 2 + v] = z[t * 2 + v] }"
    )
    text = text.replace("= s[t * 2 + w]", "= s[t * 2 + w] + f32(r[t * 2 + w])")
    (f,) = parse_loop(text)
    numbers = np.arange(16)
    held: dict[str, Array] = {
        "x": numbers.astype(np.float32), "z": numbers.astype(np.int8), "y": np.zeros(16, np.float32)
    }  # fmt: skip
    if name == "interpreters":
        both.run(f, held, {})
        got = held["y"]
    else:
        got = launch(engine(name), f, held, {})[2]
    assert got.tolist() == [*range(0, 32, 2)]
    assert "cp_async4" not in emit([f]).source


def test_a_read_before_the_wait_is_a_fault() -> None:
    early = COPY.replace('attr copies = "end"', 'attr remark = "early"')
    with pytest.raises(KernelFault) as e:
        on("simt", kernel(early))
    assert "unwaited" in {x.kind for x in e.value.faults}


@pytest.mark.parametrize(
    ("old", "new", "got"),
    [
        ("s[t * 4 + v] = x[t * 4 + v] }", "y[t * 4 + v] = x[t * 4 + v] }", "from x, global, to y"),
        ("= x[t * 4 + v] }", "= y[t * 4 + v] }", "from y, global, to s"),
        ("= x[t * 4 + v] }", "= exp(x[t * 4 + v]) }", "exp"),
        ('"begin" {', '"begin" { barrier', "barrier"),
    ],
)
def test_nothing_but_copies_of_what_is_only_read_may_come_later(
    old: str, new: str, got: str
) -> None:
    with pytest.raises(DidymaError, match=got) as e:
        kernel(COPY.replace(old, new, 1))
    assert e.value.code == "L-attr"


def softmax(rows: int | dd.Size = ROWS) -> dd.Program:
    def traced(x: dd.Tensor) -> dd.Tensor:
        return dd.softmax(x, axis=-1)

    made: dd.Program = dd.trace(dd.f32[rows, LENGTH])(traced)
    return made


def options(p: dd.Program, choice: str) -> dd.Options:
    """Pin the only function to a schedule, on a device with one multiprocessor."""
    one = dd.Options(target=replace(SM_90A, name="one", processors=1))
    (name,) = dd.compile(p, options=one).compiled.loops
    return one.changed({"kernels.choices": f"{name}: {choice}"})


@pytest.mark.parametrize(
    "choice",
    [
        "streamed(blocks=2, groups=1, keep=1, lanes=64, online=0, wide=4)",
        "streamed(blocks=1, groups=2, keep=0, lanes=32, online=1, wide=4)",
        "streamed(blocks=2, groups=2, keep=1, lanes=64, online=1, wide=4)",
        "streamed(blocks=3, groups=1, keep=0, lanes=64, online=0, wide=1)",
        "shared(blocks=2, clusters=2, keep=1, lanes=64, wide=4)",
        "shared(blocks=4, clusters=1, keep=0, lanes=32, wide=4)",
        "shared(blocks=8, clusters=2, keep=1, lanes=32, wide=1)",
    ],
)
def test_blocks_copy_each_of_their_rows_once(choice: str) -> None:
    """Some blocks have a row more than others, and blocks of two rows have one too many."""
    p = softmax()
    chosen = options(p, choice)
    report = dd.check(p, engines=["simt"], options=chosen, tries=1)
    assert report.agree, [str(f) for f in report.findings]
    traffic = Traffic()
    dd.compile(p, engine=Simt(traffic=traffic), options=chosen)(np.zeros((ROWS, LENGTH), "f4"))
    assert sum(traffic.read.values()) == ROWS * LENGTH * 4


def special() -> Array:
    """Rows of normal floats, and some with an infinity, NaN, or nothing in a part of them."""
    x = np.random.default_rng(1).standard_normal((ROWS, LENGTH), np.float32) * 4
    x[0, : LENGTH // 2] = -np.inf
    x[1] = -np.inf
    x[2, 5] = np.inf
    x[3, 7] = np.nan
    x[4] = np.finfo(np.float32).min
    x[5] *= 300
    return x


@pytest.mark.parametrize("name", ["simt", "host", "ptx"])
@pytest.mark.parametrize("choice", PAIRED)
def test_one_meeting_a_row_keeps_special_values(choice: str, name: str) -> None:
    if name == "ptx" and not probe(name).runs:
        pytest.skip("needs NVRTC")
    p, x = softmax(), special()
    got = dd.compile(p, engine=name, options=options(p, choice))(x)
    assert dd.interpret(p, x).contains(got)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("mbarrier_wait(&given[met % 2], met / 2 % 2);", "", "unwaited"),
        ("mbarrier_arrive_at(&given[met % 2], lane);", "", "hang"),
        ("part_warps[turn % 2 * 4", "part_warps[0 * 4", "race"),
        ("part_blocks[turn % 2 * 2", "part_blocks[0 * 2", "race"),
        ("__syncthreads();", "", "race"),
        ("cp_async_wait(0);", "", "unwaited"),
        ("cluster_barrier();\n  for", "for", "begun"),
    ],
)
def test_a_fault_of_blocks_that_meet_is_found(old: str, new: str, said: str) -> None:
    p = softmax()
    chosen = options(p, "shared(blocks=2, clusters=1, keep=1, lanes=128, wide=4)")
    text, on = dd.compile(p, options=chosen).compiled.text, engine("simt")
    assert old in text.source
    x, y = on.upload(special()), on.allocate(4 * ROWS * LENGTH)
    kernels = on.load(replace(text, source=text.source.replace(old, new)))
    with pytest.raises(KernelFault, match=said):
        kernels.launch(text.kernels[0].name, (x, y), {})


def test_blocks_that_tell_each_other_must_all_have_begun() -> None:
    """The law asks for a barrier of the cluster before the first stores that count their bytes."""
    p = softmax()
    chosen = options(p, "shared(blocks=2, clusters=1, keep=1, lanes=128, wide=4)")
    (f,) = dd.compile(p, options=chosen).compiled.program.kernels
    assert isinstance(f, PrimFunc)
    lines = show((f,)).splitlines(keepends=True)
    begun = next(n for n, line in enumerate(lines) if line.strip() == "cluster_barrier")
    (whole,) = parse_loop("".join(lines))
    laws.verify(whole, SM_90A)
    (early,) = parse_loop("".join([*lines[:begun], *lines[begun + 1 :]]))
    with pytest.raises(DidymaError, match="all have begun") as e:
        laws.verify(early, SM_90A)
    assert e.value.code == "L-alone"


@pytest.mark.parametrize("length", [1280, 1284])
@pytest.mark.parametrize("choice", ["streamed(blocks=2, groups=1, lanes=64, online=1, wide=4)",
                                    "shared(blocks=2, clusters=2, lanes=64, wide=4)"])  # fmt: skip
def test_parts_of_other_sizes_are_counted_in_a_variance(choice: str, length: int) -> None:
    def traced(x: dd.Tensor) -> dd.Tensor:
        d = x - dd.mean(x, axis=-1, keepdims=True)
        return dd.mean(d * d, axis=-1, keepdims=True) * d

    p: dd.Program = dd.trace(dd.f32[ROWS, length])(traced)
    x = np.random.default_rng(2).standard_normal((ROWS, length), np.float32) + 50
    x[:, : length // 4] += 100
    got = dd.compile(p, engine="simt", options=options(p, choice))(x)
    assert dd.interpret(p, x).contains(got)


def test_where_there_are_no_rows_nothing_is_copied() -> None:
    p = softmax(dd.dim("n", 0, 9))
    chosen = options(p, "streamed(blocks=2, groups=1, keep=1, lanes=64, online=0, wide=4)")
    exe = dd.compile(p, engine="simt", options=chosen)
    for rows in (0, 5):
        assert np.asarray(exe(np.ones((rows, LENGTH), "f4"))).shape == (rows, LENGTH)


def test_rows_of_an_odd_length_are_not_streamed_by_wide_accesses() -> None:
    def traced(x: dd.Tensor) -> dd.Tensor:
        return dd.softmax(x, axis=-1)

    p: dd.Program = dd.trace(dd.bf16[ROWS, 133])(traced)
    chosen = options(p, "streamed(blocks=1, groups=1, keep=0, lanes=32, online=0, wide=8)")
    with pytest.raises(DidymaError, match="bad-choice"):
        dd.compile(p, options=chosen)


def test_rows_that_are_also_read_backwards_are_not_streamed() -> None:
    def traced(x: dd.Tensor) -> dd.Tensor:
        first = dd.expand_dims(dd.argmax(x, axis=1), axis=1)
        y = (x - first) & dd.flip(x, axis=1)
        return y != dd.sum(y, axis=1, keepdims=True)

    p: dd.Program = dd.trace(dd.i64[ROWS, 64])(traced)
    chosen = options(p, "streamed(blocks=2, groups=1, lanes=32, wide=2)")
    with pytest.raises(DidymaError, match="bad-choice"):
        dd.compile(p, options=chosen)
