"""The compile as one list of named stages, from a graph to text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias, overload

from didyma.codegen.decisions import Heard, unheard
from didyma.codegen.devices import require_one_device
from didyma.codegen.emit import cuda, wrapper
from didyma.codegen.lower import lower
from didyma.codegen.memory import planner
from didyma.codegen.memory.plan import plan
from didyma.codegen.memory.views import movers
from didyma.codegen.options import Options
from didyma.codegen.order import order
from didyma.codegen.order.streams import spread
from didyma.codegen.passes.fuse import fuse, separate
from didyma.codegen.passes.inline import inline
from didyma.codegen.passes.running import block_runs
from didyma.codegen.passes.simplify import simplify
from didyma.codegen.passes.slices import unroll_slices
from didyma.codegen.passes.stacks import widen_stacks
from didyma.codegen.schedule import schedule
from didyma.codegen.schedule.recipes.point import parse_all
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import COMPILER, PRIMITIVE, RESHAPE_ONLY, Module
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Program
from didyma.refimpl.verify import graph as graph_laws
from didyma.refimpl.verify import loop as loop_laws
from didyma.refimpl.verify import program as program_laws


@dataclass(frozen=True, slots=True)
class Fused:
    """A module and what the graph passes made of it: what every stage returns at least.

    ``passes`` holds the module after each pass that ran, by name and in order; ``fused`` is the
    module after the last of them.
    """

    source: Module
    passes: tuple[tuple[str, Module], ...]
    fused: Module


@dataclass(frozen=True, slots=True)
class Lowered(Fused):
    """Also the loop program of each Primitive function, by the function's name."""

    loops: Mapping[str, PrimFunc]


@dataclass(frozen=True, slots=True)
class Scheduled(Lowered):
    """Also the kernels of each Primitive function, by the function's name, in launch order."""

    kernels: Mapping[str, tuple[PrimFunc, ...]]


@dataclass(frozen=True, slots=True)
class Ordered(Scheduled):
    """Also the program before memory planning: ``bare`` allocates nothing."""

    bare: Program


@dataclass(frozen=True, slots=True)
class Planned(Ordered):
    """Also the planned program, and the program in which every buffer has its own memory."""

    program: Program
    unplanned: Program


@dataclass(frozen=True, slots=True)
class Emitted(Planned):
    """Also the CUDA C text of the kernels."""

    text: KernelText


@dataclass(frozen=True, slots=True)
class Compiled(Emitted):
    """Also the generated Python module: the result of every stage of one compile."""

    wrapper: str


def _always(options: Options) -> bool:
    del options
    return True


def _simplifies(options: Options) -> bool:
    return options.graph.simplify


def _fuses(options: Options) -> bool:
    return options.graph.fuse


def _separates(options: Options) -> bool:
    return not options.graph.fuse


Run: TypeAlias = Callable[[Any, Options, Heard], Fused]  # from the record of the stage before


@dataclass(frozen=True, slots=True)
class Stage:
    """A named step of the compile; it runs where the options want it."""

    name: str
    run: Run
    wanted: Callable[[Options], bool] = _always


def _pass(
    name: str,
    rewrite: Callable[[Module], Module],
    wanted: Callable[[Options], bool] = _always,
) -> Stage:
    """Return the stage that rewrites the graph."""

    def run(m: Module, options: Options, heard: Heard) -> Module:
        del options, heard
        return rewrite(m)

    return _deciding(name, run, wanted)


def _deciding(
    name: str,
    rewrite: Callable[[Module, Options, Heard], Module],
    wanted: Callable[[Options], bool] = _always,
) -> Stage:
    """Return the stage that rewrites the graph as options say, whose decisions are heard."""

    def run(made: Fused, options: Options, heard: Heard) -> Fused:
        m = rewrite(made.fused, options, heard)
        if options.verify and m is not made.fused:
            graph_laws.verify(m)
        return Fused(made.source, (*made.passes, (name, m)), m)

    return Stage(name, run, wanted)


def _lower(made: Fused, options: Options, heard: Heard) -> Lowered:
    """Lower each Primitive function; equal ones were merged by fusion."""
    del heard
    loops = {
        f.name: lower(f, made.fused)
        for f in made.fused.functions[:-1]
        if PRIMITIVE in f.attr and RESHAPE_ONLY not in f.attr and COMPILER not in f.attr
    }
    if options.verify:
        for loop in loops.values():
            loop_laws.verify(loop)
    return Lowered(**_fields(made), loops=loops)


def _schedule(made: Lowered, options: Options, heard: Heard) -> Scheduled:
    del heard
    given = parse_all(options.kernels.choices)
    kernels = {name: schedule(loop, options, given.get(name)) for name, loop in made.loops.items()}
    if options.verify:
        for ks in kernels.values():
            for k in ks:
                loop_laws.verify(k)
    return Scheduled(**_fields(made), kernels=kernels)


def _order(made: Scheduled, options: Options, heard: Heard) -> Ordered:
    del heard
    bare = order(made.fused, made.loops, made.kernels)
    if options.kernels.streams > 1:
        bare = spread(bare, options.kernels.streams)
    return Ordered(**_fields(made), bare=bare)


def _plan(made: Ordered, options: Options, heard: Heard) -> Planned:
    del heard
    chosen = planner(options.memory.planner)
    if options.memory.plan_seconds is not None:
        chosen = replace(chosen, seconds=options.memory.plan_seconds)
    moved = movers(made.fused, made.loops, made.kernels)
    planned = plan(made.bare, chosen, options.memory.capacity, moved)
    unplanned = plan(made.bare, planner("none"))
    if options.verify:
        program_laws.verify(planned, kernels=False)
        program_laws.verify(unplanned, kernels=False)
    return Planned(**_fields(made), program=planned, unplanned=unplanned)


def _emit(made: Planned, options: Options, heard: Heard) -> Emitted:
    del options, heard
    text = cuda.emit(made.program.kernels, cuda.in_place(made.program))
    return Emitted(**_fields(made), text=text)


def _wrap(made: Emitted, options: Options, heard: Heard) -> Compiled:
    del heard
    text = wrapper.emit(made.program, made.text, options.memory.embedded)
    return Compiled(**_fields(made), wrapper=text)


def _fields(made: Fused) -> dict[str, Any]:
    """Return the fields of a record, for the one that extends it."""
    return {f.name: getattr(made, f.name) for f in fields(made)}


STAGES: tuple[Stage, ...] = (
    _pass("inline", inline),
    _deciding("simplify", simplify, _simplifies),
    _deciding("runs", block_runs, _simplifies),
    _pass("slices", unroll_slices),
    _pass("stacks", widen_stacks),
    _deciding("fuse", fuse, _fuses),
    _pass("separate", separate, _separates),
    Stage("lower", _lower),
    Stage("schedule", _schedule),
    Stage("order", _order),
    Stage("plan", _plan),
    Stage("emit", _emit),
    Stage("wrap", _wrap),
)
LAST = "wrap"
OnStage: TypeAlias = Callable[[str], None]  # called with a stage's name


def _ignore(stage: str) -> None:
    del stage


@overload
def compile(
    m: Module,
    options: Options | None = None,
    on_stage: OnStage = ...,
    until: Literal["wrap"] = ...,
    *,
    heard: Heard = ...,
) -> Compiled: ...
@overload
def compile(
    m: Module, options: Options | None = None, on_stage: OnStage = ..., *, until: Literal["emit"]
) -> Emitted: ...
@overload
def compile(
    m: Module, options: Options | None = None, on_stage: OnStage = ..., *, until: Literal["plan"]
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
) -> Fused: ...
def compile(
    m: Module,
    options: Options | None = None,
    on_stage: OnStage = _ignore,
    until: str = LAST,
    *,
    heard: Heard = unheard,
) -> Fused:
    """Take a module through the stages, the one named ``until`` being the last; return its record.

    ``on_stage`` is called with the name of each stage as it starts, and ``heard`` with the name of
    each decision of a graph pass and the value that it is about, as it is made.  DidymaError if the
    module or an option is not valid, and ``unknown-stage`` for a stage that these options do not
    run.
    """
    options = options or Options()
    options = options.changed({"memory.planner": planner(options.memory.planner)})
    stages = [s for s in STAGES if s.wanted(options)]
    names = [s.name for s in stages]
    if until not in names:
        want = f"one of {', '.join(names)}"
        raise DidymaError("unknown-stage", f"until = {until!r}", got=until, want=want)
    if options.verify:
        graph_laws.verify(m)
    require_one_device(m)
    made = Fused(m, (), m)
    for stage in stages[: names.index(until) + 1]:
        on_stage(stage.name)
        made = stage.run(made, options, heard)
    return made
