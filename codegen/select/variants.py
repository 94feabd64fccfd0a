"""Variants: kernels for one loop nest that compute the same, of which a run chooses one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from didyma.codegen.emit import cuda
from didyma.codegen.options import Options
from didyma.codegen.schedule import dispatch
from didyma.codegen.schedule.recipes.point import Point
from didyma.codegen.select.choice import Choice, digest
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.loop import PrimFunc
from didyma.refimpl.ir.names import Names


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel for loop nest ``nest`` of the Primitive function ``function``.

    ``choice`` is the choice of the whole function that gives this kernel, and the kernels that the
    model ranks first for the other nests.
    """

    function: str
    nest: int
    choice: Choice
    kernel: PrimFunc

    @property
    def point(self) -> Point:
        """The recipe of the nest, with its parameters."""
        return self.choice.points[self.nest]

    @property
    def digest(self) -> str:
        """A hash of the kernel's text, whatever its name."""
        return digest(_text(self.kernel))


def _text(k: PrimFunc) -> str:
    return cuda.emit((replace(k, name="f"),)).source


def several(
    loops: Mapping[str, PrimFunc],
    kernels: Mapping[str, Sequence[Kernel]],
    options: Options,
    fixed: Collection[str],
) -> dict[str, tuple[Variant, ...]]:
    """Return the variants of kernels by their names, the kernel itself first.

    A kernel that has none, by the options or because all are equal to it, is left out; so are those
    of the functions ``fixed``, whose schedules were given, and of nests that several kernels run.
    The names of all kernels differ.
    """
    names = Names(k.name for ks in kernels.values() for k in ks)
    found: dict[str, tuple[Variant, ...]] = {}
    for name, loop in loops.items():
        if name in fixed:
            continue
        for nest, usual in enumerate(dispatch.by_nest(loop, options)):
            if len(usual) > 1:
                continue
            each = islice(_distinct(name, loop, options, nest), options.kernels.variants)
            row = tuple(_named(each, names))
            if len(row) > 1:
                found[row[0].kernel.name] = row
    return found


def _distinct(name: str, loop: PrimFunc, options: Options, nest: int) -> Iterator[Variant]:
    """Yield the variants of a nest with different texts, as far as they write the same buffers."""
    best = dispatch.first(loop, options)
    outputs: set[str] = set()
    seen: set[str] = set()
    for point in dispatch.alternatives(loop, options)[nest]:
        points = (*best[:nest], point, *best[nest + 1 :])
        kernel, *more = dispatch.by_nest(loop, options, points)[nest]
        if more:
            continue
        outputs = outputs or {*kernel.outputs}
        text = _text(kernel)
        if text not in seen and {*kernel.outputs} == outputs:
            seen.add(text)
            yield Variant(name, nest, Choice(points), kernel)


def _named(row: Iterator[Variant], names: Names) -> Iterator[Variant]:
    """Yield variants, all but the first with the name of their recipe behind that of the kernel."""
    yield from islice(row, 1)
    for v in row:
        name = names.fresh(f"{v.kernel.name}_{v.point.recipe}")
        yield replace(v, kernel=replace(v.kernel, name=name))
