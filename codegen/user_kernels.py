"""Kernels of a user's own: a text with configurations, for the functions that name it.

A text is made for the sizes of its signature.  A function in a program has sizes of its own, with
which the text, the launch and the workspace are written anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from didyma.codegen.codegens import Asked
from didyma.codegen.emit.intrinsics import NBYTES
from didyma.codegen.emit.names import c_names
from didyma.codegen.emit.subset import HEAD
from didyma.codegen.schedule.recipes.point import Point
from didyma.codegen.templates.writer import size, unmarked, words
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir import control, dims
from didyma.refimpl.ir import expr as ix
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import KERNEL
from didyma.refimpl.ir.kernel import TextKernel
from didyma.refimpl.ir.loop import Buffer, PrimFunc
from didyma.refimpl.ir.target import Target
from didyma.refimpl.ir.types import TensorType

_SHARED = re.compile(
    r"__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?(\w+)\s+\w+((?:\s*\[\s*\d+\s*\])+)"
)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A kernel with numbers in the place of its parameters, and the symbols that its text takes."""

    values: tuple[tuple[str, int], ...]
    text: TextKernel
    symbols: tuple[str, ...]

    def lacks(self, target: Target) -> str:
        """Return what a target lacks to run it; nothing where it can.

        >>> from didyma.refimpl.ir.target import PORTABLE
        >>> wide = TextKernel("__shared__ f64 s[64][128];", (), (), (1, 1, 1), (32, 1, 1))
        >>> Configuration((), wide, ()).lacks(PORTABLE)
        '65536 bytes of shared memory, of 49152'
        """
        block, grid = self.text.block, self.text.grid
        if not target.has_room(block):
            most = f"{target.threads}, at most {' x '.join(map(str, target.block))}"
            return f"a block of {' x '.join(map(str, block))} threads, of {most}"
        if (shared := shared_bytes(self.text.source)) > target.shared:
            return f"{shared} bytes of shared memory, of {target.shared}"
        if any(isinstance(n, int) and n > m for n, m in zip(grid, target.grid, strict=True)):
            listed = (" x ".join(map(str, g)) for g in (grid, target.grid))
            return "a grid of {} blocks, of {}".format(*listed)
        return ""


def shared_bytes(source: str) -> int:
    """Return the bytes of shared memory that a text declares."""
    found = 0
    for kind, sizes in _SHARED.findall(source):
        count = 1
        for n in re.findall(r"\d+", sizes):
            count *= int(n)
        found += count * NBYTES.get(kind, 0)
    return found


@dataclass(frozen=True, slots=True)
class UserKernel:
    """A kernel for functions with the attribute ``Kernel=name``: a codegen with configurations.

    ``types`` are those of the operands, whose symbols the configurations use.
    """

    name: str
    types: tuple[TensorType, ...]
    configurations: tuple[Configuration, ...]

    def suits(self, asked: Asked) -> bool:
        """Return whether a function names this kernel."""
        return asked.function.attr.get(KERNEL) == self.name

    def points(self, asked: Asked) -> Iterator[Point]:
        """Yield the configurations that the target can hold, in the order of the user."""
        if self.suits(asked):
            yield from (
                Point.of(self.name, **dict(c.values))
                for c in self._bound(asked)
                if not c.lacks(asked.target)
            )

    def left_out(self, asked: Asked) -> Iterator[tuple[Point, str]]:
        """Yield the configurations that the target cannot hold, each with the reason."""
        if self.suits(asked):
            for c in self._bound(asked):
                if why := c.lacks(asked.target):
                    yield Point.of(self.name, **dict(c.values)), why

    def kernel(self, asked: Asked) -> TextKernel | None:
        """Return the first configuration that the target can hold; None for another function.

        DidymaError ``target-lacks`` where it can hold none.
        """
        if not self.suits(asked):
            return None
        point = next(self.points(asked), None)
        if point is None:
            raise self._too_large(asked, list(self.left_out(asked)))
        return self.at(asked, point)

    def at(self, asked: Asked, point: Point) -> TextKernel:
        """Return the kernel of a configuration.

        Errors: ``bad-choice`` for one that the user has not given, ``target-lacks``.
        """
        each = self._bound(asked) if self.suits(asked) else ()
        known = {Point.of(self.name, **dict(c.values)): c for c in each}
        if point not in known:
            raise DidymaError(
                "bad-choice", f"@{asked.function.name}", got=str(point),
                want=f"one of {', '.join(map(str, known))}" if known
                else f"a function that calls the kernel {self.name}",
            )  # fmt: skip
        if why := known[point].lacks(asked.target):
            raise self._too_large(asked, [(point, why)])
        return known[point].text

    def _bound(self, asked: Asked) -> Iterator[Configuration]:
        """Yield the configurations for the sizes of a function."""
        actual = [p.type for p in asked.function.params]
        names = [str(s) for s in dims.free(d for t in self.types for d in t.shape)]
        sizes = control.solve(self.types, actual, names)
        yield from (bound(c, sizes, asked.loop) for c in self.configurations)

    def _too_large(self, asked: Asked, why: Sequence[tuple[Point, str]]) -> DidymaError:
        return DidymaError(
            "target-lacks", f"@{asked.function.name}",
            got="; ".join(f"{point} needs {reason}" for point, reason in why),
            want=f"a configuration that the target {asked.target.name} has room for",
            help="give the kernel a smaller configuration, too, or name another target",
        )  # fmt: skip


def bound(c: Configuration, sizes: Mapping[str, Dim], loop: PrimFunc) -> Configuration:
    """Return a configuration whose symbols are sizes of a function with these loops."""
    if all(isinstance(v, int) is False and str(v) == k for k, v in sizes.items()):
        return c

    def put(d: Dim) -> Dim:
        return dims.substitute(d, sizes)

    t = c.text
    x, y, z = map(put, t.grid)
    space = tuple(Buffer(b.name, b.dtype, tuple(map(put, b.shape))) for b in t.workspace)
    chain = None if t.chain is None else put(t.chain)
    used = {s: sizes[s] for s in c.symbols}
    source, names = _rewritten(t.source, used, loop)
    reads, writes, zeroed = (
        tuple(names.get(n, n) for n in row) for row in (t.reads, t.writes, t.zeroed)
    )
    space = tuple(Buffer(names.get(b.name, b.name), b.dtype, b.shape) for b in space)
    made = replace(
        t, source=source, reads=reads, writes=writes, grid=(x, y, z), workspace=space,
        chain=chain, zeroed=zeroed,
    )  # fmt: skip
    return replace(c, text=made, symbols=tuple(sorted(dims.free(used.values()))))


def _rewritten(
    source: str, sizes: Mapping[str, Dim], loop: PrimFunc
) -> tuple[str, Mapping[str, str]]:
    """Return a text whose symbols are constants, of the function's sizes; lines keep their numbers.

    Words of the text that are symbols of the function get other names, which are returned, too.
    """
    needed = sorted(dims.free(sizes.values()))
    names = c_names((*words([source]), *needed))
    renamed = {w: names.fresh(w) for w in sorted(words([source]) & {*needed})}
    for word, name in renamed.items():
        source = re.sub(rf"(?<![\w.]){word}(?!\w)", name, source)
    own = {renamed.get(s, s): d for s, d in sizes.items()}
    for s in own:
        source = re.sub(rf",\s*(?:const\s+)?i64\s+{s}(?=\s*[,)])", "", source, count=1)
    head = HEAD.search(source)
    assert head is not None, "the text was read before"
    end = source.index(")", head.end())
    body = source.index("{", end) + 1
    params = "".join(f", i64 {s}" for s in needed)
    locals_ = "".join(f" const i64 {s} = {_c(d, loop)};" for s, d in own.items())
    return source[:end] + params + source[end:body] + locals_ + source[body:], renamed


def _c(d: Dim, loop: PrimFunc) -> str:
    return unmarked(str(size(ix.of_dim(d), loop)))
