"""Constants are on an engine once, for as long as what runs the program is referenced."""

from __future__ import annotations

import gc
import hashlib
from typing import Any

import numpy as np
import pytest

from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.host import Host, HostBuffer
from didyma.fuzz.levels import EngineBackend, runner
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array

ROWS = """module {
  func @main(%i: i32[2]) -> (%y) {
    %w = constant(value=f32[4, 2] [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]]) : f32[4, 2]
    %y = gather(%w, %i, axis=0) : f32[2, 2]
  }
}
"""
GIVEN = [np.array([3, 1], np.int32)]
WANT = np.array([[6, 7], [2, 3]], np.float32)


class Counting(Host):
    """The host, which counts the bytes that it is given, and those it has."""

    def __init__(self) -> None:
        super().__init__()
        self.uploads: list[int] = []
        self.held: list[HostBuffer] = []

    def upload(self, array: Array) -> HostBuffer:
        self.uploads.append(array.nbytes)
        self.held.append(super().upload(array))
        return self.held[-1]

    def free(self, buffer: HostBuffer) -> None:
        self.held = [b for b in self.held if b is not buffer]
        super().free(buffer)


def rows() -> Compiled:
    return compile(parse_module(ROWS))


def test_constants_are_uploaded_once_and_freed_with_what_runs() -> None:
    on = Counting()
    run: Any = runner(rows(), on)
    for _ in range(3):
        np.testing.assert_array_equal(run(on, GIVEN)[0], WANT)
    assert sorted(on.uploads) == [8, 8, 8, 32]
    assert [b.nbytes for b in on.held] == [32]
    del run
    gc.collect()
    assert on.held == []


def test_many_executables_leave_nothing_behind() -> None:
    on, c = Counting(), rows()
    for _ in range(50):
        runner(c, on)(on, GIVEN)
    gc.collect()
    assert on.held == []


def test_no_call_hashes_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    on = Host()
    run = runner(rows(), on)
    monkeypatch.setattr(hashlib, "sha256", None)
    np.testing.assert_array_equal(run(on, GIVEN)[0], WANT)


def test_the_judge_frees_constants_after_each_run() -> None:
    on = Counting()
    backend = EngineBackend(on, rows())
    for _ in range(2):
        np.testing.assert_array_equal(backend.run_program(GIVEN)[0], WANT)
    assert on.held == []


class Careless(Counting):
    """A host that writes to a constant, or beside it, as a wrong kernel might."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def download(self, buffer: HostBuffer, dtype: Any, shape: Any) -> Array:
        (weights,) = [b for b in self.held if b.nbytes == 32]
        raw = weights.array.base
        assert isinstance(raw, np.ndarray)
        start = weights.address - raw.ctypes.data
        raw[start + self.at] = 0xEE
        return super().download(buffer, dtype, shape)


@pytest.mark.parametrize(("at", "kind"), [(5, "constant"), (33, "guard"), (-3, "guard")])
def test_a_written_constant_is_found(at: int, kind: str) -> None:
    with pytest.raises(KernelFault) as e:
        EngineBackend(Careless(at), rows()).run_program(GIVEN)
    assert [f.kind for f in e.value.faults] == [kind]
