from __future__ import annotations

import csv
import io
import json
import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma import tuning
from didyma.codegen.options import KernelOptions, Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.engine import Fault, KernelFault, Loaded
from didyma.codegen.runtime.host import Host, HostBuffer
from didyma.codegen.select.at_run import AtRun
from didyma.codegen.select.cache import Cache
from didyma.codegen.select.choosers import pinned
from didyma.codegen.select.keys import bucket_of
from didyma.codegen.select.metrics import COLUMNS
from didyma.fuzz import levels
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.types import Array
from didyma.running import Executable
from tests.warm import python

OPTIONS = Options(kernels=KernelOptions(variants=3))
ROW = "fused_multiply_sum_0"
SERIAL, COLUMN = f"{ROW}_serial", f"{ROW}_column"
ROOT = Path(__file__).parents[3]
n, m = dd.dim("n", 1, 4096), dd.dim("m", 1, 4096)


@dd.trace(dd.f32[n, m])
def rows(x: dd.Tensor) -> dd.Tensor:
    return dd.sum(x * 2.0, axis=1)


Cost = Callable[[str, Mapping[str, int]], float]


class Clocked(Host):
    """Engine ``host`` with a clock that launches move on, and with what a test does to results.

    It is given the kernels of a GPU.
    """

    targets = (PORTABLE,)

    def __init__(
        self, cost: Cost, after: Callable[[str, Sequence[HostBuffer]], None] | None = None
    ) -> None:
        super().__init__()
        self.now = 0.0
        self.cost = cost
        self.after = after
        self.launched: list[tuple[str, list[HostBuffer]]] = []

    def clock(self) -> float:
        return self.now

    def load(self, text: KernelText) -> Loaded:
        return _Launches(self, super().load(text))


@dataclass(frozen=True, slots=True)
class _Launches:
    engine: Clocked
    loaded: Loaded

    def launch(
        self,
        kernel: str,
        buffers: Sequence[HostBuffer],
        dims: Mapping[str, int],
        stream: int = 0,
        scalars: Sequence[float] = (),
    ) -> None:
        e = self.engine
        e.now += e.cost(kernel, dims)
        e.launched.append((kernel, list(buffers)))
        self.loaded.launch(kernel, buffers, dims, stream, scalars)
        if e.after is not None:
            e.after(kernel, buffers)


def by_shape(kernel: str, sizes: Mapping[str, int]) -> float:
    """Let threads along a row win where rows are long, and one thread a row where they are many."""
    usual = {ROW: 1.0 + sizes["n"], SERIAL: 1.0 + sizes["m"], COLUMN: 9000.0}
    return usual[kernel]


def refuses() -> float:
    raise AssertionError("a variant is timed")


@pytest.fixture(scope="module")
def made() -> Compiled:
    return compile(rows.module, OPTIONS)


def chooser(c: Compiled, engine: Clocked, options: Options = OPTIONS, **how: Any) -> AtRun:
    usual: dict[str, Any] = {"clock": engine.clock, "cache": None}
    found = tuning.at_run(c, engine, options, **(usual | how))
    assert found is not None
    return found


def call(c: Compiled, engine: Clocked, run: AtRun, *shapes: tuple[int, int]) -> list[str]:
    """Call a program at some shapes, compare its results, and return the kernel that each ran."""
    program = levels.runner(c, engine, dispatch=run)
    kernels: list[str] = []
    for shape in shapes:
        x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape) / 64
        before = x.copy()
        (got,) = program(engine, [x])
        np.testing.assert_allclose(got, (x * 2).sum(1, dtype=np.float64), rtol=1e-4)
        np.testing.assert_array_equal(x, before)
        kernels.append(engine.launched[-1][0])
    return kernels


WIDE, TALL = (4, 300), (300, 4)


def test_the_pick_follows_the_shape(made: Compiled) -> None:
    engine = Clocked(by_shape)
    run = chooser(made, engine)
    assert call(made, engine, run, WIDE, TALL, WIDE) == [ROW, SERIAL, ROW]
    assert len(run.timings) == 6, "each of two buckets was timed once"


def test_rows_are_held_or_read_again_by_their_length() -> None:
    """Threads that hold a long row in registers have idle turns where rows are short."""

    @dd.trace(dd.f32[n, m])
    def softmax(x: dd.Tensor) -> dd.Tensor:
        return dd.softmax(x, axis=1)

    c = compile(softmax.module, OPTIONS.changed({"graph.rows": True, "kernels.variants": 2}))
    ((held, again),) = ([v.kernel.name for v in row] for row in c.variants.values())
    assert again == f"{held}_looped"
    engine = Clocked(lambda kernel, sizes: 700.0 if kernel == held else 1.0 + sizes["m"])
    run = chooser(c, engine)
    program = levels.runner(c, engine, dispatch=run)
    for shape, kernel in (((2, 3000), held), ((2, 40), again)):
        program(engine, [np.ones(shape, np.float32)])
        assert engine.launched[-1][0] == kernel


def test_sizes_of_one_bucket_share_a_pick(made: Compiled) -> None:
    engine = Clocked(by_shape)
    run = chooser(made, engine)
    call(made, engine, run, (4, 300))
    timed = len(engine.launched)
    call(made, engine, run, (3, 400), (4, 257))
    assert len(engine.launched) == timed + 2
    call(made, engine, run, (4, 256))
    assert len(run.timings) == 6


def test_the_program_s_own_buffers_are_written_once(made: Compiled) -> None:
    engine = Clocked(by_shape)
    run = chooser(made, engine)
    call(made, engine, run, WIDE)
    _, (_, output) = engine.launched[-1]
    written = [kernel for kernel, buffers in engine.launched if buffers[1] is output]
    assert written == [ROW]


def test_results_in_place_survive_the_timing() -> None:
    @dd.trace(dd.f32[8, 16])
    def chain(x: dd.Tensor) -> dd.Tensor:
        return dd.sum(dd.sin(dd.exp(x)), axis=0)

    options = OPTIONS.changed({"graph.fuse": False})
    c = compile(chain.module, options)
    assert any(getattr(line, "inplace", ()) for line in c.program.lines)
    engine = Clocked(lambda kernel, sizes: 1.0)
    run = chooser(c, engine, options)
    x = np.random.default_rng(0).standard_normal((8, 16), np.float32)
    once = levels.runner(c, Host())(Host(), [x])[0]
    np.testing.assert_array_equal(levels.runner(c, engine, dispatch=run)(engine, [x])[0], once)
    assert run.timings


def test_what_was_cloned_is_freed_where_memory_is_short() -> None:
    class Full(Clocked):
        """An engine with room for one buffer beside the stack and the inputs."""

        def __init__(self) -> None:
            super().__init__(lambda kernel, sizes: 1.0)
            self.allocated: list[HostBuffer] = []

        def allocate(self, nbytes: int) -> HostBuffer:
            if self.allocated:
                raise MemoryError
            self.allocated.append(super().allocate(nbytes))
            return self.allocated[-1]

    @dd.trace(dd.f32[64])
    def pair(x: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return dd.exp(x), dd.exp(x) * 2.0

    c = compile(pair.module, OPTIONS)
    engine = Full()
    run = chooser(c, engine)
    with pytest.raises(MemoryError):
        levels.runner(c, engine, dispatch=run)(engine, [np.ones(64, np.float32)])
    assert [b.live for b in engine.allocated] == [False], "the first of two clones"
    assert not run.picks


def test_no_random_state_is_touched(made: Compiled) -> None:
    engine = Clocked(by_shape)
    random.seed(5)
    np.random.seed(5)
    want = random.random(), np.random.random()
    random.seed(5)
    np.random.seed(5)
    call(made, engine, chooser(made, engine), WIDE)
    assert (random.random(), np.random.random()) == want


# ---- the cache


def test_another_process_reads_what_the_first_picked(made: Compiled, tmp_path: Path) -> None:
    cache, engine = Cache(tmp_path / "c.sqlite"), Clocked(by_shape)
    call(made, engine, chooser(made, engine, cache=cache), WIDE, TALL)
    assert process(tmp_path, "by_shape", "refuses") == ([ROW, SERIAL], 0)
    buckets = [json.loads(p.conditions)["bucket"] for p in cache.picks()]
    assert sorted(buckets, key=str) == [{"m": 4, "n": 512}, {"m": 512, "n": 4}]


def test_two_processes_at_once_take_one_pick(tmp_path: Path) -> None:
    """Each times the variants before the other keeps its pick, and finds another one faster."""
    costs = ("serial_first", "column_first")
    with ThreadPoolExecutor(2) as pool:
        both = pool.map(process, [tmp_path] * 2, costs, ["meets"] * 2)
        (kernels, timed), (others, timed_too) = both
    assert kernels == others
    assert min(timed, timed_too) >= 3
    assert {*kernels} <= {SERIAL, COLUMN}
    assert len(Cache(tmp_path / "c.sqlite").picks()) == 2


def serial_first(kernel: str, sizes: Mapping[str, int]) -> float:
    """Let one thread a row win."""
    del sizes
    return 1.0 if kernel == SERIAL else 50.0


def column_first(kernel: str, sizes: Mapping[str, int]) -> float:
    """Let threads across rows win."""
    del sizes
    return 1.0 if kernel == COLUMN else 50.0


def process(folder: Path, cost: str, clock: str) -> tuple[list[str], int]:
    """Call the program in a process, its cache in a folder: kernels it ran, and how many timed."""
    words = ("-c", f"from {__name__} import main; main()", str(folder), cost, clock)
    done = python(*words, cwd=ROOT, env=os.environ)
    assert done.returncode == 0, done.stderr
    kernels, timed = json.loads(done.stdout)
    return kernels, timed


def main() -> None:
    """What runs in such a process."""
    folder, cost, clock = Path(sys.argv[1]), *sys.argv[2:]
    c, engine = compile(rows.module, OPTIONS), Clocked(globals()[cost])

    def meets() -> float:
        """Wait until the other process times variants, too."""
        (folder / f"{cost} times").touch()
        end = time.monotonic() + 30
        while len([*folder.glob("* times")]) < 2:
            assert time.monotonic() < end, "the other process does not come"
            time.sleep(0.001)
        return engine.now

    clocks = {"refuses": refuses, "meets": meets}
    run = chooser(c, engine, cache=Cache(folder / "c.sqlite"), clock=clocks[clock])
    print(json.dumps([call(c, engine, run, WIDE, TALL), len(run.timings)]))


def test_other_variants_have_another_key(made: Compiled, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "choices.sqlite")
    engine = Clocked(by_shape)
    call(made, engine, chooser(made, engine, cache=cache), TALL)
    fewer = compile(rows.module, OPTIONS.changed({"kernels.variants": 2}))
    run = chooser(fewer, engine, cache=cache)
    call(fewer, engine, run, TALL)
    assert run.timings
    assert len(cache.picks()) == 2


def test_a_cache_that_cannot_be_written_costs_no_result(made: Compiled, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    engine = Clocked(by_shape)
    run = chooser(made, engine, cache=Cache(tmp_path / "file" / "choices.sqlite"))
    assert call(made, engine, run, WIDE) == [ROW]


# ---- forced and recorded picks


@pytest.mark.parametrize(
    ("force", "kernel"),
    [("0", ROW), ("1", SERIAL), ("column", COLUMN), ("row", ROW), (SERIAL, SERIAL)],
)
def test_a_forced_pick_is_obeyed(made: Compiled, force: str, kernel: str) -> None:
    engine = Clocked(by_shape)
    options = OPTIONS.changed({"kernels.force": force})
    run = chooser(made, engine, options, clock=refuses)
    assert call(made, engine, run, WIDE, TALL) == [kernel, kernel]


def test_what_is_forced_must_be_a_variant() -> None:
    with pytest.raises(DidymaError) as e:
        dd.compile(rows, options=OPTIONS.changed({"kernels.force": "matmul"}))
    assert (e.value.code, e.value.want) == (
        "unknown-variant", "a number, or one of serial, row, column"
    )  # fmt: skip
    with pytest.raises(DidymaError, match="unknown-variant"):
        dd.compile(rows, options=Options(kernels=KernelOptions(force="1")))


def test_a_recorded_pick_needs_no_timing_and_no_dispatch(made: Compiled) -> None:
    engine = Clocked(by_shape)
    run = chooser(made, engine)
    call(made, engine, run, TALL)
    record = tuning.picked(made, OPTIONS, run)
    again = dd.compile(rows, choose=record, options=OPTIONS)
    assert again.at_run is None
    assert "dispatch" not in again.wrapper
    assert again.choices == record
    x = np.ones(TALL, np.float32)
    np.testing.assert_array_equal(again(x), np.full(300, 8, np.float32))


def test_a_record_of_several_shapes_takes_each_pick_without_timing(made: Compiled) -> None:
    engine = Clocked(by_shape)
    run = chooser(made, engine)
    call(made, engine, run, WIDE, TALL)
    record = json.loads(json.dumps(tuning.picked(made, OPTIONS, run)))
    (row,) = record["choices"].values()
    assert [(b["sizes"], b["choice"][:6]) for b in row["buckets"]] == [
        ({"m": 512, "n": 4}, "row(gr"), ({"m": 4, "n": 512}, "serial")
    ]  # fmt: skip
    later = Clocked(by_shape)
    again = dd.compile(rows, engine=later, choose=record, options=OPTIONS)
    assert again.at_run is not None
    recorded = chooser(again.compiled, later, given=record, clock=refuses)
    assert call(again.compiled, later, recorded, WIDE, TALL) == [ROW, SERIAL]


def test_a_record_needs_no_timing_in_another_process(made: Compiled, tmp_path: Path) -> None:
    """A later compile has the record alone: its cache is empty, and its clock refuses."""
    engine = Clocked(by_shape)
    run = chooser(made, engine)
    call(made, engine, run, WIDE, TALL)
    several = tmp_path / "several.json"
    several.write_text(json.dumps(tuning.picked(made, OPTIONS, run)))
    assert recorded(tmp_path, several) == [[ROW, SERIAL], 0, True]
    run = chooser(made, engine)
    call(made, engine, run, TALL)
    one = tmp_path / "one.json"
    one.write_text(json.dumps(tuning.picked(made, OPTIONS, run)))
    (kernels, timed, dispatches) = recorded(tmp_path, one)
    assert (len({*kernels}), timed, dispatches) == (1, 0, False)


def recorded(folder: Path, record: Path) -> Any:
    """What a process runs that compiles with a record: kernels, timings, and if it chooses."""
    words = ("-c", f"from {__name__} import later; later()", str(record))
    env = {**os.environ, "XDG_CACHE_HOME": str(folder / "empty")}
    done = python(*words, cwd=ROOT, env=env)
    done.check_returncode()
    return json.loads(done.stdout)


def later() -> None:
    """What runs in such a process."""
    record, engine = Path(sys.argv[1]), Clocked(by_shape)
    exe = dd.compile(rows, engine=engine, choose=record, options=OPTIONS)
    run = tuning.at_run(exe.compiled, engine, exe.options, record, clock=refuses)
    for shape in (WIDE, TALL):
        program = levels.runner(exe.compiled, engine, dispatch=run)
        (got,) = program(engine, [np.ones(shape, np.float32)])
        np.testing.assert_array_equal(got, np.full(shape[0], 2 * shape[1], np.float32))
    kernels = [name for name, _ in engine.launched]
    print(json.dumps([kernels, len(run.timings) if run else 0, run is not None]))


def test_without_variants_a_record_takes_the_pick_of_the_usual_sizes(made: Compiled) -> None:
    loop = made.loops[ROW]
    usual = bucket_of(loop, {})
    record = {
        "version": 1,
        "choices": {ROW: {
            "choice": "row(groups=2, lanes=128)",
            "buckets": [{"sizes": dict(usual), "choice": "column(layers=8, side=32)"}],
        }},
    }  # fmt: skip
    assert dd.compile(rows, choose=record).choices["choices"][ROW]["choice"].startswith("column")
    with pytest.raises(DidymaError, match="bad-choice"):
        pinned({"choices": {ROW: {"choice": "row()", "buckets": [{"choice": "row()"}]}}})


# ---- what must not be picked


def _output(buffers: Sequence[HostBuffer]) -> Array:
    return buffers[1].array.view(np.float32)


def test_a_variant_with_nan_elsewhere_is_not_picked(made: Compiled) -> None:
    def spoil(kernel: str, buffers: Sequence[HostBuffer]) -> None:
        if kernel == SERIAL:
            _output(buffers)[0] = np.nan

    engine = Clocked(lambda kernel, sizes: 1.0 if kernel == SERIAL else 50.0, spoil)
    run = chooser(made, engine)
    assert call(made, engine, run, WIDE) == [ROW]
    assert [t.reason for t in run.timings] == [
        "", "NaN or infinity elsewhere than the model's choice", ""
    ]  # fmt: skip


def test_a_variant_that_fails_is_not_picked(made: Compiled) -> None:
    def fail(kernel: str, buffers: Sequence[HostBuffer]) -> None:
        del buffers
        if kernel == COLUMN:
            raise KernelFault([Fault("race", kernel, "two threads")])

    engine = Clocked(lambda kernel, sizes: 1.0 if kernel == COLUMN else 50.0, fail)
    run = chooser(made, engine)
    assert call(made, engine, run, WIDE) == [ROW]
    assert run.timings[2].reason == f"race in {COLUMN}: two threads"


def test_a_nan_is_an_error_where_that_is_asked_for(made: Compiled) -> None:
    options = OPTIONS.changed({"kernels.finite": True, "kernels.force": "0"})
    program = dd.compile(rows, options=options)
    x = np.ones(WIDE, np.float32)
    program(x)
    x[1, 2] = np.inf
    with pytest.raises(DidymaError) as e:
        program(x)
    assert (e.value.code, e.value.got) == ("not-finite", "1 of 4 elements NaN or infinite")


def test_a_nan_that_signals_is_an_error_like_others() -> None:
    @dd.trace(dd.f32[n, m])
    def turned(x: dd.Tensor) -> dd.Tensor:
        return dd.transpose(x)

    options = OPTIONS.changed({"kernels.finite": True, "kernels.force": "0"})
    x = np.ones(WIDE, np.float32)
    x.view(np.uint32)[1, 2] = 0x7F800001
    with pytest.raises(DidymaError) as e:
        dd.compile(turned, options=options)(x)
    assert (e.value.code, e.value.got) == ("not-finite", "1 of 1200 elements NaN or infinite")


def nothing(*given: object) -> list[Any]:
    del given
    return []


def test_the_metrics_are_a_table(made: Compiled) -> None:
    engine = Clocked(by_shape)
    run = chooser(made, engine)
    call(made, engine, run, TALL)
    program = Executable(made, engine, nothing, OPTIONS, run)
    header, *rest = csv.reader(io.StringIO(program.metrics))
    assert tuple(header) == COLUMNS
    found = [dict(zip(header, row, strict=True)) for row in rest]
    assert [(r["kernel"], r["microseconds"], r["picked"]) for r in found] == [
        (ROW, "301000000.000", "no"),
        (SERIAL, "5000000.000", "yes"),
        (COLUMN, "9000000000.000", "no"),
    ]  # fmt: skip
    assert found[1]["speedup"] == "60.200"
    assert found[1]["sizes"] == "m<=4 n<=512"
