"""A kernel on engines beside ``ptx``, which must reach the same verdict.

A kernel of plain CUDA C runs on ``simt`` and ``host``, any kernel on ``cuda`` where there is a GPU.
The engines share no code but the checks' names, so where their verdicts differ, one of them is
wrong, which is a fault of Didyma and no verdict on the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np

from didyma.codegen.emit.plain import Plain, plain
from didyma.codegen.emit.plain_expressions import Outside
from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.codegen.runtime.ptx.sanitize import Argument
from didyma.codegen.runtime.ptx.shape import Shape
from didyma.codegen.runtime.registry import engine as _made
from didyma.codegen.runtime.simt import Simt
from didyma.judging import launching, layouts
from didyma.judging.inputs import Case
from didyma.judging.task import Result, Step, Task
from didyma.oracle.compare import compare
from didyma.refimpl.errors import EngineMissing
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.expr import index
from didyma.refimpl.ir.kernel import KernelText, Signature
from didyma.refimpl.ir.types import Array, DType, TensorType
from didyma.refimpl.ops import bars
from didyma.refimpl.ops.bars import Bar

ENGINES = ("simt", "host", "cuda")
CLEARLY = 4  # times the width of a bar
SECONDS = 2.0  # of processor time for all rounds on one engine


@dataclass(slots=True)
class Beside:
    """What another engine than ``ptx`` has shown.

    ``outside`` says why it does not run the kernel.  ``differ`` are verdicts other than those of
    ``ptx``.
    """

    engine: str = "simt"
    outside: str = ""
    rounds: int = 0
    differ: list[str] = field(default_factory=list[str])
    spent: float = 0.0

    def meet(
        self,
        task: Task,
        case: Case,
        arrays: Sequence[Array],
        right: Sequence[Bar],
        ours: Sequence[Array],
        *,
        agreed: bool,
        twins: bool,
    ) -> None:
        """Run a round that was without faults on ``ptx``, which left ``ours`` as the outputs.

        ``agreed`` says whether they are right in every order of warps.  Where threads write
        ``twins``, equal values at once, ``ptx`` has a note and ``simt`` a race.
        """
        if self.outside or self.spent > SECONDS:
            return
        begun = process_time()
        try:
            self._values(task, case, arrays, right, ours, agreed=agreed, twins=twins)
        except Outside as e:
            self.outside = str(e)
        except EngineMissing as e:
            self.outside = e.got
        self.spent += process_time() - begun

    def _values(
        self,
        task: Task,
        case: Case,
        arrays: Sequence[Array],
        right: Sequence[Bar],
        ours: Sequence[Array],
        *,
        agreed: bool,
        twins: bool,
    ) -> None:
        try:
            outputs = run(task, case.env, arrays, self.engine)
        except KernelFault as e:
            others = [f for f in e.faults if not (twins and f.kind == "race")]
            self.rounds += 1
            for f in others[:1]:
                self.differ.append(f"line {f.line}: {f.kind}: {f.detail}, at {case}")
            return
        self.rounds += 1
        entry = task.spec.entry
        rows = zip(entry.results, entry.result_types(), right, ours, outputs, strict=True)
        for name, t, bar, mine, other in rows:
            differ = disputed(bar, mine, other, t.dtype)
            if not agreed:  # what a wrong kernel adds may overflow where products are not fused
                differ &= _finite(mine, t.dtype) & _finite(other, t.dtype)
            if differ.any():
                c = compare(name, bar, other, TensorType(t.dtype, other.shape))
                self.differ.append(f"{c.message or 'the results are right'}, at {case}")
                return


def _finite(x: Array, dtype: DType) -> Array:
    return np.isfinite(x.astype(np.float64)) if dtype.is_float else np.ones(x.shape, np.bool_)


def disputed(bar: Bar, ours: Array, theirs: Array, dtype: DType) -> Array:
    """Return for which elements two engines cannot both have run one kernel by the rules.

    One result is inside of its bar, and the other is outside of one that is ``CLEARLY`` as wide.
    Nearer ones may be those of a kernel at the edge of the bar: how each of its roundings falls
    differs by engine, and how far they add up does not.
    """
    wide = Bar(bar.c, CLEARLY * bar.e)
    with np.errstate(all="ignore"):
        inside, near = ([bars.judge(b, x, dtype).ok for x in (ours, theirs)] for b in (bar, wide))
    return np.asarray((inside[0] & ~near[1]) | (inside[1] & ~near[0]))


def run(
    task: Task,
    env: Mapping[str, int],
    arrays: Sequence[Array],
    name: str = "simt",
    *,
    ring: bool = False,
) -> list[Array]:
    """Launch the kernel on an engine once; return the outputs in the order of the specification.

    In the ``ring``, which ``simt`` has, floats are records of values and payloads.  KernelFault for
    what its checks find, ``Outside`` for a kernel that is no plain C, EngineMissing.
    """
    if any(s.maps for s in task.steps):
        raise Outside(0, "tensor maps")
    if name == "cuda":
        from didyma.judging import on_gpu

        return on_gpu.run(task, env, arrays)
    step, *others = task.steps
    if others:
        raise Outside(0, "several launches")
    shape, shared = launching.geometry(task, step, env, arrays)
    text = _translated(task, step, shared, ring)
    made = {a.name: a for a in launching.arguments(task, step, env, arrays, {})}
    on = Simt(ring=ring) if name == "simt" else _made(name)
    buffers = launched(on, text, made, shape)
    at = {n: b for (n, _), b in zip(text.pointers, buffers, strict=True)}
    left = {
        r.name: at[n] for n, r in zip(step.names, step.roles, strict=True) if isinstance(r, Result)
    }
    named = {
        r.name: made[n]
        for n, r in zip(step.names, step.roles, strict=True)
        if isinstance(r, Result)
    }
    steps = layouts.strides(task, env)

    def one(name: str, t: TensorType) -> Array:
        memory = on.download(left[name], t.dtype, named[name].value.shape)
        return launching.elements(memory, dims.values(t.shape, env), steps.get(name, ()))

    entry = task.spec.entry
    return [one(n, t) for n, t in zip(entry.results, entry.result_types(), strict=True)]


def launched(on: Engine, text: Plain, made: Mapping[str, Argument], shape: Shape) -> list[Any]:
    """Launch a plain kernel on an engine; return the buffers of its pointers.

    KernelFault for what its checks find, ``Outside`` for arguments of other names.
    """
    if {n for n, _ in (*text.pointers, *text.scalars)} != {*made} or not made:
        raise Outside(0, "no parameters, or such of other names")
    if any(a.start for a in made.values()):
        raise Outside(0, "pointers behind the beginning of their memory")
    buffers = [
        on.allocate(a.value.nbytes) if a.output else on.upload(a.value)
        for a in (made[n] for n, _ in text.pointers)
    ]
    kernel = KernelText(text.source, (_signature(text, made, shape.grid, shape.block),))
    loaded = on.load(kernel)
    if shape.blocks and shape.threads:
        with np.errstate(all="ignore"):
            loaded.launch(
                text.name, buffers, {}, scalars=[made[n].value.item() for n, _ in text.scalars]
            )
    return buffers


def _translated(task: Task, step: Step, shared: int, ring: bool) -> Plain:
    text = task.source.text
    if task.source.file.endswith((".ptx", ".py")) or "<" in step.name:
        raise Outside(0, "PTX, or an instance of a template")
    if any(f.startswith("-D") and f"define {f[2:].partition('=')[0]}" not in text
           and f[2:].partition("=")[0] in text.split() for f in task.flags):  # fmt: skip
        raise Outside(0, "macros of the command line")
    return plain(text, step.name, shared, ring=ring)


def _signature(
    text: Plain,
    made: Mapping[str, Argument],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
) -> Signature:
    x, y, z = map(index, grid)
    sizes = tuple(index(made[n].value.size) for n, _ in text.pointers)
    written = tuple(n for n, _ in text.pointers if not text.constant(n))
    return Signature(
        text.name, text.pointers, sizes, written, (), (x, y, z), block, text.scalars
    )  # fmt: skip
