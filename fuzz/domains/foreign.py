"""The domain of foreign kernels: plain CUDA C as kernel text, against the same text as C.

Engines run the text that ``codegen/emit/plain.py`` makes of a kernel which others wrote.  A
compiler of C, which knows nothing of that, runs the kernel's own text, thread by thread.  With each
kernel a kernel text is read of which it is known what its head says (``fuzz/foreign/heads.py``),
and another one is handed to a compile (``fuzz/foreign/claims.py``).  Texts are also kept that one
reader alone is handed (``fuzz/readings``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

import numpy as np

from didyma.codegen.emit.plain import plain
from didyma.codegen.emit.plain_expressions import Outside
from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.codegen.runtime.registry import engine
from didyma.codegen.runtime.tinycc import TinyCC
from didyma.fuzz import counters
from didyma.fuzz.domains.domain import Domain, Judge, Key, Outcome
from didyma.fuzz.domains.graphs import EngineChoice
from didyma.fuzz.emission.judge import differing
from didyma.fuzz.foreign import claims, heads, native
from didyma.fuzz.foreign.texts import BINS, Case, draw
from didyma.fuzz.foreign.writer import SMALL
from didyma.fuzz.readings import cases as readings
from didyma.fuzz.readings.cases import Reading
from didyma.oracle.report import Finding
from didyma.refimpl.ir.expr import ONE, index
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops.bars import Contract

Text: TypeAlias = Case | Reading
SLOW = frozenset(("simt",))  # it parses the text in Python
SELDOM = 5  # one kernel in so many is judged on slow engines, unless there are no others
DTYPES: Mapping[str, DType] = {
    k: DType.of(np.empty(0, np.dtype(t))) for k, t in native.NUMPY.items()
}


@dataclass(frozen=True, slots=True)
class Foreign(Domain[Text]):
    """Kernels of plain CUDA C, on engines given by name or as objects; and texts of others."""

    engines: tuple[EngineChoice, ...]

    @property
    def name(self) -> str:
        """``foreign``."""
        return "foreign"

    @property
    def floor(self) -> float:
        """Many kernels share a second."""
        return 0.05

    def draw(self, seed: int, index: int) -> Case:
        """Return the kernel of a campaign's seed and an index."""
        return draw(Random((seed << 64) + index))

    def judge(self) -> Judge[Text]:
        """Start the engines; ``unknown-engine`` or EngineMissing if one cannot run here."""
        every = [engine(e) if isinstance(e, str) else e for e in self.engines]
        quick = [e for e in every if e.name not in SLOW]
        compiler = TinyCC()

        def judged(case: Text) -> Outcome:
            if isinstance(case, Reading):
                found, counted = readings.judged(case)
                return Outcome(found, size=case.text.count("\n"), counters=counted)
            often = not quick or case.seed % SELDOM == 0
            return outcome(case, every if often else quick, compiler)

        return judged

    def size(self, case: Text) -> tuple[int, ...]:
        """Return the lines of the text, and its length."""
        return case.text.count("\n"), len(case.text)

    def text(self, case: Text, found: Outcome, message: str, seed: int) -> str:
        """Return the text of the kernel below what was found."""
        if isinstance(case, Reading):
            return Domain[Text].text(self, case, found, message, seed)
        head = Domain[Text].text(self, case, found, message, seed).splitlines()[:-1]
        launch = f"<<<{case.blocks}, {case.threads}>>> of {case.count} elements, seed {case.seed}"
        return "".join(f"//{line[1:]}\n" for line in [*head, f"# {launch}"]) + case.text

    def summary(self, covered: Mapping[Key, int]) -> dict[str, Any]:
        """Return how many kernels were judged on each engine."""
        return {k[1]: n for k, n in sorted(covered.items())}


def outcome(case: Case, engines: list[Engine], compiler: TinyCC) -> Outcome:
    """Run a kernel as C and on engines, and compare what its parameters hold then.

    Before that the head of a kernel text is read, which is drawn by the case's seed, and another
    kernel text is claimed for a function.
    """
    found = [*heads.judged(heads.drawn(Random(case.seed)))]
    if found := found or [*claims.judged(claims.drawn(Random(case.seed)))]:
        return Outcome(tuple(found), size=case.text.count("\n"))
    if case.refused:
        return Outcome(tuple(accepted(case)), size=case.text.count("\n"), checked=1, total=1)
    before = values(case)
    want = [a.copy() for a in before]
    native.run(case, want, compiler)
    try:
        made = plain(case.text)
    except Exception as e:
        found.append(Finding("emit", "plain", "error", f"{type(e).__name__}: {e}"))
        return Outcome(tuple(found), size=case.text.count("\n"))
    names = [name for name, _ in case.params]
    pairs = tuple((n, DTYPES[k]) for n, k in case.params)
    constant = [n for n in names if made.constant(n) == (n in case.outputs)]
    if (made.pointers, made.scalars) != (pairs, (("n", DType.I32),)) or constant:
        got = f"{made.pointers}, {made.scalars}, constant {sorted(made.constants)}"
        found.append(Finding("emit", "plain", "parameters", got))
    sizes = tuple(index(a.size) for a in before)
    blocks = index(case.blocks), ONE, ONE
    s = Signature(made.name, pairs, sizes, case.outputs, (), blocks, (case.threads, 1, 1),
                  made.scalars)  # fmt: skip
    text = KernelText(made.source, (s,), contract=False)
    for runs in engines if not found else ():
        found += compared(case, runs, text, before, want)
    total = sum(a.size for a in want)
    covered = tuple(("engine", e.name) for e in engines)
    counted = counters.of_texts({"kernel": made.source})
    return Outcome(tuple(found), size=case.text.count("\n"), checked=total, total=total,
                   covered=covered, counters=counted)  # fmt: skip


def accepted(case: Case) -> Iterator[Finding]:
    """Yield what is wrong if a text is read which has something that is no plain C."""
    try:
        made = plain(case.text)
    except Outside:
        return
    except Exception as e:
        yield Finding("emit", "plain", "error", f"{type(e).__name__}: {e}")
        return
    yield Finding("emit", "plain", "accepted", f"what is not read is read as {made.source}")


def values(case: Case) -> list[Array]:
    """Return what the parameters hold before the launch."""
    r, found = np.random.default_rng(case.seed), list[Array]()
    for name, kind in case.params:
        t = np.dtype(native.NUMPY[kind])
        count = BINS if name == "bins" else case.room
        if t.kind == "f":
            a = r.choice([1.0, 0.0, -0.0, 2.5, 1e30, -1e-30, 7.0], count) * r.normal(size=count)
            found.append(a.astype(t))
        else:
            found.append(r.integers(0 if t.kind == "u" else -SMALL, SMALL + 1, count).astype(t))
    return found


def compared(
    case: Case, e: Engine, text: KernelText, before: list[Array], want: list[Array]
) -> list[Finding]:
    """Return what is wrong with the results of an engine."""
    buffers = [e.upload(a) for a in before]
    try:
        e.load(text).launch(text.kernels[0].name, buffers, {}, scalars=[case.count])
        got = [
            e.download(b, DTYPES[k], a.shape)
            for b, (_, k), a in zip(buffers, case.params, before, strict=True)
        ]
    except KernelFault as fault:
        return [Finding(e.name, "kernel", "fault", str(fault))]
    except Exception as error:
        return [Finding(e.name, "kernel", "error", f"{type(error).__name__}: {error}")]
    finally:
        for b in buffers:
            e.free(b)
    for (name, kind), a, g in zip(case.params, want, got, strict=True):
        loose = 2 * Contract().of(case.near[:-1], DType.F32) if name == "near" else 0.0
        wrong = differing(a, g, DTYPES[kind], loose)
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            message = f"{name}[{at}] = {g[at]!r}, and {a[at]!r} in C"
            return [Finding(e.name, name, "value", message)]
    return []
