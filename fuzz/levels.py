"""Give a compiled module to the judge: its levels as data, each engine behind a protocol."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from didyma.codegen.decisions import Heard, unheard
from didyma.codegen.devices import named
from didyma.codegen.emit import wrapper
from didyma.codegen.memory import planner
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, Listener, compile
from didyma.codegen.runtime import modules
from didyma.codegen.runtime.devices import across
from didyma.codegen.runtime.didyma_runtime import numbered, placed, unload
from didyma.codegen.runtime.engine import (
    Dispatcher,
    Engine,
    Fault,
    KernelFault,
    Loaded,
    RingEngine,
    Routine,
)
from didyma.codegen.runtime.externs import Bound, Implementation, bound, routines
from didyma.fuzz import at_run
from didyma.oracle.backend import Backend
from didyma.oracle.report import Finding, Level, Report
from didyma.oracle.stages import judge
from didyma.oracle.subject import Subject
from didyma.oracle.watched_engine import WatchedEngine
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.kernel import ClaimedKernel, TextKernel
from didyma.refimpl.ir.lines import most_variants
from didyma.refimpl.ir.loop import Atomic, Buffer
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.types import Array, DType
from didyma.refimpl.ir.walk import stmts
from didyma.refimpl.ops.bars import Contract
from didyma.refimpl.verify.streams import several


@dataclass(slots=True)
class EngineBackend:
    """One compiled module on one engine, for the judge."""

    engine: Engine
    compiled: Compiled
    name: str = ""
    deterministic: bool = True
    externs: Mapping[str, Bound] = field(default_factory=dict[str, Bound])
    _loaded: Loaded | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.name = self.engine.name
        self.engine = across(self.engine, self.compiled.program)
        self.deterministic = self.name != "cuda" or not _float_atomics(self.compiled)

    def _text(self) -> Loaded:
        if self._loaded is None:
            self._loaded = self.engine.load(self.compiled.text)
        return self._loaded

    def run_function(
        self, function: str, inputs: Sequence[Array], env: Mapping[str, int], variant: int = 0
    ) -> tuple[Array, ...]:
        """Launch a Primitive's kernels on new buffers, or call an external function."""
        if function in self.externs:
            return self.externs[function].on(self.engine, inputs, env)
        loop = self.compiled.loops[function]
        given = dict(zip(loop.inputs, inputs, strict=True))
        buffers: dict[str, Any] = {}
        for p in loop.params:
            if p.name in given:
                buffers[p.name] = self.engine.upload(given[p.name])
            else:
                buffers[p.name] = self.engine.allocate(_nbytes(p, env))
        try:
            for first in self.compiled.kernels[function]:
                each = self.compiled.variants.get(first.name, ())
                k = each[variant % len(each)].kernel if each else first
                for b in k.params:
                    if b.name not in buffers:  # a workspace
                        buffers[b.name] = self.engine.allocate(_nbytes(b, env))
                self._text().launch(k.name, [buffers[p.name] for p in k.params], env)
            types = self.compiled.fused.function(function).result_types()
            return tuple(
                self.engine.download(buffers[o], t.dtype, dims.values(t.shape, env))
                for o, t in zip(loop.outputs, types, strict=True)
            )
        finally:
            for b in buffers.values():
                self.engine.free(b)

    def run_program(
        self, inputs: Sequence[Array], use: MemoryUse | None = None, variant: int = 0
    ) -> tuple[Array, ...]:
        """Run the generated wrapper, on an engine that is watched; ``use`` is told of its memory.

        KernelFault ``constant`` where it changed a constant; EngineMemoryFault where it does with
        memory or streams what it must not.  A wrapper with an even number of
        constants loads its own, if they stand in it.
        """
        c = self.compiled
        p, made = c.program, modules.module(c.wrapper)
        watched = WatchedEngine(self.engine, use, c.wrapper, streams=_several_streams(p))
        constants = [t for _, t in p.constants]
        own = (
            bool(constants) and len(constants) % 2 == 0 and "rt.beside(__file__, " not in c.wrapper
        )
        weights: list[Any] = []
        if constants and not own:
            weights = made["upload"](self.engine, wrapper.weights(p))
        lent = [watched.lent(b, len(t.data)) for b, t in zip(weights, constants, strict=False)]
        externs = {k: watched.routine(_unknown(r)) for k, r in routines(self.externs).items()}
        kernels = watched.loaded(self._text(), _named(c))
        try:
            given = (watched, list(inputs), kernels, None if own else lent, externs)
            out = made["run"](*given, *([partial(numbered, variant)] if dispatches(c) else []))
        except DidymaError as e:
            _let_go(e)
            watched.demand_let_go()
            raise
        watched.demand_freed()
        for (name, t), b in zip(p.constants, weights, strict=False):
            if self.engine.download(b, DType.U8, (len(t.data),)).tobytes() != t.data:
                raise KernelFault([Fault("constant", "", f"the constant %{name} was written")])
        unload(self.engine, weights)  # which checks their guard bytes
        return tuple(out)


def _let_go(e: BaseException) -> None:
    """Forget the frames of an error, and of what it came of: they hold what is to be freed."""
    while True:
        e.__traceback__ = None
        if e.__context__ is None:
            return
        e = e.__context__


def _several_streams(p: Program) -> bool:
    return any(several(f.lines) for f in (p, *p.functions))


def _named(c: Compiled) -> dict[str, tuple[str, tuple[bool, ...]]]:
    """Return each kernel by its name in the text: its name in the program, what it writes."""
    return {
        s.name: (k.name, tuple(name in s.outputs for name, _ in s.buffers))
        for s, k in zip(c.text.kernels, c.program.kernels, strict=True)
    }


def _nbytes(b: Buffer, env: Mapping[str, int]) -> int:
    return b.dtype.nbytes * math.prod(dims.values(b.shape, env))


def _unknown(run: Routine) -> Routine:
    """Return a routine whose results have payloads that are UNKNOWN, on an engine in the ring."""

    def routine(
        engine: Any, outputs: Sequence[Any], inputs: Sequence[Any], attrs: Mapping[str, Any]
    ) -> Any:
        made = run(engine, outputs, inputs, attrs)
        if isinstance(engine, RingEngine):
            for b in outputs:
                engine.forget(b)
        return made

    return routine


def in_ring(e: Engine) -> Engine:
    """Return the engine in the ring, if it can compute there."""
    return e.in_ring() if isinstance(e, RingEngine) else e


def runner(
    c: Compiled,
    e: Engine,
    externs: Mapping[str, Implementation] | None = None,
    dispatch: Dispatcher | None = None,
) -> partial[list[Any]]:
    """Return the generated wrapper's ``call``; kernels and constants are loaded once, here.

    The constants are freed on the engine when the returned function is garbage-collected.
    ``externs`` are implementations of external functions, by the name of a function or compiler.
    ``dispatch`` chooses among variants of kernels; else their first runs.
    """
    e = across(e, c.program)
    weights = _weights(c, e)
    run = partial(
        modules.load(c.wrapper),
        kernels=e.load(c.text),
        weights=weights,
        externs=routines(bound(c.fused, externs)),
        **({"dispatch": dispatch} if dispatch is not None and dispatches(c) else {}),
    )
    weakref.finalize(run, unload, e, weights).atexit = False  # the engine may be gone by then
    return run


def dispatches(c: Compiled) -> bool:
    """Return whether some line of a compiled program chooses among variants, as its wrapper asks.

    Variants of a function that no line launches do not count.
    """
    return most_variants(c.program) > 1


def _weights(c: Compiled, e: Engine) -> list[Any]:
    p = c.program
    arrays = [t.array() for _, t in p.constants]
    if not named(p):
        return [e.upload(a) for a in arrays]
    return placed(e, arrays, [p.type[name].device for name, _ in p.constants])


def _float_atomics(c: Compiled) -> bool:
    return any(
        "atomic_" in k.text.source
        if isinstance(k, ClaimedKernel)
        else any(isinstance(s, Atomic) and s.value.dtype.is_float for s in stmts(expand(k).body))
        for k in c.program.kernels
    )


def subject(c: Compiled, externs: Mapping[str, Bound] | None = None) -> Subject:
    """Return the levels of a compiled module, with the implementations of external functions."""
    given = {k: x for k, x in (externs or {}).items() if x.runs_anywhere}
    return Subject(
        source=c.source,
        passes=c.passes,
        fused=c.fused,
        loops=c.loops,
        kernels=c.kernels,
        program=c.program,
        externs=given,
        variants={name: tuple(x.kernel for x in row) for name, row in c.variants.items()},
    )


@dataclass(frozen=True, slots=True)
class Failed:
    """A compile that failed: the stage, and the exception."""

    stage: str
    error: Exception

    def report(self) -> Report:
        """Return a report with one finding, at the stage that failed."""
        text = f"{type(self.error).__name__}: {self.error}"
        finding = Finding(self.stage, "while compiling", "error", text)
        return Report((Level(self.stage, findings=(finding,)),))


def compiled(
    m: Module,
    options: Options | None = None,
    progress: Callable[[str], None] = lambda _: None,
    heard: Heard = unheard,
    kernels: Mapping[str, TextKernel] | None = None,
    listen: Listener = lambda _: None,
) -> Compiled | Failed:
    """Compile a module, whose decisions are heard; return the failure if a stage raises.

    ``listen`` is called with each stage that has ended.  ``kernels`` are texts for Primitive
    functions.  What the caller gave wrong is no failure but a DidymaError: ``unknown-planner``,
    ``bad-planner``, ``unknown-pass``, ``bad-pass``, ``unknown-primitive``, ``bad-kernel``,
    ``P-text``.
    """
    options = options or Options()
    options = options.changed({"memory.planner": planner(options.memory.planner)})
    stages: list[str] = ["source"]

    def on_stage(name: str) -> None:
        stages.append(name)
        progress(name)

    try:
        return compile(m, options, on_stage, heard=heard, kernels=kernels, listen=listen)
    except Exception as e:
        if isinstance(e, DidymaError) and e.code in _OF_CALLERS:
            raise
        return Failed(stages[-1], e)


_OF_CALLERS = ("unknown-pass", "bad-pass", "unknown-primitive", "bad-kernel", "P-text")


def contract_of(c: Compiled) -> Contract:
    """Return what the kernels of a compiled module state about their precision."""
    return Contract(contraction=c.text.contract)


def judged(
    c: Compiled,
    inputs: Sequence[Array],
    engines: Iterable[Engine],
    contract: Contract | None = None,
    progress: Callable[[str], None] = lambda _: None,
    externs: Mapping[str, Implementation] | None = None,
    *,
    details: bool = True,
    ring: bool = False,
) -> Report:
    """Judge every level of a compiled module, and implementations of its external functions.

    A module that has variants is also judged where a run chooses among them, on ``host``: level
    ``at-run``.  ``details`` are as of ``stages.judge``.  With ``ring`` the levels below the graph,
    and engines that can, also run in the ring.
    """
    given = bound(c.fused, externs)
    chosen = [in_ring(e) if ring else e for e in engines]
    backends: list[Backend] = [EngineBackend(e, c, externs=given) for e in chosen]
    s = subject(c, given)
    stated = contract or contract_of(c)
    report = judge(s, inputs, backends, stated, progress, details=details, in_ring=ring)
    if not dispatches(c) or report.findings or report.refusals:
        return report
    fast = (across(e, c.program) for e in chosen if e.name == "host")
    more = (at_run.judged(c, inputs, e, partial(runner, c, e, externs)) for e in fast)
    return replace(report, levels=(*report.levels, *more))


def check(
    m: Module,
    inputs: Sequence[Array],
    engines: Iterable[Engine],
    options: Options | None = None,
    contract: Contract | None = None,
    progress: Callable[[str], None] = lambda _: None,
    externs: Mapping[str, Implementation] | None = None,
    *,
    details: bool = True,
    ring: bool = False,
) -> Report:
    """Compile a module and judge every level of it; ``details`` and ``ring`` as of ``judged``.

    A compile that fails is a finding too; its level is the stage.
    """
    result = compiled(m, options, progress)
    if isinstance(result, Failed):
        return result.report()
    return judged(result, inputs, engines, contract, progress, externs, details=details, ring=ring)
