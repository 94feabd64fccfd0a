"""What recipes and templates offer for the functions of a program, whichever of them it takes.

A recipe that is not ranked first is not built by a compile, nor is a template that nobody asks
for.  So a slip in its values, its limits or its kernel changes no program that is compiled as
usual.  Few blocks come near the room of a device, so recipes are also asked for values on a small
one.  Kept programs hold a digest of these lines (``fuzz/counters.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from didyma.codegen import codegens
from didyma.codegen.codegens import Asked, Template
from didyma.codegen.options import Options
from didyma.codegen.passes import parts
from didyma.codegen.pipeline import Compiled
from didyma.codegen.schedule.dispatch import recipes, works
from didyma.codegen.schedule.recipes.point import Point
from didyma.codegen.schedule.recipes.recipe import Recipe, Space, Values, fits
from didyma.codegen.schedule.recipes.work import Work
from didyma.fuzz.blocks import block_of
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.text import show

POINTS = 128  # of a template that are told, those that its model ranks first
COSTS = 8  # of these whose costs are told, too


def lines(made: Compiled, options: Options) -> Iterator[str]:
    """Yield what suits each function: points of recipes with kernels, and points of templates.

    The first line has the numbers of parts in which tensor cores may sum products.
    """
    if "mma" in options.device.families:
        yield f"parts {parts.numbers(made.fused, options.device)}"
    functions = {f.name: f for f in made.fused.functions}
    for name, loop in made.loops.items():
        yield from of_loop(loop, options)
        asked = Asked(functions[name], loop, options.device)
        for template in codegens.own().values():
            yield from of_template(template, asked)


def of_loop(loop: PrimFunc, options: Options, *, switched: bool = False) -> Iterator[str]:
    """Yield the points of recipes that suit a function, with kernels.

    Where they are ``switched``, there are also kernels by values that are either 0 or 1.
    """
    for work in works(loop, options):
        for rank, recipe in fits(work, recipes(options)):
            yield f"{loop.name} {rank} {recipe.name}"
            yield from of_recipe(recipe, work)
            yield from of_switches(recipe, work) if switched else ()
    crowded = options.changed({"target": small(options.device)})
    for work in works(loop, crowded):
        for rank, recipe in fits(work, recipes(crowded)):
            usual = recipe.usual(work)
            yield f"{rank} {recipe.name if usual is None else _block(recipe, work, usual)}"


def crowded_blocks(loop: PrimFunc, options: Options) -> Iterator[str]:
    """Yield how the usual kernel of a recipe has more threads or shared bytes than it says."""
    for work in works(loop, options):
        for _, recipe in fits(work, recipes(options)):
            usual = recipe.usual(work)
            made = () if usual is None else recipe.kernels(work, usual)
            got = block_of(made[0]) if len(made) == 1 else None
            if usual is None or got is None:
                continue
            said = recipe.block(work, usual)
            if any(n > most for n, most in zip(got, said, strict=True)):
                yield f"{loop.name} has {got} threads and shared bytes, {recipe.name} says {said}"


def small(target: Target) -> Target:
    """Return a device with room for few threads, little shared memory and few blocks at once."""
    return replace(
        target, threads=4 * target.warp, shared=2 << 10, dynamic=min(4 << 10, target.dynamic),
        cluster=min(2, target.cluster), processors=min(4, target.processors),
    )  # fmt: skip


def of_recipe(recipe: Recipe, work: Work) -> Iterator[str]:
    """Yield the usual values of a recipe and those that differ in one, and the usual kernels."""
    usual = recipe.usual(work)
    if usual is None:
        return
    yield from (_block(recipe, work, values) for values in near(usual, recipe.space(work)))
    yield from map(show, recipe.kernels(work, usual))


def of_switches(recipe: Recipe, work: Work) -> Iterator[str]:
    """Yield kernels by values that are 0 or 1, each with the other one of its own values."""
    usual = recipe.usual(work)
    for name, found in recipe.space(work).items() if usual else ():
        if usual is not None and name in usual and set(found) == {0, 1}:
            values = {**usual, name: 1 - usual[name]}
            if usual[name] in found and recipe.legal(work, values) and recipe.fits(work, values):
                yield from map(show, recipe.kernels(work, values))


def of_template(template: Template, asked: Asked) -> Iterator[str]:
    """Yield the points of a template in the order of its model, and its first and last kernels."""
    points = [*template.points(asked)]
    for point in points[:POINTS]:
        yield f"{point} {template.block and template.block(asked, point.table)}"
    yield from (str(float(template.cost(asked, point.table))) for point in points[:COSTS])
    for point in dict.fromkeys((*points[:1], *points[-1:])):
        yield repr(template.render(asked, point.table))


def near(usual: Values, space: Space) -> Iterator[Values]:
    """Yield the usual values of parameters, and all that differ from them in one of a space.

    >>> list(near({"a": 1, "b": 4}, {"a": (1, 2)}))
    [{'a': 1, 'b': 4}, {'a': 2, 'b': 4}]
    """
    yield usual
    for name in (name for name in space if name in usual):
        yield from ({**usual, name: v} for v in space[name] if v != usual[name])


def _block(recipe: Recipe, work: Work, values: Values) -> str:
    is_legal = recipe.legal(work, values)
    return f"{Point.of(recipe.name, **values)} {recipe.block(work, values)} {is_legal}"
