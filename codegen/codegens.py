"""Who makes the kernel of a Primitive function, other than schedules of its loops.

A codegen is asked for each function, and answers with a kernel as text or not at all.  A template
is one whose text has parameters, with a model that ranks their values without running them.
Whoever made a kernel, it claims to compute its function, and is judged by that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from didyma.codegen import plugins
from didyma.codegen.guards import Test, each, guarded, is_counts, is_named, is_pair, is_truth
from didyma.codegen.options import Options
from didyma.codegen.schedule.dispatch import names
from didyma.codegen.schedule.recipes.point import Point
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.graph import Function
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.target import TARGETS, Target

Values: TypeAlias = Mapping[str, int]
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Asked:
    """A Primitive function that wants a kernel, its loops, and what kernels may rely on."""

    function: Function
    loop: PrimFunc
    target: Target
    _known: dict[Any, Any] = field(
        default_factory=dict[Any, Any], init=False, repr=False, compare=False
    )

    def once(self, f: Callable[[Asked], R]) -> R:
        """Return what a function finds about what is asked, which it finds once."""
        if f not in self._known:
            self._known[f] = f(self)
        found: R = self._known[f]
        return found


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


@runtime_checkable
class Offers(Codegen, Protocol):
    """A codegen that offers several kernels for a function, each at a point."""

    def points(self, asked: Asked) -> Iterator[Point]:
        """Yield what it offers, the best first; nothing for a function that it leaves to others."""
        ...

    def at(self, asked: Asked, point: Point) -> TextKernel:
        """Return the kernel of a point; DidymaError ``bad-choice``, ``target-lacks``."""
        ...


@dataclass(frozen=True, slots=True)
class Template:
    """A kernel as text with parameters.

    ``space`` gives the values of each parameter for a function, or None where the template does not
    suit it.  ``cost`` is the model: an estimate, in any unit, of the time that a kernel with such
    values takes.  ``render`` writes the kernel.  ``block`` tells the threads of a block, and the
    bytes of shared memory that it declares; without, a kernel must be written to know the threads.
    A compile that does not tune takes the kernels of one of Didyma's own if it is ``best`` for a
    function.
    """

    name: str
    space: Callable[[Asked], Mapping[str, tuple[int, ...]] | None]
    cost: Callable[[Asked, Values], float]
    render: Callable[[Asked, Values], TextKernel]
    block: Callable[[Asked, Values], tuple[int, int]] | None = None
    best: Callable[[Asked], bool] | None = None

    def guarded(self) -> Template:
        """Return the template of somebody else, of which every failure is an error that names it.

        DidymaError ``failed-part`` where one of its functions raises, or returns what it may not.
        """

        def of(member: str, want: str, fits: Test) -> Callable[..., Any]:
            f = getattr(self, member)

            def run(asked: Asked, *values: Values) -> Any:
                point = Point.of(self.name, **values[0]) if values else self.name
                where = f"template {point}, {member} for @{asked.function.name}"
                return guarded(where, f, want, fits)(asked, *values)

            return run

        return replace(
            self,
            space=of("space", "None, or some numbers by each name", _is_space),
            cost=of("cost", "a number", lambda x: isinstance(x, int | float) and x == x),
            render=of("render", "a TextKernel", lambda x: isinstance(x, TextKernel)),
            block=self.block and of("block", "a number of threads, and one of bytes", is_pair),
            best=self.best and of("best", "True or False", is_truth),
        )

    def fits(self, asked: Asked, values: Values) -> bool:
        """Return whether the target has the threads and the shared memory of a block."""
        threads, shared = self._needs(asked, values)
        return asked.target.has_room(threads) and shared <= asked.target.dynamic

    def _needs(self, asked: Asked, values: Values) -> tuple[tuple[int, int, int], int]:
        """Return the threads of a block along each axis, and the bytes that it says it shares."""
        if self.block is None:
            return self.render(asked, values).block, 0
        threads, shared = self.block(asked, values)
        return (threads, 1, 1), shared

    def points(self, asked: Asked) -> Iterator[Point]:
        """Yield the values whose blocks fit in the target, the cheapest first by the model."""
        rows = self._rows(asked)
        for values in sorted(rows, key=lambda v: (self.cost(asked, v), tuple(v.values()))):
            if self.fits(asked, values):
                yield Point.of(self.name, **values)

    def costs(self, asked: Asked) -> Iterator[float]:
        """Yield the model's estimates of all values that fit in the target."""
        yield from (self.cost(asked, v) for v in self._rows(asked) if self.fits(asked, v))

    def _rows(self, asked: Asked) -> Sequence[dict[str, int]]:
        """Return all values of the parameters; none where the template does not suit."""
        space = self.space(asked)
        if space is None:
            return ()
        return [dict(zip(space, vs, strict=True)) for vs in itertools.product(*space.values())]

    def kernel(self, asked: Asked) -> TextKernel | None:
        """Return the kernel that the model ranks first, or None where the template does not suit.

        DidymaError ``target-lacks`` where no block fits in the target.
        """
        point = next(self.points(asked), None)
        if point is None and (rows := self._rows(asked)):
            raise self._too_large(asked, rows[0])
        return None if point is None else self.render(asked, point.table)

    def at(self, asked: Asked, point: Point) -> TextKernel:
        """Return the kernel of a point.

        Errors: ``bad-choice`` for one that is not its own, ``target-lacks`` for one whose blocks
        the target has no room for.
        """
        known, where = self.space(asked), f"@{asked.function.name}"
        if known is None:
            others = [n for n, t in TARGETS.items() if self.space(replace(asked, target=t))]
            raise DidymaError(
                "bad-choice", where, got=f"{point} for target {asked.target.name}",
                want=f"a function that {self.name} suits",
                help=f"it suits this one for {' and '.join(others)}" if others else "",
            )  # fmt: skip
        if known.keys() != point.table.keys() or any(v not in known[k] for k, v in point.values):
            listed = "; ".join(f"{k} of {', '.join(map(str, vs))}" for k, vs in known.items())
            raise DidymaError("bad-choice", where, got=str(point), want=listed)
        if not self.fits(asked, point.table):
            raise self._too_large(asked, point.table)
        return self.render(asked, point.table)

    def _too_large(self, asked: Asked, values: Values) -> DidymaError:
        target, (threads, shared) = asked.target, self._needs(asked, values)
        if 0 in threads:
            return DidymaError(
                "target-lacks", f"@{asked.function.name}", got=str(Point.of(self.name, **values)),
                want=f"values for which {self.name} has a block on the {target.name} target",
                help="`didyma tune` tries those that it has",
            )  # fmt: skip
        block, most = (" x ".join(map(str, row)) for row in (threads, target.block))
        return DidymaError(
            "target-lacks", f"@{asked.function.name}",
            got=f"{Point.of(self.name, **values)}, whose block of {block} threads has "
            f"{shared} bytes of shared memory",
            want=f"at most {target.threads} threads, {most} along the axes, and {target.dynamic} "
            f"bytes, as the {target.name} target has",
        )  # fmt: skip


def _is_space(x: object) -> bool:
    return x is None or is_named(x, is_counts)


def own() -> Mapping[str, Template]:
    """Return Didyma's own templates by their names."""
    from didyma.codegen.templates import (
        attention,
        attention_mma,
        attention_tma,
        attention_wgmma,
        cluster,
        depthwise,
        fma,
        gemm,
        mma,
        tma,
        weighted_mma,
        weighted_tma,
        wgmma,
    )

    attentions = (attention, attention_tma, attention_wgmma, attention_mma)
    weighted = (weighted_tma, weighted_mma)
    every = (gemm, cluster, tma, wgmma, mma, fma, depthwise, *attentions, *weighted)
    return {t.TEMPLATE.name: t.TEMPLATE for t in every}


def given(options: Options) -> tuple[Codegen, ...]:
    """Return the codegens and templates that options name, in order; errors of ``plugins.part``."""
    chosen: tuple[Any, ...] = options.kernels.codegens
    return tuple(map(_made, chosen))


def _made(which: str | Codegen) -> Codegen:
    """Return a codegen by its name: Didyma's own, or one of the templates, or of the codegens."""
    if isinstance(which, str) and which in (mine := own()):
        return mine[which]
    named = plugins.names(plugins.TEMPLATES) if isinstance(which, str) else ()
    if isinstance(which, str) and which in named:
        return plugins.part(plugins.TEMPLATES, which, Template).guarded()
    found = plugins.part(plugins.CODEGENS, which, Codegen, (*named, *own()))  # type: ignore[type-abstract]  # a runtime protocol
    return found.guarded() if isinstance(found, Template) else found


def others(options: Options) -> Iterator[Codegen]:
    """Yield Didyma's templates, and those and the codegens that are registered, not in options.

    One that cannot be loaded is left out: nobody asked for it.
    """
    named = {c.name for c in given(options)} | {*names()}
    yield from (c for name, c in own().items() if name not in named)
    for group in (plugins.TEMPLATES, plugins.CODEGENS):
        for name in plugins.names(group):
            if name not in named:
                with suppress(DidymaError):
                    yield _made(name)


def first(asked: Asked, options: Options) -> Point | None:
    """Return the point of the codegen that a compile takes by itself; None if none makes one."""
    return next((p for c in taken(asked, options) for p in islice(points(c, asked), 1)), None)


def taken(asked: Asked, options: Options) -> Iterator[Codegen]:
    """Yield the codegens of options, and Didyma's templates that are the best for a function."""
    yield from (mine := given(options))
    if asked.target.families:  # without a look at templates, which takes milliseconds
        known = {c.name for c in mine}
        yield from (
            t
            for t in own().values()
            if t.name not in known and t.best is not None and t.best(asked)
        )


def points(c: Codegen, asked: Asked) -> Iterator[Point]:
    """Yield what a codegen offers for a function: its points, or its one kernel."""
    if isinstance(c, Offers):
        where = f"codegen {c.name}, points"
        want = "an iterator of Point"
        yield from each(where, partial(c.points, asked), want, lambda x: isinstance(x, Point))
    elif _asked(c, asked) is not None:
        yield Point.of(c.name)


def _asked(c: Codegen, asked: Asked) -> TextKernel | None:
    """Return the kernel that a codegen makes of itself."""
    want = "a TextKernel, or None"
    return guarded(f"codegen {c.name}, kernel", c.kernel, want, _is_kernel)(asked)


def _is_kernel(x: object) -> bool:
    return x is None or isinstance(x, TextKernel)


def at(point: Point, asked: Asked, options: Options) -> TextKernel | None:
    """Return the kernel that a point names: of a codegen of the options, or a registered one.

    None where it names a recipe, or nothing that is known.  DidymaError ``bad-choice`` for a point
    that the codegen does not offer.
    """
    if point.recipe in names():  # without a look at entry points, which takes milliseconds
        return None
    known = chain(given(options), (_made(n) for n in _registered(point.recipe)))
    c = next((c for c in known if c.name == point.recipe), None)
    if c is None:
        return None
    if isinstance(c, Offers):
        want, where = "a TextKernel", f"codegen {c.name}, at"
        return guarded(where, c.at, want, lambda x: isinstance(x, TextKernel))(asked, point)
    found = None if point.values else _asked(c, asked)
    if found is None:
        want = f"{c.name}()" if point.values else f"a function for which {c.name} makes a kernel"
        raise DidymaError("bad-choice", f"@{asked.function.name}", got=str(point), want=want)
    return found


def _registered(name: str) -> Iterator[str]:
    if name in own():
        yield name
    yield from (name for g in (plugins.TEMPLATES, plugins.CODEGENS) if name in plugins.names(g))


def kernel(asked: Asked, options: Options) -> TextKernel | None:
    """Return the kernel of the first codegen that makes one, of those that a compile takes."""
    made = (_asked(c, asked) for c in taken(asked, options))
    return next((text for text in made if text is not None), None)
