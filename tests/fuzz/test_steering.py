"""Drawing around what compilers do: every kind, again from a seed and an index, all valid."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np
import pytest

from didyma.codegen.options import Options
from didyma.codegen.passes import attention, channels, parts, weighted
from didyma.codegen.pipeline import compile
from didyma.codegen.rules import decided, rules
from didyma.fuzz import control, control_sizes
from didyma.fuzz.builder import GraphBuilder
from didyma.fuzz.chooser import Dice
from didyma.fuzz.graphs import Case, finished, readers_of
from didyma.fuzz.steering.around_rules import MATCHED, MATCHES
from didyma.fuzz.steering.draw import (
    RESULTS,
    REWRITES,
    WHOLE,
    Repertoire,
    chosen,
    draw,
    entered,
    position,
    symbols,
)
from didyma.fuzz.steering.motifs import RULES
from didyma.fuzz.steering.names import AWKWARD, renamed
from didyma.fuzz.steering.opsets import FOLDS
from didyma.fuzz.steering.primitives import FOLDING, cut
from didyma.fuzz.steering.sketch import Sketch
from didyma.fuzz.steering.structure import KINDS, structure
from didyma.fuzz.steering.sums import AXES, sums
from didyma.fuzz.steering.twins import PATTERNS, SPOILED, spoiled, twins
from didyma.fuzz.values import FOCUSED, Readers, corners, focused
from didyma.refimpl.interp import graph
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.graph import BIND, CALL, COMPILER, CONTROL, NO_INLINE, PRIMITIVE, STAGES, TO
from didyma.refimpl.ir.graph import attrs as freeze
from didyma.refimpl.ir.text import parse_module, show
from didyma.refimpl.ir.types import ALL, DType, TensorType
from didyma.refimpl.ops import OPS
from didyma.refimpl.verify.graph import verify

PLANS = pytest.mark.parametrize("plan", [WHOLE, REWRITES], ids=["whole", "rewrites"])


@PLANS
def test_every_graph_is_valid_and_runs(plan: Repertoire) -> None:
    for index in range(40):
        case = draw(1, index, plan)
        verify(case.module)
        assert parse_module(show(case.module)) == case.module
        assert case.options(Options()) == Options().changed(dict(case.changes))
        with np.errstate(all="ignore"):
            out = graph.run(case.module, case.inputs())
        assert len(out) == len(case.module.entry.results)


@PLANS
def test_a_case_is_drawn_again_from_its_seed_and_index(plan: Repertoire) -> None:
    indices = random.Random(0).sample(range(1000), 20)
    assert [draw(3, i, plan) for i in indices] == [draw(3, i, plan) for i in indices]


def test_turns_visit_every_kind_of_a_motif_once_a_lap() -> None:
    for length in (1, 2, 97, 96, 9409):
        assert sorted(position(length, "x", k) for k in range(length)) == list(range(length))
    (pair,) = (m for m in WHOLE.motifs if m.name == "matched")
    turns = sum(m.weight for m in WHOLE.motifs) * (len(MATCHED) // pair.weight + 1)
    drawn = (kind for t in range(turns) for m, kind in [chosen(t, 5, WHOLE.motifs)] if m is pair)
    kinds, once = Counter(drawn), Counter((kind,) for kind in MATCHED)
    assert {int(kind.split()[0]) for kind in MATCHED} == set(range(len(MATCHES)))
    assert all(once[k] <= kinds[k] <= 2 * once[k] for k in once)
    assert kinds.keys() == once.keys()


def test_axes_of_a_shape_and_symbols_differ() -> None:
    cases = [draw(2, i) for i in range(150)]
    two = [c for c in cases if len(c.env) > 1]
    assert len(two) > 30
    assert sum(len({v for _, v in c.env}) == len(c.env) for c in two) > 0.9 * len(two)
    shapes = [p.type.shape for c in cases for p in c.module.entry.params]
    static = [s for s in shapes if len(s) > 1 and all(isinstance(d, int) for d in s)]
    differ = [len(set(long)) == len(long) for s in static if (long := [d for d in s if d != 1])]
    assert sum(differ) > 0.8 * len(differ)  # axes of one may be exchanged


def test_every_op_and_dtype_is_drawn() -> None:
    cases: list[Case] = [draw(7, i, plan) for plan in (WHOLE, REWRITES) for i in range(300)]
    nodes = [n for c in cases for n in c.module.entry.nodes]
    assert {n.op for n in nodes} >= {*OPS} - {TO}, "other draws place values on devices"
    assert {t.dtype for n in nodes for t in n.types} == set(ALL)


def test_rewrite_rules_and_fusion_decide_soon() -> None:
    heard: Counter[str] = Counter()

    def hear(name: str, value: str) -> None:
        assert value
        heard[name] += 1

    for index in range(200):
        compile(draw(4, index, REWRITES).module, until="fuse", heard=hear)
    wanted = {d.name for d in rules() if d.stage in ("simplify", "fuse") and d.matches}
    assert wanted <= set(heard)


def test_schedules_and_plans_that_a_compile_chose_are_counted() -> None:
    found: Counter[str] = Counter()
    for index in range(60):
        case = draw(4, index)
        found.update(decided(compile(case.module, case.options(Options()), until="plan")))
    known = {d.name for d in rules() if d.stage in ("schedule", "plan")}
    assert set(found) <= known
    assert len(found) > len(known) / 2


def test_sizes_are_bound_in_bodies_and_between_kernels_and_handed_to_calls() -> None:
    for kind in control_sizes.KINDS:
        made: list[Case] = []
        for seed in range(20):
            c = Dice(seed)
            s = Sketch(GraphBuilder(control.draw, symbols(c)), c)
            s.bind_symbols()
            x = s.param(TensorType(DType.F32, s.shape(1, 3)))
            if x is not None and control_sizes.add(s.b, c, kind, (x, s.types()[x])):
                made.append(finished(s.b, c))
        for case in made:
            verify(case.module)
        assert len(made) > 3, kind
        nodes = [n for c in made for f in c.module.functions for n in f.nodes]
        assert {n.op for n in nodes} & {*CONTROL, CALL}, kind
        if "size in" in kind or kind == "size between kernels":
            inner = [n for c in made for f in c.module.functions[:-1] for n in f.nodes]
            assert BIND in {n.op for n in inner}


@pytest.mark.filterwarnings("ignore:invalid value")  # some NaN are signalling
def test_values_are_corners_of_the_ops_that_read_them() -> None:
    read = Readers((88.0, -104.0))
    drawn = [focused(FOCUSED + k, DType.F32, (64,), read) for k in range(40)]
    assert sum(((abs(x) == 88) | (abs(x) == 104)).sum() > 5 for x in drawn) > 5
    swept = {x.tobytes() for d in drawn for x in d}
    have = {x.tobytes() for x in corners(DType.F32)}
    assert len(swept & have) > 0.8 * len(have)


def test_readers_are_found_through_movement() -> None:
    text = """module {
      func @main(%x: f32[4], %y: f32[4]) -> (%b, %s) {
        %a = flip(%x, axes=(0,)) : f32[4]
        %b = round(%a) : f32[4]
        %s = sum(%y, axes=(0,), keepdims=false) : f32[]
      }
    }"""
    found = readers_of(parse_module(text).entry)
    assert set(OPS["round"].corners) <= set(found["x"].corners)
    assert found["y"].summed
    assert not found["x"].summed


def test_truth_values_that_one_of_them_decides_are_drawn() -> None:
    text = """module {
      func @main(%x: f32[40], %y: f32[40], %z: f32[40]) -> (%s, %z) {
        %a = not_equal(%x, %y) : bool[40]
        %s = any(%a, axes=(0,), keepdims=false) : bool[]
      }
    }"""
    found = readers_of(parse_module(text).entry)
    assert [found[p].ruled for p in "xyz"] == [True, True, False]
    counts = Counter[int]()
    for k in range(300):
        x, y = (focused(FOCUSED + 2 * k + i, DType.F32, (40,), found["x"]) for i in range(2))
        counts[int((x != y).sum())] += 1
    assert sum(counts[n] for n in (1, 2, 3)) > 15, "few differ"
    true = Counter(
        int(focused(FOCUSED + k, DType.BOOL, (40,), found["x"]).sum()) for k in range(300)
    )
    for few in ((1, 2, 3), (37, 38, 39)):
        assert sum(true[n] for n in few) > 30


def test_graphs_are_cut_into_kernels_that_compute_the_same() -> None:
    folds_read, several = 0, 0
    for index in range(20):
        case = draw(9, index)
        parts = cut(case, Dice(index))
        verify(parts.module)
        assert parts.options(Options()) == Options().changed(dict(parts.changes))
        assert parse_module(show(parts.module)) == parts.module
        with np.errstate(all="ignore"):
            inputs = parts.inputs()
            want, got = graph.run(case.module, inputs), graph.run(parts.module, inputs)
        assert [a.tobytes() for a in want] == [b.tobytes() for b in got]
        for f in parts.module.functions[:-1]:
            folds = [n for n in f.nodes if n.op in OPS and OPS[n.op].kind in FOLDING]
            folds_read += any(n.results[0] in m.args for n in folds for m in f.nodes)
            several += PRIMITIVE in f.attr and len(f.results) > 1
    assert folds_read > 1
    assert several > 5


def _sketched(seed: int, drawn: Callable[[Sketch], None]) -> Case:
    c = Dice(seed)
    s = Sketch(GraphBuilder(control.draw, symbols(c)), c)
    s.param(TensorType(DType.F32, (2,)))
    drawn(s)
    return finished(s.b, c, RESULTS)


def test_operands_of_every_pattern_are_the_same_value() -> None:
    found: set[tuple[bool, ...]] = set()
    for seed in range(20):
        for pattern in PATTERNS:
            case = _sketched(seed, partial(twins, op="where", pattern=pattern))
            verify(case.module)
            args = [n.args for n in case.module.entry.nodes if n.op == "where"]
            found.update((c == x, c == y, x == y) for c, x, y in args)
    assert len(found) == 5, "every way in which three operands are the same"


def _spoiled(form: str, s: Sketch) -> None:
    spoiled(s, np.array(77), TensorType(DType.I32, (4, 5)), form)


@pytest.mark.parametrize("form", SPOILED)
def test_what_is_nearly_constant_is_so_in_most_places(form: str) -> None:
    made = 0
    for seed in range(20):
        case = _sketched(seed, partial(_spoiled, form))
        x = graph.run(case.module, case.inputs())[0]
        made += bool((x == 77).any() and (x != 77).any())
    assert made > 10


@pytest.mark.parametrize("kind", KINDS)
def test_structures_are_valid(kind: str) -> None:
    made = 0
    for seed in range(3):
        case = _sketched(seed, lambda s: structure(s, kind))
        verify(case.module)
        made += bool(case.module.entry.nodes)
    assert made


def test_awkward_names_change_nothing_else() -> None:
    awkward = 0
    for index in range(6):
        case = draw(6, index)
        other = renamed(case, Dice(index))
        verify(other.module)
        assert parse_module(show(other.module)) == other.module
        awkward += not {*other.module.entry.types()}.isdisjoint(AWKWARD)
        with np.errstate(all="ignore"):
            want = graph.run(case.module, case.inputs())
            got = graph.run(other.module, other.inputs())
        assert [a.tobytes() for a in want] == [b.tobytes() for b in got]
    assert awkward >= 5


def test_entries_have_attributes_where_these_are_lawful() -> None:
    made = [entered(draw(3, index), Dice(index)).module for index in range(40)]
    for m in made:
        verify(m)
    kinds = {name for m in made for name, _ in m.entry.attrs}
    assert kinds == {COMPILER, NO_INLINE, PRIMITIVE}
    for index in range(40):
        verify(cut(entered(draw(3, index), Dice(index)), Dice(index)).module)


def test_no_drawn_slice_begins_before_the_first_element() -> None:
    c, m = Dice(1), dims.symbol("m")
    s = Sketch(GraphBuilder(control.draw, [(DimVar("m", 0, 3), 2)]), c)
    s.bind_symbols()
    x = s.param(TensorType(DType.F32, (8, m)))
    assert x is not None
    for start, fits in ((m, True), (dims.sub(m, 1), False)):
        how = freeze({"starts": (start, 0), "stops": (8, m), "steps": (1, 1)})
        assert (s.apply("slice", (x,), how) is not None) == fits


def test_every_fold_is_drawn_along_some_axes_of_every_shape() -> None:
    for op, where in product(FOLDS, AXES):
        for seed in range(12):
            c = Dice(seed)
            s = Sketch(GraphBuilder(control.draw, symbols(c)), c)
            s.bind_symbols()
            with np.errstate(all="ignore"):  # corners of one dtype may lie outside of another
                sums(s, op, where)
            assert s.b.nodes


def test_what_is_rewritten_for_tensor_cores_is_drawn_and_near_misses_too() -> None:
    wanted = (parts.CUT, channels.STORED, attention.ATTENTION, weighted.WEIGHTED)
    cores = Repertoire(tuple(m for m in RULES if m.name == "cores"), 1)
    heard = list[str]()

    def hear(decision: str, _: str) -> None:
        heard.append(decision)

    missed, joined = 0, set[str]()
    for index in range(100):
        case, before = draw(6, index, cores), len(heard)
        options = case.options(Options()).changed({"graph.level": 3, "graph.fuse": True})
        made = compile(case.module, options, until="fuse", heard=hear)
        missed += set(wanted).isdisjoint(heard[before:])
        stages = [f.nodes for f in made.fused.functions if STAGES in f.attr]
        joined |= {n.op for nodes in stages for n in nodes}
    assert all(heard.count(name) > 3 for name in wanted)
    assert missed > 5
    assert "isnan" in joined, "weights with zeros in place of NaN"
