"""Whether a decision of the compiler mattered in a drawn program: a wrong result of it would show.

A decision is about a value, such as the result of a node that a rule rewrote, the output of a
kernel, or the buffer that took over another's memory.  It *matters* in a program if the judge finds
fault with the program in which that value is wrong: with its elements in reverse order, and with
another number in every place.  So a value matters only if it has elements that differ, if it
reaches a result, and if nothing on the way there undoes the change or leaves it undecided.  This
says that a wrong value would be seen, not that every slip of the rule makes the value wrong: of
which kinds slips are, mutants tell (``tests/mutants``).

It is mutation analysis of generated programs (R. DeMillo, R. Lipton and F. Sayward, "Hints on Test
Data Selection", 1978) with two mutations at one place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from didyma.codegen.pipeline import Fused
from didyma.fuzz.domains.domain import Key
from didyma.fuzz.graphs import Case
from didyma.fuzz.keys import EXAMINED, MATTERED
from didyma.oracle.stages import judge_passes
from didyma.oracle.subject import Subject
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Function, Module, Node, attrs
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.types import PLAIN, Array, DType, Tensor, TensorType

ENOUGH = 4  # times that a decision mattered, after which it is examined no more
TRIED = 64  # times that a decision is examined in vain, after which it is examined seldom
SELDOM = 8  # of so many more, one is examined
MOST = 2  # decisions that are examined in one program, and values of each

# Nodes that define a value wrongly, from the name that it has before, its name and its type.
Wrong: TypeAlias = Callable[[str, str, TensorType], Iterable[Node] | None]

_NOTHING = Program("none", (), (), (), (), (), ())


@dataclass(slots=True)
class Examiner:
    """Examines decisions of the programs that a process judges, until they mattered often enough.

    ``examined`` and ``mattered`` count programs by the name of a decision.
    """

    examined: Counter[str] = field(default_factory=Counter[str])
    mattered: Counter[str] = field(default_factory=Counter[str])

    def keys(
        self, case: Case, inputs: Sequence[Array], made: Fused, places: Mapping[str, Sequence[str]]
    ) -> Iterator[Key]:
        """Yield which decisions of a program were examined, and which of these mattered.

        ``places`` are the values that each decision was about.  Those that no entry defines, such
        as values inside of a loop, are not looked at.  Of a kept program no decision is examined:
        its counters hold it to each of them, and changed kept programs are examined.
        """
        if case.counted:
            return
        defined = {r for m in _modules(case, made) for n in m.entry.nodes for r in n.results}
        seen = {
            n: [v for v in dict.fromkeys(values) if v in defined] for n, values in places.items()
        }
        due = (name for name, values in seen.items() if values and self._is_due(name))
        for name in sorted(due, key=lambda n: (self.mattered[n], n))[:MOST]:
            self.examined[name] += 1
            yield EXAMINED, name
            if any(matters(case, inputs, made, value) for value in seen[name][:MOST]):
                self.mattered[name] += 1
                yield MATTERED, name

    def _is_due(self, name: str) -> bool:
        tried = self.examined[name]
        return self.mattered[name] < ENOUGH and (tried < TRIED or tried % SELDOM == 0)


def matters(case: Case, inputs: Sequence[Array], made: Fused, value: str) -> bool:
    """Return whether the judge would see that a value of an entry of a program is wrong."""
    m = next(m for m in reversed(_modules(case, made)) if _defines(m.entry, value))
    wrong = [perturbed(m, value, how) for how in (reversed_, replaced)]
    return all(w is None or _is_seen(case, inputs, w) for w in wrong) and any(wrong)


def _is_seen(case: Case, inputs: Sequence[Array], wrong: Module) -> bool:
    subject = Subject(case.module, (("wrong", wrong),), wrong, {}, {}, _NOTHING)
    try:
        with np.errstate(all="ignore"):
            level = judge_passes(subject, inputs)
    except DidymaError:
        return False  # a wrong size is refused before anything is compared
    return any(f.kind == "value" for f in level.findings)


def _modules(case: Case, made: Fused) -> Sequence[Module]:
    return (case.module, *(m for _, m in made.passes))


def _defines(f: Function, value: str) -> bool:
    return any(value in n.results for n in f.nodes)


def perturbed(m: Module, value: str, how: Wrong) -> Module | None:
    """Return a module in which a value of the entry is wrong; None if there is no such way."""
    f = m.entry
    t, was = f.types()[value], f"{value}_was"
    changes = how(was, value, t)
    if changes is None:
        return None
    nodes: list[Node] = []
    for n in f.nodes:
        if value in n.results:
            results = tuple(was if r == value else r for r in n.results)
            nodes += [replace(n, results=results), *changes]
        else:
            nodes.append(n)
    return replace(m, functions=(*m.functions[:-1], replace(f, nodes=tuple(nodes))))


def reversed_(was: str, value: str, t: TensorType) -> Iterable[Node] | None:
    """Reverse all axes of a value; None of a scalar."""
    if not t.rank:
        return None
    return (Node((value,), "flip", (was,), (t,), attrs({"axes": tuple(range(t.rank))})),)


def replaced(was: str, value: str, t: TensorType) -> Iterable[Node] | None:
    """Return 3 for every number and 1 for 3; None for dtypes without arithmetic."""
    if t.dtype not in PLAIN:
        return None
    one, other = (1, 0) if t.dtype is DType.BOOL else (3, 1)

    def number(name: str, x: int) -> Node:
        full = Tensor.of(np.array(x).astype(t.dtype.numpy))
        return Node((name,), "constant", (), (full.type,), attrs({"value": full}))

    a, b, same = (f"{value}_{word}" for word in ("one", "other", "same"))
    truth = t.with_dtype(DType.BOOL)
    return (
        number(a, one),
        number(b, other),
        Node((same,), "equal", (was, a), (truth,)),
        Node((value,), "where", (same, b, a), (t,)),
    )
