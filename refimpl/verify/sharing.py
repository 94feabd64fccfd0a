"""When two values of a program may share memory.

Two values share bytes only in these ways; every other overlap breaks a law of ``program``.

| way | when | law |
|---|---|---|
| in turn | the first is dead: freed, taken over or carried | P-gone, P-over, P-overlap |
| a view | it shows bytes of a value that lives, and is not written | P-view, P-written |
| in place | a launch's output takes the bytes of an operand that dies there | P-inplace |

Whether a kernel works in place is proven here, from its loops.  It does where each thread reads an
element of the operand only before it writes the same element of the output, and no other thread,
nor another turn of a loop, ever touches that element: every load and every store have one index,
which differs from one iteration of the loops around both to the next.  Or else a load and a store
stand in the two branches of ``if a < b``, and one touches only elements below a place that the
other touches none below.  ``indices`` compares them as polynomials over loop variables and sizes.
What is not proven is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from didyma.refimpl.ir import dims
from didyma.refimpl.ir import loop as ir
from didyma.refimpl.ir.dims.polynomial import is_constant, plus, times
from didyma.refimpl.ir.expand import expand
from didyma.refimpl.ir.expr import of_dim
from didyma.refimpl.ir.kernel import ClaimedKernel, Kernel
from didyma.refimpl.ir.lowered import written_out
from didyma.refimpl.ir.walk import expr_children, stmt_exprs
from didyma.refimpl.verify.indices import ONE, Indices, Poly

_ANY_SIZE = 9973  # stands for a size when terms are put in order


def may_share(kernel: Kernel, output: str, source: str) -> bool:
    """Return whether a kernel's parameter ``output`` may have the bytes of ``source``."""
    return Sharing(kernel).may(output, source)


class Sharing:
    """Which parameters of one kernel may share bytes; its loops are read once for all pairs."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.buffers = {b.name: b for b in kernel.params}
        self._walk: _Walk | None = None
        self._proved: dict[tuple[str, str], bool] = {}

    def may(self, output: str, source: str) -> bool:
        """Return whether a parameter ``output`` may have the bytes of ``source``."""
        pair = output, source
        if pair not in self._proved:
            self._proved[pair] = self._prove(output, source)
        return self._proved[pair]

    def _prove(self, output: str, source: str) -> bool:
        if isinstance(self.kernel, ClaimedKernel):  # nothing is known of the order in a text
            return False
        out, src = self.buffers[output], self.buffers[source]
        if out.dtype.nbytes != src.dtype.nbytes or not dims.equal(_numel(out), _numel(src)):
            return False
        if self._walk is None:
            self._walk = _Walk(self.buffers, {v.name: (v.lo, v.hi) for v in self.kernel.dims})
            self._walk.stmt(written_out(expand(self.kernel)).body, ())
        return self._walk.proves(out, src)


def _numel(b: ir.Buffer) -> dims.Dim:
    return dims.mul(*b.shape)


@dataclass(frozen=True, slots=True)
class _Loop:
    var: str
    extent: Poly | None


@dataclass(frozen=True, slots=True)
class _Test:
    """The condition ``low < high`` of a branch; ``number`` tells it from others like it."""

    number: int
    low: Poly = field(hash=False)
    high: Poly = field(hash=False)
    divisors: tuple[Poly, ...] = field(hash=False)


@dataclass(frozen=True, slots=True)
class _Touch:
    """A load or store of an element: its place in the order of the text, and what is around.

    ``index`` has a polynomial for each axis, and ``flat`` is the row-major offset.  On an axis of
    one element an index that is within bounds is 0: ``bounded`` and ``place`` are the same so.
    ``divisors`` are those of the index (see ``Indices``).  ``holds`` says of the conditions around
    whether they are true there, and ``branches`` in which branches of all conditions it stands.
    """

    order: int
    index: tuple[Poly, ...]
    flat: Poly
    bounded: tuple[Poly, ...]
    place: Poly
    loops: tuple[_Loop, ...]
    divisors: tuple[Poly, ...]
    holds: Mapping[_Test, bool]
    branches: frozenset[tuple[int, bool]]


class _Walk:
    """Collects where a kernel loads and stores its parameters, in the order of its text.

    ``unclear`` are parameters that a statement changes in a way that this analysis does not handle.
    """

    def __init__(
        self, params: Mapping[str, ir.Buffer], ranges: Mapping[str, tuple[int, int]]
    ) -> None:
        self.params = params
        self.indices = Indices(ranges)
        self.order = 0
        self.loads: dict[str, list[_Touch]] = {name: [] for name in params}
        self.stores: dict[str, list[_Touch]] = {name: [] for name in params}
        self.unclear: set[str] = set()
        self.holds: dict[_Test, bool] = {}  # of the conditions around a statement
        self.branches: frozenset[tuple[int, bool]] = frozenset()  # of those, by their order

    def proves(self, out: ir.Buffer, src: ir.Buffer) -> bool:
        """Return whether each thread loads an element of a source before it stores it, alone."""
        stores, loads = self.stores[out.name], self.loads[src.name]
        if not stores or self.loads[out.name] or out.name in self.unclear:
            return False
        divisors = [*self.indices.divisors, *(d for x in (*loads, *stores) for d in x.divisors)]
        proof = _Proof(self.indices, out.shape == src.shape)
        return all(
            all(proof.one_by_one(load, store) or proof.separate(load, store) for load in loads)
            and all(proof.never_zero(d, store.loops) for d in divisors)
            for store in stores
        )

    def stmt(self, s: ir.Stmt, loops: tuple[_Loop, ...]) -> None:
        if isinstance(s, ir.While):  # whose condition is evaluated in every round
            loops = (*loops, _Loop(f"\0while {self.order}", None))
        for e in stmt_exprs(s):
            self.expr(e, loops)
        self.order += 1
        match s:
            case ir.Block(body):
                for b in body:
                    self.stmt(b, loops)
            case ir.For(var, extent, body):
                size = self.poly(extent, loops)
                varies = self.indices.loop(var.name, size)
                self.stmt(body, (*loops, _Loop(var.name, size)) if varies else loops)
            case (
                ir.While(_, body) | ir.Allocate(_, body) | ir.PlacementAllocate(_, _, body)
                | ir.AttrStmt(_, _, body)
            ):  # fmt: skip
                self.stmt(body, loops)
            case ir.If(cond, then, other):
                test, number = self.test(cond, loops), self.order
                outer, around = self.holds, self.branches
                for branch, holds in ((then, True), (other, False)):
                    if branch is not None:
                        self.holds = outer if test is None else {**outer, test: holds}
                        self.branches = around | {(number, holds)}
                        self.stmt(branch, loops)
                self.holds, self.branches = outer, around
            case ir.Let(var, value, body):
                self.indices.let(var, value, _vars(loops))
                self.stmt(body, loops)
            case ir.Exchange(var, _, _, body) | ir.Chain(var, body=body):
                self.indices.unknown(var, _vars(loops))
                self.stmt(body, loops)
            case ir.Store(buffer, index, _) if buffer in self.params:
                self.stores[buffer].append(self.access(buffer, index, loops))
            case ir.Atomic(_, buffer):
                self.unclear.add(buffer)
            case ir.ExternalCall() | ir.ExternalAllocate():
                self.unclear.update(self.params)
            case _:
                pass

    def expr(self, e: ir.Expr, loops: tuple[_Loop, ...]) -> None:
        if isinstance(e, ir.LetExpr):
            self.expr(e.value, loops)
            self.indices.let(e.var, e.value, _vars(loops))
            self.expr(e.body, loops)
            return
        for c in expr_children(e):
            self.expr(c, loops)
        if isinstance(e, ir.Load) and e.buffer in self.params:
            self.order += 1
            self.loads[e.buffer].append(self.access(e.buffer, e.index, loops))

    def poly(self, e: ir.Expr, loops: tuple[_Loop, ...]) -> Poly:
        return self.indices.poly(e, _vars(loops))

    def test(self, cond: ir.Expr, loops: tuple[_Loop, ...]) -> _Test | None:
        """Return what a condition compares; None for one of another kind."""
        if not isinstance(cond, ir.Compare) or cond.op != "lt":
            return None
        others, self.indices.divisors = self.indices.divisors, []
        low, high = self.poly(cond.lhs, loops), self.poly(cond.rhs, loops)
        divisors, self.indices.divisors = tuple(self.indices.divisors), others
        return _Test(self.order, low, high, divisors)

    def access(self, name: str, index: tuple[ir.Expr, ...], loops: tuple[_Loop, ...]) -> _Touch:
        b, indices = self.params[name], self.indices
        others, indices.divisors = indices.divisors, []
        polys = tuple(self.poly(i, loops) for i in index)
        sizes = [self.poly(of_dim(d), ()) for d in b.shape]
        bounded = tuple({} if d == 1 else i for i, d in zip(polys, b.shape, strict=True))
        flat, place = _flat(polys, sizes), _flat(bounded, sizes)
        divisors, indices.divisors = tuple(indices.divisors), others
        return _Touch(
            self.order, polys, flat, bounded, place, loops, divisors, self.holds, self.branches
        )


def _vars(loops: tuple[_Loop, ...]) -> tuple[str, ...]:
    return tuple(x.var for x in loops)


def _flat(index: Sequence[Poly], sizes: Sequence[Poly]) -> Poly:
    at: Poly = {}
    for i, size in zip(index, sizes, strict=True):
        at = plus(times(at, size), i)
    return at


# ---- the judgement


@dataclass(frozen=True, slots=True)
class _Proof:
    """Proves things of accesses; ``same`` tells whether both buffers have the same shape."""

    indices: Indices
    same: bool

    def one_by_one(self, load: _Touch, store: _Touch) -> bool:
        """Return whether a load reads each element before, and only before, a store changes it."""
        if load.order >= store.order:
            return False
        common: list[_Loop] = []
        for a, b in zip(load.loops, store.loops, strict=False):
            if a != b:
                break
            common.append(a)
        if not (self.same and store.bounded == load.bounded) and store.place != load.place:
            return False
        # An index within its buffer on every axis determines its place, and its place the index.
        # The store's is within its buffer where the store is made, so also where a load with the
        # same index is, or one that conditions allow in no more iterations.
        guarded = store.branches <= load.branches
        alike = guarded or (self.same and store.index == load.index)
        if alike and self.apart(store.index, common):
            return True
        return (guarded or store.flat == load.flat) and self.apart((store.flat,), common)

    def separate(self, load: _Touch, store: _Touch) -> bool:
        """Return whether a condition keeps all that a load reads apart from what a store changes.

        The one stands where the condition holds, the other where it does not, and all places of
        the one are below all of the other, whichever threads and turns of loops they belong to.
        """
        tests = (t for t, holds in load.holds.items() if store.holds.get(t, holds) is not holds)
        return any(
            self.below(t, a, b)
            and all(self.never_zero(d, x.loops) for d in t.divisors for x in (load, store))
            for t in tests
            for a, b in [(load, store) if load.holds[t] else (store, load)]
        )

    def below(self, t: _Test, a: _Touch, b: _Touch) -> bool:
        """Return whether places of ``a``, where a test holds, are below those of ``b``, where not.

        With a place of ``factor * low + rest``, those of ``a`` are ``factor * (high - 1) + rest``
        at most, and those of ``b`` at least ``factor * high + rest``.
        """
        if self.indices.loops(t.high) or not self.fits(t.high, ()):
            return False
        bounds: list[Poly] = []
        for x, top in ((a, plus(t.high, ONE, -1)), (b, t.high)):
            factor = self.multiple(x.place, t.low)
            rest = self.end(plus(x.place, t.low, -factor), x.loops, largest=x is a)
            if rest is None or not self.fits(x.place, x.loops) or not self.fits(t.low, x.loops):
                return False
            bounds.append(plus(rest, top, factor))
        return self.indices.nonnegative(plus(plus(bounds[1], bounds[0], -1), ONE, -1))

    def multiple(self, p: Poly, of: Poly) -> int:
        """Return how often a polynomial has the loop variables of another; 0 if that varies."""
        found = {divmod(p.get(m, 0), c) for m, c in of.items() if self.indices.loops({m: c})}
        factor, rest = found.pop() if len(found) == 1 else (0, 0)
        return 0 if rest else max(0, factor)

    def end(self, p: Poly, loops: Sequence[_Loop], *, largest: bool) -> Poly | None:
        """Return a bound of a polynomial over all turns of the loops; None if there is none."""
        for x in loops:
            factor = self.indices.factor(p, x.var)
            if factor is None or x.extent is None or not is_constant(factor):
                return None
            value = factor.get((), 0)
            most = plus(x.extent, ONE, -1) if (value > 0) is largest else {}
            p = plus(plus(p, {(x.var,): value}, -1), most, value)
        return None if self.indices.loops(p) else p

    def fits(self, p: Poly, loops: Sequence[_Loop]) -> bool:
        """Return whether a polynomial is the number that it says, without wrapping."""
        most = self.end({m: abs(c) for m, c in p.items()}, loops, largest=True)
        return most is not None and self.indices.at_most(most) < 1 << 63

    def apart(self, index: tuple[Poly, ...], loops: list[_Loop]) -> bool:
        """Return whether any two iterations differ in an index, as numbers do in their digits."""
        rest = list(loops)
        for component in index:
            names = self.indices.loops(component)
            if not self.counts(component, [x for x in rest if x.var in names]):
                return False
            rest = [x for x in rest if x.var not in names]
        return not rest

    def counts(self, p: Poly, loops: list[_Loop]) -> bool:
        """Return whether a polynomial differs for any two values of its loop variables."""
        factors: list[tuple[Poly, Poly]] = []
        for x in loops:
            factor = self.indices.factor(p, x.var)
            if factor is None or x.extent is None:
                return False
            factors.append((times(factor, {(): -1}) if _value(factor) < 0 else factor, x.extent))
        factors.sort(key=lambda f: _value(f[0]))
        reach = ONE  # more than what the loops so far add up to
        for factor, extent in factors:
            if not self.indices.nonnegative(plus(factor, reach, -1)):
                return False
            reach = plus(reach, times(factor, plus(extent, ONE, -1)))
        return self.indices.at_most(reach) <= 1 << 63  # no two indices are equal by wrapping

    def never_zero(self, divisor: Poly, loops: Sequence[_Loop]) -> bool:
        """Return whether a divisor is at least 1 whenever loops run."""
        if any(x.extent == {} for x in loops):
            return True
        sizes = self.indices.sizes(divisor)
        empty = {n for n in sizes if self.indices.ranges[n][0] == 0}
        if self.positive(divisor, sizes - empty):
            return True
        return self.positive(divisor, sizes) and all(
            any(self.idle(x, n) for x in loops) for n in empty
        )

    def positive(self, p: Poly, sizes: Collection[str]) -> bool:
        """Return whether a polynomial is at least 1 where some of its sizes are."""
        shifted = self.indices.substitute(p, {n: {(n,): 1, (): 1} for n in sizes})
        return self.indices.nonnegative(plus(shifted, ONE, -1))

    def idle(self, loop: _Loop, size: str) -> bool:
        """Return whether a loop has no iteration where a size is 0."""
        if loop.extent is None:
            return False
        extent = self.indices.substitute(loop.extent, {size: {}})
        return self.indices.nonnegative(times(extent, {(): -1}))


def _value(p: Poly) -> int:
    return sum(c * _ANY_SIZE ** len(m) for m, c in p.items())
