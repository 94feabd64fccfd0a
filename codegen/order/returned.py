"""Results that need no kernel: inputs and values that are returned as they are, or by strides.

A launch goes where it only moves elements of an input or of another value to a result that nothing
else reads, and where the element at an index lies at an offset that is linear in the index.  What
it would have read is then returned, and shown by strides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from didyma.codegen.lower.affine import Affine, Poly
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar
from didyma.refimpl.ir.dims.polynomial import without
from didyma.refimpl.ir.expr import of_dim
from didyma.refimpl.ir.lines import binds, launches_of, operands, walk
from didyma.refimpl.ir.loop import For, Load, PrimFunc, Store
from didyma.refimpl.ir.names import fresh
from didyma.refimpl.ir.program import Copy, Launch, Line, Program, Return, Strided, View


def by_strides(p: Program, loops: Mapping[str, PrimFunc], results: Sequence[str]) -> Program:
    """Return a program without memory whose results share bytes where they may.

    ``p`` lacks its return, whose values are to be ``results``; ``loops`` has, by the name of a
    kernel, the loop program of the function that it alone computes.  As a graph has it, no line
    writes a value that a line above it reads, unless it is a loop's.
    """
    found = _Returned(p, loops, results)
    lines = found.lines()
    launched = {x.kernel for line in walk(lines) for x in launches_of(line)}
    called = {x.kernel for f in p.functions for y in walk(f.lines) for x in launches_of(y)}
    kernels = tuple(k for k in p.kernels if k.name in launched | called)
    return replace(p, lines=lines, types=tuple(found.types.items()), kernels=kernels)


class _Returned:
    """The values of a program that results are, or show."""

    def __init__(self, p: Program, loops: Mapping[str, PrimFunc], results: Sequence[str]) -> None:
        self.p, self.loops, self.results = p, loops, results
        self.types = p.type
        self.views = {x.value: x for x in walk(p.lines) if isinstance(x, View)}
        self.uses = Counter(v for x in walk(p.lines) for v in {*operands(x)})
        self.bound = {s for x in walk(p.lines) for s in binds(x)}
        self.constants = {name for name, _ in p.constants}
        self.ranges = {d.name: (d.lo, d.hi) for d in p.dims}

    def owner(self, value: str) -> str:
        """Return the value whose bytes a value shows."""
        while value in self.views:
            value = self.views[value].of
        return value

    def lines(self) -> tuple[Line, ...]:
        """Return the lines, with strided values in place of launches, and the return."""
        kept = [x if (y := self._moved(x)) is None else y for x in self.p.lines]
        shaped = {x.value for x in kept if isinstance(x, Strided)}
        kept = [x for x in kept if not (isinstance(x, View) and x.value in shaped)]
        moved = {x.value: x.of for x in kept if isinstance(x, Strided)}
        shown = Counter(moved.get(r, self.owner(r)) for r in dict.fromkeys(self.results))
        given: dict[str, str] = {}
        for r in dict.fromkeys(self.results):
            line = None if r in moved else self._again(r, shown[self.owner(r)] > 1)
            given[r] = r if line is None else line.value
            kept += [] if line is None else [line]
        return (*kept, Return(tuple(given[r] for r in self.results)))

    def _moved(self, x: Line) -> Strided | None:
        """Return the strided value that a launch makes; None where it must be launched."""
        if not isinstance(x, Launch) or len(x.args) != 2 or x.kernel not in self.loops:
            return None
        value = self._result(x.args[1])
        if value is None:
            return None
        of = self.owner(x.args[0])
        t, whole = self.types[value], self.types[of]
        lent = of in self.p.inputs or of in self.results
        kept = lent or dims.at_least(t.numel, whole.numel, self.ranges)
        if not (kept and self._alike(value, of)):
            return None
        if of in self.constants:
            return None
        found = linear(self.loops[x.kernel], self.p.dims)
        if found is None:
            return None
        strides, offset = found
        shapes = self.types[x.args[1]].shape, self.types[value].shape
        shown = strides if value == x.args[1] else reshaped(shapes[0], strides, shapes[1])
        return None if shown is None else Strided(value, of, shown, offset)

    def _result(self, value: str) -> str | None:
        """Return the result that a value is, or of which it is another shape, and nothing else."""
        if self.uses[value] == 1 and value in self.results:
            return value
        names = [v for v, x in self.views.items() if x.of == value]
        if self.uses[value] > 2 or value in self.results or len(names) != 1:
            return None
        return None if self.uses[names[0]] else names[0]

    def _again(self, result: str, shared: bool) -> Strided | Copy | None:
        """Return a line that gives a result whose bytes are others'; None if they are its own.

        They are ``shared`` where another result shows them too.
        """
        owner = self.owner(result)
        t = self.types[result]
        if owner not in self.constants:
            if owner == result or not (shared or owner in self.p.inputs):
                return None
            if self._alike(result, owner):
                return Strided(self._fresh(result, "view"), owner, row_major(t.shape))
        return Copy(self._fresh(result, "copy"), result)

    def _fresh(self, value: str, kind: str) -> str:
        name = fresh(f"{value}_{kind}", self.types)
        self.types[name] = self.types[value]
        return name

    def _alike(self, value: str, of: str) -> bool:
        """Return whether values have elements of one kind, of whole bytes.

        Those of a size that a line binds may be gone by the end.
        """
        a, b = self.types[value], self.types[of]
        if a.dtype is not b.dtype or a.dtype.is_packed:
            return False
        return self.bound.isdisjoint(dims.free((*a.shape, *b.shape)))


def linear(f: PrimFunc, sizes: Sequence[DimVar]) -> tuple[tuple[Dim, ...], Dim] | None:
    """Return strides and offset by which the one result of a function shows its one operand.

    None where it does not: where elements are computed, or lie at no linear function of the index.
    """
    affine, s, loops = Affine(sizes), f.body, list[str]()
    while isinstance(s, For):
        affine.loop(s.var, s.extent)
        loops.append(s.var.name)
        s = s.body
    if not isinstance(s, Store) or not isinstance(s.value, Load) or len(f.params) != 2:
        return None
    place = affine.offset(s.value.index, [affine.poly(of_dim(d)) for d in f.params[0].shape])
    strides: list[Dim] = []
    for axis in map(affine.poly, s.index):
        names = [v for v in loops if axis == {(v,): 1}]
        if not names and axis:  # an axis of one element has no variable
            return None
        by = {m: c for m, c in place.items() if names and names[0] in m}
        place = {m: c for m, c in place.items() if m not in by}
        stride = {left: c for m, c in by.items() if (left := without(m, names)) is not None}
        strides.append(_size(stride))
        if any(v.startswith("@") for m in stride for v in m):
            return None
    if any(v.startswith("@") for m in place for v in m):
        return None
    return tuple(strides), _size(place)


def reshaped(
    shape: Sequence[Dim], strides: Sequence[Dim], new: Sequence[Dim]
) -> tuple[Dim, ...] | None:
    """Return the strides of the same elements in another shape; None where there are none.

    As in PyTorch's ``view``, axes whose elements lie evenly one after another are joined and split.

    >>> reshaped((4, 2, 3), (8, 3, 1), (2, 2, 6)), reshaped((2, 3), (1, 2), (6,))
    ((16, 8, 1), None)
    """
    runs: list[tuple[Dim, Dim]] = []  # sizes of joined axes, outermost first, and their strides
    for n, stride in zip(shape, strides, strict=True):
        if runs and dims.equal(runs[-1][1], dims.mul(n, stride)):
            runs[-1] = dims.mul(runs[-1][0], n), stride
        elif n != 1:
            runs.append((n, stride))
    found: list[Dim] = []
    done: Dim = 1  # elements of the last run that inner axes have
    for n in reversed(new):
        if n == 1:
            found.insert(0, 0)
            continue
        if not runs:
            return None
        found.insert(0, dims.mul(runs[-1][1], done))
        done = dims.mul(done, n)
        if dims.equal(done, runs[-1][0]):
            runs.pop()
            done = 1
    return None if runs else tuple(found)


def row_major(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the strides of elements in row-major order.

    >>> row_major((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(dims.mul(*shape[k + 1 :]) for k in range(len(shape)))


def _size(p: Poly) -> Dim:
    """Return a polynomial over symbols as a size."""
    return dims.add(*(dims.mul(c, *map(dims.symbol, m)) for m, c in p.items()))
