"""The inputs of a check differ in kind from round to round, for every parameter."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

import didyma as dd
from didyma import rounds
from didyma.fuzz.values import CORE, Distribution, core, corners, distribution_of
from didyma.oracle.report import Report
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.text import parse_module
from didyma.refimpl.ir.types import DType
from didyma.rounds import FEWEST, Source, schedule
from didyma.tracer.tracing import Program
from tests.errors.test_codes import says

BINARY = """module {
  func @main(%x: f32[SHAPE], %y: f32[OTHER]) -> (%z) {
    %z = maximum(%x, %y) : f32[RESULT]
  }
}"""


def binary(shape: str, other: str, result: str) -> Module:
    text = BINARY.replace("SHAPE", shape).replace("OTHER", other).replace("RESULT", result)
    return parse_module(text)


def many(count: int, dtype: str = "f32", size: int = 6) -> Module:
    """A module that takes the largest of as many parameters."""
    t = f"{dtype}[{size}]"
    params = ", ".join(f"%p{i}: {t}" for i in range(count))
    before = ["p0", *(f"s{i}" for i in range(1, count - 1))]
    nodes = [f"%s{i} = maximum(%{b}, %p{i}) : {t}" for i, b in enumerate(before, 1)]
    body = "\n    ".join(nodes)
    text = f"module {{\n  func @main({params}) -> (%s{count - 1}) {{\n    {body}\n  }}\n}}"
    return parse_module(text)


def bits(x: Any) -> set[bytes]:
    return {v.tobytes() for v in np.asarray(x).reshape(-1)}


@pytest.mark.parametrize("seed", [0, 1, 7, 1000])
def test_every_parameter_meets_every_kind(seed: int) -> None:
    source = Source(many(12), {}, seed)
    rounds = schedule(source)
    assert {r.name for r in rounds} >= {"corners in pairs", "every corner", "mostly normal"}
    assert {r.kind for r in rounds} >= {Distribution.MIXED, Distribution.NEUTRAL, Distribution.BITS}
    drawn = [source.values(r) for r in rounds]
    for i in range(12):
        x = np.concatenate([arrays[i] for arrays in drawn])
        assert np.isnan(x).any()
        assert np.isinf(x).any()
        assert {np.float32(v).tobytes() for v in (0.0, -0.0, 1.0)} <= bits(x)
        assert (np.abs(x[np.isfinite(x)]) > 1e30).any()
        assert len(bits(x)) > 60


@pytest.mark.parametrize("dtype", [DType.F32, DType.I32, DType.U8, DType.BF16])
def test_a_small_program_meets_every_corner_in_every_parameter(dtype: DType) -> None:
    m = many(3, str(dtype), 4)
    source = Source(m, {}, 5)
    seen: list[set[bytes]] = [set(), set(), set()]
    for r in schedule(source):
        for have, a in zip(seen, source.values(r), strict=True):
            have |= bits(a)
    assert all(have >= bits(corners(dtype)) | bits(core(dtype)) for have in seen)


def test_seeds_give_other_values_of_other_kinds_to_the_first_parameter() -> None:
    assert len({distribution_of(1000 * seed) for seed in range(40)}) == 9
    sources = [Source(many(2), {}, seed) for seed in range(20)]
    assert len({s.values(schedule(s)[0])[0].tobytes() for s in sources}) == 20


@pytest.mark.parametrize(
    ("shape", "other", "result"),
    [("4", "4", "4"), ("", "", ""), ("3, 1", "1, 5", "3, 5"), ("2, 3, 2", "2", "2, 3, 2")],
)
def test_two_parameters_meet_in_every_pair_of_corners(shape: str, other: str, result: str) -> None:
    source = Source(binary(shape, other, result), {}, 3)
    pairs: set[tuple[bytes, bytes]] = set()
    for r in schedule(source):
        x, y = np.broadcast_arrays(*source.values(r))
        pairs |= {
            (a.tobytes(), b.tobytes()) for a, b in zip(x.reshape(-1), y.reshape(-1), strict=True)
        }
    assert len(bits(core(DType.F32))) == CORE
    want = set(product(bits(core(DType.F32)), repeat=2))
    assert len(want - pairs) <= (0 if shape == other else len(want) // 10)


def test_any_two_of_three_parameters_meet_in_every_pair() -> None:
    source = Source(many(3, "i16", 4), {}, 3)
    drawn = [source.values(r) for r in schedule(source)]
    want = set(product(bits(core(DType.I16)), repeat=2))
    for i, j in combinations(range(3), 2):
        met = {(a.tobytes(), b.tobytes()) for v in drawn for a, b in zip(v[i], v[j], strict=True)}
        assert met >= want


def test_a_large_program_has_few_rounds_with_every_kind_of_value() -> None:
    m = binary("300, 400", "400", "300, 400")
    source = Source(m, {}, 1)
    rounds = schedule(source)
    assert len(rounds) == FEWEST
    x = np.concatenate([source.values(r)[0].reshape(-1) for r in rounds])
    assert bits(x) >= bits(corners(DType.F32))
    report = dd.check(Program(m))
    count = {level.name: level.rounds for level in report.levels}
    assert (count["host"], count["simt"], len(report.setting.rounds)) == (FEWEST, 1, FEWEST)


def test_tries_are_as_many_as_asked_for() -> None:
    source = Source(many(2), {}, 1)
    for tries in (1, 2, 500):
        rounds = schedule(source, tries)
        assert [r.number for r in rounds] == list(range(tries))
    last = [source.values(r)[0].tobytes() for r in schedule(source, 500)[-9:]]
    assert len(set(last)) == 9
    assert len(schedule(Source(binary("0", "0", "0"), {}, 1))) == 1


LOOP = """module {
  dims r in [0, 9]
  func @main(%n: i64[], %x: f32[3]) -> (%y) {
    () = bind(%n, dim="r")
    %o = iota(axis=0, dtype=f32, shape=(r,)) : f32[r]
    %y = sum(%o, axes=(0,), keepdims=false) : f32[]
  }
}"""


def test_integers_that_may_count_stay_small() -> None:
    source = Source(parse_module(LOOP), {}, 1)
    rounds = schedule(source)
    assert all(abs(int(source.values(r)[0])) < 9 for r in rounds)
    report = dd.check(Program(parse_module(LOOP)))
    assert report.agree, report
    assert 0 < report.refusals < len(rounds)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ({"tries": 0}, "bad-option"),
        ({"tries": 2.5}, "bad-option"),
        ({"tries": True}, "bad-option"),
        ({"seed": -1}, "bad-option"),
        ({"seed": "1"}, "bad-option"),
        ({"engines": []}, "bad-option"),
        ({"engines": ["tpu"]}, "unknown-engine"),
        ({"engines": "tpu"}, "unknown-engine"),
        ({"planner": "none such"}, "unknown-planner"),
        ({"sizes": {"typo": 3}}, "bad-option"),
        ({"sizes": {"n": 3.5}}, "bad-option"),
        ({"sizes": {"n": 999}}, "dim-out-of-range"),
    ],
)
def test_a_wrong_choice_is_refused(words: Mapping[str, Any], code: str) -> None:
    text = BINARY.replace("SHAPE", "n").replace("OTHER", "n").replace("RESULT", "n")
    m = parse_module(text.replace("module {", "module {\n  dims n in [1, 8]"))
    with says(code):
        dd.check(Program(m), **words)


def test_large_products_run_on_engines_alone_if_one_is_fast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dd.trace(dd.f32[4, 8], dd.f32[8, 3])
    def product(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
        return x @ y

    monkeypatch.setattr(rounds, "LARGEST", 4 * 8 * 3)
    assert checked_levels(dd.check(product, engines="host", tries=1)) >= {"kernel", "program"}
    monkeypatch.setattr(rounds, "LARGEST", 4 * 8 * 3 - 1)
    beside = dd.check(product, engines="host", tries=1)
    assert beside.agree
    assert checked_levels(beside) == {"graph", "passes", "plan", "host"}
    assert checked_levels(dd.check(product, engines="simt", tries=1)) >= {"kernel", "program"}


def test_a_huge_program_is_judged_once_and_not_in_the_ring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dd.trace(dd.f32[4, 8], dd.f32[8, 3])
    def product(x: dd.Tensor, y: dd.Tensor) -> dd.Tensor:
        return x @ y

    def seen(r: Report) -> tuple[int, int]:
        return len(r.setting.rounds), sum(level.ring_total for level in r.levels)

    monkeypatch.setattr(rounds, "HUGE", 4 * 8 * 3)
    count, compared = seen(dd.check(product, engines="host"))
    assert count >= FEWEST
    assert compared > 0
    monkeypatch.setattr(rounds, "HUGE", 4 * 8 * 3 - 1)
    assert seen(dd.check(product, engines="host")) == (1, 0)
    assert seen(dd.check(product, engines="host", tries=2)) == (2, 0)


def checked_levels(r: Report) -> set[str]:
    return {level.name for level in r.levels if level.agree}
