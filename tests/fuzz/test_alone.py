"""Programs are judged as modules that stand alone: what calls repeat, keep and read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from didyma.codegen.emit import prelude, program_json
from didyma.codegen.runtime import didyma_runtime, objects
from didyma.codegen.runtime.didyma_runtime import buckets, host
from didyma.fuzz import alone
from didyma.fuzz.chooser import Dice
from didyma.fuzz.devices import spread
from didyma.fuzz.domains.graphs import ALONE, Graphs
from didyma.fuzz.graphs import Case
from didyma.oracle.report import Finding
from didyma.refimpl.ir import aliases
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import Array

DOMAIN = Graphs(("host",))


def findings() -> Iterator[Finding]:
    judge = DOMAIN.judge()
    for i in range(3, 16 * ALONE, ALONE):
        case = DOMAIN.draw(2, i)
        assert case.alone
        yield from judge(case).findings


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert not [*findings()]


def test_a_graph_on_two_devices_is_judged_whole() -> None:
    case = DOMAIN.draw(3, 4)
    case = replace(case, module=spread(case.module, Dice(4), ("", "host:1")))
    case = replace(case, again=True, laid=True, alone=True)
    assert {t.device for t in case.module.entry.types().values()} == {"", "host:1"}
    assert not DOMAIN.judge()(case).findings


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("a->shape[k] != wanted->shape[k]", "!a->shape", ""),
        ("if (t->held[input]) python__.drop(t->held[input]);", "", "keeps input"),
    ],
)
def test_a_slip_in_what_repeats_calls_is_found(
    old: str, new: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (Path(prelude.__file__).parent / "replay.c").read_text(encoding="utf-8")
    changed = tmp_path / "replay.c"
    changed.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert changed.read_text(encoding="utf-8") != text
    monkeypatch.setattr(objects, "_OWN", ("driver.c", str(changed), "blocks.c"))
    found = next(findings())
    assert (found.level, said in found.message) == (alone.NAME, True)


def last(a: Array, shape: Sequence[int | None]) -> Array:
    return a[
        tuple(
            slice(None if n is None else size - n, None)
            for n, size in zip(shape, a.shape, strict=True)
        )
    ]


def lost(a: Array, shape: Sequence[int]) -> Array:
    return np.zeros(tuple(shape), a.dtype)


def smallest(self: buckets.Buckets, sizes: Mapping[str, int]) -> dict[str, int]:
    return {**sizes, **dict.fromkeys(self.sizes, 0)}


@pytest.mark.parametrize(
    ("of", "name", "slip"),
    [
        (buckets, "cut", last),
        (buckets, "filled", lost),
        (buckets.Buckets, "bucket", smallest),
    ],
)
def test_slips_in_how_inputs_are_padded_are_found(
    of: object, name: str, slip: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of, name, slip)
    assert next(findings()).level == alone.NAME


def test_inputs_read_in_the_order_of_memory_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    upload = host.Host.upload

    def in_order(self: host.Host, array: Array) -> host.Buffer:
        return upload(self, array.ravel("K").reshape(array.shape))

    monkeypatch.setattr(host.Host, "upload", in_order)
    assert "strides" in str(next(findings()))


def test_a_file_that_is_not_checked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unread(data: bytes, *_: Any) -> bytes:
        return data

    monkeypatch.setattr(didyma_runtime, "checked", unread)
    assert "with another last byte is taken" in next(findings()).message


def test_bytes_that_results_share_without_saying_so_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def untold(p: Program) -> Sequence[aliases.Alias]:
        return aliases.aliases(p)[1:]

    monkeypatch.setattr(alone, "aliases", untold)
    assert next(findings()).level == alone.NAME


SUM = Case(
    parse_module("""module {
  dims n in [2, 6]
  func @main(%x: f32[n, 4], %y: f32[n]) -> (%w, %z) {
    %s = sum(%x, axes=(1,), keepdims=false) : f32[n]
    %z = add(%s, %y) : f32[n]
    %w = broadcast_to(%z, shape=(3, n)) : f32[3, n]
  }
}
"""),
    (("n", 5),), (1, 2), alone=True,
)  # fmt: skip


def unchecked(*_: object) -> None:
    """Take anything."""


def writable(a: Array, shape: Sequence[int], strides: Sequence[int], offset: int) -> Array:
    return as_strided(a[offset:], shape, [s * a.itemsize for s in strides])


def no_bytes(*_: object) -> int:
    return 0


@pytest.mark.parametrize(
    ("of", "name", "slip", "said"),
    [
        (didyma_runtime, "in_range", unchecked, "not dim-out-of-range"),
        (didyma_runtime, "size", unchecked, "not dim-mismatch"),
        (didyma_runtime, "strided", writable, "may be written"),
        (program_json, "symbolic_peak", no_bytes, "0 bytes of workspace"),
    ],
)
def test_slips_in_what_a_module_tells_and_refuses_are_found(
    of: object, name: str, slip: object, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = DOMAIN.judge()
    assert not judge(SUM).findings
    monkeypatch.setattr(of, name, slip)
    assert said in " ".join(f.message for f in judge(SUM).findings)


def test_the_last_elements_in_place_of_the_first_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = Case(
        parse_module("""module {
  dims n in [1, 6]
  func @main(%x: f32[n], %y: f32[n]) -> (%z) {
    %z = subtract(%x, %y) : f32[n]
  }
}
"""),
        (("n", 5),), (1, 2), alone=True,
    )  # fmt: skip
    first = didyma_runtime.flat

    def backwards(args: list[Any], wanted: Sequence[Any], numel: int) -> list[Any]:
        return [a[::-1] for a in first(args, wanted, numel)]

    judge = DOMAIN.judge()
    assert not judge(row).findings
    monkeypatch.setattr(didyma_runtime, "flat", backwards)
    assert judge(row).findings[0].where == "call_with_numel"


GROWN = Case(
    parse_module("""module {
  dims r in [0, 25]
  func @few(%i: f32[], %x: f32[r], %most: f32[], %y: f32[1]) -> (%more) {
    %more = less(%i, %most) : bool[]
  }
  func @longer(%i: f32[], %x: f32[r], %most: f32[], %y: f32[1]) -> (%next, %z) {
    %z = concat(%x, %y, axis=0) : f32[r + 1]
    %one = constant(value=f32[] 1.0) : f32[]
    %next = add(%i, %one) : f32[]
  }
  func @grown(%i: f32[], %x: f32[0], %most: f32[], %y: f32[1]) -> (%n) attrs(NoInline=1) {
    %n, %z = while(%i, %x, %most, %y, binds=("r",), body="longer", carried=2, cond="few")
      : f32[], f32[r]
  }
  func @main(%y: f32[1]) -> (%n) {
    %most = constant(value=f32[] 2.0) : f32[]
    %x = slice(%y, starts=(0,), steps=(1,), stops=(0,)) : f32[0]
    %i = constant(value=f32[] 0.0) : f32[]
    %n = call @grown(%i, %x, %most, %y) : f32[]
  }
}
"""),
    (), (1,), (("graph.fuse", False), ("memory.planner", "none")), alone=True,
)  # fmt: skip


def test_no_workspace_is_told_of_values_whose_sizes_a_function_finds() -> None:
    assert not DOMAIN.judge()(GROWN).findings


COUNTED = Case(
    parse_module("""module {
  dims r in [0, 1]
  func @main(%p: f32[1, 1], %y: f32[1, 1], %x: f32[]) -> (%a, %b, %c) {
    %a = sign(%y) : f32[1, 1]
    %square = square(%x) : f32[]
    %some = cast(%square, dtype=bool) : bool[]
    %count = cast(%some, dtype=i64) : i64[]
    () = bind(%count, dim="r")
    %places = iota(axis=0, dtype=i64, shape=(r,)) : i64[r]
    %squares = square(%places) : i64[r]
    %sum = sum(%squares, axes=(0,), keepdims=false) : i64[]
    %number = cast(%sum, dtype=f32) : f32[]
    %product = multiply(%x, %number) : f32[]
    %b = subtract(%square, %product) : f32[]
    %c = cumulative_prod(%p, axis=0, exclusive=true, reverse=false) : f32[1, 1]
  }
}
"""),
    (), (0, 0, 0),
    (("graph.again_cost", 0), ("kernels.streams", 3), ("memory.planner", "storage_id")),
    alone=True,
)  # fmt: skip


def test_sizes_that_loops_alone_have_may_be_found_by_the_run() -> None:
    assert not DOMAIN.judge()(COUNTED).findings
