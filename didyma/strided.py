"""Calls whose inputs are not in row-major order: which are read as they lie, which are copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from didyma.codegen.layouts.layout import Layout, Placed, Span
from didyma.codegen.layouts.variant import MOST, Variant, variant
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled
from didyma.codegen.runtime.libraries import Library, Lies
from didyma.refimpl.ir.graph import Param

KEPT = 8  # variants of a program; inputs of still other layouts are copied
_RECORDS = 64  # ways in which inputs lie that a program remembers
_CAPTURED = "nothing is compiled while a stream is captured"
_KINDS = f"calls have had inputs of {KEPT} other layouts"


@dataclass(frozen=True, slots=True)
class Strided:
    """What calls did with an input that was not in row-major order.

    ``layout`` says which positions of which axes of a base it had; it is empty where it had none.
    ``copied`` says why it was copied, and is empty where it was read as it lay.  ``calls`` counts
    them.
    """

    name: str
    layout: str
    copied: str
    calls: int


@dataclass(frozen=True, slots=True)
class Given:
    """Inputs in row-major order, and the program that takes them: None for the usual one."""

    compiled: Compiled | None
    arrays: tuple[Any, ...]


@dataclass(slots=True)
class _Plan:
    """What calls do with inputs that lie so: for each its base, True for a copy, None as it is.

    ``records`` are what to say of a call, and ``calls`` counts them.
    """

    compiled: Compiled | None
    inputs: tuple[Placed | bool | None, ...]
    records: tuple[tuple[str, str, str], ...]
    calls: int = 0


@dataclass(slots=True)
class Strides:
    """The variants of one program for inputs of other layouts, and a record of what calls did."""

    compiled: Compiled
    options: Options
    _variants: dict[tuple[tuple[str, Layout], ...], Variant] = field(
        default_factory=dict[tuple[tuple[str, Layout], ...], Variant]
    )
    _plans: dict[tuple[Lies | None, ...], _Plan] = field(
        default_factory=dict[tuple[Lies | None, ...], _Plan]
    )
    _seen: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])

    def given(self, library: Library, inputs: Sequence[Any], *, known: bool) -> Given | None:
        """Return what a call takes, of arrays of a library; None where it must borrow them.

        With ``known`` nothing is compiled: inputs of layouts that calls have not had are copied.
        """
        if len(self.compiled.source.entry.params) != len(inputs):
            return None
        key = list[Lies | None]()
        for x in inputs:
            if library.take(x) is not None:
                key.append(None)
            elif (lies := library.lies(x)) is not None:
                key.append(lies)
            else:
                return None
        plan = self._plans.get(tuple(key)) or self._planned(tuple(key), known=known)
        plan.calls += 1
        arrays = (
            x if p is None else library.base(x, p) if isinstance(p, Placed) else library.packed(x)
            for p, x in zip(plan.inputs, inputs, strict=True)
        )
        return Given(plan.compiled, tuple(arrays))

    def _planned(self, key: tuple[Lies | None, ...], *, known: bool) -> _Plan:
        """Return what calls do with inputs that lie so; it is kept, but for one made in haste."""
        places = dict[str, Placed | str]()
        for p, lies in zip(self.compiled.source.entry.params, key, strict=True):
            if lies is not None:
                fits = _fits(p, lies.shape)
                places[p.name] = lies.placed() if fits else "it has another shape"
        layouts = {name: p.layout for name, p in places.items() if isinstance(p, Placed)}
        found = self._variant(layouts, known=known)
        records = list[tuple[str, str, str]]()
        takes = dict[str, Placed | bool]()
        for name, place in places.items():
            why = place if isinstance(place, str) else found.refused.get(name, "")
            records.append((name, "" if isinstance(place, str) else show(place.layout), why))
            takes[name] = place if not why and isinstance(place, Placed) else True
        inputs = tuple(takes.get(p.name) for p in self.compiled.source.entry.params)
        plan = _Plan(found.compiled, inputs, tuple(records))
        if len(self._plans) == _RECORDS:
            self._seen = self._counted()
            self._plans.clear()
        if known:
            self._seen.update(records)
        else:
            self._plans[key] = plan
        return plan

    def _variant(self, layouts: Mapping[str, Layout], *, known: bool) -> Variant:
        key = tuple(layouts.items())
        found = self._variants.get(key)
        if found is None:
            if known:
                return Variant(None, {}, dict.fromkeys(layouts, _CAPTURED))
            if len(self._variants) == KEPT:
                return Variant(None, {}, dict.fromkeys(layouts, _KINDS))
            found = self._variants[key] = variant(self.compiled, self.options, layouts)
        return found

    def _counted(self) -> Counter[tuple[str, str, str]]:
        found = self._seen.copy()
        for plan in self._plans.values():
            found.update(dict.fromkeys(plan.records, plan.calls))
        return found

    @property
    def seen(self) -> tuple[Strided, ...]:
        """What calls did with inputs that were not in row-major order, by input and layout."""
        return tuple(Strided(*key, calls) for key, calls in self._counted().items())


def _fits(p: Param, shape: Sequence[int]) -> bool:
    """Return whether an array has the rank and the known sizes of a parameter."""
    wanted = p.type.shape
    known = (n == m or not isinstance(m, int) for n, m in zip(shape, wanted, strict=False))
    return len(shape) == len(wanted) and all(known)


def show(layout: Layout) -> str:
    """Return a layout as text: the axes of its base from the outermost on.

    >>> from didyma.codegen.layouts.layout import Span
    >>> show((Span(0), Span(1, 1024, 8, 2)))
    'axes 0, 1 from 8 by 2 of 1024'
    """
    return f"axes {', '.join(map(str, layout))}"


def means(c: Compiled, options: Options) -> tuple[str, ...]:
    """Return which inputs calls of PyTorch and CuPy read as they lie, in sentences, by examples."""
    if len(c.program.kernels) > MOST:
        return (f"inputs in another order are copied first: there are more than {MOST} kernels",)
    return tuple(_about(c, options, p) for p in c.source.entry.params if p.type.rank)


def on_host(c: Compiled) -> tuple[str, ...]:
    """Return which inputs in the host's memory built programs copy, in sentences."""
    where = "in built programs on the host"
    params = c.source.entry.params
    packed = [p.name for p in params if p.type.dtype.is_packed]
    lie = [p.name for p in params if p.type.strides is not None]
    others = [p.name for p in params if p.name not in (*packed, *lie)]
    said = [f"{where}, {x} is copied: its elements are packed" for x in packed]
    if lie:
        said.append(f"{where}, {', '.join(lie)} are read with the strides that are declared")
    if others:
        said.append(
            f"{where}, {', '.join(others)} are read where they are in row-major order, from a "
            "multiple of 16 bytes on, and copied first where they are not"
        )
    return tuple(said)


def _about(c: Compiled, options: Options, p: Param) -> str:
    found = {
        kind: variant(c, options, {p.name: layout}).refused.get(p.name, "")
        for kind, layout in _examples(p)
    }
    lie = [kind for kind, why in found.items() if not why]
    said = [f"{' and '.join(lie)} are read as they lie"] if lie else []
    said += [f"{kind} are copied: {why}" for kind, why in found.items() if why]
    return f"of input {p.name}, {'; '.join(said)}"


def _examples(p: Param) -> Iterator[tuple[str, Layout]]:
    *outer, last = range(p.type.rank)
    n = p.type.shape[last]
    if isinstance(n, int):
        yield "parts of rows", (*map(Span, outer), Span(last, max(1, 2 * n)))
    else:
        yield "parts of rows", (*map(Span, outer), Span(last, 1))
    if outer:
        yield "transposed arrays", (*map(Span, outer[:-1]), Span(last), Span(outer[-1]))
        yield "repeated rows", (Span(0, 1, 0, 0), *map(Span, (*outer[1:], last)))
