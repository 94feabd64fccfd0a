"""Judge a schedule: the function must do the same with it, on the interpreter and on an engine.

To the bit, unless a step declares that it reassociates: then within the bars of the function's
graph, whose sums have the longest chain of additions of the scheduled kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from didyma.codegen.emit import cuda
from didyma.codegen.runtime import registry
from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.codegen.runtime.loop_externs import on_engine
from didyma.codegen.schedule.steps import text
from didyma.codegen.schedule.steps.apply import apply, run
from didyma.codegen.schedule.steps.kernels import Part, kernels, parts, workspace
from didyma.codegen.schedule.steps.records import Step, reassociates
from didyma.fuzz import counters
from didyma.fuzz.counters import Counters
from didyma.fuzz.schedules import by_recipes, mistakes, promises
from didyma.fuzz.schedules.cases import TARGET, Case, Refused
from didyma.fuzz.schedules.forms import ROUTINES
from didyma.fuzz.schedules.functions import Subject
from didyma.oracle import lanes
from didyma.oracle.compare import compare
from didyma.oracle.primitives import PrimitiveBars, concrete
from didyma.oracle.report import Finding
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import loop as definition
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.interp.scalar import Value
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.loop import RANK, Const, For, PrimFunc
from didyma.refimpl.ir.lowered import lowered
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.text import show
from didyma.refimpl.ir.types import Array, DType, from_memory
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.ops.bars import Contract

Buffers = Mapping[str, Array]
SPOILT = 8  # one kept schedule in so many is also given with mistakes, as drawn ones are
LACKS = "target-lacks"  # the code of steps that a target has no hardware for


@dataclass(slots=True)
class Judged:
    """The findings of a case, the number of elements compared, and what forcing steps did.

    ``forced`` has the refused steps that were taken all the same, each with what came of it:
    ``differs`` where a result or a fault shows that the refusal was due, else ``agrees``.
    ``counters`` are those of the kernels after all steps.
    """

    findings: list[Finding] = field(default_factory=list[Finding])
    total: int = 0
    forced: list[tuple[Refused, str]] = field(default_factory=list[tuple[Refused, str]])
    counters: Counters = field(default_factory=dict[str, int])


def judge(case: Case, engines: Sequence[Engine]) -> Judged:
    """Run a function with and without its schedule, and compare what it leaves in its buffers."""
    found = Judged()
    f, subject = case.subject.func, case.subject
    if subject.options is not None:
        return _by_recipes(subject)
    try:
        after = case.after
        if after is None:
            after = tuple(a.func for a in run(case.schedule, f, TARGET))
        g = lowered((f, *after)[-1])
    except DidymaError as e:
        found.findings.append(Finding("schedule", f.name, "error", str(e)))
        return found
    except Exception as e:
        found.findings.append(Finding("schedule", f.name, "error", f"{type(e).__name__}: {e}"))
        return found
    counted = counters.of_kernels(kernels(g), dict(subject.env))
    answers = _answers(case, (f, *after))
    forced = {r: _forced(r.step, (f, *after)[r.after]) for r in case.due}
    texts = {"function": show(g), "kernels": _emitted(g), "refusals": "\n".join(map(str, answers))}
    texts["forced"] = "\n".join(x if isinstance(x, str) else show(x) for x in forced.values())
    texts["brief"] = "\n".join(map(_brief, case.schedule))
    found.counters = {**counted, **counters.of_texts({k: x for k, x in texts.items() if x})}
    promised = promises.broken(case.schedule, f, after, dict(subject.env))
    spoilt = case.after is not None or subject.seed % SPOILT == 0
    mistaken = mistakes.broken(case.schedule, (f, *after), TARGET, subject.seed) if spoilt else ""
    for kind, message in (
        ("block", _crowded(g)), ("text", _misread(case)), ("promise", promised),
        ("mistake", mistaken),
    ):  # fmt: skip
        if message:
            found.findings.append(Finding("schedule", f.name, kind, message))
            return found
    found.findings += _accepted(case, answers)
    loose = any(map(reassociates, case.schedule))
    try:
        want = defined(f, subject) if subject.defined else interpreted(f, subject)
        if subject.defined:
            _compare(found, "loop", case, f, want, interpreted(f, subject), loose)
        got = interpreted(g, subject)
    except LoopFault as e:
        found.findings.append(Finding("loop", f.name, "fault", str(e)))
        return found
    _compare(found, "loop", case, g, want, got, loose)
    took = [e for e in engines if _on_engine(found, e, case, g, want, loose)]
    if engines and not took:
        _on_engine(found, registry.engine("simt"), case, g, want, loose)
    if not found.findings:
        found.forced = [
            (r, "differs" if _differs(case.subject, x, want) else "agrees")
            for r, x in forced.items()
        ]
    return found


def _by_recipes(subject: Subject) -> Judged:
    """Judge a function that is scheduled by recipes."""
    found, name = Judged(), subject.func.name
    try:
        found.counters = counters.of_texts({"offers": by_recipes.told(subject)})
        wrong = by_recipes.differing(subject) if subject.exact else ""
    except Exception as e:
        found.findings.append(Finding("schedule", name, "error", f"{type(e).__name__}: {e}"))
        return found
    found.findings += [Finding("loop", name, "value", wrong)] if wrong else []
    return found


def _on_engine(
    found: Judged, engine: Engine, case: Case, g: PrimFunc, want: Buffers, loose: bool
) -> bool:
    """Compare a function on an engine, and return whether it runs what the function is made of."""
    f, subject = case.subject.func, case.subject
    try:
        before = want if subject.defined else launched((f,), engine, subject)
        after = launched(parts(g), engine, subject)
    except KernelFault as e:
        found.findings.append(Finding(engine.name, f.name, "fault", str(e)))
    except DidymaError as e:  # no text that the engine takes
        if e.code == LACKS and any(s.axis == RANK for s in stmts(g.body) if isinstance(s, For)):
            return False  # not every engine runs the blocks of a cluster at once
        found.findings.append(Finding(engine.name, f.name, "error", str(e)))
    else:
        _compare(found, engine.name, case, g, before, after, loose)
    return True


def _crowded(g: PrimFunc) -> str:
    """Say which kernel has a larger block than any GPU runs; empty if none has."""
    for k in kernels(g):
        along = {
            s.axis: int(s.extent.value) if isinstance(s.extent, Const) else 0
            for s in stmts(k.body)
            if isinstance(s, For) and s.axis.startswith("thread")
        }
        sizes = [along.get(f"threadIdx.{axis}", 1) for axis in "xyz"]
        if not PORTABLE.has_room(sizes):
            return f"{k.name} has blocks of {' by '.join(map(str, sizes))} threads"
    return ""


def _emitted(g: PrimFunc) -> str:
    """Return the text of the kernels of a function, or why there is none."""
    try:
        return cuda.emit([k for k in parts(g) if isinstance(k, PrimFunc)], contract=False).source
    except DidymaError as e:
        return str(e)


def _answers(case: Case, after: Sequence[PrimFunc]) -> list[tuple[Refused, str, str]]:
    """Return what becomes of each refused step of a kept case: the code and the text of the error.

    ``after`` is the function before all steps, and after each of them.  What a target lacks is
    asked of one that has no more than all have.
    """
    found: list[tuple[Refused, str, str]] = []
    for r in case.refused:
        if r.func is not None:
            continue
        code, message = "taken", ""
        try:
            apply(r.step, after[r.after], PORTABLE if r.code == LACKS else TARGET)
        except DidymaError as e:
            code, message = e.code, str(e)
        found.append((r, code, message))
    return found


def _accepted(case: Case, answers: Sequence[tuple[Refused, str, str]]) -> Iterator[Finding]:
    """Yield the steps that are not refused as they were when the case was kept."""
    for r, code, _ in answers:
        if code != r.code:
            message = f"`{text.show_step(r.step)}` is {code} after {r.after} steps, kept {r.code}"
            yield Finding("schedule", case.subject.func.name, "accepted", message)


def _misread(case: Case) -> str:
    """Say how the text of a schedule reads as another one; empty if it reads as it is."""
    written = text.show(case.schedule, case.subject.func.name)
    try:
        read = text.parse(written).steps
    except DidymaError as e:
        return f"{written}is refused: {e}"
    return "" if read == case.schedule else f"{written}reads as {read}"


def defined(f: PrimFunc, subject: Subject) -> dict[str, Array]:
    """Return the buffers after a run of a function by the definition of loops."""
    return _run(definition.run, f, subject)


def interpreted(f: PrimFunc, subject: Subject) -> dict[str, Array]:
    """Return the buffers after a run of a function by the fast interpreter."""
    return _run(lanes.run, f, subject)


def _run(run: Callable[..., Value | None], f: PrimFunc, subject: Subject) -> dict[str, Array]:
    buffers = subject.buffers()
    returned = run(f, buffers, dict(subject.env), ROUTINES)
    if returned is not None:
        buffers[subject.stored.params[-1].name][()] = returned
    return buffers


def launched(fs: Sequence[Part], engine: Engine, subject: Subject) -> dict[str, Array]:
    """Return the buffers after a run of kernels, and of what is between them, on an engine."""
    env = dict(subject.env)
    emitted = cuda.emit([f for f in fs if isinstance(f, PrimFunc)], contract=False)
    arrays, known = subject.buffers(), {b.name: b for b in subject.stored.params}
    held = {name: engine.upload(a) for name, a in arrays.items()}
    for b in workspace(fs, held):
        count = math.prod(dims.values(b.shape, env))
        held[b.name] = engine.allocate(count * b.dtype.nbytes)
    try:
        loaded, texts = engine.load(emitted), iter(emitted.kernels)
        for f in fs:
            if isinstance(f, PrimFunc):
                loaded.launch(next(texts).name, [held[b.name] for b in f.params], env)
            else:
                on_engine(f, held, known, env, ROUTINES, engine)
        return {
            b.name: engine.download(held[b.name], b.dtype, arrays[b.name].shape)
            for b in subject.stored.params
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
    f = case.subject.stored
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


def _forced(step: Step, f: PrimFunc) -> PrimFunc | str:
    """Return a function after a step that a dependence forbids; an error's text if it has none."""
    try:
        return apply(step, f, TARGET, unchecked=True)
    except DidymaError as e:
        return str(e)


def _brief(step: Step) -> str:
    """Return what a step is where its text leaves out the names that it may, as docs say them."""
    line, _, names = text.show_step(step).partition(" into ")
    written = f"schedule @f {{ {line} }}"
    return text.show_step(text.parse(written).steps[0]) if names else line


def _differs(subject: Subject, forced: PrimFunc | str, want: Buffers) -> bool:
    """Return whether a step that was taken all the same changes a result or is a fault."""
    if isinstance(forced, str):
        return True
    try:
        got = interpreted(forced, subject)
    except (DidymaError, LoopFault):
        return True
    return any(differing(want[b.name], got[b.name], b.dtype).any() for b in subject.stored.params)
