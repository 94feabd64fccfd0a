"""In-place reuse: a launch's result takes the bytes of an operand that dies in that launch.

It takes exactly those bytes, and only where ``didyma.refimpl.verify.sharing`` proves from the
kernel that no thread reads an element that another may have written.  The launch may be given a
view of all bytes of the operand.  This module finds what is possible; ``plan`` uses it where the
peak falls.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from didyma.codegen.memory.liveness import Lives
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.kernel import Kernel
from didyma.refimpl.ir.lines import launches_of, rewrite, writes
from didyma.refimpl.ir.program import Dispatch, Launch, Line, Program
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.verify.sharing import Sharing


def in_place(
    bare: Program,
    lives: Lives,
    alone: Collection[str] = (),
    shares: dict[str, Sharing] | None = None,
) -> Program:
    """Return the program with results in place wherever they may be, or itself without any.

    Values ``alone`` keep the bytes they have.  ``shares`` caches, by a kernel's name, which of its
    parameters may share bytes; programs with the same kernels may share it.
    """
    search = InPlaceSearch(bare, lives, frozenset(alone), {} if shares is None else shares)
    lines = rewrite(bare.lines, search.line)
    return replace(bare, lines=lines) if search.found else bare


class InPlaceSearch:
    """Looks, at each launch, for operands that die there and whose bytes a result may take."""

    def __init__(
        self,
        bare: Program,
        lives: Lives,
        alone: frozenset[str],
        shares: dict[str, Sharing],
    ) -> None:
        self.lives = lives
        self.alone = alone
        self.types: Mapping[str, TensorType] = bare.type
        self.kernels: Mapping[str, Kernel] = bare.kernel
        self.shares = shares
        self.found = 0

    def line(self, line: Line, block: int, index: int) -> Line:
        """Return a line, with its results in place where they may be."""
        if not isinstance(line, Launch | Dispatch) or line.inplace:
            return line
        launches = launches_of(line)
        if any(x.kernel not in self.kernels for x in launches):
            return line
        written = writes(line, self.kernels)
        read = [a for a in line.args if a not in written]
        owner = {a: self.owner_of(a) for a in dict.fromkeys(read)}
        dying = [a for a, of in owner.items() if self.dies(of, line, block, index)]
        if not dying:
            return line
        pairs: list[tuple[str, str]] = []
        given = {a: a for a in line.args}
        for new in written:
            if not self.starts(new, line, block, index):
                continue
            for old in dying:
                if self.same(new, owner[old]) and all(self.may(x, new, old) for x in launches):
                    pairs.append((new, owner[old]))
                    given[old] = owner[old]  # the kernel is given the owner too
                    dying.remove(old)
                    break
        self.found += len(pairs)
        if not pairs:
            return line
        return _given(line, given, tuple(pairs))

    def owner_of(self, value: str) -> str:
        """Return the owner of a view that shows all of its elements; any other value as it is.

        A kernel may be given the owner in place of the view.
        """
        root = self.lives.root.get(value, value)
        if root == value or root not in self.lives.of:
            return value
        t, other = self.types[value], self.types[root]
        same = t.dtype is other.dtype and dims.equal(t.numel, other.numel)
        return root if same else value

    def own(self, value: str, line: Launch | Dispatch) -> bool:
        """Return whether a value owns its bytes, and the launch is given them once."""
        root = self.lives.root
        return (
            value in self.lives.of
            and value not in self.alone
            and all(
                [root.get(a, a) for a in x.args].count(root.get(value, value)) <= 1
                for x in launches_of(line)
            )
        )

    def dies(self, value: str, line: Launch | Dispatch, block: int, index: int) -> bool:
        """Return whether nothing uses a value after the launch."""
        if not self.own(value, line):
            return False
        life = self.lives.of[value]
        return (life.block, life.last) == (block, index) and self.lives.alone_on(value, line.stream)

    def starts(self, value: str, line: Launch | Dispatch, block: int, index: int) -> bool:
        """Return whether nothing uses a value before the launch."""
        if not self.own(value, line):
            return False
        life = self.lives.of[value]
        return (life.block, life.first) == (block, index)

    def same(self, new: str, old: str) -> bool:
        """Return whether two values have as many bytes on the same device."""
        a, b = self.types[new], self.types[old]
        return a.nbytes == b.nbytes and a.device == b.device

    def may(self, x: Launch, new: str, old: str) -> bool:
        """Return whether a launch is right when two of its arguments have the same bytes."""
        k = self.kernels[x.kernel]
        params = {a: b.name for a, b in zip(x.args, k.params, strict=True)}
        if old not in params:
            return False
        known = self.shares.setdefault(k.name, Sharing(k))
        return known.may(params[new], params[old])


def _given(
    line: Launch | Dispatch, given: Mapping[str, str], pairs: tuple[tuple[str, str], ...]
) -> Launch | Dispatch:
    """Return a line with other arguments and with pairs in place."""

    def put(args: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(given[a] for a in args)

    if isinstance(line, Launch):
        return replace(line, args=put(line.args), inplace=pairs)
    return replace(line, variants=tuple((k, put(a)) for k, a in line.variants), inplace=pairs)
