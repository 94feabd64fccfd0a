"""Readers of templates and of the functions that templates are for.

A compile takes one template for few functions.  Here each is asked for any of its points, without
a compile around it, and what functions are to templates is told whichever of them takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from didyma.codegen import codegens
from didyma.codegen.codegens import Asked
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.schedule.recipes.point import Point
from didyma.codegen.templates import attentions, boxes, operands, weights
from didyma.codegen.templates.hooks import ACCESS
from didyma.codegen.templates.language import Launch, Text
from didyma.codegen.templates.pieces import pieces
from didyma.codegen.templates.powers import powered
from didyma.codegen.templates.problem import Problem
from didyma.codegen.templates.products import product
from didyma.codegen.templates.results import result
from didyma.codegen.templates.scores import shortened
from didyma.codegen.templates.weighing import scaling
from didyma.codegen.templates.windows import walk
from didyma.fuzz import offers
from didyma.fuzz.readings import told as tell
from didyma.fuzz.readings.told import BETWEEN, Told
from didyma.refimpl.ir.text import parse_module

PROBLEMS: Mapping[str, Callable[[Asked], Problem | None]] = MappingProxyType(
    {"product": product, "attention": attentions.found, "weights": weights.found}
)
NBYTES, LANES = (8, 16), (2, 4, 8)  # of neighbours that are taken at once


def template(text: str, told: Told) -> Iterator[str]:
    """Render a template for what the functions of the module above it are."""
    above, _, source = text.partition(BETWEEN)
    for asked in _functions(above, told):
        p = PROBLEMS[told.get("of", "product")](asked)
        if p is None:
            yield "no problem"
            continue
        more = {word: tell.buffer(b) for word, b in told.get("workspace", {}).items()}
        maps = boxes.maps(p, told["maps"]) if "maps" in told else {}
        launch = Launch(
            tell.grid(told), tell.block(told), None, told.get("names", {}), more,
            tuple(told.get("zeroed", ())), told.get("cluster", 1), maps,
        )  # fmt: skip
        yield repr(Text("own", source).render(p, told.get("values", {}), launch))


def problem(text: str, told: Told) -> Iterator[str]:
    """Find what the functions of a module are to templates, and how their parts lie in memory."""
    for asked in _functions(text, told):
        yield str({name: t.space(asked) for name, t in codegens.own().items()})
        for name, found in PROBLEMS.items():
            p = found(asked)
            yield f"{name}: {p}"
            if p is not None:
                yield from _parts(p)


def _parts(p: Problem) -> Iterator[str]:
    for name, sub in p.operands.items():
        yield f"{name} {[p.run(name, n) for n in NBYTES]} {[p.loaded(name, n) for n in LANES]}"
        yield f"{pieces(p, name, ACCESS)} {[p.stride(name, n) for n in range(len(sub.extents))]}"
    yield f"{[p.stored(n) for n in LANES]} {result(p, ACCESS)} {p.followed()}"
    yield str([sorted(map(str, p.neighbours(p.output, n))) for n in LANES])
    yield f"{operands.narrow(p)} {operands.rounded(p)} {p.windows and walk(p.windows)}"
    if "score" in p.bodies and "query" in p.operands:
        whole = replace(p, bodies={**p.bodies, **attentions.masked(p)})
        yield f"{whole} {attentions.limited(p)} {shortened(whole)} {scaling(whole)}"
    elif "score" in p.bodies:
        yield str(powered(p, tuple(p.bodies)))


def offer(text: str, told: Told) -> Iterator[str]:
    """Ask a template about the functions of a module: for one of its points, or what it offers."""
    asks = codegens.own()[told["template"]]
    for asked in _functions(text, told):
        if "values" in told:
            values = told["values"]
            yield repr(asks.at(asked, Point.of(asks.name, **values)))
            yield f"{asks.cost(asked, values)} {asks.block and asks.block(asked, values)}"
        else:
            yield from offers.of_template(asks, asked)
        yield str(asks.best and asks.best(asked))


def _functions(text: str, told: Told) -> Iterator[Asked]:
    target, changes = tell.target(told), told.get("options", {})
    options = Options().changed({"target": target, **changes})
    made = compile(parse_module(text), options, until="lower")
    functions = {f.name: f for f in made.fused.functions}
    yield from (Asked(functions[name], loop, target) for name, loop in made.loops.items())
