"""The compile as one list of named stages, from a graph to text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from time import perf_counter
from typing import Any, Literal, TypeAlias, overload

from didyma.codegen import codegens
from didyma.codegen.claims import claim, claimed, launched
from didyma.codegen.codegens import Asked
from didyma.codegen.decisions import Heard, unheard
from didyma.codegen.emit import cuda, wrapper
from didyma.codegen.garbage import full_collections_rare
from didyma.codegen.layouts.strides import with_strides, without_strides
from didyma.codegen.lower import lower
from didyma.codegen.memory import planner
from didyma.codegen.memory.plan import plan
from didyma.codegen.memory.views import movers
from didyma.codegen.options import GraphOptions, Options
from didyma.codegen.order import order
from didyma.codegen.order.streams import spread
from didyma.codegen.passes.fuse import fuse, separate
from didyma.codegen.passes.inline import inline
from didyma.codegen.passes.manager import Pass, chosen, plain
from didyma.codegen.passes.place import place
from didyma.codegen.passes.running import block_runs
from didyma.codegen.passes.simplify import simplify
from didyma.codegen.passes.slices import unroll_slices
from didyma.codegen.passes.stacks import widen_stacks
from didyma.codegen.routines import hand_over
from didyma.codegen.schedule import schedule
from didyma.codegen.schedule.recipes.point import Point, parse_all
from didyma.codegen.schedule.steps import kernels as divided
from didyma.codegen.schedule.steps.choose import by_function, stepped
from didyma.codegen.select.variants import Variant, several
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import COMPILER, PRIMITIVE, RESHAPE_ONLY, Module, structural_hash
from didyma.refimpl.ir.kernel import Kernel, KernelText, TextKernel
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Program
from didyma.refimpl.verify import graph as graph_laws
from didyma.refimpl.verify import kernel as kernel_laws
from didyma.refimpl.verify import loop as loop_laws
from didyma.refimpl.verify import program as program_laws


@dataclass(frozen=True, slots=True)
class Fused:
    """A module and what the graph passes made of it: what every stage returns at least.

    ``passes`` holds the module after each pass that ran, by name and in order; ``fused`` is the
    module after the last of them.  ``times`` holds what each stage took so far, in seconds.
    """

    source: Module
    passes: tuple[tuple[str, Module], ...]
    fused: Module
    times: tuple[tuple[str, float], ...] = field(default=(), compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Lowered(Fused):
    """Also the loop program of each Primitive function, by the function's name."""

    loops: Mapping[str, PrimFunc]


@dataclass(frozen=True, slots=True)
class Scheduled(Lowered):
    """Also the kernels of each Primitive function, by the function's name, in launch order.

    ``variants`` has, by the name of a kernel, all that may run in its place, the kernel first.
    """

    kernels: Mapping[str, tuple[Kernel, ...]]
    variants: Mapping[str, tuple[Variant, ...]]


@dataclass(frozen=True, slots=True)
class Ordered(Scheduled):
    """Also the program before memory planning: ``bare`` allocates nothing."""

    bare: Program


@dataclass(frozen=True, slots=True)
class Planned(Ordered):
    """Also the planned program."""

    program: Program

    @property
    def unplanned(self) -> Program:
        """The program in which every buffer has its own memory, made anew each time."""
        return plan(self.bare, planner("none"))


@dataclass(frozen=True, slots=True)
class Emitted(Planned):
    """Also the CUDA C text of the kernels."""

    text: KernelText


@dataclass(frozen=True, slots=True)
class Compiled(Emitted):
    """Also the generated Python module: the result of every stage of one compile."""

    wrapper: str


def _simplifies(options: GraphOptions) -> bool:
    return options.simplify


def _fuses(options: GraphOptions) -> bool:
    return options.fuse


def _has_routines(options: GraphOptions) -> bool:
    return bool(options.routines)


PASSES: tuple[Pass, ...] = (
    Pass("inline", plain(inline)),
    Pass("place", plain(place)),
    Pass("simplify", simplify, 1, _simplifies),
    Pass("runs", block_runs, 3, _simplifies),
    Pass("slices", plain(unroll_slices)),
    Pass("stacks", plain(widen_stacks)),
    Pass("fuse", fuse, 2, _fuses),
    Pass("separate", plain(separate), unless="fuse"),
    Pass("routines", hand_over, wanted=_has_routines),
)


@dataclass(frozen=True, slots=True)
class Context:
    """What a compile was given beside its module, which every stage may read."""

    options: Options
    heard: Heard = unheard
    kernels: Mapping[str, TextKernel] = field(default_factory=dict[str, TextKernel])


Run: TypeAlias = Callable[[Any, Context], Fused]  # from the record of the stage before


@dataclass(frozen=True, slots=True)
class Stage:
    """A named step of the compile."""

    name: str
    run: Run


def _stage(p: Pass) -> Stage:
    """Return the stage that rewrites the graph by a pass."""

    def run(made: Fused, context: Context) -> Fused:
        m = p.run(made.fused, context.options, context.heard)
        if context.options.verify and m is not made.fused:
            graph_laws.verify(m)
        return replace(made, passes=(*made.passes, (p.name, m)), fused=m)

    return Stage(p.name, run)


def _lay(made: Fused, context: Context) -> Fused:
    """Give inputs the strides that the source declares; the passes before see none."""
    m = with_strides(made.fused, made.source)
    if m is made.fused:
        return made
    if context.options.verify:
        graph_laws.verify(m)
    return replace(made, passes=(*made.passes, ("strides", m)), fused=m)


def _lower(made: Fused, context: Context) -> Lowered:
    """Lower each Primitive function, inputs as they lie; equal ones were merged by fusion."""
    made = _lay(made, context)
    atomics = context.options.kernels.atomics
    loops = {
        f.name: lower(f, made.fused, context.options.device, atomics=atomics)
        for f in made.fused.functions[:-1]
        if PRIMITIVE in f.attr and RESHAPE_ONLY not in f.attr and COMPILER not in f.attr
    }
    if context.options.verify:
        for loop in loops.values():
            loop_laws.verify(loop, context.options.device)
    return Lowered(**_fields(made), loops=loops)


def _schedule(made: Lowered, context: Context) -> Scheduled:
    options = context.options
    given = parse_all(options.kernels.choices)
    named = made.fused.functions if options.kernels.schedules else ()
    hashes = {f.name: structural_hash(f) for f in named if f.name in made.loops}
    steps = by_function(options.kernels.schedules, hashes)
    claims = claimed(made.fused, made.loops, context.kernels, options.device)
    functions = {f.name: f for f in made.fused.functions}

    def of(name: str, loop: PrimFunc) -> tuple[Kernel, ...]:
        if name in claims:
            return launched(claims[name], options)
        if name in steps:
            return divided.kernels(stepped(steps[name], loop, options.device))
        points = given.get(name)
        asked = Asked(functions[name], loop, options.device)
        if (text := _text(asked, options, points)) is not None:
            return launched(claim(text, loop, f"the kernel for {name}", options.device), options)
        return schedule(loop, options, points)

    kernels = {name: of(name, loop) for name, loop in made.loops.items()}
    variants: Mapping[str, tuple[Variant, ...]] = {}
    texts = [name for name, ks in kernels.items() if not isinstance(ks[-1], PrimFunc)]
    if options.kernels.variants > 1:
        fixed = {*texts, *steps, *given, *movers(made.fused, made.loops, kernels, options.device)}
        variants = several(made.loops, kernels, options, fixed)
    if options.verify:
        every = [k for ks in kernels.values() for k in ks]
        for k in (*every, *(x.kernel for row in variants.values() for x in row[1:])):
            kernel_laws.verify(k, context.options.device)
    return Scheduled(**_fields(made), kernels=kernels, variants=variants)


def _text(asked: Asked, options: Options, points: Sequence[Point] | None) -> TextKernel | None:
    """Return the text that a template or another codegen makes of a function, if one is chosen."""
    if points is None:
        return codegens.kernel(asked, options)
    return codegens.at(points[0], asked, options) if len(points) == 1 else None


def _order(made: Scheduled, context: Context) -> Ordered:
    variants = {name: [x.kernel for x in row] for name, row in made.variants.items()}
    options = context.options
    shared = options.memory.views and not options.device.architecture
    bare = order(made.fused, made.loops, made.kernels, variants, options.device, shared=shared)
    if (streams := options.kernels.streams) > 1:
        bare = spread(bare, streams)
    return Ordered(**_fields(made), bare=bare)


def _plan(made: Ordered, context: Context) -> Planned:
    options = context.options
    best = planner(options.memory.planner)
    if options.memory.plan_seconds is not None:
        best = replace(best, seconds=options.memory.plan_seconds)
    moved = movers(made.fused, made.loops, made.kernels, options.device)
    memory = options.memory
    planned = plan(made.bare, best, memory.capacity, moved, options.device, eager=memory.eager)
    if options.verify:
        program_laws.verify(planned, kernels=False, target=options.device)
    return Planned(**_fields(made), program=planned)


def _emit(made: Planned, context: Context) -> Emitted:
    contract = context.options.kernels.contract
    text = cuda.emit(made.program.kernels, cuda.in_place(made.program), contract=contract)
    return Emitted(**_fields(made), text=text)


def _wrap(made: Emitted, context: Context) -> Compiled:
    text = wrapper.emit(made.program, made.text, context.options.memory.embedded)
    return Compiled(**_fields(made), wrapper=text)


def _fields(made: Fused) -> dict[str, Any]:
    """Return the fields of a record, for the one that extends it."""
    return {f.name: getattr(made, f.name) for f in fields(made)}


STAGES: tuple[Stage, ...] = (
    Stage("lower", _lower),
    Stage("schedule", _schedule),
    Stage("order", _order),
    Stage("plan", _plan),
    Stage("emit", _emit),
    Stage("wrap", _wrap),
)  # those after the graph passes


def scheduled(made: Lowered, options: Options) -> Scheduled:
    """Take a module whose functions have loops through the stage that schedules them.

    Errors: those of ``compile`` for that stage.
    """
    return _schedule(made, Context(options))


def scheduled_again(
    made: Fused,
    loops: Mapping[str, PrimFunc],
    kernels: Mapping[str, tuple[Kernel, ...]],
    options: Options,
) -> Compiled:
    """Take a fused module whose functions have loops and kernels through the stages that follow."""
    if options.verify:
        for k in (k for ks in kernels.values() for k in ks):
            kernel_laws.verify(k, options.device)
    found = Scheduled(**_fields(made), loops=loops, kernels=kernels, variants={})
    return finished(found, options)


def finished(made: Fused, options: Options) -> Compiled:
    """Take what a compile has made so far through the stages that are left.

    Errors: those of ``compile`` for these stages.
    """
    context = Context(options)
    lowered = made if isinstance(made, Lowered) else _lower(made, context)
    found = lowered if isinstance(lowered, Scheduled) else _schedule(lowered, context)
    planned = found if isinstance(found, Planned) else _plan(_order(found, context), context)
    return planned if isinstance(planned, Compiled) else _wrap(_emit(planned, context), context)


def stages(options: Options) -> tuple[Stage, ...]:
    """Return the stages of a compile with these options; DidymaError as of ``manager.chosen``."""
    return (*map(_stage, chosen(PASSES, options.graph)), *STAGES)


LAST = "wrap"
OnStage: TypeAlias = Callable[[str], None]  # called with a stage's name


def _ignore(stage: str) -> None:
    del stage


@dataclass(frozen=True, slots=True)
class Step:
    """A stage that has run: its name, how long it took in seconds, and the record it returned."""

    name: str
    seconds: float
    made: Fused


Listener: TypeAlias = Callable[[Step], None]


def _silent(step: Step) -> None:
    del step


@overload
def compile(
    m: Module,
    options: Options | None = None,
    on_stage: OnStage = ...,
    until: Literal["wrap"] = ...,
    *,
    heard: Heard = ...,
    kernels: Mapping[str, TextKernel] | None = ...,
    listen: Listener = ...,
) -> Compiled: ...
@overload
def compile(
    m: Module, options: Options | None = None, on_stage: OnStage = ..., *, until: Literal["emit"]
) -> Emitted: ...
@overload
def compile(
    m: Module,
    options: Options | None = None,
    on_stage: OnStage = ...,
    *,
    until: Literal["plan"],
    heard: Heard = ...,
) -> Planned: ...
@overload
def compile(
    m: Module, options: Options | None = None, on_stage: OnStage = ..., *, until: Literal["order"]
) -> Ordered: ...
@overload
def compile(
    m: Module,
    options: Options | None = None,
    on_stage: OnStage = ...,
    *,
    until: Literal["schedule"],
    heard: Heard = ...,
) -> Scheduled: ...
@overload
def compile(
    m: Module, options: Options | None = None, on_stage: OnStage = ..., *, until: Literal["lower"]
) -> Lowered: ...
@overload
def compile(
    m: Module,
    options: Options | None = None,
    on_stage: OnStage = ...,
    *,
    until: str,
    heard: Heard = ...,
    kernels: Mapping[str, TextKernel] | None = ...,
    listen: Listener = ...,
) -> Fused: ...
def compile(
    m: Module,
    options: Options | None = None,
    on_stage: OnStage = _ignore,
    until: str = LAST,
    *,
    heard: Heard = unheard,
    kernels: Mapping[str, TextKernel] | None = None,
    listen: Listener = _silent,
) -> Fused:
    """Take a module through the stages, the one named ``until`` being the last; return its record.

    ``on_stage`` is called with the name of each stage as it starts, ``listen`` with each that has
    run, and ``heard`` with the name of each decision of a graph pass and the value that it is
    about, as it is made.  ``kernels`` are texts for Primitive functions, by a function's name or
    structural hash.

    Errors: those of the laws that the module breaks, ``unknown-stage`` for a stage that these
    options do not run, ``unknown-planner``, ``unknown-pass``, ``bad-pass``, ``unknown-primitive``,
    ``bad-kernel``, ``over-capacity``.
    """
    options = options or Options()
    options = options.changed({"memory.planner": planner(options.memory.planner)})
    run = stages(options)
    names = [s.name for s in run]
    if until not in names:
        want = f"one of {', '.join(names)}"
        raise DidymaError("unknown-stage", f"until = {until!r}", got=until, want=want)
    if options.verify:
        graph_laws.verify(m)
    made, context = Fused(m, (), without_strides(m)), Context(options, heard, kernels or {})
    with full_collections_rare():
        for stage in run[: names.index(until) + 1]:
            on_stage(stage.name)
            start = perf_counter()
            made = stage.run(made, context)
            seconds = perf_counter() - start
            made = replace(made, times=(*made.times, (stage.name, seconds)))
            listen(Step(stage.name, seconds, made))
    return made
