"""The structure of a kernel: of which terms its results are, in any order, as the ring tells.

In the ring a kernel's results have the same payloads as the reference's where it puts the same
terms together.  A kernel of plain C is run on ``simt``, which reads what its author has written;
any other on ``ptx``, after a compiler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from time import process_time
from typing import Any

import numpy as np

from didyma.codegen.emit.plain_expressions import Outside
from didyma.codegen.runtime.engine import KernelFault
from didyma.codegen.runtime.ptx.kernel import Kernel
from didyma.codegen.runtime.ptx.launch import launch
from didyma.codegen.runtime.ptx.meaning import Meaning
from didyma.codegen.runtime.ptx.sanitize import NOTES, Argument, passed
from didyma.codegen.runtime.ptx.sources import compiled
from didyma.codegen.runtime.ptx.units import payloads_of
from didyma.judging import beside, launching, layouts
from didyma.judging.inputs import Case
from didyma.judging.task import Kept, Result, Scalar, Step, Task
from didyma.oracle import graph_ring
from didyma.oracle.compare import payloads
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import scalar_ring
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array, Tensor

SECONDS = 2.0  # of processor time, after which no further round begins
LONGEST = 4.0  # of one launch
_FEW = 64  # elements of a constant whose numbers a kernel's text may have


@dataclass(slots=True)
class Terms:
    """What rounds in the ring have shown.

    Of the rounds ``in_ring``, in ``unequal`` ones results have other terms than the reference's, as
    ``example`` says, at ``where``.  ``checked`` of ``total`` floats were compared; the others hang
    on what the ring does not know, such as a constant that somebody has computed, or on bits of
    floats that integer instructions have changed.  ``outside`` says why no engine tells more.
    """

    engine: str = "simt"
    outside: str = ""
    in_ring: int = 0
    unequal: int = 0
    example: str = ""
    where: str = ""
    checked: int = 0
    total: int = 0
    spent: float = 0.0
    kernels: tuple[Kernel, ...] = field(default=(), repr=False)

    def record(self) -> dict[str, Any]:
        """Return all that is told, as JSON has it."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "kernels"}

    def meet(self, task: Task, case: Case, arrays: Sequence[Array], *, twins: bool) -> None:
        """Run a round of ordinary numbers whose results are right, in the ring.

        Where threads write ``twins``, equal values at once, ``simt`` has a race.
        """
        if twins:
            self.engine = "ptx"
        entry = task.spec.entry
        floats = [t.dtype.is_float for t in entry.result_types()]
        if self.outside or self.spent > SECONDS or not any(floats):
            return
        begun = process_time()
        try:
            outputs = self._run(task, case.env, arrays)
        except (DidymaError, Outside, KernelFault) as e:
            self.outside = f"engine ptx: {e}"
            return
        want = graph_ring.payloads(
            entry, task.spec, arrays, dict(case.env), task.contract.rules, stored=True
        )
        rows = zip(entry.results, floats, want, outputs, strict=True)
        found = [
            payloads(n, w.payload, scalar_ring.payload_of(o), (w.bar.c, scalar_ring.value_of(o)))
            for n, f, w, o in rows if f and o.size
        ]  # fmt: skip
        self.checked += sum(c.checked for c in found)
        self.total += sum(c.total for c in found)
        if any(c.checked for c in found):
            self.in_ring += 1
            if other := [c.message for c in found if not c.agree]:
                self.unequal += 1
                self.example, self.where = self.example or other[0], self.where or str(case)
        self.spent += process_time() - begun

    def _run(self, task: Task, env: Mapping[str, int], arrays: Sequence[Array]) -> list[Array]:
        if self.engine == "simt":
            try:
                return beside.run(task, env, arrays, "simt", ring=True)
            except Outside:
                self.engine = "ptx"
        if not self.kernels:
            meaning = Meaning.of(_numbers(task.spec))
            self.kernels = tuple(
                compiled(task.source, s.name, task.flags, meaning=meaning) for s in task.steps
            )
        return run(task, env, arrays, self.kernels)


def _numbers(spec: Module) -> Iterator[float]:
    """Yield the numbers that stand in a specification."""
    for f in spec.functions:
        for n in f.nodes:
            for v in n.attr.values():
                if isinstance(v, Tensor):
                    yield from v.array().reshape(-1)[:_FEW].astype(np.float64).tolist()
                elif isinstance(v, int | float):
                    yield float(v)


def run(
    task: Task, env: Mapping[str, int], arrays: Sequence[Array], kernels: Sequence[Kernel]
) -> list[Array]:
    """Launch kernels in the ring, one after the other; return records of values and payloads.

    DidymaError ``unknown-instruction`` for what the ring does not follow, ``launch-failed`` for a
    launch that takes too long or has faults.
    """
    held = dict[str, Argument]()
    marks = dict[str, Array]()
    variables, held_units = dict[str, bytes](), dict[str, Array]()
    for step, kernel in zip(task.steps, kernels, strict=True):
        made = launching.arguments(task, step, env, arrays, held)
        shape, shared = launching.geometry(task, step, env, arrays)
        if not (shape.blocks and shape.threads):
            continue
        regions, given = passed(made)
        keys = [launching.key(r) if isinstance(r, Result | Kept) else ""
                for r, a in zip(step.roles, made, strict=True) for _ in a.arrays()]  # fmt: skip
        for k, r in zip(keys, regions, strict=True):
            r.units = marks.get(k, r.units)
        own = kernel.holding(variables) if variables else kernel
        done = launch(
            own, shape, regions, given, shared, 0, LONGEST, _computed(step, kernel, made),
            held_units,
        )  # fmt: skip
        variables |= done.left
        held_units |= done.left_units
        if faults := [r for r in done.reports.values() if r.kind not in NOTES]:
            raise DidymaError(
                "launch-failed", f"kernel {kernel.name}", got=f"{faults[0].kind} in the ring",
                want=f"a launch of at most {LONGEST:g} s without faults",
            )  # fmt: skip
        pointers = [a for x in made for a in x.arrays()]
        for k, r, a in zip(keys, regions, pointers, strict=True):
            if k:
                value = r.data.view(a.value.dtype).reshape(a.value.shape)
                held[k] = replace(a, value=value, written=r.written)
                marks[k] = r.units
    return list(_results(task, env, held, marks))


def _computed(step: Step, kernel: Kernel, made: Sequence[Argument]) -> list[tuple[int, Array]]:
    """Return the floats that expressions of sizes give, and where they are passed."""
    params = kernel.program.kernel.params
    return [
        (kernel.param_at[p.name], a.value)
        for p, a, r in zip(params, made, step.roles, strict=True)
        if isinstance(r, Scalar) and r.dtype.is_float and r.dtype.nbytes > 1
    ]


def _results(
    task: Task, env: Mapping[str, int], held: Mapping[str, Argument],
    marks: Mapping[str, Array],
) -> Iterator[Array]:  # fmt: skip
    entry, steps = task.spec.entry, layouts.strides(task, env)
    values = launching.results(task, env, held)
    for name, t, v in zip(entry.results, entry.result_types(), values, strict=True):
        k = f"result {name}"
        if not t.dtype.is_float or k not in marks:
            yield v
            continue
        whole = payloads_of(held[k].value, marks[k])
        shape = dims.values(t.shape, env)
        p = launching.elements(whole, shape, steps.get(name, ()))
        yield np.asarray(scalar_ring.joined(v, p)) if v.size else v
