"""The engine ``host-fast`` computes what ``host`` does, bit by bit, and finds its compiler."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import didyma as dd
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime import compiler
from didyma.codegen.runtime.fast import engine as fast
from didyma.codegen.runtime.fast.engine import HostFast
from didyma.codegen.runtime.fast.units import units
from didyma.codegen.runtime.host import Host
from didyma.fuzz import levels
from didyma.fuzz.conform import Runner
from didyma.oracle.conformance import conform, structure
from didyma.refimpl.errors import DidymaError, EngineMissing
from didyma.refimpl.ir.types import Array, DType
from tests.codegen import graphs
from tests.codegen.runtime.texts import kernel
from tests.didyma.cli import didyma

pytestmark = pytest.mark.skipif(not any(compiler.each_found()), reason="no gcc, clang or Zig here")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> HostFast:
    return HostFast(cache=tmp_path_factory.mktemp("objects"))


@pytest.mark.parametrize("start", [0, 10])
def test_drawn_programs_give_the_bits_of_tinycc(start: int, shared: HostFast) -> None:
    host, compared = Host(), 0
    for seed in range(start, start + 10):
        m = graphs.graph(seed, symbolic=seed % 2 == 1)
        inputs = graphs.operands(m, seed, graphs.bindings(m, seed))
        c = compile(m)
        for got, want in zip(
            levels.runner(c, shared)(shared, inputs),
            levels.runner(c, host)(host, inputs),
            strict=True,
        ):
            assert graphs.same_bits(got, want), seed
            compared += want.size
    assert compared > 100


def rows(x: dd.Tensor) -> dd.Tensor:
    return dd.softmax(x, axis=-1)


def turned(x: dd.Tensor) -> dd.Tensor:
    return dd.permute_dims(x, (1, 0)) + 1


def product(x: dd.Tensor) -> dd.Tensor:
    return x @ dd.permute_dims(x, (1, 0))


def running(x: dd.Tensor) -> dd.Tensor:
    return dd.cumulative_sum(x, axis=1)


def windows(x: dd.Tensor) -> dd.Tensor:
    image = dd.reshape(x, (1, 3, 50, 40))
    return dd.conv(image, dd.reshape(x[:27, :4], (4, 3, 3, 3)), padding=1)


SHAPES = [rows, turned, product, running, windows]


@pytest.mark.parametrize("target", ["portable", "cpu"])
@pytest.mark.parametrize("f", SHAPES, ids=lambda f: str(f.__name__))
def test_kernels_of_every_shape_give_the_bits_of_tinycc(
    f: Callable[[dd.Tensor], dd.Tensor], target: str, shared: HostFast
) -> None:
    """Threads that meet at barriers, tails, runs that end within a row, strided rows."""
    program = dd.trace(dd.f32[60, 100])(f)
    x = np.random.default_rng(1).standard_normal((60, 100)).astype(np.float32)
    c = compile(program.module, dd.Options(target=target))
    got, want = (levels.runner(c, e)(e, [x])[0] for e in (shared, Host()))
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


@pytest.mark.parametrize(
    ("size", "padding", "stride", "groups"),
    [(13, 1, 1, 1), (7, 1, 1, 4), (14, 0, 1, 1), (28, 1, 2, 1), (30, 0, 2, 1), (40, 1, 1, 1)],
)
def test_rows_of_images_that_end_within_a_run_of_lanes(
    size: int, padding: int, stride: int, groups: int, shared: HostFast
) -> None:
    def image(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return dd.relu(dd.conv(x, w, padding=padding, stride=stride, groups=groups))

    shapes = (2, 4, size, size), (8, 4 // groups, 3, 3)
    program = dd.trace(*(dd.f32[shape] for shape in shapes))(image)
    rng = np.random.default_rng(size)
    inputs = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    c = compile(program.module, dd.Options(target="cpu"))
    got, want = (levels.runner(c, e)(e, inputs)[0] for e in (shared, Host()))
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


@pytest.mark.parametrize(
    ("channels", "size", "kernel", "padding", "stride", "dilation"),
    [
        (6, 19, 3, 1, 2, 1), (6, 5, 3, 0, 1, 1), (40, 1, 1, 0, 1, 1), (6, 9, 3, 2, 3, 2),
        (256, 9, 1, 1, 2, 1), (4, 12, 5, 2, 2, 1),
    ],
)  # fmt: skip
def test_channels_are_the_lanes_of_convolutions_that_read_images_apart(
    channels: int, size: int, kernel: int, padding: int, stride: int, dilation: int,
    shared: HostFast,
) -> None:  # fmt: skip
    """The sums are those of weights that are an input, which lie as they are given."""
    rng = np.random.default_rng(size)
    shapes = (2, channels, size, size), (24, channels, kernel, kernel)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in shapes)

    def conv(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return dd.relu(dd.conv(x, w, None, stride, padding, dilation))

    def conv_of(x: dd.Tensor) -> dd.Tensor:
        return conv(x, dd.asarray(w))

    known = dd.trace(dd.f32[shapes[0]])(conv_of)
    given = dd.trace(*(dd.f32[s] for s in shapes))(conv)
    made, other = (compile(p.module, dd.Options(target="cpu")) for p in (known, given))
    (stored,) = (t.shape for _, t in made.program.constants if t.shape)
    assert stored == (channels, kernel, kernel, 24)
    assert len(made.kernels) == 1, "no kernel moves the weights"
    (unit,) = units(made.text, shared.prelude, shared.blocks, shared.driver)
    assert "+ ((i1 + x__))]" in unit.source, "neighbouring lanes read neighbouring weights"
    want = levels.runner(other, Host())(Host(), [x, w])[0]
    for e in (shared, Host()):
        got = levels.runner(made, e)(e, [x])[0]
        assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


@pytest.mark.parametrize(
    ("size", "channels", "lanes", "worth"),
    [(6, 64, 36, 0.0), (6, 64, 36, 1e9), (12, 64, 80, 0.0), (6, 63, 36, 1e9)],
)
def test_runs_of_lanes_go_on_over_ends_of_blocks_and_are_made_for_their_usual_number(
    size: int, channels: int, lanes: int, worth: float, shared: HostFast,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """One thread takes all blocks, or several take some; with 63 channels the last has a tail."""
    monkeypatch.setattr(fast, "WORTH", worth)

    def conv(x: dd.Tensor, w: dd.Tensor) -> dd.Tensor:
        return dd.relu(dd.conv(x, w))

    shapes = (1, 160, size, size), (channels, 160, 1, 1)
    made = compile(dd.trace(*(dd.f32[s] for s in shapes))(conv).module, dd.Options(target="cpu"))
    (unit,) = units(made.text, shared.prelude, shared.blocks, shared.driver)
    assert f"if (lanes__ >= {lanes}) {{\nlanes__ = {lanes};" in unit.source
    assert "256 * blocks - i" in unit.source
    rng = np.random.default_rng(size)
    inputs = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    run, want = levels.runner(made, shared), levels.runner(made, Host())(Host(), inputs)[0]
    for _ in range(2):
        got = run(shared, inputs)[0]
        assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


def test_runs_of_lanes_end_with_blocks_where_a_kernel_knows_its_block(shared: HostFast) -> None:
    text = kernel(
        """  const i64 bx = blockIdx.x;
  const i64 tx = threadIdx.x;
  const i64 i = bx * 8 + tx;
  const i64 row = i / 16;
  y[i] = x[row] + (f32)bx;""",
        blocks=5,
        size=40,
    )
    (unit,) = units(text, shared.prelude, shared.blocks, shared.driver)
    assert unit.part is None
    assert "* blocks - i" not in unit.source
    x = np.random.default_rng(1).standard_normal(40).astype(np.float32)
    on, out = shared.upload(x), shared.allocate(4 * x.size)
    shared.load(text).launch("k", [on, out], {})
    at = np.arange(40)
    want = x[at // 16] + (at // 8).astype(np.float32)
    np.testing.assert_array_equal(shared.download(out, "f32", (40,)), want)


def test_every_one_of_these_kernels_runs_as_lanes(shared: HostFast) -> None:
    parts = (shared.prelude, shared.blocks, shared.driver)
    for f in SHAPES:
        text = compile(dd.trace(dd.f32[60, 100])(f).module).text
        assert all(u.part is None for u in units(text, *parts)), f.__name__


def test_loops_of_one_thread_keep_their_order(shared: HostFast, tmp_path: Path) -> None:
    """gcc takes the promise that lanes are apart for the loop around those of a single lane."""
    file = tmp_path / "steps.dym"
    file.write_text(
        "primfunc @steps(a: u32[64], b: u32[64]) writes (b) {\n"
        "  for i in 63 {\n    b[i + 1] = b[i] + a[i]\n  }\n}\n"
    )
    assert dd.check(dd.load(file), engines=shared).agree


def test_digits_of_an_index_may_be_of_each_lane_alone(shared: HostFast) -> None:
    text = kernel(
        """  for (i64 turn = 0; turn < 4; ++turn) {
    const i64 i = threadIdx.x + turn * 32;
    if (i < 108) {
      const i64 i0 = i / 3 / 18;
      const i64 i1 = i / 3 % 18;
      const i64 i2 = i % 3;
      const f32 v = x[(i0 * 18 + i1) * 3 + i2];
      y[(i0 * 18 + i1) * 3 + i2] = i1 < 6 ? v : 0.0f - v;
    }
  }""",
        threads=32,
        size=108,
    )
    x = np.arange(1, 109, dtype=np.float32)
    on, out = shared.upload(x), shared.allocate(x.nbytes)
    shared.load(text).launch("k", [on, out], {})
    want = np.where(np.arange(108) // 3 % 18 < 6, x, -x)
    np.testing.assert_array_equal(shared.download(out, "f32", (108,)), want)


@pytest.mark.parametrize(("rounds", "copies"), [(3, 3), (9, 9), (10, 1), (16, 4)])
def test_rounds_of_an_unrolled_loop_lie_in_one_loop_over_lanes(
    rounds: int, copies: int, shared: HostFast
) -> None:
    text = kernel(
        f"""  f32 sum = 0.1f;
  #pragma unroll
  for (i64 k = 0; k < {rounds}; ++k) {{
    const i64 row = k * 8;
    sum = sum + x[row + threadIdx.x] * 0.3f;
  }}
  y[threadIdx.x] = sum;""",
        size=rounds * 8,
    )
    (unit,) = units(text, shared.prelude, shared.blocks, shared.driver)
    assert unit.source.count("sum[l__] = (sum[l__]) +") == copies
    x = np.random.default_rng(rounds).standard_normal((rounds, 8)).astype(np.float32)
    on, out = shared.upload(x), shared.allocate(4 * x.size)
    shared.load(text).launch("k", [on, out], {})
    want = np.full(8, 0.1, np.float32)
    for row in x:
        want = want + row * np.float32(0.3)
    np.testing.assert_array_equal(shared.download(out, "f32", (rounds * 8,))[:8], want)


def test_what_all_lanes_choose_alike_is_chosen_once_unless_a_lane_may_not_read_it(
    shared: HostFast,
) -> None:
    text = kernel(
        """  f32 sum = 0.0f;
  for (i64 k = 0; k < 12; ++k) {
    sum = sum + (k < 8 ? x[k] : 0.5f) * x[threadIdx.x];
    sum = sum + (threadIdx.x > n ? (k < 8 ? x[k + n * 1000000000000] : 0.25f) : 1.0f);
  }
  y[threadIdx.x] = sum;""",
        dims=("n",),
    )
    (unit,) = units(text, shared.prelude, shared.blocks, shared.driver)
    assert unit.source.count("const __auto_type once__0__ =") == 1
    assert "once__1__" not in unit.source
    x = np.random.default_rng(1).standard_normal(8).astype(np.float32)
    for n in (0, 7):
        found = list[Array]()
        for e in (shared, Host()):
            on, out = e.upload(x), e.allocate(x.nbytes)
            e.load(text).launch("k", [on, out], {"n": n})
            found.append(e.download(out, "f32", (8,)))
        assert np.array_equal(found[0], found[1])


def test_it_passes_the_suite_of_structure(shared: HostFast) -> None:
    cases = [c for c in structure.cases() if "f32" in c.name or "scan" in c.name]
    assert not [o for o in conform(cases, Runner(shared)) if o.wrong]


def test_a_loop_whose_counter_a_thread_moves_is_run_by_each_alone(shared: HostFast) -> None:
    text = kernel(
        "  f32 sum = 0.0f;\n  for (i64 k = 0; k < 8; ++k) {\n    sum += x[k];\n"
        "    if (x[threadIdx.x] < 4.0f) k = k + 1;\n  }\n  y[threadIdx.x] = sum;"
    )
    x = np.arange(8, dtype=np.float32)
    buffers = [shared.upload(x), shared.upload(np.zeros_like(x))]
    shared.load(text).launch("k", buffers, {})
    shared.join()
    found = shared.download(buffers[1], DType.F32, (8,))
    assert found.tolist() == [12.0] * 4 + [28.0] * 4


def test_guard_bytes_are_looked_at_where_it_checks(shared: HostFast) -> None:
    from tests.codegen.runtime.test_host import fault

    kind, *_ = fault(shared, kernel("  y[threadIdx.x + 1] = x[threadIdx.x];"))
    assert kind == "guard"


def test_threads_share_blocks_and_results_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast, "WORTH", 0.0)
    x = np.random.default_rng(1).standard_normal((300, 100)).astype(np.float32)
    found: list[Array] = []
    for threads in (1, 2, 5):
        run = dd.compile(
            dd.trace(dd.f32[300, 100])(product), engine=HostFast(threads=threads, cache=tmp_path)
        )
        found += [np.asarray(run(x)) for _ in range(3)]
    assert all(np.array_equal(a.view(np.uint32), found[0].view(np.uint32)) for a in found)


@pytest.mark.skipif(os.name != "posix", reason="sends itself signals")
def test_an_interrupt_is_raised_once_all_threads_have_left_the_buffers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = HostFast(threads=2, cache=tmp_path)
    monkeypatch.setattr(fast, "WORTH", 0.0)
    loaded = engine.load(kernel("  y[threadIdx.x] = x[threadIdx.x];", blocks=2))
    begun, ended = threading.Event(), threading.Event()

    def slow(at: int) -> None:
        """Run blocks: interrupted in the main thread, and again while that waits for the other."""
        del at
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(10)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        begun.set()
        for _ in range(2):
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        ended.set()

    (k,) = vars(loaded)["_kernels"].values()
    monkeypatch.setattr(k, "entry", slow)
    buffers = [engine.allocate(32) for _ in "xy"]
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs of a shell ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            loaded.launch("k", buffers, {})
    finally:
        signal.signal(signal.SIGINT, usual)
    assert ended.is_set()


# The compiler


def test_objects_are_kept_by_what_they_depend_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = fast.compiler(cache=tmp_path)
    source = "int two__(void) { return 2; }\n"
    c.compile(source, "two", ["two__"])
    (kept,) = tmp_path.iterdir()
    assert kept == c.path(source)
    monkeypatch.setattr(compiler.CCompiler, "_build", None)  # nothing is compiled again
    fast.compiler(cache=tmp_path).compile(source, "two", ["two__"])
    assert c.path(source + " ") != kept
    monkeypatch.setattr(compiler, "cpu", lambda: "another CPU")
    assert c.path(source) != kept


def test_an_object_that_was_cut_short_is_made_again(tmp_path: Path) -> None:
    c = fast.compiler(cache=tmp_path)
    source = "int three__(void) { return 3; }\n"
    c.path(source).write_bytes(b"\x7fELF")
    assert c.compile(source, "three", ["three__"]).addresses["three__"]


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    in_the_way = tmp_path / "a file"
    in_the_way.write_bytes(b"")
    c = fast.compiler(cache=in_the_way / "host")
    assert c.compile("int four__(void) { return 4; }\n", "four", ["four__"]).addresses["four__"]
    assert [*tmp_path.iterdir()] == [in_the_way]


@pytest.mark.skipif(os.name != "posix" or shutil.which("sh") is None, reason="no shell")
def test_zig_gets_a_cache_that_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch, tmp_path)
    command = tmp_path / "zig"
    command.write_text('#!/bin/sh\necho "in $ZIG_GLOBAL_CACHE_DIR"\n')
    command.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(command))  # a file
    monkeypatch.delenv("ZIG_GLOBAL_CACHE_DIR", raising=False)
    compiler.environment.cache_clear()
    folder = compiler.find("zig").about.removeprefix("in ")
    compiler.environment.cache_clear()
    assert Path(folder).is_dir()


def test_one_compiler_that_works_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def find(name: str) -> compiler.Found:
        asked.append(name)
        return compiler.Found(name, (name,), "")

    monkeypatch.setattr(compiler, "find", find)
    assert fast.compiler().found.name == "clang"
    assert asked == ["clang"]


def test_text_that_is_not_c(tmp_path: Path) -> None:
    with pytest.raises(DidymaError, match="kernel-text") as e:
        HostFast(cache=tmp_path).load(kernel("  y[0] = nothing;"))
    assert "nothing" in e.value.got


def alone(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Leave only the commands of a folder, and no Python package, to find compilers in."""
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(compiler, "has_package", lambda: False)


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch, tmp_path)
    with pytest.raises(EngineMissing, match="neither clang nor gcc nor Zig") as e:
        HostFast()
    assert "pip install ziglang" in e.value.help
    said = didyma("doctor", "--json").json
    assert said["compilers"] == []
    assert "pip install ziglang" in said["faster"]
    (row,) = (x for x in said["engines"] if x["name"] == "host-fast")
    assert (row["runs"], row["why"]) == (False, e.value.got)
    assert said["faster"] in didyma("doctor").out


def test_doctor_names_the_compilers() -> None:
    said = didyma("doctor", "--json").json
    found = [*compiler.each_found()]
    assert [x["name"] for x in said["compilers"]] == [f.name for f in found]
    assert found[0].name in said["faster"]


@pytest.mark.skipif(os.name != "posix" or shutil.which("sh") is None, reason="no shell")
@pytest.mark.parametrize(
    ("script", "said"),
    [("exit 1", "does not work"), ("[ $1 = --version ] && echo 1 || exit 3", "ends with 3")],
)
def test_a_broken_compiler(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "gcc"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    alone(monkeypatch, tmp_path)
    with pytest.raises(EngineMissing, match="engine-missing") as e:
        HostFast("gcc", cache=tmp_path / "objects").load(kernel("  y[0] = x[0];"))
    assert said in e.value.got
