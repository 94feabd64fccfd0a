"""The whole compile as one list of named stages, from a graph to text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from didyma.codegen.devices import require_one_device
from didyma.codegen.emit import cuda, wrapper
from didyma.codegen.lower import lower
from didyma.codegen.memory import build, planner
from didyma.codegen.memory.host import movers
from didyma.codegen.memory.plan import plan
from didyma.codegen.options import Options
from didyma.codegen.passes.fuse import fuse, separate
from didyma.codegen.passes.inline import inline
from didyma.codegen.passes.running import block_runs
from didyma.codegen.passes.simplify import simplify
from didyma.codegen.passes.slices import unroll_slices
from didyma.codegen.passes.stacks import widen_stacks
from didyma.codegen.runtime.engine import KernelText
from didyma.codegen.schedule import schedule
from didyma.refimpl.ir.graph import COMPILER, PRIMITIVE, RESHAPE_ONLY, Module
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.program import Program
from didyma.refimpl.verify import graph as graph_laws
from didyma.refimpl.verify import loop as loop_laws
from didyma.refimpl.verify import program as program_laws


@dataclass(frozen=True, slots=True)
class Compiled:
    """Every level of one compile.

    ``passes`` holds the module after each graph pass, by name and in order; ``loops`` and
    ``kernels`` are by name of the Primitive function; ``unplanned`` is the program in which every
    buffer has memory of its own.
    """

    source: Module
    passes: tuple[tuple[str, Module], ...]
    fused: Module
    loops: Mapping[str, PrimFunc]
    kernels: Mapping[str, tuple[PrimFunc, ...]]
    program: Program
    unplanned: Program
    text: KernelText
    wrapper: str


@dataclass
class Work:
    """What the stages of one compile have made so far."""

    options: Options
    module: Module
    passes: list[tuple[str, Module]] = field(default_factory=list[tuple[str, Module]])
    loops: dict[str, PrimFunc] = field(default_factory=dict[str, PrimFunc])
    kernels: dict[str, tuple[PrimFunc, ...]] = field(
        default_factory=dict[str, tuple[PrimFunc, ...]]
    )
    bare: Program | None = None
    planned: Program | None = None
    unplanned: Program | None = None
    text: KernelText | None = None
    wrapper: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """A step with a name; ``wanted`` tells from the options whether it runs."""

    name: str
    run: Callable[[Work], None]
    wanted: Callable[[Options], bool]


def _always(options: Options) -> bool:
    del options
    return True


def _simplifies(options: Options) -> bool:
    return options.simplify


def _fuses(options: Options) -> bool:
    return options.fuse


def _separates(options: Options) -> bool:
    return not options.fuse


def _graph_pass(name: str, rewrite: Callable[[Module], Module]) -> Callable[[Work], None]:
    def run(w: Work) -> None:
        old, w.module = w.module, rewrite(w.module)
        w.passes.append((name, w.module))
        if w.options.verify and w.module is not old:
            graph_laws.verify(w.module)

    return run


def _lower(w: Work) -> None:
    """Lower each Primitive; fusion has made one function of those with one structural hash."""
    for f in w.module.functions[:-1]:
        if PRIMITIVE in f.attr and RESHAPE_ONLY not in f.attr and COMPILER not in f.attr:
            w.loops[f.name] = lower(f, w.module)
            if w.options.verify:
                loop_laws.verify(w.loops[f.name])


def _schedule(w: Work) -> None:
    for name, loop in w.loops.items():
        w.kernels[name] = schedule(loop, w.options)
        if w.options.verify:
            for k in w.kernels[name]:
                loop_laws.verify(k)


def _order(w: Work) -> None:
    w.bare = build.schedule(w.module, w.loops, w.kernels)


def _plan(w: Work) -> None:
    assert w.bare is not None
    moved = movers(w.module, w.loops, w.kernels)
    chosen = planner(w.options.planner)
    if w.options.plan_seconds is not None:
        chosen = replace(chosen, seconds=w.options.plan_seconds)
    w.planned = plan(w.bare, chosen, w.options.capacity, moved)
    w.unplanned = plan(w.bare, planner("none"))
    if w.options.verify:
        program_laws.verify(w.planned, kernels=False)
        program_laws.verify(w.unplanned, kernels=False)


def _emit(w: Work) -> None:
    assert w.planned is not None
    w.text = cuda.emit(w.planned.kernels, cuda.in_place(w.planned))


def _wrap(w: Work) -> None:
    assert w.planned is not None
    assert w.text is not None
    w.wrapper = wrapper.emit(w.planned, w.text)


STAGES: tuple[Stage, ...] = (
    Stage("inline", _graph_pass("inline", inline), _always),
    Stage("simplify", _graph_pass("simplify", simplify), _simplifies),
    Stage("runs", _graph_pass("runs", block_runs), _simplifies),
    Stage("slices", _graph_pass("slices", unroll_slices), _always),
    Stage("stacks", _graph_pass("stacks", widen_stacks), _always),
    Stage("fuse", _graph_pass("fuse", fuse), _fuses),
    Stage("separate", _graph_pass("separate", separate), _separates),
    Stage("lower", _lower, _always),
    Stage("schedule", _schedule, _always),
    Stage("order", _order, _always),
    Stage("plan", _plan, _always),
    Stage("emit", _emit, _always),
    Stage("wrap", _wrap, _always),
)


def _ignore(stage: str) -> None:
    del stage


def compile(
    m: Module, options: Options | None = None, on_stage: Callable[[str], None] = _ignore
) -> Compiled:
    """Take a module through every stage; DidymaError if it, or an option, is not valid.

    ``on_stage`` hears the name of each stage as it starts.
    """
    options = options or Options()
    w = Work(replace(options, planner=planner(options.planner)), m)
    if w.options.verify:
        graph_laws.verify(m)
    require_one_device(m)
    for stage in STAGES:
        if stage.wanted(w.options):
            on_stage(stage.name)
            stage.run(w)
    assert w.planned is not None
    assert w.unplanned is not None
    assert w.text is not None
    return Compiled(
        source=m,
        passes=tuple(w.passes),
        fused=w.module,
        loops=w.loops,
        kernels=w.kernels,
        program=w.planned,
        unplanned=w.unplanned,
        text=w.text,
        wrapper=w.wrapper,
    )
