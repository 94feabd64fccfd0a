"""Faults in what places problems, plans symbolic sizes and reads traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

import numpy as np

from didyma.codegen.memory import trace
from didyma.codegen.memory.arena import Placement, Problem, solve
from didyma.codegen.memory.arena.problem import I64, lower_bound, placement
from didyma.codegen.memory.symbolic import SymbolicPlacement, SymbolicPlan
from didyma.codegen.memory.symbolic import plan as orient
from didyma.fuzz.allocator import domains
from didyma.fuzz.allocator.judge import Verdict
from didyma.refimpl.errors import DidymaError
from tests.mutants.memory.fault import OtherFault, patched


def solving(wrong: Callable[[Problem], I64]) -> Callable[[], AbstractContextManager[object]]:
    """Place buffers otherwise; the peak is that of the offsets."""

    def solved(p: Problem, name: str, limit: float | None = None) -> Placement:
        del name, limit
        return placement(p, wrong(p))

    return lambda: patched(domains, "solve", solved)


def misled(change: Callable[[Problem], Problem]) -> Callable[[Problem], I64]:
    """Return the offsets for another problem than the given one."""
    return lambda p: solve(change(p), "greedy_by_size").offsets


def ends_early(p: Problem) -> Problem:
    return replace(p, upper=np.maximum(p.lower, p.upper - 1))


def smaller(p: Problem) -> Problem:
    return replace(p, size=p.size - (p.size > 1))


def unaligned(p: Problem) -> Problem:
    return replace(p, alignment=np.ones_like(p.alignment))


def unfixed(p: Problem) -> Problem:
    return replace(p, fixed=np.full_like(p.fixed, -1))


def aligned_after_fitting(p: Problem) -> I64:
    """A gap is measured before its start is rounded up to the alignment."""
    offsets = solve(unaligned(p), "greedy_by_size").offsets
    return -(-offsets // p.alignment) * p.alignment


def one_record(p: Problem) -> I64:
    """Offsets are recorded by name without the last digit."""
    offsets = solve(p, "greedy_by_size").offsets
    at = {name[:-1]: int(o) for name, o in zip(p.names, offsets, strict=True) if len(name) > 2}
    found = [at.get(n[:-1], int(o)) if len(n) > 2 else int(o)
             for n, o in zip(p.names, offsets, strict=True)]  # fmt: skip
    return np.array(found, np.int64)


def too_low_a_peak() -> AbstractContextManager[object]:
    def solved(p: Problem, name: str, limit: float | None = None) -> Placement:
        found = solve(p, name, limit)
        return Placement(found.offsets, max(0, found.peak - 1))

    return patched(domains, "solve", solved)


def load_of_starts() -> AbstractContextManager[object]:
    """The load is that of buffers alive at one time and at the next."""

    def bound(p: Problem) -> int:
        later = replace(p, lower=np.minimum(p.lower + 1, p.upper))
        return lower_bound(later)

    return patched(domains, "lower_bound", bound)


# ---- symbolic sizes


def placed_by(
    wrong: Callable[[SymbolicPlan, Mapping[str, int]], SymbolicPlacement],
) -> Callable[[], AbstractContextManager[object]]:
    return lambda: patched(SymbolicPlan, "place", wrong)


def stale() -> AbstractContextManager[object]:
    """The first run's offsets serve all."""
    place = SymbolicPlan.place
    seen: dict[int, SymbolicPlacement] = {}

    def wrong(p: SymbolicPlan, env: Mapping[str, int]) -> SymbolicPlacement:
        return seen.setdefault(id(p), place(p, env))

    return patched(SymbolicPlan, "place", wrong)


def at_other_sizes(
    change: Callable[[SymbolicPlan, Mapping[str, int]], Mapping[str, int]],
) -> Callable[[], AbstractContextManager[object]]:
    """Offsets are those of another binding than the run's."""
    place = SymbolicPlan.place
    return placed_by(lambda p, env: place(p, change(p, env)))


def arc_lost() -> AbstractContextManager[object]:
    """A buffer's offset forgets one of those beneath it, as if it were dominated."""

    def wrong(*args: object, **options: object) -> SymbolicPlan:
        p = orient(*args, **options)  # type: ignore[arg-type]  # handed on as they come
        lines = p.code.split("\n")
        for k, line in enumerate(lines):
            if "= max(" in line:
                head, _, rest = line.partition("max(")
                terms, _, comment = rest.partition(")")
                lines[k] = f"{head}max({terms.split(', ', 1)[1]}, 0){comment}"
                break
        else:
            for k, line in enumerate(lines):
                name, equals, term = line.partition(" = ")
                if name.startswith("    o") and equals and term.split("  #")[0].strip() != "0":
                    lines[k] = f"{name} = 0"
                    break
        return replace(p, code="\n".join(lines))

    return patched(domains, "plan", wrong)


# ---- traces as text


def reading(
    change: Callable[[list[int]], list[int]],
) -> Callable[[], AbstractContextManager[object]]:
    """Read other numbers than are there."""
    numbers = trace._Reader.numbers  # pyright: ignore[reportPrivateUsage]  # where a row is read

    def wrong(self: object, cell: dict[str, str]) -> list[int]:
        return change(numbers(self, cell))  # type: ignore[arg-type]  # the reader itself

    reader = trace._Reader  # pyright: ignore[reportPrivateUsage]  # the fault is planted in it
    return lambda: patched(reader, "numbers", wrong)


def inverted_taken() -> AbstractContextManager[object]:
    """A range whose end comes first is read from its end."""
    numbers = trace._Reader.numbers  # pyright: ignore[reportPrivateUsage]  # where a row is read

    def wrong(self: object, cell: dict[str, str]) -> list[int]:
        a, b = cell["lower"], cell["upper"]
        if a.isdecimal() and b.isdecimal() and int(b) < int(a):
            cell = {**cell, "lower": b, "upper": a}
        return numbers(self, cell)  # type: ignore[arg-type]  # the reader itself

    reader = trace._Reader  # pyright: ignore[reportPrivateUsage]  # the fault is planted in it
    return patched(reader, "numbers", wrong)


def no_carriage_returns() -> AbstractContextManager[object]:
    """Lines that end in CR LF are refused."""
    parse = trace.parse

    def wrong(text: str) -> Problem:
        if "\r" in text:
            raise DidymaError("bad-number", "trace", got="'\\r'", want="a whole number")
        return parse(text)

    return patched(trace, "parse", wrong)


def crash_at_an_empty_cell() -> AbstractContextManager[object]:
    def wrong(self: object, cell: dict[str, str], column: str) -> int:
        del self
        return int(cell[column])

    reader = trace._Reader  # pyright: ignore[reportPrivateUsage]  # the fault is planted in it
    return patched(reader, "number", wrong)


def _arena(domain: str) -> Callable[[int], Sequence[Verdict]]:
    return lambda seed: domains.arena(domain, seed).verdicts


def _orientations(seed: int) -> Sequence[Verdict]:
    return domains.orientations("orientations", seed).verdicts


def _texts(seed: int) -> Sequence[Verdict]:
    return domains.texts("texts", seed).verdicts


def _lowest(p: SymbolicPlan, env: Mapping[str, int]) -> Mapping[str, int]:
    del env
    return {v.name: v.lo for v in p.declared}


def _one_less(p: SymbolicPlan, env: Mapping[str, int]) -> Mapping[str, int]:
    return {v.name: max(v.lo, env[v.name] - 1) for v in p.declared}


arena = partial(OtherFault, domain="arena", case=_arena("arena"))
pinned = partial(OtherFault, domain="fixed", case=_arena("fixed"))
symbolic = partial(OtherFault, domain="orientations", case=_orientations)
text = partial(OtherFault, domain="texts", case=_texts)

FAULTS: tuple[OtherFault, ...] = (
    arena(6, "lives that touch share an arena's bytes", "openxla/xla#46543",
          plant=solving(misled(ends_early))),
    arena(10, "one byte less than the size", "AMDMIGraphX#4992", plant=solving(misled(smaller))),
    arena(11, "alignment forgotten", "pytorch#150777", plant=solving(misled(unaligned))),
    arena(11, "a gap measured before it is aligned", "pytorch#150777",
          plant=solving(aligned_after_fitting)),
    arena(14, "two names with one offset", "torch-spyre#4022", plant=solving(one_record)),
    arena(15, "a peak below what is used", "idealloc's InExCSV reader", plant=too_low_a_peak),
    arena(15, "a load below what is alive", "idealloc's InExCSV reader", plant=load_of_starts),
    pinned(9, "a fixed offset not kept", "tflite-micro#913", plant=solving(misled(unfixed))),
    symbolic(12, "a lower bound for the size", "tvm#18663", plant=at_other_sizes(_lowest)),
    symbolic(12, "an index's bound one too low", "iree#24532", plant=at_other_sizes(_one_less)),
    symbolic(12, "the first run's offsets kept", "onnxruntime#28359", plant=stale),
    symbolic(12, "a term dropped that was not dominated", "tvm#18663", plant=arc_lost),
    text(14, "an inverted range taken", "pytorch#178578", plant=inverted_taken),
    text(15, "lives read as (lower, upper]", "idealloc's InExCSV reader",
         plant=reading(lambda row: [row[0] + (row[1] > row[0]), *row[1:]])),
    text(15, "CRLF refused", "minimalloc's reader", plant=no_carriage_returns),
    text(15, "a traceback at a bad number", "minimalloc's reader", plant=crash_at_an_empty_cell),
)  # fmt: skip
