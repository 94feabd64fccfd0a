"""Programs on several devices: copies that the text tells, guards, and memory of one's own."""

from __future__ import annotations

import json
import operator
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import didyma as dd
from didyma.artifacts import build
from didyma.codegen.devices import named
from didyma.codegen.emit import wrapper
from didyma.codegen.memory.planners import planner
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.devices import across
from didyma.codegen.runtime.didyma_runtime.watch import Launch
from didyma.codegen.runtime.registry import engine
from didyma.fuzz import levels
from didyma.fuzz.chooser import Dice
from didyma.fuzz.devices import spread
from didyma.oracle import plan_check
from didyma.oracle.watched_engine import EngineMemoryFault
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import graph, program
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Copy, Program, View
from didyma.refimpl.ir.text import parse_module, parse_program
from didyma.refimpl.ir.text import show as show_text
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.verify import graph as graph_laws
from didyma.refimpl.verify import program as program_laws
from didyma.tracer.tracing import Program as Traced
from tests.didyma.tracing import One, traced

TWO = """module {
  func @main(%x: f32[4], %y: f32[4]@host:1) -> (%a, %b, %s) {
    %e = exp(%y) : f32[4]@host:1
    %c = constant(value=f32[4] [1.0, 2.0, 3.0, 4.0]) : f32[4]@host:1
    %f = add(%e, %c) : f32[4]@host:1
    %a = to(%f, device="") : f32[4]
    %b = add(%a, %x) : f32[4]
    %x_1 = to(%x, device="host:1") : f32[4]@host:1
    %s = multiply(%x_1, %f) : f32[4]@host:1
  }
}
"""
X, Y = np.array([1, 2, 3, 4], np.float32), np.array([0, 1, -1, 2], np.float32)
F = np.exp(Y) + X
WANT = [F, F + X, X * F]


def made(text: str = TWO) -> Compiled:
    return compile(parse_module(text))


def copies(p: Program) -> list[tuple[str, str]]:
    types = p.type
    found = [x for f in (*p.functions, p) for x in walk(f.lines) if isinstance(x, Copy)]
    return [(types[x.source].device, types[x.value].device) for x in found]


@pytest.mark.parametrize("name", ["simt", "host"])
def test_two_devices_compute_what_one_does(name: str) -> None:
    got = dd.compile(Traced(parse_module(TWO)), engine=name)(X, Y)
    for a, want in zip(got, WANT, strict=True):
        np.testing.assert_allclose(a, want, rtol=1e-6)


def test_every_level_is_judged() -> None:
    m = parse_module(TWO)
    report = levels.check(m, [X, Y], [engine("simt"), engine("host")], ring=True)
    assert not report.findings
    assert {"program", "simt", "host"} <= {x.name for x in report.levels if x.checked}


def test_texts_of_both_levels_are_read_again() -> None:
    m, p = parse_module(TWO), made().program
    assert parse_module(show_text(m)) == m
    assert parse_program(show_text(p)) == p
    assert named(p) == ("host:1",)


def test_the_program_has_the_copies_of_the_graph_and_no_others() -> None:
    assert copies(made().program) == [("", "host:1"), ("host:1", "")]


def inner_scope(x: dd.Tensor) -> dd.Tensor:
    @dd.on("host:1")
    def outer(y: dd.Tensor) -> dd.Tensor:
        return dd.on("host:2")(dd.exp)(y + x)

    return outer(x)


COPIED: list[tuple[One, int]] = [
    (lambda x: x.to("host:1").to(""), 0),
    (lambda x: x.to("host:1").to("host:2").to("host:1") + 1.0, 1),
    (lambda x: (x.to("host:1") + 1.0) * x.to("host:1"), 1),
    (lambda x: dd.on("host:1")(dd.softmax)(x, axis=0), 1),
    (lambda x: x.to("host:1") + dd.arange(4, dtype=dd.f32), 1),
    (inner_scope, 2),
    (lambda x: dd.exp(x).to("host:1").to("host:2"), 1),
]


@pytest.mark.parametrize(("f", "wanted"), COPIED)
def test_a_value_goes_to_a_device_once(f: One, wanted: int) -> None:
    m = traced(f, dd.f32[4])
    assert len(copies(dd.compile(m).compiled.program)) == wanted
    np.testing.assert_allclose(
        dd.compile(m)(X), np.asarray(dd.interpret(m, X).values[0]), rtol=1e-6
    )


def test_conditions_and_functions_work_on_another_device() -> None:
    @dd.noinline
    def layer(x: dd.Tensor) -> dd.Tensor:
        return dd.tanh(x) * 2

    def early(i: dd.Tensor, _: dd.Tensor) -> dd.Tensor:
        return i < 3

    def again(i: dd.Tensor, c: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return i + 1, layer(c) + 1

    def both(s: dd.Tensor, v: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return s + v, s * v

    @dd.trace(dd.f32[4].on("host:1"))
    def f(x: dd.Tensor) -> tuple[dd.Tensor, ...]:
        _, c = dd.while_loop(early, again, 0, x)
        d = dd.cond(dd.sum(c) > 0, lambda: c + 1, lambda: c)
        s, rows = dd.scan(both, dd.sum(c) * 0, c)
        return d, s, rows, dd.permute_dims(dd.reshape(c, (2, 2)), (1, 0))

    report = dd.check(f)
    assert report.agree, report


def test_each_op_keeps_the_device_of_its_operands() -> None:
    chooser = Dice(1)
    for op in OPS.values():
        for t in (TensorType(d, (2, 3), "host:1") for d in op.dtypes[:2]):
            sample = op.sample(chooser, t)
            if sample and sample.operands:
                far = [replace(o, device="host:1") for o in sample.operands]
                assert op.infer(far, dict(sample.attrs)).device == "host:1", op.name


# What goes wrong is found


def watched(c: Compiled, text: str) -> None:
    levels.EngineBackend(engine("host"), replace(c, wrapper=text)).run_program([X, Y])


def test_a_guard_that_is_left_out_is_found() -> None:
    c = made()
    parts = c.wrapper.split('with engine.on("host:1"):')
    assert len(parts) > 3
    for k in range(1, len(parts)):
        whole = ['with engine.on("host:1"):'] * (len(parts) - 1)
        whole[k - 1] = "if True:"
        text = "".join(a + b for a, b in zip(parts, [*whole, ""], strict=True))
        with pytest.raises(EngineMemoryFault, match="are used by device"):
            watched(c, text)


def test_a_launch_outside_of_its_guard_is_refused() -> None:
    c = made()
    run = across(engine("host"), c.program)
    text = c.wrapper.replace('with engine.on("host:1"):\n        s = ', "if True:\n        s = ")
    assert text != c.wrapper
    with pytest.raises(DidymaError, match="a buffer on host:1") as e:
        modules.load(text)(run, [X, Y], run.load(c.text))
    assert e.value.code == "wrong-device"


def test_a_guard_that_stays_is_found() -> None:
    c = made()
    stays = '    left = engine.on("host:1")\n    left.__enter__()\n'
    before, _, after = c.wrapper.rpartition("    kernels.launch(")
    with pytest.raises(EngineMemoryFault, match="are used by device host:1"):
        watched(c, f"{before}{stays}    kernels.launch({after}")


@pytest.mark.parametrize("which", [0, 1])
def test_a_copy_that_is_dropped_is_found(which: int) -> None:
    p = made().program
    copy = [x for x in p.lines if isinstance(x, Copy)][which]
    dropped = replace(p, lines=tuple(x for x in p.lines if x is not copy))
    with pytest.raises(DidymaError, match="P-unwritten"):
        program_laws.verify(dropped)
    assert "unwritten" in {e.kind for e in plan_check.check(dropped, {})}


def test_a_view_of_another_device_is_found_everywhere() -> None:
    c = made()
    p = c.unplanned
    copy = next(x for x in p.lines if isinstance(x, Copy))
    lines = tuple(
        View(copy.value, copy.source) if x is copy else x
        for x in p.lines
        if getattr(x, "value", "") != copy.value or x is copy
    )
    wrong = replace(p, lines=lines)
    with pytest.raises(DidymaError, match="P-device"):
        program_laws.verify(wrong)
    assert "device" in {e.kind for e in plan_check.check(wrong, {})}
    with pytest.raises(program.ProgramFault, match="device"):
        program.run(wrong, [X, Y])


def test_a_launch_on_two_devices_is_found_everywhere() -> None:
    p = made().unplanned
    types = tuple((n, replace(t, device="host:2") if n == "y" else t) for n, t in p.types)
    wrong = replace(p, types=types)
    with pytest.raises(DidymaError, match="P-device"):
        program_laws.verify(wrong)
    assert "device" in {e.kind for e in plan_check.check(wrong, {})}
    with pytest.raises(program.ProgramFault, match="device"):
        program.run(wrong, [X, Y])


def test_open_sizes_on_two_devices_keep_a_capacity() -> None:
    m = parse_module("""
      module {
        dims n in [1, 100]
        func @main(%p: f32[n, 3]) -> (%f) {
          %a = to(%p, device="host:1") : f32[n, 3]@host:1
          %b = cumulative_sum(%a, axis=0, exclusive=false, reverse=false) : f32[n, 3]@host:1
          %c = to(%b, device="") : f32[n, 3]
          %d = cumulative_sum(%c, axis=1, exclusive=false, reverse=false) : f32[n, 3]
          %e = flip(%d, axes=(0,)) : f32[n, 3]
          %f = cumulative_sum(%e, axis=0, exclusive=false, reverse=false) : f32[n, 3]
        }
      }""")
    c = compile(m, dd.Options().changed({"memory.capacity": 4096, "graph.fuse": False}))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    e = across(engine("host"), c.program)
    (got,) = modules.load(c.wrapper)(e, [x], kernels=e.load(c.text))
    assert got.tolist() == np.cumsum(np.cumsum(np.cumsum(x, 0), 1)[::-1], 0).tolist()


def test_an_input_with_strides_goes_to_a_device_in_row_major_order() -> None:
    @dd.trace(dd.f32[4, 3].strided((7, 1), offset=2))
    def twice(x: dd.Tensor) -> dd.Tensor:
        return x + x

    for seed in range(4):
        graph_laws.verify(spread(twice.module, Dice(seed)))


def test_a_primitive_of_two_devices_is_refused() -> None:
    text = TWO.replace("(%a, %b, %s) {", "(%a, %b, %s) attrs(Primitive=1) {")
    with pytest.raises(DidymaError, match="G-device"):
        graph_laws.verify(parse_module(text))


# Alone, and where it cannot run


def test_a_built_program_runs_alone(tmp_path: Path) -> None:
    built = tmp_path / "built"
    build.write(built, build.contents({"host": build.Target(made())}))
    assert json.loads((built / "program.json").read_text())["devices"] == ["host:1"]
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import numpy as np, module\n"
        "from pathlib import Path\n"
        "from didyma_runtime import walk\n"
        "x, y = np.float32([1, 2, 3, 4]), np.float32([0, 1, -1, 2])\n"
        "walked = walk.program(Path(sys.argv[1]) / 'program.json')([x, y])\n"
        "for more in ({}, {}, {'finite': True}, {'synchronous': True}):\n"
        "    for a, b in zip(module.call([x, y], **more), walked):\n"
        "        assert a.tobytes() == b.tobytes(), (a, b)\n"
        "assert module.tapes.replay.__name__ == 'replay', 'later calls repeat the first'\n"
        "print(*walked[1])\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, str(built)], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    np.testing.assert_allclose(np.array(said.stdout.split(), np.float32), WANT[1], rtol=1e-6)


def test_a_built_program_of_two_devices_may_have_no_kernel(tmp_path: Path) -> None:
    @dd.trace(dd.f32[4], dd.f32[2].on("host:1"))
    def views(x: dd.Tensor, y: dd.Tensor) -> tuple[dd.Tensor, dd.Tensor]:
        return dd.flip(x), y

    c = compile(views.module)
    assert not c.program.kernels
    build.write(tmp_path / "built", build.contents({"host": build.Target(c)}))
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import numpy as np, module\n"
        "for _ in range(2):\n"
        "    print(*module.call([np.arange(4, dtype=np.float32), np.zeros(2, np.float32)]))\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "built")]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    assert said.stdout == "[3. 2. 1. 0.] [0. 0.]\n" * 2, said.stderr


def test_engines_say_which_devices_they_have() -> None:
    @dd.trace(dd.f32[2])
    def f(x: dd.Tensor) -> dd.Tensor:
        return x.to("cuda:1") + 1.0

    np.testing.assert_array_equal(dd.compile(f)(X[:2]), X[:2] + 1)
    with pytest.raises(DidymaError, match="@cuda:1") as e:
        across(engine("ptx"), compile(f.module).program)
    assert e.value.code == "device-unsupported"
    with pytest.raises(DidymaError, match="--target sm_90a") as e:
        build.contents({"host": build.Target(compile(f.module))})
    assert e.value.code == "device-unsupported"


BAD: list[One] = [
    lambda x: dd.to(x, "host"),
    lambda x: dd.to(x, "gpu:0"),
    lambda x: dd.on("1")(dd.exp)(x),
    lambda x: dd.on("host:1")(dd.zeros)((2,)),
    lambda _: dd.f32[2].on("tpu:0"),
]


@pytest.mark.parametrize("bad", BAD)
def test_names_of_no_device_are_refused(bad: One) -> None:
    with pytest.raises(DidymaError, match="bad-call"):
        traced(bad, dd.f32[2])


def test_tensors_of_two_devices_do_not_meet() -> None:
    with pytest.raises(DidymaError, match="host:1 and the default"):
        traced(operator.add, dd.f32[2], dd.f32[2].on("host:1"))


def test_the_planner_keeps_an_arena_for_each_device() -> None:
    for name in ("didyma", "best_fit", "linear_scan", "none"):
        options = dd.Options(memory=dd.MemoryOptions(planner=planner(name)))
        c = compile(parse_module(TWO), options)
        assert not plan_check.check(c.program, {}), name
        run = across(engine("host"), c.program)
        got = levels.runner(c, run)(run, [X, Y])
        np.testing.assert_allclose(got[2], WANT[2], rtol=1e-6)


def test_the_reference_knows_no_devices() -> None:
    got = graph.run(parse_module(TWO), [X, Y])
    np.testing.assert_allclose(got[1], WANT[1], rtol=1e-6)
    assert wrapper.emit(made().program, made().text) == made().wrapper
    assert DType.of(got[0]) is DType.F32


@pytest.mark.parametrize("name", ["simt", "host"])
def test_launches_of_compiled_programs_are_watched(name: str) -> None:
    run = dd.compile(Traced(parse_module(TWO)), engine=name)
    told: list[Launch] = []
    ranges: list[str] = []

    @contextmanager
    def around(kernel: str) -> Generator[None]:
        ranges.append(kernel)
        yield

    got = run.watched(told.append, around=around)(X, Y)
    assert [a.tobytes() for a in got] == [a.tobytes() for a in run(X, Y)]
    assert ranges == [x.kernel for x in told] == [k.name for k in run.compiled.text.kernels]
    wrote = {v: a for x in told for v, a in x.results.items()}
    np.testing.assert_allclose(wrote["f"], F, rtol=1e-6)
