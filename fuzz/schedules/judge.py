"""Judge a schedule: the function must do the same with it, on the interpreter and on an engine.

To the bit, unless a step declares that it reassociates: then within the bars of the function's
graph, whose sums have the longest chain of additions of the scheduled kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from didyma.codegen.emit import cuda
from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.codegen.schedule.steps.apply import apply, scheduled
from didyma.codegen.schedule.steps.kernels import kernels
from didyma.codegen.schedule.steps.records import reassociates
from didyma.fuzz.schedules.cases import Case, Refused
from didyma.fuzz.schedules.functions import Subject
from didyma.oracle import lanes
from didyma.oracle.compare import compare
from didyma.oracle.primitives import PrimitiveBars, concrete
from didyma.oracle.report import Finding
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.kernel import scratch
from didyma.refimpl.ir.loop import Const, For, PrimFunc
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.types import Array, DType, from_memory
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.ops.bars import Contract

Buffers = Mapping[str, Array]


@dataclass(slots=True)
class Judged:
    """The findings of a case, the number of elements compared, and what forcing steps did.

    ``forced`` has the refused steps that were taken all the same, each with what came of it:
    ``differs`` where a result or a fault shows that the refusal was due, else ``agrees``.
    """

    findings: list[Finding] = field(default_factory=list[Finding])
    total: int = 0
    forced: list[tuple[Refused, str]] = field(default_factory=list[tuple[Refused, str]])


def judge(case: Case, engines: Sequence[Engine]) -> Judged:
    """Run a function with and without its schedule, and compare what it leaves in its buffers."""
    found = Judged()
    f, subject = case.subject.func, case.subject
    try:
        g = case.result or scheduled(case.schedule, f)
    except DidymaError as e:
        found.findings.append(Finding("schedule", f.name, "error", str(e)))
        return found
    except Exception as e:
        found.findings.append(Finding("schedule", f.name, "error", f"{type(e).__name__}: {e}"))
        return found
    if crowded := _crowded(g):
        found.findings.append(Finding("schedule", f.name, "block", crowded))
        return found
    loose = any(map(reassociates, case.schedule))
    try:
        want = interpreted(f, subject)
        got = interpreted(g, subject)
    except LoopFault as e:
        found.findings.append(Finding("loop", f.name, "fault", str(e)))
        return found
    _compare(found, "loop", case, g, want, got, loose)
    for engine in engines:
        try:
            before = launched((f,), engine, subject)
            after = launched(kernels(g), engine, subject)
        except KernelFault as e:
            found.findings.append(Finding(engine.name, f.name, "fault", str(e)))
            continue
        except DidymaError as e:  # no text that the engine takes
            found.findings.append(Finding(engine.name, f.name, "error", str(e)))
            continue
        _compare(found, engine.name, case, g, before, after, loose)
    if not found.findings:
        found.forced = [(r, "differs" if _differs(case, r, want) else "agrees") for r in case.due]
    return found


def _crowded(g: PrimFunc) -> str:
    """Say which kernel has a larger block than any GPU runs; empty if none has."""
    for k in kernels(g):
        sizes = [
            s.extent.value if isinstance(s.extent, Const) else 0
            for s in stmts(k.body)
            if isinstance(s, For) and s.axis.startswith("thread")
        ]
        if math.prod(sizes) > PORTABLE.threads or 0 in sizes:
            return f"{k.name} has blocks of {' by '.join(map(str, sizes))} threads"
    return ""


def interpreted(f: PrimFunc, subject: Subject) -> dict[str, Array]:
    """Return the buffers after a run of a function by the loop interpreter."""
    buffers = subject.buffers()
    lanes.run(f, buffers, dict(subject.env))
    return buffers


def launched(fs: Sequence[PrimFunc], engine: Engine, subject: Subject) -> dict[str, Array]:
    """Return the buffers after a run of kernels on an engine."""
    text = cuda.emit(fs)
    arrays = subject.buffers()
    held = {name: engine.upload(a) for name, a in arrays.items()}
    for b in scratch(fs, held):
        count = math.prod(dims.values(b.shape, dict(subject.env)))
        held[b.name] = engine.allocate(count * b.dtype.nbytes)
    try:
        loaded = engine.load(text)
        for f, s in zip(fs, text.kernels, strict=True):
            loaded.launch(s.name, [held[b.name] for b in f.params], dict(subject.env))
        return {
            b.name: engine.download(held[b.name], b.dtype, arrays[b.name].shape)
            for b in subject.func.params
        }
    finally:
        for b in held.values():
            engine.free(b)


def _compare(
    found: Judged,
    level: str,
    case: Case,
    g: PrimFunc,
    want: Buffers,
    got: Buffers,
    loose: bool,
) -> None:
    f = case.subject.func
    if loose and case.subject.module is not None:
        _within_bars(found, level, case.subject, g, got)
        return
    for b in f.params:
        found.total += want[b.name].size
        wrong = differing(want[b.name], got[b.name], b.dtype)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            message = (
                f"{b.name}{list(at)} = {got[b.name][at]!r}, want {want[b.name][at]!r}; "
                f"{int(wrong.sum())} of {wrong.size} elements differ"
            )
            found.findings.append(Finding(level, f.name, "value", message))
            return


def differing(want: Array, got: Array, dtype: DType) -> Array:
    """Return which elements are not the same number, to the bit; any NaN is as good as another."""
    bits = np.dtype(f"u{dtype.nbytes}")
    same = want.view(bits) == got.view(bits)
    if dtype.is_float:
        a, b = (x.astype(dtype.compute.numpy) for x in (want, got))
        same |= np.isnan(a) & np.isnan(b)
    return np.asarray(~same)


def _within_bars(found: Judged, level: str, subject: Subject, g: PrimFunc, got: Buffers) -> None:
    m, env = subject.module, dict(subject.env)
    assert m is not None
    name, contract = m.entry.name, Contract()
    with np.errstate(all="ignore"):
        bars = PrimitiveBars(m, contract).bars(name, subject.inputs(), env, kernels(g))
    types = concrete(m.entry.result_types(), env)
    for out, bar, t in zip(subject.func.outputs, bars, types, strict=True):
        values = from_memory(got[out], t.dtype, tuple(int(n) for n in t.shape))
        c = compare(out, bar, values, t)
        found.total += c.total
        if not c.agree:
            found.findings.append(Finding(level, name, "value", c.message))
            return


def _differs(case: Case, refused: Refused, want: Buffers) -> bool:
    """Return whether a refused step, taken all the same, changes a result or is a fault."""
    f = refused.func or scheduled(case.schedule[: refused.after], case.subject.func)
    try:
        g = apply(refused.step, f, unchecked=True)
        got = interpreted(g, case.subject)
    except (DidymaError, LoopFault):
        return True
    return any(
        differing(want[b.name], got[b.name], b.dtype).any() for b in case.subject.func.params
    )
