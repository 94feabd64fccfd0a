"""What the judge says of the kernels of templates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from didyma.candidates import Bars
from didyma.codegen.codegens import Asked, Template, Values
from didyma.codegen.options import Options
from didyma.codegen.pipeline import compile
from didyma.codegen.runtime.engine import Engine, KernelFault
from didyma.codegen.runtime.registry import engine
from didyma.codegen.select.choice import Choice, build
from didyma.codegen.select.choosers import Request
from didyma.codegen.templates.products import product
from didyma.refimpl.ir.kernel import TensorMap, TextKernel
from didyma.tracer.tracing import Program
from didyma.tuning import target

Suits: TypeAlias = Callable[[Asked], object]  # what a function is to a template, or None


def request(program: Program, options: Options | None = None, suits: Suits = product) -> Request:
    """The function of a program that is a product, or suits, at sizes that no tile divides."""
    options = options or Options()
    made = compile(program.module, options, until="lower")
    for name, loop in made.loops.items():
        f = made.fused.function(name)
        if suits(Asked(f, loop, options.device)) is not None:
            sizes = {d.name: max(d.lo, d.hi - 2) for d in loop.dims}
            return Request(name, loop, options, "host", target(engine("host")), sizes, f)
    raise AssertionError(f"none of {', '.join(made.loops)} suits")


def points(r: Request, template: Template) -> list[str]:
    """The points of a template for a function, the best first."""
    assert r.source is not None
    return [str(p) for p in template.points(Asked(r.source, r.loop, r.options.device))]


def judged(
    program: Program,
    point: str,
    template: Template | None = None,
    options: Options | None = None,
    suits: Suits = product,
    engines: Sequence[str | Engine] = ("simt", "host"),
) -> set[str]:
    """Return what the judge says of the kernel of a point, by engines.

    ``simt`` checks whatever it runs, so its blocks are not run beforehand where it is asked.
    """
    changed = {} if template is None else {"kernels.codegens": (template,)}
    r = request(program, (options or Options()).changed(changed), suits)
    fused = compile(program.module, r.options, until="lower").fused
    candidate = build(r.loop, r.options, Choice.parse(point), r.source)
    judge = Bars(fused, r.name, r.loop, r.env, seed=3)
    found = [engine(e) if isinstance(e, str) else e for e in engines]
    if "simt" not in engines:
        return {judge(candidate, e) for e in found}
    try:
        return {judge.compared(candidate, e) for e in found}
    except KernelFault as e:
        return {str(e)}


def with_map(template: Template, name: str, change: Callable[[TensorMap], TensorMap]) -> Template:
    """Return a template whose kernels are launched with another tensor map of a name."""

    def render(asked: Asked, values: Values) -> TextKernel:
        kernel = template.render(asked, values)
        assert name in [m.name for m in kernel.maps]
        return replace(kernel, maps=tuple(change(m) if m.name == name else m for m in kernel.maps))

    return replace(template, render=render)
