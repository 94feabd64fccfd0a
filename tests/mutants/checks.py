"""What judges mutants: campaigns on each domain, the conformance suite, drawn kernels again.

Each check judges numbered cases that depend on a seed alone.  The module is imported again in a
child whose mutant changed a module, so nothing here outlives a call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, zip_longest
from random import Random
from typing import Any, TypeAlias

import didyma as dd
from didyma.bench import counters, records
from didyma.bench.workloads import ALL, Workload, least_bytes
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.rules import places
from didyma.codegen.runtime.host import Host
from didyma.codegen.runtime.registry import engine, probe
from didyma.fuzz import conform, corpus_files, levels
from didyma.fuzz.domains.domain import Domain, Outcome
from didyma.fuzz.domains.graphs import Graphs
from didyma.fuzz.domains.passes import Passes
from didyma.fuzz.domains.registry import DOMAINS, Entry, Setup
from didyma.fuzz.graphs import Case
from didyma.fuzz.steering.meter import EACH, Key, Wish
from didyma.oracle import conformance
from didyma.oracle.conformance import calls
from didyma.refimpl.ir.expr import ZERO
from tests.bench import history
from tests.mutants import faulty, unit_tests

FAST = "host-fast"
PTX = "ptx"
VARIED, VARIANTS = "variants on host", "kernels.variants"
# Of the case of an index: the level, kind and message of its first finding, or None; or, of what
# finds nothing by itself, the decisions that the compiler made.
Verdict: TypeAlias = tuple[str, str, str]
Judge: TypeAlias = Callable[[int], Verdict | frozenset[str] | None]
Text: TypeAlias = tuple[int, str, frozenset[str]]  # of a program: index, source, kernels that run


@dataclass(frozen=True, slots=True)
class Check:
    """A check by name: how many cases it has, and how to start judging.

    So many times the time of another check are cases of one with a ``weight`` recorded.
    """

    name: str
    cases: int
    open: Callable[[], Judge]
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Varied(Graphs):
    """Graphs whose kernels have variants, of which few of those in campaigns have any."""

    def draw(self, seed: int, index: int) -> Case:
        """Return a graph as campaigns draw it, compiled with three variants of a kernel."""
        case = Graphs.draw(self, seed, index)
        changes = (c for c in case.changes if c[0] != VARIANTS)
        return replace(case, changes=(*changes, (VARIANTS, 3)))

    def wanted(self) -> Mapping[Wish, Key]:
        """Return nothing: these graphs are drawn as they come."""
        return {}


def checks(seed: int, programs: int, suite: Sequence[Sequence[Any]]) -> tuple[Check, ...]:
    """Return the checks, the quickest first.

    They are the corpus, the campaigns of every domain that ``didyma fuzz`` has, those with engines
    on each of three, one on graphs with control flow alone, one on graphs whose kernels have
    variants, kernels with faults, the conformance suite, and the workloads of benchmarks, whose
    exact counters may not grow.
    The campaign on graphs on ``host`` has so many programs.  Then, the files of tests of codegen;
    last, the decisions of compiles: a rewrite or schedule that is no longer found leaves programs
    right.
    """
    alone = [e for e in DOMAINS.values() if e.alone]
    others = [e for e in DOMAINS.values() if not e.alone]
    return (
        *(campaign(e.name, e.make(Setup(())), seed, 3 * programs) for e in alone),
        faults("host"),
        faults("simt"),
        Check("counters", len(ALL), _counters, weight=6),
        corpus("host"),
        corpus("simt"),
        conforms("host", suite),
        conforms("host", suite, share=3, order=7),
        *(campaign(on(e.name, "host"), e.make(Setup(("host",))), seed, programs) for e in others),
        *(campaign(on(e.name, "simt"), e.make(Setup(("simt",))), seed, programs // 2)
          for e in others),
        *(campaign(on(e.name, FAST), e.make(Setup((FAST,))), seed, programs // 4) for e in others),
        conforms(FAST, suite, share=7),
        campaign("control flow", Graphs(("host",), controlled=1), seed, programs // 4),
        campaign(VARIED, Varied(("host",)), seed, programs // 4),
        conforms("simt", suite, share=7),
        *_on_ptx(others, seed, programs, suite),
        Check("workloads", len(ALL), _workloads),
        Check(unit_tests.NAME, len(unit_tests.every()), unit_tests.start),
        Check("decisions", 2 * programs, partial(_decisions, seed), weight=4),
    )  # fmt: skip


def _on_ptx(
    others: Sequence[Entry], seed: int, programs: int, suite: Sequence[Sequence[Any]]
) -> tuple[Check, ...]:
    """Return the checks on the simulator of PTX, which takes long; none without NVRTC."""
    if not probe(PTX).runs:
        return ()
    drawn = (e for e in others if e.name == "emission")
    return (
        conforms(PTX, suite, share=25),
        *(campaign(on(e.name, PTX), e.make(Setup((PTX,))), seed, programs // 8) for e in drawn),
    )


def on(domain: str, engine: str) -> str:
    """Return the name of the check that judges a domain on an engine."""
    return f"{domain} on {engine}"


def of_levels(engine: str, levels: Collection[str]) -> tuple[str, ...]:
    """Return the checks on an engine whose findings name levels of the compile, or the engine.

    The domain of programs judges plans and wrappers alone: it is one where ``program`` is a level.
    """
    names = [e.name if e.alone else on(e.name, engine) for e in DOMAINS.values()]
    names += [VARIED] if engine == "host" else []
    others = {"planners"} if "program" in levels else {"planners", "programs"}
    return tuple(n for n in names if n not in others)


def graphs(engine: str) -> Domain[Any]:
    """Return the domain of graphs, as campaigns draw them, on an engine."""
    return DOMAINS["graphs"].make(Setup((engine,)))


def campaign(name: str, domain: Domain[Any], seed: int, cases: int) -> Check:
    """Return the check that judges the cases of a domain."""

    def start() -> Judge:
        judge, draw = domain.judge(), drawer(domain, seed)
        return lambda index: _verdict(domain.name, judge(draw(index)))

    return Check(name, cases, start)


def drawer(domain: Domain[Any], seed: int) -> Callable[[int], Any]:
    """Return what draws the cases of a domain by index, those that can be steered with wishes.

    A campaign wishes for what was covered least so far.  Here nothing is known of earlier cases: in
    turn each motif has a wish, by chance, until it has none left.  Of small graphs for passes
    alone, the motifs with few wishes come first, as those around rewrite rules.
    """
    motifs: dict[str, list[Wish]] = {}
    for wish in domain.wanted():
        motifs.setdefault(wish[0], []).append(wish)
    if not motifs:
        return partial(domain.draw, seed)
    for wishes in motifs.values():
        Random(seed).shuffle(wishes)
    if isinstance(domain, Passes):
        turns = list(chain(*sorted(motifs.values(), key=len)))
    else:
        turns = [w for row in zip_longest(*motifs.values()) for w in row if w is not None]

    def draw(index: int) -> Any:
        free = domain.free
        at = (index - index // free) * EACH
        wishes = () if index % free == free - 1 else turns[at : at + EACH]
        return domain.draw_wished(seed, index, tuple(wishes))

    return draw


def corpus(name: str) -> Check:
    """Return the check that judges the cases of the corpus on an engine."""
    cases = [r.case for r in corpus_files.cases().values()]

    def start() -> Judge:
        judge = graphs(name).judge()
        return lambda index: _verdict("corpus", judge(cases[index]))

    return Check(f"corpus on {name}", len(cases), start)


def _verdict(name: str, o: Outcome) -> Verdict | None:
    """Return what is wrong with a case, as the first of what its judge says of it."""
    if o.unexpected:
        return name, "error", o.unexpected
    if not o.findings:
        return None
    f = o.findings[0]
    return f.level, f.kind, f"{f.where}: {f.message}"


def _decisions(seed: int) -> Judge:
    """Return what names the decisions of the compile of a drawn graph, each with the op, too."""
    draw = drawer(graphs("host"), seed)

    def of(index: int) -> frozenset[str]:
        case = draw(index)
        ops = {r: n.op for f in case.module.functions for n in f.nodes for r in n.results}
        found: set[str] = set()

        def hear(decision: str, value: str) -> None:
            found.update(
                (decision, f"{decision}, of {ops[value]}") if value in ops else (decision,)
            )

        made = compile(case.module, case.options(Options()), heard=hear)
        for decision, value in places(made):
            hear(decision, value)
        return frozenset(found)

    return of


def _by_size() -> list[Workload]:
    return sorted(ALL, key=least_bytes)


def _counters() -> Judge:
    """Return what holds the counters of a workload to those that are kept, as the tests do."""
    past = {m.name: m for m in records.read(history.newest()) if m.counters}
    limits = records.limits("counters:+0%,text:+10%")

    def of(index: int) -> Verdict | None:
        w = _by_size()[index]
        name = f"test_workload[{w.name}]"
        now = records.Measured(name, "", 0, counters.count(w, Options(), None), None)
        found = records.compare([past[name]], [now], limits)
        grown = [f"{c.quantity} {c.before} -> {c.after}" for c in found.changes if c.failed]
        return ("counters", "grown", f"{w.name}: {', '.join(grown)}") if grown else None

    return of


def _workloads() -> Judge:
    """Return what judges workloads on the host: they are larger than what campaigns draw."""

    def of(index: int) -> Verdict | None:
        found = dd.check(_by_size()[index].program(), engines="host", tries=1).findings
        return (found[0].level, found[0].kind, found[0].message) if found else None

    return of


def suite() -> list[list[Any]]:
    """Return the conformance suite by text: made once, before anything is mutated."""
    texts: dict[int, list[Any]] = {}
    for case in (*conformance.cases(), *calls.cases()):
        texts.setdefault(id(getattr(case, "text", case)), []).append(case)
    return list(texts.values())


def conforms(
    name: str, suite: Sequence[Sequence[Any]], share: int = 1, order: int | None = None
) -> Check:
    """Return the check that runs the conformance suite on an engine: a text is a case.

    One in ``share`` of the cases of a text is run.  With ``order`` the host runs blocks and threads
    shuffled by that seed.
    """

    def start() -> Judge:
        run = conform.Runner(engine(name) if order is None else Host(order=order))

        def of(index: int) -> Verdict | None:
            for case in suite[index][::share]:
                if isinstance(case, conformance.LoopCase):
                    case = conform.emitted(case)
                wrong = conformance.judge(case, run(case))
                if wrong:
                    return name, "conformance", f"{case.group} {case.name}: {wrong}"
            return None

        return of

    shuffled = "" if order is None else ", shuffled"
    return Check(f"{name} conformance{shuffled}", len(suite), start)


def faults(name: str) -> Check:
    """Return the check that an engine reports the faults of kernels, and no others."""

    def start() -> Judge:
        device = engine(name)

        def of(index: int) -> Verdict | None:
            if index < len(faulty.KERNELS):
                wrong = faulty.wrong(device, faulty.KERNELS[index])
            else:
                refusal = faulty.REFUSALS[index - len(faulty.KERNELS)]
                wrong = faulty.not_refused(device, *refusal)
            return (name, "fault", wrong) if wrong else None

        return of

    return Check(f"faults on {name}", len(faulty.KERNELS) + len(faulty.REFUSALS), start)


def kernel_text(program: int, seed: int, rounds: int) -> tuple[Check, ...]:
    """Return the checks of a mutant of a drawn program: on other values and sizes, too."""

    def check(name: str) -> Check:
        domain = graphs(name)

        def start() -> Judge:
            judge = domain.judge()
            case = drawer(domain, seed)(program)

            def of(index: int) -> Verdict | None:
                o = judge(another_round(case, index))
                if not o.findings:
                    return None
                return o.findings[0].level, o.findings[0].kind, o.findings[0].message

            return of

        return Check(on("graphs", name), rounds, start)

    return check("host"), check("simt")


def another_round(case: Case, index: int) -> Case:
    """Return a drawn program with other values and sizes; those of index 0 are as drawn."""
    ranges = {d.name: (d.lo, d.hi) for d in case.module.dims}
    sizes = {name: (n, *ranges[name]) for name, n in case.env}
    env = tuple(
        (name, lo + (n - lo + index) % (hi - lo + 1)) for name, (n, lo, hi) in sizes.items()
    )
    return replace(case, env=env, seeds=tuple(s + 7919 * index for s in case.seeds))


def compiled(name: str, seed: int, index: int) -> object:
    """Return what the case of a campaign on graphs compiles to, or how that fails."""
    case, options = _drawn(name, seed, index)
    return levels.compiled(case.module, options)


def texts(seed: int, programs: range) -> list[Text]:
    """Return the kernel text of drawn programs that compile, and which kernels can run."""
    found: list[Text] = []
    for i in programs:
        made = compiled("graphs", seed, i)
        if isinstance(made, Compiled):
            runs = (k.name for k in made.text.kernels if ZERO not in k.grid)
            found.append((i, made.text.source, frozenset(runs)))
    return found


def _drawn(name: str, seed: int, index: int) -> tuple[Case, Options]:
    own = {"control flow": Graphs(("host",), controlled=1), VARIED: Varied(("host",))}
    case = drawer(own.get(name, graphs("host")), seed)(index)
    return case, case.options(Options())
