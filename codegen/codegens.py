"""Who makes the kernel of a Primitive function, other than schedules of its loops.

A codegen is asked for each function, and answers with a kernel as text or not at all.  A template
is one whose text has parameters, with a model that ranks their values without running them.
Whoever made a kernel, it claims to compute its function, and is judged by that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Protocol, TypeAlias, runtime_checkable

from didyma.codegen import plugins
from didyma.codegen.options import Options
from didyma.codegen.schedule.dispatch import names
from didyma.codegen.schedule.recipes.point import Point
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Function
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.target import Target

Values: TypeAlias = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Asked:
    """A Primitive function that wants a kernel, its loops, and what kernels may rely on."""

    function: Function
    loop: PrimFunc
    target: Target


@runtime_checkable
class Codegen(Protocol):
    """What makes kernels for Primitive functions."""

    @property
    def name(self) -> str:
        """The name by which options choose it."""
        ...

    def kernel(self, asked: Asked) -> TextKernel | None:
        """Return a kernel for a function, or None to leave the function to others."""
        ...


@dataclass(frozen=True, slots=True)
class Template:
    """A kernel as text with parameters.

    ``space`` gives the values of each parameter for a function, or None where the template does not
    suit it.  ``cost`` is the model: an estimate, in any unit, of the time that a kernel with such
    values takes.  ``render`` writes the kernel.
    """

    name: str
    space: Callable[[Asked], Mapping[str, tuple[int, ...]] | None]
    cost: Callable[[Asked, Values], float]
    render: Callable[[Asked, Values], TextKernel]

    def points(self, asked: Asked) -> Iterator[Point]:
        """Yield the values whose blocks fit in the target, the cheapest first by the model."""
        space = self.space(asked)
        if space is None:
            return
        rows = [
            dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())
        ]
        for values in sorted(rows, key=lambda v: (self.cost(asked, v), tuple(v.values()))):
            if prod(self.render(asked, values).block) <= asked.target.threads:
                yield Point.of(self.name, **values)

    def kernel(self, asked: Asked) -> TextKernel | None:
        """Return the kernel that the model ranks first, or None where the template does not suit.

        DidymaError ``target-lacks`` where no block fits in the target.
        """
        point = next(self.points(asked), None)
        if point is None and self.space(asked) is not None:
            raise DidymaError(
                "target-lacks", f"@{asked.function.name}", got=asked.target.name,
                want=f"a target with room for a block of {self.name}",
            )  # fmt: skip
        return None if point is None else self.render(asked, point.table)

    def at(self, asked: Asked, point: Point) -> TextKernel:
        """Return the kernel of a point; DidymaError ``bad-choice`` for one that is not its own."""
        known: Mapping[str, tuple[int, ...]] = self.space(asked) or {}
        if known.keys() != point.table.keys() or any(v not in known[k] for k, v in point.values):
            listed = "; ".join(f"{k} of {', '.join(map(str, vs))}" for k, vs in known.items())
            raise DidymaError(
                "bad-choice", f"@{asked.function.name}", got=str(point),
                want=listed or f"a function that {self.name} suits",
            )  # fmt: skip
        return self.render(asked, point.table)


def given(options: Options) -> tuple[Codegen, ...]:
    """Return the codegens and templates that options name, in order; errors of ``plugins.part``."""
    return tuple(map(_made, options.kernels.codegens))


def _made(which: str | Codegen) -> Codegen:
    """Return a codegen by its name, in the group of codegens or else in that of templates."""
    if isinstance(which, str) and which in plugins.names(plugins.TEMPLATES):
        return plugins.part(plugins.TEMPLATES, which, Template)
    return plugins.part(plugins.CODEGENS, which, Codegen)  # type: ignore[type-abstract]  # a runtime protocol


def template(point: Point, options: Options) -> Template | None:
    """Return the template that a point names: one of the options, or a registered one."""
    if point.recipe in names():  # without a look at entry points, which takes milliseconds
        return None
    own = next((c for c in given(options) if c.name == point.recipe), None)
    if isinstance(own, Template):
        return own
    if point.recipe in plugins.names(plugins.TEMPLATES):
        return plugins.part(plugins.TEMPLATES, point.recipe, Template)
    return None


def kernel(asked: Asked, options: Options) -> TextKernel | None:
    """Return the kernel of the first codegen of the options that makes one."""
    made = (c.kernel(asked) for c in given(options))
    return next((text for text in made if text is not None), None)
