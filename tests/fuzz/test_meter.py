"""What is rare is drawn first, again from the same counts; a case is drawn anew from its wishes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from didyma.codegen.options import Options
from didyma.fuzz import keys, replay
from didyma.fuzz.campaign import Plan, run
from didyma.fuzz.domains.domain import Judge, Outcome
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.domains.passes import Passes
from didyma.fuzz.executor import InlineExecutor, WorkerDiedError, WorkerStartError
from didyma.fuzz.graphs import Case
from didyma.fuzz.steering.meter import AGENDA, DECIDED, EACH, Key, Meter, Wish, agenda, parse, text
from didyma.fuzz.steering.wishes import WANTED
from didyma.fuzz.worker import Batch
from didyma.oracle.report import Finding
from didyma.refimpl.interp import graph
from didyma.refimpl.ir.types import DType
from didyma.refimpl.verify.graph import verify
from tests.didyma.cli import didyma

T = TypeVar("T")


def met(metered: bool, seed: int, count: int) -> Counter[Key]:
    """Count what graphs cover that are drawn with a meter or without."""
    domain, found = Graphs(()), Counter[Key]()
    meter = Meter(domain.wanted(), seed)
    while count > 0:
        for wishes in meter.take(16):
            case = domain.draw_wished(seed, count, wishes) if metered else domain.draw(seed, count)
            covered = Counter(keys.of_graph(case.module).keys())
            meter.see(covered)
            found += covered
            count -= 1
    return found


def test_the_rarest_is_first_and_the_same_counts_give_the_same() -> None:
    wanted: dict[Wish, Key] = {("pair", a, b): ("pair", a, b) for a in "abcd" for b in "abcd"}
    counts = dict.fromkeys(list(wanted.values())[:12], 1)
    first = agenda(wanted, counts, {}, "7 0", 6)
    assert set(first[:4]) == set(list(wanted)[12:])
    assert first == agenda(wanted, counts, {}, "7 0", 6)
    assert first != agenda(wanted, counts, {}, "8 0", 6)
    refused = dict.fromkeys(list(wanted)[12:], 3)
    assert not set(agenda(wanted, counts, refused, "7 0", 6)) & set(refused)


def test_some_wishes_are_for_decisions_however_rare_all_else_is() -> None:
    wanted: dict[Wish, Key] = {("pair", f"{n}", ""): ("pair", f"{n}", "") for n in range(2000)}
    wanted |= {("rows", f"{n}"): (keys.MATTERED, f"{n % 2}") for n in range(40)}
    chosen = agenda(wanted, {(keys.MATTERED, "0"): 4}, {}, "7 0")
    assert len(set(chosen)) == len(chosen) == AGENDA
    places = [i for i, wish in enumerate(chosen) if wish[0] == "rows"]
    assert len(places) == DECIDED
    assert {b // EACH - a // EACH for a, b in pairwise(places)} == {AGENDA // DECIDED // EACH}
    first = {wish for wish in chosen if wish[0] == "rows"}
    assert first > {("rows", f"{n}") for n in range(1, 40, 2)}, "those that mattered least"


def test_one_worker_gets_the_same_wishes_however_many_it_takes() -> None:
    def taken(sizes: Sequence[int]) -> list[tuple[Wish, ...]]:
        meter, found = Meter(WANTED, 3), list[tuple[Wish, ...]]()
        for n in sizes:
            some = list(meter.take(n))
            meter.give_back(some[n // 2 :])
            found += some[: n // 2]
            meter.see(Counter(WANTED[w] for wishes in some[: n // 2] for w in wishes))
        return found

    few, many = taken([6] * 120), taken([40] * 30)
    shared = min(len(few), len(many))
    assert shared > 200
    assert few[:shared] == many[:shared]
    assert max(map(len, few)) == EACH
    assert () in few


def test_graphs_drawn_with_a_meter_hold_more_pairs() -> None:
    plain, steered = met(False, 9, 240), met(True, 9, 240)
    pairs, more = (sum(k[0] == "pair" for k in found) for found in (plain, steered))
    assert more > 1.15 * pairs


@pytest.mark.parametrize("domain", [Graphs(("host",)), Passes()], ids=lambda d: d.name)
def test_a_case_is_a_function_of_seed_index_and_wishes(domain: Graphs | Passes) -> None:
    wishes = [w for w in WANTED if w[0] in ("pair", "read", "use", "value")][:: len(WANTED) // 25]
    hit = 0
    for i, wish in enumerate(wishes):
        case = domain.draw_wished(4, i, (wish,))
        assert repr(domain.draw_wished(4, i, parse(text([wish])))) == repr(case)
        verify(case.module)
        with np.errstate(all="ignore"):
            graph.run(case.module, inputs := case.inputs())
        covered = keys.of_graph(case.module) | keys.of_values(case.module, inputs)
        hit += WANTED[wish] in covered
    assert hit > 0.6 * len(wishes), "some pairs of ops share no dtype"


def test_kinds_of_values() -> None:
    def kinds(numbers: Sequence[float], dtype: DType) -> set[str]:
        return {*keys.kinds_of(np.array(numbers).astype(dtype.numpy), dtype)}

    assert kinds([-0.0, 1.0, 1e-40], DType.F32) == {"-0", "1", "fraction", "tiny"}
    assert kinds([np.nan, -np.inf, 300.0], DType.F16) == {"nan", "-inf", "huge"}
    assert kinds([-128, 127, 7, 8], DType.I8) == {"least", "most", "negative", "below width",
                                                  "width"}  # fmt: skip
    assert kinds([0, 255], DType.U8) == {"least", "0", "most"}
    assert kinds([], DType.F32) == kinds([1], DType.BOOL) == set()


class Blamed(Graphs):
    """Graphs of which those with an ``exp`` are wrong."""

    def judge(self) -> Judge[Case]:  # type: ignore[override]  # no GraphJudge
        return blamed


def blamed(case: Case) -> Outcome:
    ops = {n.op for n in case.module.entry.nodes}
    findings = (Finding("graph", "exp", "value", "wrong"),) if "exp" in ops else ()
    return Outcome(findings, covered=tuple(keys.of_graph(case.module)))


class Mortal(InlineExecutor):
    """Makes each call at once, and says that calls with a ``tanh`` ended their process."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future = super().submit(fn, *args, **kwargs)
        batch = future.result()
        if not isinstance(batch, Batch) or not any("tanh" in key for key in batch.covered):
            return future
        died: Future[T] = Future()
        died.set_exception(WorkerDiedError("crash", "it died"))
        return died


class Poor(InlineExecutor):
    """Makes so many calls at once, after which no process can be started."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        self.left -= 1
        if self.left >= 0:
            return super().submit(fn, *args, **kwargs)
        refused: Future[T] = Future()
        refused.set_exception(
            WorkerStartError("worker-missing", "a process", got="none", want="one")
        )
        return refused


def test_a_campaign_that_loses_its_last_process_keeps_what_it_found(tmp_path: Path) -> None:
    domain = Blamed(("host",), Options())
    plan = Plan((domain,), seed=2, shrink_seconds=0.0, findings=tmp_path)
    r = run(plan, executor=Poor(16))
    assert (r.lost, r.cases > 0) == (1, True)
    assert r.findings
    assert all(Path(e.file).exists() for e in r.findings)
    with pytest.raises(WorkerStartError):
        run(plan, executor=Poor(1))


def test_a_finding_is_replayed_from_its_file_and_drawn_anew_by_its_command(tmp_path: Path) -> None:
    domain = Blamed(("host",), Options())
    plan = Plan((domain,), count=48, seed=2, shrink_seconds=0.0, findings=tmp_path)
    r = run(plan, executor=Mortal())
    assert {g.kind for g in r.groups} == {"value", "crash"}
    for e in (g.smallest for g in r.groups):
        assert e.wishes is not None
        head = Path(e.file).read_text(encoding="utf-8")
        assert f"--seed 2 --case {e.index} --wishes '{text(e.wishes)}'" in head
        assert replay.load(Path(e.file)).module == e.case.module
        assert domain.draw_wished(2, e.index, e.wishes).module == e.case.module


def test_a_command_draws_a_case_with_its_wishes(tmp_path: Path) -> None:
    words = ["fuzz", "--domain", "passes", "--seed", "2", "--findings", str(tmp_path)]
    drawn = didyma(*words, "--case", "5", "--wishes", "pair,exp,log", "--json")
    assert drawn.code == 0
    assert drawn.json["programs"] == 1
    for wrong in (["--case", "5", "--wishes", "pair,exp"], ["--wishes", "pair,exp,log"]):
        refused = didyma(*words, *wrong)
        assert refused.code == 2
        assert "bad-option" in refused.err


def test_a_campaign_of_one_process_is_repeated_by_its_seed() -> None:
    def covered() -> Counter[Key]:
        plan = Plan((Passes(),), count=40, seed=11)
        return run(plan, executor=InlineExecutor()).tallies["passes"].covered

    assert covered() == covered()
