"""The conformance suites of codegens, templates, recipes and graph passes.

Each is given to compiles of programs, its own and random ones, and every level of what comes out is
judged: kernels by the bars of their functions, and by the checks of engine ``simt``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from random import Random
from typing import TypeAlias

from didyma.codegen import codegens
from didyma.codegen.codegens import Asked, Codegen
from didyma.codegen.options import GraphOptions, KernelOptions, Options
from didyma.codegen.pipeline import Lowered, compile
from didyma.codegen.runtime.engine import Engine
from didyma.codegen.runtime.simt import Simt
from didyma.codegen.schedule import dispatch
from didyma.codegen.schedule.recipes.recipe import Recipe
from didyma.codegen.schedule.recipes.work import Work
from didyma.fuzz import levels
from didyma.fuzz.graphs import BYTES, decode, inputs
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.graph import Module
from didyma.refimpl.ir.types import Array

Check: TypeAlias = Callable[[], Sequence[str]]  # returns what is wrong, in words
_Named: TypeAlias = tuple[str, Check]
Pass: TypeAlias = str | Callable[[Module], Module]
Offered: TypeAlias = Callable[[Lowered, Options], Iterator[str]]  # choices, as options write them

POINTS = 6  # of a function that are judged
_USUAL = (5, 33)  # values of symbols


def of_codegen(which: str | Codegen, programs: Sequence[Module], graphs: int) -> Iterator[_Named]:
    """Yield the checks of a codegen or template by name.

    It must make a kernel for some function of each program of its own.
    """
    options = Options(kernels=KernelOptions(codegens=(which,)))
    (chosen,) = codegens.given(options)
    yield from _suite(partial(_of_codegen, chosen), options, programs, graphs)


def of_recipe(which: str | Recipe, programs: Sequence[Module], graphs: int) -> Iterator[_Named]:
    """Yield the checks of a recipe by name; it must suit a loop nest of each program of its own."""
    options = Options(kernels=KernelOptions(recipes=(which,)))
    chosen = dispatch.recipes(options)[0]
    yield from _suite(partial(_of_recipe, chosen), options, programs, graphs)


def of_pass(which: Pass, programs: Sequence[Module], graphs: int) -> Iterator[_Named]:
    """Yield the checks of a pass by name; it must change each program of its own."""
    options = Options(graph=GraphOptions(passes=(which,)))
    without = Options()
    for k, m in enumerate(programs):
        yield f"program {k}", partial(_changed, m, options, without)
    for seed in range(graphs):
        yield f"graph {seed}", partial(_graph, seed, options)


def _suite(
    offered: Offered, options: Options, programs: Sequence[Module], graphs: int
) -> Iterator[_Named]:
    for k, m in enumerate(programs):
        yield f"program {k}", partial(_offers, m, offered, options)
    for seed in range(graphs):
        yield f"graph {seed}", partial(_graph, seed, options)


def _of_codegen(chosen: Codegen, made: Lowered, options: Options) -> Iterator[str]:
    """Yield a choice for each kernel that a codegen offers."""
    for f in made.fused.functions:
        if f.name in made.loops:
            asked = Asked(f, made.loops[f.name], options.device)
            for point in islice(codegens.points(chosen, asked), POINTS):
                yield f"{f.name}: {point}"


def _of_recipe(chosen: Recipe, made: Lowered, options: Options) -> Iterator[str]:
    """Yield a choice for each point of a recipe, of functions with one loop nest that it suits."""
    for name, loop in made.loops.items():
        works = Work.all_of(expand(loop), options)
        if len(works) == 1 and chosen.fit(works[0]) is not None:
            for _, point in islice(chosen.points(works[0]), POINTS):
                yield f"{name}: {point}"


def _offers(m: Module, offered: Offered, options: Options) -> list[str]:
    """Judge a program with each kernel that is offered for it."""
    made = compile(m, options, until="lower")
    choices = list(offered(made, options))
    if choices != list(offered(made, options)):
        return ["another call offers something else"]
    if not choices:
        functions = ", ".join(made.loops)
        return [f"it offers nothing for {functions}, so nothing was judged"]
    found: list[str] = []
    for text in choices:
        pinned = replace(options, kernels=replace(options.kernels, choices=text))
        found += [f"{text}: {w}" for w in _judged(m, pinned, _drawn(m))]
    return found


def _drawn(m: Module) -> Iterator[tuple[Array, ...]]:
    for k, usual in enumerate(_USUAL):
        env = {v.name: min(max(v.lo, usual), v.hi) for v in m.dims}
        seeds = [1 + k + 7 * i for i in range(len(m.entry.params))]
        yield inputs(m, env, seeds)


def _judged(m: Module, options: Options, drawn: Iterator[tuple[Array, ...]]) -> list[str]:
    engine: Engine = Simt()
    return [
        f"{f.level} {f.where}: {f.message}"
        for arrays in drawn
        for f in levels.check(m, arrays, [engine], options).findings
    ]


def _graph(seed: int, options: Options) -> list[str]:
    """Judge a random graph, which it may leave to others."""
    case = decode(Random(seed).randbytes(BYTES))
    return _judged(case.module, case.options(options), iter([case.inputs()]))


def _changed(m: Module, options: Options, without: Options) -> list[str]:
    """Judge a program that a pass rewrites."""
    try:
        made, other = (compile(m, o, until="lower") for o in (options, without))
    except DidymaError as e:
        return [str(e)]
    if made.fused == other.fused:
        return ["it changes nothing, so nothing was judged"]
    if compile(m, options, until="lower").fused != made.fused:
        return ["another call makes something else"]
    return _judged(m, options, _drawn(m))
