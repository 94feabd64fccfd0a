"""Random programs without memory, of the shapes that break planners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from didyma.fuzz.allocator.kernels import DTYPES, At
from didyma.fuzz.allocator.maker import Maker
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim, DimVar, symbol
from didyma.refimpl.ir.program import Program
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.types import DType, TensorType

NUMELS = (64, 1, 16, 63, 65, 100, 128, 200, 256, 5, 0, 320)
FEW = (1, 1, 1, 2, 2, 3)
LARGE = PORTABLE.stack  # bytes, or more, in any dtype


@dataclass(frozen=True, slots=True)
class Shape:
    """What may occur in random programs."""

    lines: int = 16
    symbolic: bool = False
    branches: bool = False
    loops: bool = False
    parts: bool = False  # views of some of the bytes
    narrow: bool = False  # copies of views that no kernel may be given
    allocates: bool = False  # routines that allocate their outputs
    streams: bool = False  # kernels on several streams
    late: bool = False  # sizes that the run tells
    sharing: bool = False  # launches that share kernels
    moves: bool = False  # kernels that only move bytes, which plans make views
    devices: bool = True  # values on a second device
    solved: bool = False  # inputs whose sizes are expressions, from which symbols are solved
    large: bool = False  # values that no stack holds
    routines: bool = True  # calls of external functions
    copies: bool = True  # copies of values
    rounds: bool = False  # loops whose numbers of rounds are known
    fewest: int = 4  # lines
    results: tuple[int, ...] = (1, 1, 2, 3)  # how many there may be


def mixed(seed: int) -> Shape:
    """Draw what may occur in the program of a seed: now this, now that, often several."""
    r = Random(~seed)
    streams = r.random() < 0.3
    return Shape(
        symbolic=r.random() < 0.5,
        branches=r.random() < (0.3 if streams else 0.6),
        loops=r.random() < (0.3 if streams else 0.5),
        parts=r.random() < 0.6,
        allocates=r.random() < 0.3,
        streams=streams,
        late=not streams and r.random() < 0.3,
        sharing=r.random() < 0.7,
        moves=r.random() < 0.5,
        narrow=r.random() < 0.25,
    )


def wrapped(seed: int) -> Shape:
    """Draw what may occur in a program that is run by its wrapper: more of control and streams."""
    r = Random(~seed)
    found = Shape(
        symbolic=r.random() < 0.5,
        branches=r.random() < 0.6,
        loops=r.random() < 0.6,
        parts=r.random() < 0.5,
        streams=r.random() < 0.5,
        late=r.random() < 0.4,
        sharing=r.random() < 0.5,
        moves=r.random() < 0.4,
        solved=True,
        large=r.random() < 0.2,
    )
    sized = not (found.symbolic or found.late)  # what a routine allocates is of known size
    return replace(found, allocates=sized and r.random() < 0.5)


def repeated(seed: int) -> Shape:
    """Draw what may occur in a program whose calls are repeated: few take decisions."""
    r = Random(~seed)
    if r.random() < 0.15:
        return replace(wrapped(seed), devices=False)
    return Shape(
        symbolic=r.random() < 0.5,
        parts=r.random() < 0.7,
        routines=False,
        copies=r.random() < 0.3,
        rounds=r.random() < 0.2,
        streams=r.random() < 0.5,
        sharing=r.random() < 0.3,
        moves=r.random() < 0.2,
        devices=False,
        solved=True,
        results=(1, 2, 3, 4),
        fewest=8,
    )


class _Source:
    """Random choices for one program; sizes and types come from a small palette of its own."""

    def __init__(self, seed: int, shape: Shape) -> None:
        r = self.r = Random(seed)
        self.shape = shape
        lo, low = r.randrange(3), r.randrange(3)
        declared = (
            DimVar("n", lo, lo + r.choice((3, 40, 80))),
            DimVar("m", low, low + r.choice((2, 9))),
        )
        self.m = Maker(declared if shape.symbolic else (), sharing=shape.sharing)
        numels: list[Dim] = [r.choice(NUMELS) for _ in range(r.choice((1, 2, 3, 4)))]
        if shape.symbolic:
            n, m = symbol("n"), symbol("m")
            pool: list[Dim] = [
                n, m, dims.mul(2, n), dims.add(n, 1), dims.mul(n, m), dims.mul(3, m),
                declared[0].hi, declared[0].lo, dims.mul(4, declared[0].hi), dims.mul(64, n),
            ]  # fmt: skip
            twins: tuple[tuple[Dim, Dim], ...] = (
                (n, m), (dims.mul(2, n), dims.mul(2, m)), (dims.add(n, 1), dims.add(m, 1)),
                (dims.mul(n, m), dims.mul(n, n)), (n, declared[0].hi),
            )  # fmt: skip
            numels = [*numels[:1], *(r.choice(pool) for _ in range(r.choice((1, 2, 3))))]
            if r.random() < 0.85:  # unlike, and often of one size for all that
                numels = [*r.choice(twins), *numels[: r.choice((0, 1, 2))]]
        if shape.large:
            numels.insert(0, LARGE)
        few = shape.sharing or shape.moves  # so that launches have types in common
        self.dtypes = [r.choice(DTYPES) for _ in range(1 if few else r.choice((1, 1, 2, 3)))]
        self.numels = numels[:2] if few else numels
        self.shown = list[str]()  # of what is returned
        self.devices = ("", "cuda:1") if r.random() < 0.25 and shape.devices else ("",)

    def type(self) -> TensorType:
        """Draw a type."""
        r = self.r
        return TensorType(r.choice(self.dtypes), (r.choice(self.numels),), r.choice(self.devices))

    def some(self, most: int) -> list[tuple[str, At]]:
        """Draw values to read; those just made are likelier."""
        known = self.m.known()
        count = min(len(known), self.r.randrange(most + 1))
        return [(self.one(known), self.at()) for _ in range(count)]

    def one(self, known: list[str]) -> str:
        """Draw a value."""
        last = known[-4:]
        return self.r.choice(last if self.r.random() < 0.6 else known)

    def at(self) -> At:
        """Draw how an input is read."""
        return self.r.choice((At.SAME, At.SAME, At.SHIFTED, At.REVERSED))


def _launch(s: _Source) -> None:
    r = s.r
    reads = s.some(3)
    scratch = r.choice((0, 0, 0, 1))
    types = [s.type() for _ in range(r.choice(FEW) + scratch)]
    if reads and r.random() < 0.4:  # like an input: it may die into the output
        types[0] = s.m.types[reads[0][0]]
    s.m.launch(reads, types, scratch)


def _like(s: _Source) -> None:
    """One or two values like one that nothing reads again; now and then it is read twice."""
    r = s.r
    names = s.m.block.names
    own = [n for n in s.m.owned() if n in names]
    if not own:
        return
    of = s.one(own)
    reads = [(of, s.at()), *s.some(1)]
    t = s.m.types[of]
    if r.random() < 0.3:
        shown = TensorType(t.dtype, (1, t.numel), t.device)
        reads.append((s.m.view(of, shown) if r.random() < 0.5 else of, s.at()))
    s.m.launch(reads, [t] * r.choice((1, 1, 2)))
    names.remove(of)


def _update(s: _Source) -> None:
    own = s.m.owned()
    if own:
        s.m.update(s.one(own), s.some(2))


def _rewrite(s: _Source) -> None:
    own = s.m.owned()
    if own:
        s.m.rewrite([s.one(own)], s.some(2))


def _view(s: _Source) -> None:
    own = s.m.owned()
    known = own if own and s.r.random() < 0.8 else s.m.known()
    views = [n for n in known if n in s.m.root]
    if not known:
        return
    of = s.r.choice(views[-2:]) if views and s.r.random() < 0.6 else s.one(known)
    t = s.m.types[of]
    shape: tuple[Dim, ...] = (1, t.numel)
    dtype = t.dtype
    if isinstance(t.nbytes, int):
        sizes = [d for d in DTYPES if t.nbytes % d.nbytes == 0 and not d.is_float]
        if s.r.random() < 0.3 and sizes and not dtype.is_float:
            dtype = s.r.choice(sizes)
            shape = (t.nbytes // dtype.nbytes,)
    view = s.m.view(of, TensorType(dtype, shape, t.device))
    if s.r.random() < 0.5:  # from here on the bytes are reached through the last view alone
        root = s.m.root[view]
        names = s.m.block.names
        for n in [n for n in names if s.m.root.get(n, n) == root and n != view]:
            if n not in s.m.inputs:
                names.remove(n)


def _part(s: _Source) -> None:
    wide = [n for n in s.m.known() if isinstance(d := s.m.types[n].numel, int) and d > 1]
    if not wide:
        return
    of = s.one(wide)
    t = s.m.types[of]
    assert isinstance(t.nbytes, int)
    start = 256 * s.r.randrange(-(-t.nbytes // 256))
    room = (t.nbytes - start) // t.dtype.nbytes
    size = max(1, s.r.choice((room, room // 2, room - 1)))
    s.m.view(of, TensorType(t.dtype, (size,), t.device), start)


def _narrow(s: _Source) -> None:
    """Copy what no kernel may be given: views of bytes that begin at no multiple of 16."""
    wide = [n for n in s.m.known() if isinstance(b := s.m.types[n].nbytes, int) and b > 16]
    if not wide:
        return
    view, names = s.one(wide), s.m.block.names
    t = s.m.types[view]
    size = t.numel
    assert isinstance(size, int)
    for first in s.r.choice(((1,), (0, 1), (1, 0), (1, 16))):
        size -= first
        if size > 0:
            shown = TensorType(t.dtype, (size,), t.device)
            view = s.m.view(view, shown, first * t.dtype.nbytes)
            names.remove(view)
    copy = s.m.copy(view)
    s.m.launch([(copy, s.at())], [s.type()])
    names.remove(copy)


def _again(s: _Source) -> None:
    s.m.again(s.r.randrange(1 << 12))


def _join(s: _Source) -> None:
    """Put values of one dtype after one another; of each, one that was just made, if there is."""
    known = s.m.known()
    if not known:
        return
    first = s.one(known)
    t = s.m.types[first]
    like = [n for n in known if (u := s.m.types[n]).dtype is t.dtype and u.device == t.device]
    s.m.join([s.r.choice(like) for _ in range(s.r.choice((1, 1, 2)))] + [first])


def _whole(s: _Source) -> None:
    """Put two new values after one another, often with something that keeps them from being parts.

    A result shows one of them, another stream made it, or it is written or copied later.
    """
    r, t = s.r, s.type()
    parts = list[str]()
    for _ in range(2):
        if s.shape.streams and r.random() < 0.4:
            _stream(s)
        parts += s.m.launch(s.some(1), [t])
    s.m.join(parts)
    match r.randrange(4):
        case 0:
            s.shown.append(s.m.view(parts[0], TensorType(t.dtype, (1, t.numel), t.device)))
        case 1:
            s.m.update(parts[0], [])
        case 2:
            s.m.copy(parts[0])
        case _:
            pass


def _cut(s: _Source) -> None:
    """Copy a part that was joined, or the end of a value behind a multiple of 16 bytes."""
    here = {*s.m.known()}
    runs = [run for run in s.m.runs if run[0] in here]
    if runs and s.r.random() < 0.5:
        s.m.cut(*s.r.choice(runs))
        return
    known = [n for n in here if isinstance(b := s.m.types[n].nbytes, int) and b > 16]
    if known:
        of = s.r.choice(sorted(known))
        size = s.m.types[of].numel
        assert isinstance(size, int)
        start = min(size - 1, 16 * s.r.randrange(3))
        s.m.cut(of, start, s.r.randint(1, size - start))


def _extern(s: _Source) -> None:
    r = s.r
    workspace = r.choice((0, 1, 1))
    types = [s.type() for _ in range(r.choice(FEW) + workspace)]
    allocates = s.shape.allocates and r.random() < 0.3
    s.m.extern([n for n, _ in s.some(3)], types, workspace, allocates)


def _copy(s: _Source) -> None:
    known = s.m.known()
    views = [n for n in known if n in s.m.root]
    if known:
        s.m.copy(s.one(views if views and s.r.random() < 0.5 else known))


def _kept(s: _Source) -> None:
    """Copy a value that is then written anew, by a kernel that may be the last to read the copy."""
    own = s.m.owned()
    if not own:
        return
    of = s.one(own)
    copy = s.m.copy(of)
    if s.r.random() < 0.3:
        s.m.launch([(copy, s.at())], [s.type()])
    if s.r.random() < 0.3:
        s.m.update(of, [(copy, s.at())])
    else:
        s.m.rewrite([of], [(copy, s.at())])
    if s.r.random() < 0.7:
        s.m.block.names.remove(copy)


def _branch(s: _Source) -> None:
    known = s.m.known()
    if known and len(s.m.blocks) < 4:
        s.m.begin_if(s.one(known), [s.type() for _ in range(s.r.choice((1, 1, 2)))], 2)


def _loop(s: _Source) -> None:
    if len(s.m.blocks) >= 4:
        return
    own = s.m.known()
    if s.r.random() < 0.65 and own:
        carried = [s.one(own) for _ in range(s.r.choice((1, 1, 2)))]
        (state, *_) = s.m.begin_while(carried, s.r.randrange(4))
        if s.r.random() < 0.75:  # the next state, and a look at both: has it changed?
            (new,) = s.m.launch([(state, s.at())], [s.m.types[state]])
            s.m.launch([(new, s.at()), (state, s.at())], [s.type()])
    else:
        s.m.begin_repeat(s.r.randrange(4))


def _rounds(s: _Source) -> None:
    if len(s.m.blocks) < 3:
        s.m.begin_repeat(s.r.randrange(4))


def _stream(s: _Source) -> None:
    s.m.switch(s.r.randrange(3))


def _late(s: _Source) -> None:
    """A size that the run tells; values of that size may follow in the outermost block."""
    known = [n for n in s.m.known() if s.m.types[n].device == ""]
    if len(s.m.blocks) > 1 or not known or len(s.m.late) > 2:
        return
    if s.r.random() < 0.5:
        u = symbol(s.m.bind(s.one(known), s.r.randrange(3), s.r.choice((4, 70))).name)
        s.numels += [u, dims.mul(2, u)]
    else:
        s.m.grow(s.r.choice(s.dtypes), s.r.randrange(4), s.r.randrange(3))


def _next(s: _Source) -> None:
    if s.m.block.kind == "then":
        s.m.begin_else()
    elif s.m.block.kind != "program":
        made = s.m.block.carried if s.m.block.kind == "else" else ()
        s.m.end()
        if made and s.r.random() < 0.5:  # what is made before a result is read may take its bytes
            t = s.m.types[made[0]]
            (other,) = s.m.launch([], [t])
            s.m.launch([(made[0], s.at()), (other, s.at())], [s.type()])


def _binding(s: _Source) -> None:
    """Take inputs whose shapes tell the symbols: as they are, or to be solved from expressions."""
    n, m = (symbol(v.name) for v in s.m.dims)
    chance = s.r.random() if s.shape.solved else 1.0
    shapes: list[tuple[Dim, ...]] = [(n,), (m,)]
    if chance < 0.1:  # where m is 0, the last tells n
        shapes = [(m,), (dims.mul(n, m),), (dims.mul(n, dims.add(m, 1)),)]
    elif 0.3 <= chance < 1.0:
        line = dims.add(dims.mul(s.r.choice((2, 3, 5)), n), s.r.choice((1, 3)))
        other = s.r.choice((dims.add(n, m), dims.add(dims.mul(2, m), dims.mul(3, n)), m))
        ways: list[list[tuple[Dim, ...]]] = [
            [(line,), (other,)], [(line, other)], [(n, line), (other, m)],
        ]  # fmt: skip
        shapes = s.r.choice(ways)
    for shape in shapes:
        s.m.input(TensorType(DType.I32, shape))


STRAIGHT: tuple[tuple[Callable[[_Source], None], int], ...] = (
    (_launch, 9), (_like, 4), (_view, 7), (_update, 2), (_rewrite, 1), (_extern, 2), (_copy, 1),
    (_kept, 1),
)  # fmt: skip


def program(seed: int, shape: Shape = Shape()) -> Program:
    """Make the random program of a seed: inputs, then lines, then a return of some values."""
    s = _Source(seed, shape)
    r = s.r
    for _ in range(r.choice((1, 1, 2))):
        s.m.input(s.type())
    if shape.symbolic:
        _binding(s)
    if r.random() < 0.3:
        s.m.constant(TensorType(s.dtypes[0], (r.choice(NUMELS),)))
    out = (*(() if shape.routines else (_extern,)), *(() if shape.copies else (_copy, _kept)))
    kinds = [k for k in STRAIGHT if k[0] not in out]
    if shape.parts:
        kinds.append((_part, 4))
    if shape.sharing:
        kinds.append((_again, 8))
    if shape.moves:
        kinds += [(_join, 5), (_cut, 5), (_whole, 4)]
    if shape.narrow:
        kinds.append((_narrow, 4))
    if shape.branches:
        kinds.append((_branch, 3))
    if shape.loops:
        kinds.append((_loop, 4))
    if shape.streams:
        kinds.append((_stream, 8 if shape.copies else 16))
    if shape.rounds:
        kinds.append((_rounds, 2))
    if shape.late:
        kinds.append((_late, 3))
    rules = r.choices(
        [k for k, _ in kinds], [w for _, w in kinds], k=r.randint(shape.fewest, shape.lines)
    )
    for rule in rules:
        if r.random() < 0.3:
            _next(s)
        rule(s)
    while len(s.m.blocks) > 1:
        s.m.end()
    known = s.m.known()
    results = [s.one(known) for _ in range(r.choice(shape.results))]
    results += [n for n in s.shown if n in known]
    views = [n for n in s.m.owned() if n in s.m.root]
    if views and r.random() < 0.6:
        results.append(r.choice(views))
    return s.m.finish(results)
