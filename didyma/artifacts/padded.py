"""Programs whose artifacts pad their inputs to buckets of sizes, and how they are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from didyma import padding
from didyma.codegen.emit.buckets import Buckets
from didyma.codegen.passes.padded import Padded
from didyma.codegen.passes.padded import padded as pad
from didyma.commands.judge import Task
from didyma.fuzz import padding as judge
from didyma.oracle.report import Report
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Tensor


@dataclass(frozen=True, slots=True)
class Padding:
    """A program, and the one that runs on its inputs when they are padded to buckets."""

    source: Module
    padded: Padded
    sizes: Mapping[str, tuple[int, ...]]

    @property
    def module(self) -> Module:
        """The program that takes padded inputs."""
        return self.padded.module

    @property
    def buckets(self) -> Buckets:
        """What the artifact pads to."""
        results = tuple(t.shape for t in self.source.entry.result_types())
        return Buckets(self.sizes, self.padded.given, results)

    def bucket(self, env: Mapping[str, int]) -> dict[str, int]:
        """Return the least buckets that are larger than sizes, or the last."""
        return {k: next((s for s in v if s > env[k]), v[-1]) for k, v in self.sizes.items()}

    def task(self, of: Task) -> Task:
        """Return the judgement of the padded program at larger sizes than those of a task."""
        told = self.module.entry.params[len(self.source.entry.params) :]
        numbers = (dims.evaluate(d, of.env) for d in self.padded.given)
        given = {
            p.name: Tensor.of(np.array(n, np.int64)) for p, n in zip(told, numbers, strict=True)
        }
        env = {**of.env, **self.bucket(of.env)}
        return replace(of, module=self.module, env=env, given={**of.given, **given})

    def report(self, of: Report, task: Task) -> Report:
        """Return a report with a level for what padding makes of the source, on a task's inputs."""
        values = task.source.values(task.rounds[0])
        level = judge.compared(
            self.source, self.padded, values, task.env, {**task.env, **self.bucket(task.env)}
        )
        return of if level is None else replace(of, levels=(level, *of.levels))


def of(m: Module, wishes: Mapping[str, padding.Buckets]) -> Padding:
    """Return a program for padded inputs, which lie in row-major order whatever types say.

    DidymaError ``bad-bucket``; ``not-padded`` where padding would change results.
    """
    sizes = padding.chosen(m, wishes)
    return Padding(m, pad(m, {name: dims.symbol(name) for name in sizes}), sizes)


def parsed(words: Sequence[str]) -> dict[str, padding.Buckets]:
    """Return buckets from words such as ``n=0.25`` and ``n=16,64``; ``bad-bucket``."""
    found: dict[str, padding.Buckets] = {}
    for word in words:
        name, _, text = word.partition("=")
        try:
            whole = [int(n) for n in text.split(",")] if "." not in text else None
            found[name] = float(text) if whole is None else whole
        except ValueError:
            raise DidymaError(
                "bad-bucket", f"--bucket {word}", got=text or "nothing",
                want="NAME=SHARE with a share such as 0.25, or NAME=N,N,… with increasing sizes",
            ) from None  # fmt: skip
    return found
