"""Copy elision: leave out copies whose source and destination may share one buffer.

A copy whose source dies at it is left out where the destination begins there (it becomes a view of
the source), or where the destination is unused from the source's first line on (the source becomes
a view of the destination: a carried value, a branch's result, a row of a stacked result).  A copy
that nothing writes, of a source that nothing writes while the copy is read, is left out too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from didyma.codegen.memory.fewer import Cost, fewer, wide
from didyma.codegen.memory.liveness import Lives
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.lines import nested, operands, rewrite, walk, writes
from didyma.refimpl.ir.program import Carry, Copy, Extern, Line, Program, View
from didyma.refimpl.ir.target import PORTABLE, Target
from didyma.refimpl.ir.types import TensorType


def elided(bare: Program, cost: Cost, target: Target = PORTABLE) -> Program:
    """Return the program without the copies that can be left out at no higher cost."""
    copies = [x for x in walk(bare.lines) if isinstance(x, Copy)]
    return fewer(bare, copies, partial(without, target.access), cost) if copies else bare


def without(access: int, p: Program, lives: Lives, line: Line) -> Program | None:
    """Return a program without one copy; None where that might change a result."""
    assert isinstance(line, Copy)
    at = ((k, i, b) for k, b in enumerate(nested(p.lines)) for i, x in enumerate(b) if x is line)
    if p.type[line.value].device != p.type[line.source].device:
        return None
    e = Elision(p, lives, line, *next(at), p.type, p.kernel, access)
    return e.view_of_source() or e.view_of_destination()


@dataclass(frozen=True, slots=True)
class Elision:
    """One copy, at an index of a block, and the conditions under which it can be left out."""

    p: Program
    lives: Lives
    copy: Copy
    block: int
    index: int
    lines: Sequence[Line]  # of the block
    types: Mapping[str, TensorType]
    kernels: Mapping[str, Kernel]
    access: int  # bytes, of which a multiple is where a kernel's buffer may start

    def root(self, value: str) -> str:
        """Return the value that owns the bytes of a value, which may be a view."""
        return self.lives.root.get(value, value)

    # ---- rewrites

    def view_of_source(self) -> Program | None:
        """Make the destination, which begins here, a view of the source; None if that is wrong."""
        value, source = self.copy.value, self.copy.source
        owner = self.root(source)
        if not self.begins(value) or not self.in_order(value, owner):
            return None
        if not (self.dies(owner) or self.unchanged(value, owner)):
            return None
        if self.returned(value) and not self.may_be_returned(value, owner):
            return None
        if self.exchanged(value, owner) or not self.reachable(source, (value, source)):
            return None
        return self.rewritten({self.index: (View(value, source),)})

    def view_of_destination(self) -> Program | None:
        """Make the source, which begins in this block and dies here, a view of the destination."""
        value, part = self.copy.value, self.copy.source
        source, owner = self.root(part), self.root(value)
        t, other = self.types[source], self.types[value]
        if owner not in self.lives.of or not self.dies(source) or not self.in_order(source, owner):
            return None
        same = t == other or (dims.equal(t.nbytes, other.nbytes) and isinstance(t.nbytes, int))
        first = self.lives.of[source].first
        if not same or not self.unused(owner, first):
            return None
        if self.exchanged(source) or not self.reachable(value, (source,)):
            return None
        begin = (View(source, value), *([self.lines[first]] if first < self.index else []))
        return self.rewritten({self.index: (), first: begin})

    def rewritten(self, instead: Mapping[int, Sequence[Line]]) -> Program:
        """Return the program with other lines in place of those at some indices of the block."""

        def change(x: Line, block: int, index: int) -> Sequence[Line]:
            return instead.get(index, (x,)) if block == self.block else (x,)

        return replace(self.p, lines=rewrite(self.p.lines, change))

    # ---- conditions

    def begins(self, value: str) -> bool:
        """Return whether the copy is the first use of a value that owns its bytes."""
        life = self.lives.of.get(value)
        return life is not None and (life.block, life.first) == (self.block, self.index)

    def dies(self, value: str) -> bool:
        """Return whether the copy is the last use of a value that the program allocates."""
        life = self.lives.of.get(value)
        return life is not None and (life.block, life.last) == (self.block, self.index)

    def in_order(self, *values: str) -> bool:
        """Return whether only the copy's stream works on the values."""
        return all(self.lives.alone_on(v, 0) for v in values)

    def unchanged(self, value: str, owner: str) -> bool:
        """Return whether nothing writes a value, nor its source while the value is in use."""
        if any(x is not self.copy and value in self.written(x) for x in walk(self.p.lines)):
            return False
        meanwhile = self.lines[self.index + 1 : self.lives.of[value].last + 1]
        return not any(owner in self.written(x) for x in walk(meanwhile))

    def unused(self, owner: str, first: int) -> bool:
        """Return whether no line from ``first`` to the copy uses or names a destination."""
        return not any(owner in self.touched(x) for x in walk(self.lines[first : self.index]))

    def touched(self, x: Line) -> set[str]:
        """Return the owners of the bytes that a line reads or writes."""
        return {self.root(v) for v in operands(x)}

    def written(self, x: Line) -> set[str]:
        """Return the owners of the bytes that a line writes."""
        return {self.root(v) for v in writes(x, self.kernels)}

    def returned(self, value: str) -> bool:
        """Return whether a value is returned."""
        return value in {self.root(v) for v in self.p.results}

    def may_be_returned(self, value: str, owner: str) -> bool:
        """Return whether a view may be returned: it shows all of a value that is not returned."""
        ours = owner in self.lives.of and not self.returned(owner)
        return ours and dims.equal(self.types[value].nbytes, self.types[owner].nbytes)

    def exchanged(self, *values: str) -> bool:
        """Return whether a value gives its allocation to another, or a routine allocates it."""
        return any(
            v in values
            for x in walk(self.p.lines)
            for v in (
                x.allocates
                if isinstance(x, Extern)
                else (self.root(v) for pair in x.values for v in pair)
                if isinstance(x, Carry)
                else ()
            )
        )

    def reachable(self, of: str, users: Sequence[str]) -> bool:
        """Return whether the users of a value may be given its bytes, at the offset they have."""
        at = list(offsets(self.p.lines, of))
        if not all(wide(d, self.access) for d in at):
            return False
        shown = {v for x in walk(self.p.lines) if isinstance(x, Extern) for v in operands(x)}
        return all(isinstance(d, int) and d == 0 for d in at) or shown.isdisjoint(users)


def offsets(lines: Sequence[Line], value: str) -> Iterator[Dim]:
    """Yield the offset of a view in the value it shows, then of that value, down to the owner."""
    views = {x.value: x for x in walk(lines) if isinstance(x, View)}
    while value in views:
        yield views[value].offset
        value = views[value].of
