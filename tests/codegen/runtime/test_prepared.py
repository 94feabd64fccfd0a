"""Calls with arrays on a GPU that is not there (``fake_cuda``): what is launched, and where."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile as compile_module
from didyma.codegen.runtime.cuda import Cuda, CudaBuffer
from didyma.codegen.runtime.device_array import DeviceArray
from didyma.codegen.runtime.host import Host
from didyma.fuzz.graphs import BYTES, decode
from didyma.fuzz.levels import runner
from didyma.on_gpu import caller
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.types import Array, DType

from . import fake_cuda, fake_torch
from .fake_cuda import ILLEGAL_ADDRESS, INVALID, Gpu
from .fake_torch import put

STREAM = 0x500


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    made = Gpu()
    fake_cuda.planted(monkeypatch, made)
    monkeypatch.setitem(sys.modules, "torch", fake_torch.torch(made))
    yield made
    gc.collect()  # while there is a driver to unload modules


def engine(folder: Path, *, graphs: bool = True, early: bool = False) -> Cuda:
    return Cuda(checked=False, graphs=graphs, early=early, cache=folder)


def compiled(program: Any, on: Cuda) -> Any:
    return cast("Any", dd.compile(program, engine=on))


def all_of(out: Any) -> tuple[Any, ...]:
    several: tuple[Any, ...] = (out,) if hasattr(out, "values") else out
    return several


def call(exe: Any, gpu: Gpu, *given: Array) -> list[Any]:
    """Return the results of a call with tensors of PyTorch's, as arrays."""
    out = exe(*(put(gpu, a) for a in given))
    return [y.values.copy() for y in all_of(out)]


def events(gpu: Gpu, *names: str) -> list[str]:
    return [name for name, _ in gpu.log if name in names]


@dd.trace(dd.f32[8, 12], dd.f32[12])
def two(x: dd.Tensor, w: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return dd.softmax(x * w, axis=-1), dd.sum(x, axis=0)


@dd.trace(dd.f32[dd.dim("n", 1, 64), dd.dim("n", 1, 64)])
def chain(x: dd.Tensor) -> dd.Tensor:
    for _ in range(5):
        x = dd.tanh(dd.matmul(x, x) * 0.1)
    return x


def square(n: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, n)).astype(np.float32)


def test_results_are_right_and_stay(gpu: Gpu, tmp_path: Path) -> None:
    exe = compiled(two, engine(tmp_path))
    rng = np.random.default_rng(0)
    made: list[Any] = []
    for _ in range(4):
        given = rng.standard_normal((8, 12), np.float32), rng.standard_normal(12, np.float32)
        made.append((given, exe(*(put(gpu, a) for a in given))))
    for given, out in made:
        assert dd.interpret(two, *given).contains(tuple(y.values for y in out))


def test_a_call_is_its_launches_and_no_more(gpu: Gpu, tmp_path: Path) -> None:
    exe = compiled(two, engine(tmp_path))
    x, w = put(gpu, np.ones((8, 12), np.float32)), put(gpu, np.ones(12, np.float32))
    exe(x, w)
    gpu.log.clear()
    exe(x, w)
    assert [name for name, _ in gpu.log] == [s.name for s in exe.compiled.text.kernels]


@pytest.mark.parametrize("graphs", [True, False])
def test_many_launches_become_one_graph(gpu: Gpu, tmp_path: Path, graphs: bool) -> None:
    exe = compiled(chain, engine(tmp_path, graphs=graphs))
    names = {s.name for s in exe.compiled.text.kernels}
    for turn, n in enumerate((7, 5, 7, 5, 7, 5, 5, 7)):
        x = square(n, turn)
        gpu.log.clear()
        (y,) = call(exe, gpu, x)
        assert dd.interpret(chain, x).contains(y)
        seen = events(gpu, "graph", "copy", *names)
        if graphs and turn > 3:
            assert seen == ["graph"]
        else:
            assert len(seen) == 5
            assert names.issuperset(seen)


def test_launches_that_begin_early_say_so_each_and_in_a_graph(gpu: Gpu, tmp_path: Path) -> None:
    exe = compiled(chain, engine(tmp_path, early=True))
    seen = list[list[str]]()
    for turn in range(4):
        x = square(7, turn)
        gpu.log.clear()
        (y,) = call(exe, gpu, x)
        assert dd.interpret(chain, x).contains(y)
        seen.append(events(gpu, "early", "early edge", "graph"))
    assert seen[0] == ["early"] * 5
    assert ["early edge"] * 4 + ["graph"] in seen[1:]
    exe = compiled(two, engine(tmp_path, early=True))
    exe(np.ones((8, 12), np.float32), np.ones(12, np.float32))
    assert len(events(gpu, "early")) == len(exe.compiled.text.kernels), "nor with arrays of NumPy"


def test_addresses_that_come_again_cost_nothing(gpu: Gpu, tmp_path: Path) -> None:
    exe = compiled(chain, engine(tmp_path))
    x = put(gpu, square(6))
    y = exe(x)
    for _ in range(6):
        y = exe(x)  # beside the one before
    for name in ("cuGraphExecKernelNodeSetParams_v2", "cuGraphInstantiateWithFlags"):
        gpu.fails[name] = [INVALID]
    for _ in range(4):
        y = exe(x)
    assert dd.interpret(chain, x.values).contains(y.values)


def test_addresses_that_never_come_again_do_no_harm(gpu: Gpu, tmp_path: Path) -> None:
    exe = compiled(chain, engine(tmp_path))
    given = [put(gpu, square(6, seed)) for seed in range(12)]
    kept = [exe(x) for x in given]
    graphs = sum(name == "made" for name, _ in gpu.log)
    for x, y in zip(given, kept, strict=True):
        assert dd.interpret(chain, x.values).contains(y.values)
    kept += [exe(x) for x in given]
    assert sum(name == "made" for name, _ in gpu.log) == graphs, "no more graphs than a few"
    assert len({y.data_ptr() for y in kept}) == 24


def test_work_is_on_the_callers_stream(gpu: Gpu, tmp_path: Path) -> None:
    exe = compiled(chain, engine(tmp_path))
    for stream in (0, STREAM, STREAM, 0, STREAM, 0):
        vars(sys.modules["torch"])["stream"] = stream
        gpu.log.clear()
        call(exe, gpu, square(4))
        assert {on for name, on in gpu.log if name != "made"} == {stream}


@pytest.mark.parametrize("gpus", [1, 2])
def test_a_stream_that_is_captured_gets_launches(gpu: Gpu, tmp_path: Path, gpus: int) -> None:
    """PyTorch says it of the current GPU alone, so the driver is asked where there are two."""
    torch = cast("Any", sys.modules["torch"])
    torch.cuda.device_count = lambda: gpus
    if gpus == 2:
        torch._C._cuda_isCurrentStreamCapturing = lambda: not gpu.captured  # of another GPU
    exe = compiled(chain, engine(tmp_path))
    for turn in range(6):
        gpu.captured = turn != 4
        gpu.log.clear()
        call(exe, gpu, square(4))
        assert bool(events(gpu, "graph")) is (turn == 4)


@pytest.mark.parametrize("captured", [False, True])
def test_streams_have_scratch_memory_of_their_own(
    gpu: Gpu, tmp_path: Path, *, captured: bool
) -> None:
    """They keep it; what is being recorded may run at any time, so each call has its own."""
    exe, x = compiled(chain, engine(tmp_path, graphs=False)), put(gpu, square(8))
    used = list[set[int]]()
    gpu.captured = captured
    for torch_stream in (0, 0, STREAM):
        cast("Any", sys.modules["torch"]).stream = torch_stream
        before = set(gpu.live)
        out = exe(x)
        used.append({*gpu.live} - before - {out.data_ptr()})
    assert [len(u) for u in used] == ([0, 0, 0] if captured else [1, 0, 1])


def test_calls_leave_nothing(gpu: Gpu, tmp_path: Path) -> None:
    exe = compiled(chain, engine(tmp_path))
    x = square(5)
    for _ in range(4):
        call(exe, gpu, x)
    gc.collect()
    before = len(gpu.live), len(gpu.objects)
    for _ in range(50):
        call(exe, gpu, x)
    gc.collect()
    assert (len(gpu.live), len(gpu.objects)) == before
    for n in range(1, 65):
        call(exe, gpu, square(n))
    del exe
    gc.collect()
    assert not gpu.live
    assert not gpu.objects


def test_an_array_in_another_order_is_copied_on_the_gpu(gpu: Gpu, tmp_path: Path) -> None:
    exe = compiled(two, engine(tmp_path))
    x, w = np.random.default_rng(1).random((12, 8), np.float32), np.ones(12, np.float32)
    gpu.log.clear()
    out = exe(put(gpu, x).T, put(gpu, w))
    assert events(gpu, "contiguous") == ["contiguous"]
    assert dd.interpret(two, np.ascontiguousarray(x.T), w).contains(tuple(y.values for y in out))


@pytest.mark.parametrize(("first", "copies"), [(0, []), (1, ["clone"]), (4, [])])
def test_an_array_that_begins_between_wide_accesses_is_copied(
    gpu: Gpu, tmp_path: Path, first: int, copies: list[str]
) -> None:
    exe = compiled(two, engine(tmp_path))
    x, w = np.random.default_rng(1).random((8, 12), np.float32), np.arange(16, dtype=np.float32)
    gpu.log.clear()
    out = exe(put(gpu, x), put(gpu, w)[first : first + 12])
    assert events(gpu, "clone") == copies
    truth = dd.interpret(two, x, w[first : first + 12])
    assert truth.contains(tuple(y.values for y in out))


@dd.trace(dd.f32[8, 12], dd.f32[8, 12])
def mixed(x: dd.Tensor, y: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
    return dd.softmax(x, axis=-1), dd.exp(y) + 2.0


VIEWS: dict[str, Callable[[Any], Any]] = {
    "part of rows": lambda t: t[:, :12],
    "later part of rows": lambda t: t[:, 4:16],
    "every second row": lambda t: t[::2, :12],
    "rows in the middle": lambda t: t[4:12, 4:16],
}


@pytest.mark.parametrize("name", VIEWS)
def test_rows_with_gaps_are_read_as_they_lie(gpu: Gpu, tmp_path: Path, name: str) -> None:
    exe, rng = compiled(mixed, engine(tmp_path)), np.random.default_rng(5)
    for turn in range(4):
        whole = rng.standard_normal((16, 16), np.float32)
        x, y = VIEWS[name](whole)[:8], rng.standard_normal((12, 8), np.float32)
        want = call(exe, gpu, x, y.T)
        loaded = len(gpu.texts)
        gpu.log.clear()
        out = exe(VIEWS[name](put(gpu, whole))[:8], put(gpu, y).T)
        assert events(gpu, "contiguous", "clone", "packed") == []
        assert [a.values.tobytes() for a in out] == [b.tobytes() for b in want]
        assert (len(gpu.texts) > loaded) is (turn == 0), "compiled at the first call alone"
    assert [(s.name, s.copied, s.calls) for s in exe.strided] == [("x", "", 4), ("y", "", 4)]
    assert exe.strided[1].layout == "axes 1, 0"


def test_what_cannot_be_read_as_it_lies_is_copied_alone(gpu: Gpu, tmp_path: Path) -> None:
    exe = compiled(mixed, engine(tmp_path))
    a = np.random.default_rng(6).standard_normal((12, 8), np.float32)
    gpu.log.clear()
    out = exe(put(gpu, a).T, put(gpu, a).T)
    assert events(gpu, "contiguous") == ["contiguous"]
    given = np.ascontiguousarray(a.T), np.ascontiguousarray(a.T)
    assert dd.interpret(mixed, *given).contains(tuple(y.values for y in out))
    assert [(s.name, bool(s.copied)) for s in exe.strided] == [("x", True), ("y", False)]


def test_sizes_of_views_are_checked_as_those_of_arrays(gpu: Gpu, tmp_path: Path) -> None:
    exe, y = compiled(mixed, engine(tmp_path)), put(gpu, np.ones((8, 12), np.float32))
    whole = put(gpu, np.ones((16, 16), np.float32))
    for wrong in (whole[:8, :11], whole[:8, :13], whole[:7, :12]):
        with pytest.raises(DidymaError, match="dim-mismatch at `x, axis"):
            exe(wrong, y)
    with pytest.raises(DidymaError, match="rank-mismatch"):
        exe(whole[:8, :12][0:3, 2], y)


def test_so_many_layouts_are_compiled_and_no_more(gpu: Gpu, tmp_path: Path) -> None:
    exe, y = compiled(mixed, engine(tmp_path)), put(gpu, np.ones((8, 12), np.float32))
    for width in range(16, 16 + 4 * 10, 4):
        exe(put(gpu, np.ones((8, width), np.float32))[:, :12], y)
    assert [not s.copied for s in exe.strided] == [True] * 8 + [False] * 2


def test_nothing_is_compiled_while_a_stream_is_captured(gpu: Gpu, tmp_path: Path) -> None:
    exe, y = compiled(mixed, engine(tmp_path)), put(gpu, np.ones((8, 12), np.float32))
    x = put(gpu, np.random.default_rng(8).standard_normal((8, 16), np.float32))[:, :12]
    want = None
    for captured, copied in ((True, True), (False, False), (True, False)):
        gpu.captured = captured
        gpu.log.clear()
        out = [a.values.tobytes() for a in exe(x, y)]
        assert events(gpu, "contiguous") == ["contiguous"] * copied
        assert want in (None, out)
        want = out


def test_constants_are_shared_by_programs_for_other_layouts(gpu: Gpu, tmp_path: Path) -> None:
    table = np.arange(12, dtype=np.float32)

    @dd.trace(dd.f32[8, 12])
    def scaled(x: dd.Tensor) -> dd.Tensor:
        return x * table

    exe = compiled(scaled, engine(tmp_path))
    x = np.random.default_rng(7).standard_normal((8, 16), np.float32)
    given, live = put(gpu, x), len(gpu.live)
    y = exe(given[:, :12])
    assert len(gpu.live) == live + 1, "the result, and no constant once more"
    assert np.array_equal(y.values, x[:, :12] * table)
    assert not exe.strided[0].copied


def test_results_that_do_not_fit_are_refused_and_others_made(gpu: Gpu, tmp_path: Path) -> None:
    exe = compiled(chain, engine(tmp_path))
    x = put(gpu, square(60))
    gpu.capacity = 20_000
    with pytest.raises(DidymaError, match="too-large") as e:
        exe(x)
    del x, e
    gc.collect()
    (y,) = call(exe, gpu, square(4))
    assert dd.interpret(chain, square(4)).contains(y)


def test_a_launch_that_is_refused_is_named(gpu: Gpu, tmp_path: Path) -> None:
    exe = compiled(two, engine(tmp_path))
    x, w = np.ones((8, 12), np.float32), np.ones(12, np.float32)
    gpu.fails["cuLaunchKernel"] = [0, INVALID]
    second = exe.compiled.text.kernels[1].name
    with pytest.raises(DidymaError, match=f"launch-failed at `kernel {second}, line") as e:
        call(exe, gpu, x, w)
    number = int(e.value.where.split("line ")[1].split()[0])
    assert second in exe.wrapper.splitlines()[number - 1]
    assert dd.interpret(two, x, w).contains(tuple(call(exe, gpu, x, w)))


@pytest.mark.parametrize("what", ["cuGraphInstantiateWithFlags", "cuGraphLaunch"])
def test_a_graph_that_is_refused_does_no_harm(gpu: Gpu, tmp_path: Path, what: str) -> None:
    exe = compiled(chain, engine(tmp_path))
    gpu.fails[what] = [INVALID]
    x = square(5)
    call(exe, gpu, x)
    call(exe, gpu, x)
    with pytest.raises(DidymaError, match="launch-failed"):
        call(exe, gpu, x)
    for _ in range(4):
        (y,) = call(exe, gpu, x)
        assert dd.interpret(chain, x).contains(y)


def test_a_context_that_is_lost_says_so(gpu: Gpu, tmp_path: Path) -> None:
    on = engine(tmp_path)
    exe = compiled(two, on)
    given = put(gpu, np.ones((8, 12), np.float32)), put(gpu, np.ones(12, np.float32))
    exe(*given)
    gpu.lost = ILLEGAL_ADDRESS  # as a kernel does that has not ended when it is launched
    run: Callable[[], Any]
    for run in (
        lambda: exe(*given),
        on.join,
        lambda: on.upload(np.ones(3)),
        lambda: on.download(CudaBuffer(given[0].data_ptr(), 384, None), DType.F32, (96,)),
    ):
        with pytest.raises(DidymaError, match=r"(?s)device-lost.*start it again"):
            run()


def test_branches_are_taken_by_the_wrapper(gpu: Gpu, tmp_path: Path) -> None:
    @dd.trace(dd.f32[6])
    def halved(x: dd.Tensor) -> dd.Tensor:
        def test(y: dd.Tensor) -> dd.Tensor:
            return dd.max(y) > 1.0

        def body(y: dd.Tensor) -> dd.Tensor:
            return y * 0.5

        (y,) = dd.while_loop(test, body, x)
        return y

    on = engine(tmp_path)
    exe = compiled(halved, on)
    x = np.arange(6, dtype=np.float32)
    assert dd.interpret(halved, x).contains(exe(x))
    out = exe(lent(on, x))
    assert dd.interpret(halved, x).contains(read(on, out))


def lent(on: Cuda, a: Array) -> DeviceArray:
    return on.lend(on.upload(a), DType.of(a), a.shape)


def read(on: Cuda, a: Any) -> Array:
    out: Array = on.download(CudaBuffer(a.address, a.nbytes, a), a.dtype, a.shape)
    return out


def test_arrays_of_unknown_libraries_are_exchanged(gpu: Gpu, tmp_path: Path) -> None:
    on = engine(tmp_path)
    exe = compiled(chain, on)
    for turn in range(5):
        x = square(5, turn)
        y = exe(lent(on, x))
        assert isinstance(y, DeviceArray)
        assert dd.interpret(chain, x).contains(read(on, y))
    assert events(gpu, "graph")


class Interfaced:
    """An array of a library that has the CUDA array interface alone."""

    def __init__(self, on: Cuda, a: Array) -> None:
        self._memory = on.upload(a.base if a.base is not None else a)
        self.__cuda_array_interface__ = {
            "shape": a.shape, "strides": a.strides, "typestr": a.dtype.str, "version": 3,
            "data": (self._memory.address, False),
        }  # fmt: skip


def test_an_array_of_strides_is_put_in_order_by_a_kernel(gpu: Gpu, tmp_path: Path) -> None:
    on = engine(tmp_path)
    exe, x, w = compiled(two, on), np.random.default_rng(2).random((12, 8), np.float32), np.ones(12)
    w = w.astype(np.float32)
    gpu.log.clear()
    out = exe(Interfaced(on, x.T), Interfaced(on, w))
    assert events(gpu, "packed") == ["packed"]
    truth = dd.interpret(two, np.ascontiguousarray(x.T), w)
    assert truth.contains(tuple(read(on, y) for y in out))


def differing(data: bytes, folder: Path, gpu: Gpu) -> str:
    """Return how prepared calls of a random program differ from the wrapper's, if they do."""
    case = decode(data)
    options = case.options(Options()).changed({"memory.views": False})  # as on any GPU
    try:
        c = compile_module(case.module, options)
    except DidymaError:
        return ""
    given, host, on = case.inputs(), Host(), engine(folder)
    if not given:
        return ""
    want = runner(c, host)(host, given)
    run = caller(runner(c, on), on, c)
    for _ in range(4):
        got = [read(on, y) for y in run([lent(on, a) for a in given])]
        for k, (a, b) in enumerate(zip(want, got, strict=True)):
            if a.shape != b.shape or a.tobytes() != b.tobytes():
                return f"result {k} of\n{c.wrapper}"
    return ""


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_give_the_same_bits(gpu: Gpu, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(5):
        assert not differing(rng.randbytes(BYTES), tmp_path, gpu)
