"""``dd.check`` of a loop function: its schedule and engines against the definition of the loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TypeAlias

import numpy as np

from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.codegen.runtime.externs import Implementation
from didyma.codegen.runtime.loop_externs import bound, on_arrays
from didyma.codegen.schedule.steps.choose import by_function, loop_hash
from didyma.codegen.schedule.steps.kernels import Part, workspace
from didyma.codegen.schedule.steps.records import reassociates
from didyma.fuzz import values
from didyma.fuzz.emission.expressions import INEXACT_OPS
from didyma.loops import LoopProgram, compiled
from didyma.oracle import lanes
from didyma.oracle.compare import Comparison
from didyma.oracle.report import Finding, Level, Report, Setting
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import loop as definition
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.interp.loop import Routine
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.loop import INDEX, Binary, Intrinsic, PrimFunc
from didyma.refimpl.ir.lowered import lowered
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ir.walk import exprs

Env: TypeAlias = Mapping[str, int]
Buffers: TypeAlias = Mapping[str, Array]
Scalars: TypeAlias = Mapping[str, float]
Run: TypeAlias = Callable[[Buffers, Scalars], Buffers]

ROUNDS = (values.Distribution.SMALL, values.Distribution.NORMAL, values.Distribution.CORNERS)
SIZE = 5  # of a dim that nobody gave, if its range has it


@dataclass(slots=True)
class _Tried:
    """A level in the making: what runs it, and what it must agree with; None: the definition."""

    name: str
    run: Run
    want: Run | None = None
    subject: str = ""
    comparisons: list[Comparison] = field(default_factory=list[Comparison])
    findings: list[Finding] = field(default_factory=list[Finding])
    seconds: float = 0.0


def check(
    program: LoopProgram,
    engines: Sequence[Engine],
    sizes: Env,
    seed: int,
    schedules: str,
    target: Target = PORTABLE,
    externs: Mapping[str, Implementation] | None = None,
) -> Report:
    """Judge a loop function on rounds of random values, bit for bit.

    ``loop`` is the fast interpreter against the definition, both without a schedule; ``kernel`` is
    the scheduled function against it; an engine must leave the same bits, too.  Where the function
    has operations that engines may round otherwise, such as ``exp``, an engine is compared with
    itself without the schedule.  Where a step reassociates, floats that differ are undecided.  A
    fault that the definition meets is the one finding.  ``externs`` are implementations of the
    routines that the function calls; all levels call them.
    """
    f, routines = program.func, bound(program.func, externs)
    env = _sizes(f, sizes)
    given = by_function(schedules, {f.name: loop_hash(f)})
    loose = any(reassociates(s) for x in given.values() for s in x.steps)
    tried = [
        _Tried("loop", partial(_by_lanes, (lowered(f),), env, routines)),
        _Tried("kernel", partial(_by_lanes, program.scheduled(schedules, target), env, routines)),
    ]
    for e in engines:
        run = compiled(program, e, schedules, target, externs, contract=False).run
        usual = None if is_exact(f) else compiled(program, e, externs=externs, contract=False)
        plain = None if usual is None else usual.run
        want = None if plain is None else partial(_swapped, plain, env)
        tried.append(_Tried(e.name, partial(_swapped, run, env), want, e.name))
    for turn, kind in enumerate(ROUNDS):
        before = drawn(program.stored, env, seed + turn, kind)
        scalars = drawn_scalars(f, seed + turn, kind)
        after = {n: a.copy() for n, a in before.items()}
        try:
            returned = definition.run(f, after, env, routines, scalars=scalars)
        except LoopFault as e:  # the function itself is wrong: there is nothing to compare with
            tried = tried[:1]
            tried[0].findings.append(Finding("loop", f.name, "fault", str(e)))
            break
        if returned is not None:
            after[program.stored.outputs[-1]][()] = returned
        for t in tried:
            _round(t, program.stored, before, scalars, after, loose and t.name != "loop")
    levels = tuple(
        Level(
            t.name, tuple(t.comparisons), tuple(t.findings), t.seconds, subject=t.subject,
            rounds=len(ROUNDS),
        )
        for t in tried
    )  # fmt: skip
    names = tuple(e.name for e in engines)
    rounds = tuple(map(str, ROUNDS))
    return Report(levels, setting=Setting(env, frozenset(sizes), names, seed, rounds))


def _sizes(f: PrimFunc, sizes: Env) -> dict[str, int]:
    known = [d.name for d in f.dims]
    for name in sizes:
        if name not in known:
            want = f"one of {', '.join(known) or 'none: no size is symbolic'}"
            raise DidymaError("bad-option", f"sizes[{name!r}]", got=name, want=want)
    env = {d.name: sizes.get(d.name, min(d.hi, max(d.lo, SIZE))) for d in f.dims}
    dims.check_ranges(env, f.dims)
    return env


def drawn(f: PrimFunc, env: Env, seed: int, kind: values.Distribution) -> dict[str, Array]:
    """Return random content for each parameter."""
    return {
        b.name: values.array(seed + n, b.dtype, dims.values(b.shape, env), None, kind)
        for n, b in enumerate(f.params)
    }


def drawn_scalars(f: PrimFunc, seed: int, kind: values.Distribution) -> dict[str, float]:
    """Return a random number for each scalar parameter: a small one where it may be an extent."""
    found: dict[str, float] = {}
    for n, v in enumerate(f.scalars, len(f.params)):
        range_ = values.Distribution.SMALL if v.dtype is INDEX else kind
        found[v.name] = values.array(seed + n, v.dtype, (), None, range_).item()
    return found


def _by_lanes(
    parts: Sequence[Part],
    env: Env,
    routines: Mapping[str, Routine],
    held: Buffers,
    scalars: Scalars,
) -> Buffers:
    out = {n: a.copy() for n, a in held.items()}
    for b in workspace(parts, held):
        out[b.name] = values.array(0, b.dtype, dims.values(b.shape, env))
    for f in parts:
        if isinstance(f, PrimFunc):
            given = {b.name: out[b.name] for b in f.params}
            lanes.run(f, given, env, routines, scalars=scalars)
        else:
            on_arrays(f, out, env, routines)
    return out


def _swapped(
    run: Callable[[Buffers, Env, Scalars], Buffers], env: Env, held: Buffers, scalars: Scalars
) -> Buffers:
    return run(held, env, scalars)


def is_exact(f: PrimFunc) -> bool:
    """Return whether every engine must round each operation of a function alike."""
    return not any(
        (isinstance(e, Intrinsic) and e.record is not None and not e.record.is_exact)
        or (isinstance(e, Binary) and e.op in INEXACT_OPS and e.dtype.is_float)
        for g in (f, *f.functions)
        for e in exprs(g.body)
    )


def _round(
    t: _Tried, f: PrimFunc, before: Buffers, scalars: Scalars, after: Buffers, loose: bool
) -> None:
    began = perf_counter()
    try:
        want = after if t.want is None else t.want(before, scalars)
        got = t.run(before, scalars)
    except (LoopFault, KernelFault) as e:
        t.findings.append(Finding(t.name, f.name, "fault", str(e)))
        return
    for o in f.outputs:
        c = compared(o, want[o], got[o], loose)
        t.comparisons.append(c)
        if not c.agree:
            t.findings.append(Finding(t.name, f.name, "value", c.message))
    t.seconds += perf_counter() - began


def compared(name: str, want: Array, got: Array, loose: bool) -> Comparison:
    """Compare two arrays bit for bit; any NaN is as good as another.

    With ``loose``, floats that differ are undecided.
    """
    is_float = DType.of(want).is_float
    bits = np.dtype(f"u{want.dtype.itemsize}")
    same = want.view(bits) == got.view(bits)
    if is_float:
        same |= np.isnan(want) & np.isnan(got)
    if same.all() or (loose and is_float):
        return Comparison(int(same.sum()), want.size, 0.0)
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    count = f"{int((~same).sum())} of {want.size} elements differ"
    message = f"{name}{list(at)} = {got[at]!r}, want {want[at]!r}; {count}"
    return Comparison(want.size, want.size, np.inf, message)
