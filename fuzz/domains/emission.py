"""The domain of emission: kernels of random expressions, as CUDA C on engines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.registry import engine
from didyma.codegen.runtime.simt.access import Traffic
from didyma.codegen.runtime.simt.engine import Simt
from didyma.fuzz import counters, saved
from didyma.fuzz.domains.domain import Domain, Judge, Key, Outcome
from didyma.fuzz.domains.graphs import EngineChoice
from didyma.fuzz.domains.kernels import Kernels, outcome
from didyma.fuzz.emission.forms import draw
from didyma.fuzz.emission.judge import judge
from didyma.fuzz.emission.kernels import SHORT, Case
from didyma.refimpl.ir.loop import Binary, Cast, Compare, Const, Expr, Intrinsic, Stmt, Unary
from didyma.refimpl.ir.text import show
from didyma.refimpl.ir.walk import expr_children, stmt_exprs, stmts, subexprs

SLOW = frozenset(("simt",))  # it parses the text in Python
SELDOM = 5  # one kernel in so many is judged on slow engines, unless there are no others


@dataclass(frozen=True, slots=True)
class Emission(Kernels):
    """Kernels of expressions and small statements, on engines given by name or as objects.

    With ``every`` each kernel is judged on slow engines, too.
    """

    engines: tuple[EngineChoice, ...]
    every: bool = False

    @property
    def name(self) -> str:
        """``emission``."""
        return "emission"

    @property
    def floor(self) -> float:
        """Many kernels share a second."""
        return 0.12

    def draw(self, seed: int, index: int) -> Case:
        """Return the kernel of a campaign's seed and an index."""
        return draw(Random((seed << 64) + index))

    def judge(self) -> Judge[Case]:
        """Start the engines; ``unknown-engine`` or EngineMissing if one cannot run here."""
        traffic = Traffic()
        every = [_exact(engine(e) if isinstance(e, str) else e, traffic) for e in self.engines]
        quick = [e for e in every if e.name not in SLOW]

        def judged(case: Case) -> Outcome:
            often = self.every or not quick or case.seed % SELDOM == 0
            before = Counter(counters.of_traffic(traffic))
            found = judged_on(case, every if often or reads_behind_guards(case) else quick)
            did = Counter(counters.of_traffic(traffic)) - before
            return replace(found, counters={**found.counters, **did})

        return judged

    def text(self, case: Case, found: Outcome, message: str, seed: int) -> str:
        """Return the file that ``didyma replay`` reads: the loop program below what it needs."""
        names = [e if isinstance(e, str) else e.name for e in self.engines]
        facts = {"seed": case.seed, "dims": dict(case.env), "engines": names}
        head = Domain[Case].text(self, case, found, message, seed).splitlines()[:-1]
        return "\n".join([saved.head(self.name, facts), *head, show(case.kernel), ""])

    def replay(self, case: Case, file: str) -> str:
        """Return the command that replays a file."""
        del case
        return f"didyma replay {file}" if file else ""

    def summary(self, covered: Mapping[Key, int]) -> dict[str, Any]:
        """Return how many operations of a dtype were written, and how many pairs of them."""
        kinds = {k for k in covered if len(k) == 1}
        return {"operations": len(kinds), "pairs": len(covered) - len(kinds)}


def _exact(e: Engine, traffic: Traffic) -> Engine:
    """Return an engine on which no signed integer of C may overflow, if it can tell.

    It counts what threads do.
    """
    return replace(e, exact=True, traffic=traffic) if isinstance(e, Simt) else e


def judged_on(case: Case, engines: Sequence[Engine]) -> Outcome:
    """Judge a kernel on engines."""
    found = judge(case, engines)
    o = outcome(case, found.findings, found.total, keys(case))
    return replace(o, counters=counters.of_texts({"kernel": found.text}))


def reads_behind_guards(case: Case) -> bool:
    """Return whether a kernel may read out of bounds, which not every engine sees."""
    return any(b.shape == (SHORT,) for b in case.kernel.params)


def keys(case: Case) -> Iterator[Key]:
    """Yield each operation with its dtype, and with each operand's."""
    functions = (case.kernel, *case.kernel.functions)
    for s in (s for f in functions for s in stmts(f.body)):
        yield (_statement(s),)
        for e in stmt_exprs(s):
            yield _statement(s), _named(e)
            for x in subexprs(e):
                yield (_named(x),)
                for child in expr_children(x):
                    yield _named(x), _named(child)


def _statement(s: Stmt) -> str:
    return type(s).__name__ + (f" {k}" if (k := getattr(s, "kind", "")) else "")


def _named(e: Expr) -> str:
    match e:
        case Binary(op) | Unary(op) | Compare(op):
            return f"{op} {expr_children(e)[0].dtype}"
        case Cast(arg, dtype):
            return f"{arg.dtype} to {dtype}"
        case Intrinsic(name, args):
            return f"{name} {args[0].dtype}"
        case Const(value, dtype):
            return f"literal {'<0' if value < 0 else '0' if value == 0 else '>0'} {dtype}"
        case _:
            return f"{type(e).__name__.lower()} {e.dtype}"
