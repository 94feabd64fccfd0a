"""Calls of a built program that repeat what an earlier call did."""

from __future__ import annotations

import gc
import importlib
import sys
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import didyma as dd
from didyma.artifacts import build
from didyma.codegen.pipeline import Compiled
from didyma.refimpl.ir.types import Array
from didyma.tracer.tensor import Tensor

n = dd.dim("n", 0, 64)


@dd.trace(dd.f32[n, 3], dd.f32[3, 3])
def net(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    h = dd.exp(x @ w)
    return dd.sum(h, axis=0), h @ w


@dd.trace(dd.f32[4], dd.f32[4])
def grown(x: Tensor, y: Tensor) -> Tensor:
    def small(v: Tensor) -> Tensor:
        return dd.sum(v) < 100.0

    def more(v: Tensor) -> Tensor:
        return v + y

    (found,) = dd.while_loop(small, more, x)
    return found


@dd.trace(dd.i4[8], dd.i4[8])
def packed(x: Tensor, y: Tensor) -> Tensor:
    return dd.astype(dd.astype(x, dd.i8) + dd.astype(y, dd.i8), dd.i8)


s = dd.dim("s", 0, 64)


@dd.trace(dd.f32[n, 4].strided((s, 1), offset=4), dd.f32[4])
def laid(x: Tensor, y: Tensor) -> Tensor:
    return dd.sum(x * y, axis=1)


@dd.trace(dd.f32[4])
def roots(x: Tensor) -> Tensor:
    return dd.sqrt(x)


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What returns the module of a program, imported as a program without Didyma does."""
    names = ("module", "didyma_runtime")

    def forget() -> None:
        for name in [k for k in sys.modules if k.partition(".")[0] in names]:
            del sys.modules[name]

    def make(c: Compiled) -> Any:
        forget()
        where = tmp_path / "built"
        build.write(where, build.contents({"host": build.Target(c)}))
        monkeypatch.setattr(sys, "path", [str(where), *sys.path])
        return importlib.import_module("module")

    yield make
    forget()


def rows(count: int, seed: int = 0) -> tuple[Array, Array]:
    r = np.random.default_rng(seed)
    return r.random((count, 3), np.float32), r.random((3, 3), np.float32)


def line_by_line(module: Any, args: list[Array]) -> list[bytes]:
    engine, kernels, weights, *_ = module.load()
    return [a.tobytes() for a in module.run(engine, args, kernels, weights)]


def bits(arrays: list[Array]) -> list[bytes]:
    return [a.tobytes() for a in arrays]


def test_a_call_repeats_one_of_the_same_shapes_on_other_values(built: Any) -> None:
    module = built(dd.compile(net).compiled)
    first = module.call(list(rows(5)))
    kept = bits(first)
    args = list(rows(5, seed=1))
    want = line_by_line(module, args)
    got = module.tapes.replay(args)
    assert args == []
    assert bits(got) == want
    assert [(a.shape, a.dtype) for a in got] == [((3,), np.float32), ((5, 3), np.float32)]
    assert bits(first) == kept, "results share no memory with those of later calls"


def test_each_of_several_sizes_is_repeated(built: Any) -> None:
    module = built(dd.compile(net).compiled)
    for count in (0, 1, 64, 7, 1, 64, 0):
        args = list(rows(count, seed=count))
        want = line_by_line(module, args)
        assert bits(module.call(args)) == want
    again = list(rows(1))
    module.call(list(again))
    assert module.tapes.replay(list(again)) is not None
    assert module.tapes.replay(list(rows(2))) is None


@pytest.mark.parametrize("change", ["order", "dtype", "rank", "count", "list", "address", "kind"])
def test_other_arguments_are_not_replayed(built: Any, change: str) -> None:
    module = built(dd.compile(net).compiled)
    x, w = rows(3)
    module.call([x, w])
    beside = np.empty(4 * 9 + 4, np.uint8)[4:].view(np.float32).reshape(3, 3)
    beside[...] = x
    args: Any = {
        "order": [np.asfortranarray(x), w],
        "dtype": [x.astype(np.float64), w],
        "rank": [x[None], w],
        "count": [x],
        "list": (x, w),
        "address": [beside, w],
        "kind": [x, w.tolist()],
    }[change]
    assert module.tapes.replay(args) is None
    if change in ("order", "address"):
        assert bits(module.call(args)) == line_by_line(module, [x, w])


def test_inputs_are_gone_and_results_stay_when_a_replay_ends(built: Any) -> None:
    module = built(dd.compile(net).compiled)
    module.call(list(rows(4)))
    x, w = rows(4, seed=3)
    want = line_by_line(module, [x, w])
    told = weakref.ref(x)
    args = [x, w]
    del x
    got = module.call(args)
    assert told() is None
    del args, w
    gc.collect()
    assert bits(got) == want


def table(rows: int, columns: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).random((rows, columns), np.float32)


@pytest.mark.parametrize("at", [np.s_[1:6, 4:8], np.s_[::2, 8:12], np.s_[2:3, 4:8]])
def test_inputs_with_strides_are_repeated_as_they_lie(built: Any, at: Any) -> None:
    module, y = built(dd.compile(laid).compiled), np.ones(4, np.float32)
    module.call([table(8, 16)[at], y])
    whole = table(8, 16, seed=1)
    x = whole[at]
    kept = x.copy()
    raw = np.frombuffer(whole.tobytes(), np.uint8).view(np.float32).reshape(8, 16)[at]
    assert module.tapes.replay([raw, y])[0].tobytes() == kept.sum(axis=1).tobytes()
    got = module.tapes.replay([x, y])
    assert got[0].tobytes() == kept.sum(axis=1).tobytes() == line_by_line(module, [x, y])[0]
    assert x.tobytes() == kept.tobytes()


def test_inputs_that_lie_otherwise_are_not_repeated(built: Any) -> None:
    module, y = built(dd.compile(laid).compiled), np.ones(4, np.float32)
    module.call([table(8, 16)[1:6, 4:8], y])
    assert module.tapes.replay([table(8, 16)[1:6, 4:8], y]) is not None
    others = {
        "other strides": table(8, 12)[1:6, 4:8],
        "memory that begins too late": table(8, 16)[:5, :4],
        "no address of 16 bytes": table(8, 16)[1:6, 5:9],
        "another shape": table(8, 16)[1:5, 4:8],
        "columns first": np.asfortranarray(table(8, 16))[1:6, 4:8],
    }
    for what, x in others.items():
        assert module.tapes.replay([x, y]) is None, what
    for what, x in others.items():
        if what != "columns first":
            want = line_by_line(module, [x, y])
            assert bits(module.call([x, y])) == want == [x.sum(axis=1).tobytes()], what


def test_a_fault_of_a_replayed_launch_is_raised_and_the_next_call_is_right(
    built: Any,
) -> None:
    c = dd.compile(roots).compiled
    first = "  const i64 bx"
    checked = c.text.source.replace(first, f"  assert_b8(x[2] >= 0.0f);{first}", 1)
    assert checked != c.text.source
    module = built(replace(c, text=replace(c.text, source=checked)))
    good, bad = (np.array([0, 4, k, 16], np.float32) for k in (9, -9))
    for _ in range(2):
        assert module.call([good])[0].tolist() == [0, 2, 3, 4]
        with pytest.raises(module.rt.Refused) as slow:
            module.call([bad], finite=True)
        with pytest.raises(module.rt.Refused) as quick:
            module.tapes.replay([bad])
        assert str(quick.value) == str(slow.value)
        assert quick.value.__notes__ == slow.value.__notes__
        assert "launch @" in quick.value.__notes__[-1]


def test_what_reads_values_to_decide_runs_line_by_line(built: Any) -> None:
    module = built(dd.compile(grown).compiled)
    for step, want in ((1.0, 25), (5.0, 25), (50.0, 50)):
        y = np.full(4, step, np.float32)
        (got,) = module.call([np.zeros(4, np.float32), y])
        assert got.tolist() == [want] * 4
    assert module.tapes.replay([np.zeros(4, np.float32)] * 2) is None


def test_elements_of_less_than_a_byte_run_line_by_line(built: Any) -> None:
    module = built(dd.compile(packed).compiled)
    x = np.arange(-4, 4).astype(ml_dtypes.int4)
    for _ in range(3):
        (got,) = module.call([x, x])
        assert got.tolist() == [-8, -6, -4, -2, 0, 2, 4, 6]


def test_threads_get_the_results_of_their_own_arguments(built: Any) -> None:
    module = built(dd.compile(net).compiled)
    args = [list(rows(40, seed=k)) for k in range(4)]
    wants = [line_by_line(module, list(a)) for a in args]
    module.call(list(args[0]))
    wrong: list[int] = []

    def calls(k: int) -> None:
        for i in range(200):
            run = module.call if (i + k) % 3 else line_by_line_call
            if bits(run(list(args[k]))) != wants[k]:
                wrong.append(k)

    def line_by_line_call(given: list[Array]) -> Any:
        return module.call(given, finite=True)

    threads = [threading.Thread(target=calls, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
