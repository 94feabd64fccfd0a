"""Minimise the kernel at fault: its loop program, while two ways to run it still disagree.

Where an engine is wrong, the program is a kernel, run by the loop interpreter and, as text, by the
engine.  Where scheduling is wrong, it is the program from lowering, run by the interpreter before
and after it is scheduled.  There is no error bar for a program that was cut down, so this is a
search and no verdict: what stays is the kind of fault, or at least an eighth of the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from didyma.codegen.emit import cuda
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.codegen.runtime.registry import engine
from didyma.codegen.schedule import schedule
from didyma.fuzz.domains.domain import Domain, Outcome, Shrinker
from didyma.fuzz.graphs import Case
from didyma.fuzz.minimise.loops import parts, smaller
from didyma.fuzz.minimise.search import greedy
from didyma.oracle import lanes
from didyma.oracle.report import Finding
from didyma.refimpl.interp.faults import LoopFault
from didyma.refimpl.interp.graph import values
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.kernel import loops
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.types import Array, Tensor, to_memory

LEVEL = "kernel"  # the level of schedules: the kernel is run by the interpreter, too
SEEN = 16.0  # units in the last place that count as a difference at all
_POISON = 0xA5  # bytes of outputs that nothing has written


@dataclass(frozen=True, slots=True)
class KernelCase:
    """A loop program, the sizes and the inputs that it is run on."""

    function: PrimFunc
    env: tuple[tuple[str, int], ...]
    inputs: tuple[tuple[str, Tensor], ...]

    def buffers(self) -> dict[str, Array]:
        """Return new arrays for the parameters: inputs, and outputs that are not written yet."""
        given, env = dict(self.inputs), dict(self.env)
        found: dict[str, Array] = {}
        for p in self.function.params:
            shape = dims.values(p.shape, env)
            if p.name in given:
                found[p.name] = given[p.name].array().reshape(shape).copy()
            else:
                raw = np.full(int(np.prod(shape, dtype=np.int64)) * p.dtype.nbytes, _POISON, "u1")
                found[p.name] = raw.view(p.dtype.numpy).reshape(shape)
        return found


@dataclass(frozen=True, slots=True)
class Kernels(Domain[KernelCase]):
    """Loop programs of which an engine, or the schedules if ``level`` is theirs, is at fault."""

    level: str
    options: Options
    least: float = SEEN

    @property
    def name(self) -> str:
        """The name of the domain."""
        return f"kernels on {self.level}"

    def draw(self, seed: int, index: int) -> KernelCase:
        """Draw nothing: cases come from findings."""
        raise NotImplementedError

    def judge(self) -> Callable[[KernelCase], Outcome]:
        """Return the judge of kernels; it opens the engine."""
        run = runner(self.level, self.options)

        def outcome(case: KernelCase) -> Outcome:
            found = difference(case, run)
            wrong = found is not None and (found.fault != "" or found.ulps >= self.least)
            finding = found and Finding(
                self.level, case.function.name, "fault" if found.fault else "value",
                f"KernelFault: {found.fault}: {found.message}" if found.fault else found.message,
            )  # fmt: skip
            return Outcome((finding,) if finding and wrong else (), size=parts(case.function))

        return outcome

    def shrinkers(self, finding: Finding) -> Sequence[tuple[float, Shrinker[KernelCase]]]:
        """Return what makes loop programs smaller."""
        del finding

        def shrinker(case: KernelCase) -> Any:
            return greedy(case, lambda c: (replace(c, function=f) for f in smaller(c.function)))

        return ((1.0, shrinker),)

    def size(self, case: KernelCase) -> tuple[int, ...]:
        """Return the number of statements and subexpressions."""
        return (parts(case.function),)


@dataclass(frozen=True, slots=True)
class Difference:
    """What two runs of a loop program differ in: a fault of the second, or numbers."""

    fault: str
    ulps: float
    message: str


Run = Callable[[KernelCase], Mapping[str, Array]]


def difference(case: KernelCase, run: Run) -> Difference | None:
    """Run a loop program as it means, and by ``run``; return in what they differ.

    None where they do not, and where the program itself does something undefined.
    """
    want = case.buffers()
    try:
        with np.errstate(all="ignore"):
            lanes.run(case.function, want, dict(case.env))
    except (LoopFault, ValueError):
        return None
    try:
        with np.errstate(all="ignore"):
            got = run(case)
    except LoopFault as e:
        return Difference(e.kind, np.inf, str(e))
    except KernelFault as e:
        return Difference(e.faults[0].kind, np.inf, str(e))
    worst: Difference | None = None
    for name in case.function.outputs:
        found = _apart(name, want[name], got[name])
        if found is not None and (worst is None or found.ulps > worst.ulps):
            worst = found
    return worst


def _apart(name: str, want: Array, got: Array) -> Difference | None:
    """Return the largest difference of two arrays in units in the last place of f32 or wider."""
    a, b = (x.reshape(-1) for x in (want, got))
    same = (a == b) | ((a != a) & (b != b))
    if bool(same.all()):
        return None
    ulps = np.where(same, 0.0, np.inf)
    if want.dtype.kind not in "iub":
        x, y = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(all="ignore"):
            unit = np.spacing(np.maximum(np.abs(x), np.abs(y)).astype(np.float32)).astype(float)
            far = np.abs(x - y) / unit
        ulps = np.where(same, 0.0, np.where(np.isfinite(far), far, np.inf))
    at = int(np.argmax(ulps))
    return Difference("", float(ulps[at]), f"{name}[{at}]: got {b[at]}, want {a[at]}")


def runner(level: str, options: Options) -> Run:
    """Return what runs a loop program in the way that is at fault: an engine, or schedules."""
    return _scheduled(options) if level == LEVEL else _on(engine(level), options)


def _on(e: Engine, options: Options) -> Run:
    """Return what runs a kernel as text on an engine."""

    def run(case: KernelCase) -> Mapping[str, Array]:
        text = cuda.emit([case.function], contract=options.kernels.contract)
        loaded, arrays = e.load(text), case.buffers()
        there = {name: e.upload(x) for name, x in arrays.items()}
        try:
            order = [there[p.name] for p in case.function.params]
            loaded.launch(text.kernels[0].name, order, dict(case.env))
            return {
                p.name: e.download(there[p.name], p.dtype, arrays[p.name].shape)
                for p in case.function.params
            }
        finally:
            for buffer in there.values():
                e.free(buffer)

    return run


def _scheduled(options: Options) -> Run:
    """Return what schedules a loop program and runs the kernels by the interpreter."""

    def run(case: KernelCase) -> Mapping[str, Array]:
        arrays = case.buffers()
        for k in schedule(case.function, options):
            shaped = {
                p.name: arrays[p.name].reshape(dims.values(p.shape, dict(case.env)))
                for p in k.params
            }
            lanes.run(k, shaped, dict(case.env))
        return arrays

    return run


def of_finding(case: Case, f: Finding) -> tuple[Kernels, KernelCase] | None:
    """Return the kernel at fault in a case, to be minimised; None where there is none to see.

    That is where the finding is at another level, the function at fault runs inside control flow or
    as several kernels, or the two ways to run the kernel alone do not disagree.
    """
    options = case.options(Options())
    if f.kind not in ("value", "fault") or f.where == "process":
        return None
    try:
        made = compile(case.module, options)
        found = _kernel(made, case, f)
        if found is None:
            return None
        domain = Kernels(f.level, options)
        seen = difference(found, runner(f.level, options))
    except Exception:
        return None  # the compile is at fault, and has no kernel to show
    if seen is None or (not seen.fault and seen.ulps < SEEN):
        return None
    return replace(domain, least=max(SEEN, min(seen.ulps, 2.0**60) / 8)), found


def _kernel(made: Compiled, case: Case, f: Finding) -> KernelCase | None:
    """Return the loop program of the function that a finding names, on the inputs it gets."""
    calls = [n for n in made.fused.entry.nodes if n.op == "call" and n.callee in made.loops]
    named = [n for n in calls if n.callee == f.where] or (calls if len(calls) == 1 else [])
    if not named:
        return None
    loop, kernels = made.loops[named[0].callee], made.kernels[named[0].callee]
    if f.level != LEVEL and (len(kernels) != 1 or not isinstance(kernels[0], PrimFunc)):
        return None
    known = values(made.fused.entry, made.fused, case.inputs(), dict(case.env))
    arrays = [to_memory(known[a]) for a in named[0].args]
    given = dict(zip(loop.inputs, map(Tensor.of, arrays), strict=True))
    function = loop if f.level == LEVEL else loops(kernels[0])
    names = {p.name for p in function.params}
    env = tuple((d.name, dict(case.env)[d.name]) for d in function.dims)
    return KernelCase(function, env, tuple((n, t) for n, t in given.items() if n in names))
