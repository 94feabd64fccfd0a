"""What the domains whose cases are kernels share: how their cases are counted and made smaller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from didyma.fuzz import traits
from didyma.fuzz.domains.domain import Domain, Key, Outcome, Shrinker
from didyma.fuzz.emission.kernels import Case
from didyma.fuzz.emission.shrink import smaller
from didyma.fuzz.minimise.search import greedy
from didyma.oracle.report import Finding
from didyma.refimpl.ir.walk import stmt_exprs, stmts, subexprs


class Kernels(Domain[Case]):
    """A domain whose cases are kernels, with the seed of their inputs and the sizes."""

    def shrinkers(self, finding: Finding) -> Sequence[tuple[float, Shrinker[Case]]]:
        """Return what makes kernels smaller."""
        del finding
        return ((1.0, lambda case: greedy(case, smaller)),)

    def size(self, case: Case) -> tuple[int, ...]:
        """Return the number of expressions and statements."""
        return (size(case),)


def size(case: Case) -> int:
    """Return the number of expressions and statements of a kernel."""
    many = list(stmts(case.kernel.body))
    return len(many) + sum(1 for s in many for e in stmt_exprs(s) for _ in subexprs(e))


def outcome(case: Case, findings: Sequence[Finding], total: int, keys: Iterable[Key]) -> Outcome:
    """Return the outcome of judging a kernel, of which ``total`` elements were compared."""
    causes = traits.of_kernel(case.kernel) if findings else frozenset[str]()
    return Outcome(tuple(findings), causes, size(case), total, total, tuple(dict.fromkeys(keys)))
