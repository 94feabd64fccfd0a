"""Answers that no kernel should get away with: a task that cannot tell them certifies nothing.

Kernels have been scored as right that returned zeros, a constant, one of their inputs, what lay in
memory from the run before, or the mean.  Each such answer is put to the judge in place of the
kernel's.  A task in which one of them is never refused cannot tell it from the right answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from didyma.judging.contracts import Declared
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ops import bars
from didyma.refimpl.ops.bars import Bar

_COPIES = frozenset(("cast", "saturating_cast", "reshape", "to"))


@dataclass(slots=True)
class Decoys:
    """The decoys of each output that no round has refused yet."""

    spec: Module
    contract: Declared
    pending: dict[tuple[str, str], bool] = field(default_factory=dict[tuple[str, str], bool])
    first: dict[str, Array] = field(default_factory=dict[str, Array])
    means: dict[str, float] = field(default_factory=dict[str, float])

    def meet(self, inputs: Sequence[Array], right: Sequence[Bar], stale: Sequence[Array]) -> None:
        """Put the decoys of a round to the judge.

        ``right`` are the bars of the outputs, ``stale`` right answers for other inputs.
        """
        entry = self.spec.entry
        given = {p.name: x for p, x in zip(entry.params, inputs, strict=True)}
        rows = zip(entry.results, entry.result_types(), right, stale, strict=True)
        for name, t, bar, old in rows:
            if not bar.c.size:
                continue
            for what, fake in self._fakes(name, bar, given, old):
                refused = self._refused(bar, fake, t.dtype)
                if refused is not None:
                    self.pending[name, what] = self.pending.get((name, what), False) or refused
            self.first.setdefault(name, bar.c.reshape(-1)[:1])
            self.means[name] = _mean(bar)

    def _fakes(
        self, name: str, bar: Bar, given: Mapping[str, Array], old: Array
    ) -> Iterator[tuple[str, Array]]:
        c = bar.c
        yield "zeros", np.zeros_like(c)
        if name in self.first:  # a constant is the same in every round
            yield "a constant", np.full(c.shape, self.first[name][0], c.dtype)
        for source, x in given.items():
            if source == _copied(self.spec, name):
                continue
            if x.size == c.size and x.dtype.kind != "V":
                yield f"a copy of {source}", x.reshape(c.shape)
        if old.shape == c.shape:
            yield "stale memory", old
        if DType.of(old).is_float and (c.size > 1 or name in self.means):
            mean = _mean(bar) if c.size > 1 else self.means[name]
            yield "the mean", np.full(c.shape, mean)

    def _refused(self, bar: Bar, fake: Array, dtype: DType) -> bool | None:
        """Return whether the judge refuses an answer; None where no element is decided."""
        with np.errstate(all="ignore"):
            given = fake.astype(np.float64) if dtype.is_float else fake
            out = given.astype(dtype.numpy)
            verdict = bars.judge(self.contract.widened(bar, dtype), out, dtype)
        if verdict.undecided.all():
            return None
        return not bool(verdict.ok.all())

    @property
    def accepted(self) -> list[str]:
        """What the task cannot tell from the right answer, such as ``zeros``."""
        several = len(self.spec.entry.results) > 1
        return [
            f"{what} in {name}" if several else what
            for (name, what), refused in self.pending.items()
            if not refused
        ]


def _copied(m: Module, output: str) -> str:
    """Return the input of which an output is a copy by its definition; empty where it is none."""
    by = {r: n for n in m.entry.nodes for r in n.results}
    while output in by and by[output].op in _COPIES:
        output = by[output].args[0]
    return "" if output in by else output


def _mean(bar: Bar) -> float:
    with np.errstate(all="ignore"):
        c = bar.c.astype(np.float64)
        finite = c[np.isfinite(c)]
        return float(finite.mean()) if finite.size else 0.0
