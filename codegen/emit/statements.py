"""Write loop statements as C."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeGuard, assert_never

from didyma.codegen.emit import copies
from didyma.codegen.emit.copies import Copy
from didyma.codegen.emit.expressions import CBuffer, Expressions
from didyma.codegen.emit.intrinsics import c_type, components
from didyma.codegen.emit.lines import TextLines
from didyma.codegen.emit.names import c_names
from didyma.codegen.emit.terms import PRIMARY, SHIFT, Term, index_literal
from didyma.codegen.emit.wide import Wide, WideKey, find, groups
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.expr import index, mul
from didyma.refimpl.ir.loop import (
    AXES,
    RANK,
    Allocate,
    Assert,
    Atomic,
    AttrStmt,
    Barrier,
    Binary,
    Block,
    BlockRealize,
    Buffer,
    BufferRealize,
    Call,
    Chain,
    Compute,
    Const,
    Evaluate,
    Exchange,
    Expr,
    ExternalAllocate,
    ExternalCall,
    Fold,
    For,
    Free,
    If,
    Let,
    LoopKind,
    PlacementAllocate,
    Prefetch,
    PrimFunc,
    ProducerRealize,
    Return,
    Scope,
    Stmt,
    Store,
    Var,
    While,
    Yield,
)
from didyma.refimpl.ir.names import Names
from didyma.refimpl.ir.text.literals import quote
from didyma.refimpl.ir.text.show_loop import show_line
from didyma.refimpl.ir.walk import stmts

FIRST = "threadIdx.x == 0 && threadIdx.y == 0"  # of the threads of a block


@dataclass(frozen=True, slots=True)
class Given:
    """The array of two barriers, and the count of how often the blocks of a cluster have met."""

    name: str
    count: str

    @property
    def now(self) -> str:
        """The address of the barrier at which they meet next."""
        return f"&{self.name}[{self.count} % 2]"


@dataclass(slots=True)
class Statements:
    """Writes the statements of one kernel, and notes the axes it is bound to."""

    names: Names
    lines: TextLines
    expressions: Expressions
    functions: Mapping[str, PrimFunc]
    noalias: bool  # of the function whose body is being written
    aligned: frozenset[str] = frozenset()  # shared buffers of which neighbours are accessed at once
    copying: bool = False  # whether what is stored may come later
    passing: bool = False  # whether what is touched may pass by caches
    given: Given | None = None  # barriers at which numbers of other blocks come
    cluster: int = 1  # blocks of a cluster
    chain: Chain | None = None
    several: bool = False  # whether there are blocks along other axes than that of the chain
    ticket: str = ""  # the number of the block, among those that chain
    axes: dict[str, Expr] = field(default_factory=dict[str, Expr])

    @staticmethod
    def of(f: PrimFunc, taken: Iterable[str] = ()) -> Statements:
        """Return a writer that knows the parameters of a function; none has a ``taken`` name."""
        names, lines = c_names(taken), TextLines()
        expressions = Expressions(names, lines)
        for b in f.params:
            expressions.buffers[b.name] = CBuffer(b, names.fresh(b.name))
        for d in f.dims:
            name = names.fresh(d.name)
            expressions.variables[d.name] = Term(name, PRIMARY, d.lo, d.hi, True)
        for v in f.scalars:
            expressions.variables[v.name] = Term(names.fresh(v.name))
        ranks = next((s for s in stmts(f.body) if isinstance(s, For) and s.axis == RANK), None)
        cluster = 1
        if ranks is not None and isinstance(ranks.extent, Const):
            expressions.rank, cluster = ranks.var, int(ranks.extent.value)
        gives = any(isinstance(s, AttrStmt) and s.key == "waits" for s in stmts(f.body))
        chain = next((s for s in stmts(f.body) if isinstance(s, Chain)), None)
        several = {s.axis for s in stmts(f.body) if isinstance(s, For)} & {*AXES[1:3]}
        return Statements(
            names, lines, expressions, f.function, f.noalias,
            copies.targets(f.body) | groups(f.body),
            cluster=cluster, chain=chain, several=bool(several),
            given=Given(names.fresh("given"), names.fresh("met")) if gives else None,
        )  # fmt: skip

    def write(self, s: Stmt) -> None:
        """Append a statement."""
        outer, self.lines.origin = self.lines.origin, s
        self._write(s)
        self.lines.origin = outer

    def _write(self, s: Stmt) -> None:
        x, line = self.expressions, self.lines.add
        match s:
            case Block():
                for b in s.body:
                    self.write(b)
            case For():
                self._for(s)
            case While():
                self._while(s)
            case If():
                self._if(s)
            case Let():
                x.bind(s.var, x.data(s.value))
                self.write(s.body)
            case Store():
                self._store(s)
            case Atomic():
                value = x.data(s.value)
                name = f"atomic_{s.op}_{c_type(s.value.dtype)}"
                line(f"{name}(&{x.element(s.buffer, s.index)}, {value.text});")
            case Allocate() | PlacementAllocate():
                # A placement may have new memory too: the buffer it replaces is dead.
                self.write(self._allocate(s.buffer, s.body))
            case Free():
                pass
            case Call():
                self._call(s)
            case Barrier(Scope.CLUSTER):
                line("cluster_barrier();")
            case Barrier():
                line("__syncthreads();")
            case Assert():
                line(f"assert_b8({x.data(s.cond).text});  // {quote(s.message)}")
            case Evaluate():
                line(f"(void)({x.data(s.value).text});")
            case Prefetch():
                dtype = c_type(x.buffers[s.buffer].buffer.dtype)
                line(f"prefetch_{dtype}(&{x.element(s.buffer, s.index)});")
            case AttrStmt():
                self._attr(s)
            case ExternalCall() | ExternalAllocate():
                raise DidymaError(
                    "target-lacks", show_line(s), got="an external call in a kernel",
                    want="statements that a kernel runs by itself",
                    help="dd.compile divides a function at its external calls",
                )  # fmt: skip
            case Exchange():
                term = Term(f"shuffle_xor_{c_type(s.var.dtype)}({x.data(s.value).text}, {s.mask})")
                x.bind(s.var, term)
                self.write(s.body)
            case Chain():
                self._chain(s)
            case (  # folds and blocks are written out before
                Fold() | Yield() | BlockRealize()
                | BufferRealize() | Compute() | ProducerRealize() | Return()
            ):  # fmt: skip
                raise TypeError(f"{type(s).__name__} is no statement of a kernel: {s}")
            case _:
                assert_never(s)

    def _attr(self, s: AttrStmt) -> None:
        if s.key == "unroll" and isinstance(s.body, For):
            self._loop(s.body, f"#pragma unroll {s.value}")
        elif copies.begins(s):
            self.copying = True
            self.write(s.body)
            self.copying = False
            self.lines.add("cp_async_commit();")
        elif s.key == "copies":
            self.lines.add("cp_async_wait(0);")
            self.write(s.body)
        elif s.key == "waits":
            self._meeting(s.body)
        elif s.key == "cache":
            outer, self.passing = self.passing, True
            self.write(s.body)
            self.passing = outer
        elif s.key == "flush":
            self.expressions.flushed = str(s.value)
            self.write(s.body)
            self.expressions.flushed = ""
        else:
            self.lines.add(f"// {quote(str(s.value))}")
            self.write(s.body)

    def _meeting(self, s: Stmt) -> None:
        """Write stores to other blocks, and a wait until as many have come from those.

        A thread that has stored also arrives there: it tells what its block has read by then.
        """
        assert isinstance(s, Block), f"no stores and a barrier: {s}"
        some = s.body[0]
        assert isinstance(some, If), f"no stores under a condition: {s}"
        assert self.given is not None, "no barriers for what comes"
        x, line, now = self.expressions, self.lines.add, self.given.now
        stores = [b for b in stmts(some.then) if isinstance(b, Store)]
        nbytes = self.cluster * sum(x.buffers[b.buffer].buffer.dtype.nbytes for b in stores)
        line(f"if ({FIRST}) mbarrier_expect({now}, {nbytes});")
        line(f"if ({x.data(some.cond).text}) {{")
        with self.lines.indented():
            for b in stores:
                place, value = x.elsewhere(b.buffer, b.index), x.data(b.value).text
                line(f"mbarrier_give_{c_type(b.value.dtype)}({place}, {value}, {now});")
            rank = x.index(stores[0].index[0]).text
            line(f"mbarrier_arrive_at({now}, {rank});")
        line("}")
        line(f"mbarrier_wait({now}, {self.given.count} / 2 % 2);")
        line(f"{self.given.count} = {self.given.count} + 1;")

    def _while(self, s: While) -> None:
        x, line = self.expressions, self.lines.add
        with self.lines.captured() as before:
            cond = x.data(s.cond)
        if not before:
            line(f"while ({cond.text}) {{")
            with self.lines.indented():
                self.write(s.body)
        else:  # the condition needs statements of its own, before each test
            going = self.names.fresh("going")
            line(f"b8 {going} = {x.data(s.cond).text};")
            line(f"while ({going}) {{")
            with self.lines.indented():
                self.write(s.body)
                line(f"{going} = {x.data(s.cond).text};")
        line("}")

    def _if(self, s: If) -> None:
        self.lines.add(f"if ({self.expressions.data(s.cond).text}) {{")
        with self.lines.indented():
            self.write(s.then)
        if s.other is not None:
            self.lines.add("} else {")
            with self.lines.indented():
                self.write(s.other)
        self.lines.add("}")

    def _store(self, s: Store) -> None:
        x = self.expressions
        if self.copying and (copy := copies.of_store(s)):
            self._copy(copy)
            return
        value = x.data(s.value)
        if (other := x.elsewhere(s.buffer, s.index)) is not None:
            dtype = c_type(x.buffers[s.buffer].buffer.dtype)
            self.lines.add(f"cluster_store_{dtype}({other}, {value.text});")
        else:
            self.lines.add(f"{x.element(s.buffer, s.index)} = {value.text};")

    def _copy(self, copy: Copy) -> None:
        to, source = (self.expressions.element(*end) for end in (copy.to, copy.source))
        self.lines.add(f"{copy.name}(&{to}, &{source});")

    def _allocate(self, b: Buffer, body: Stmt) -> Stmt:
        """Declare a buffer; return the statements that remain to be written."""
        count = 1
        for n in b.shape[1:] if b.scope is Scope.CLUSTER else b.shape:
            assert isinstance(n, int), f"{b.name} has no constant size"
            count *= n
        name, t = self.names.fresh(b.name), c_type(b.dtype)
        scalar = count == 1 and b.scope is Scope.LOCAL
        self.expressions.buffers[b.name] = CBuffer(b, name, scalar)
        if not scalar:
            qualifier = "" if b.scope is Scope.LOCAL else "__shared__ "
            qualifier += f"__align__({copies.WIDEST}) " if b.name in self.aligned else ""
            self.lines.add(f"{qualifier}{t} {name}[{max(count, 1)}];")
            return body
        if isinstance(body, Block) and body.body and _stores(body.body[0], b):
            first = body.body[0]
            self.lines.origin = first
            self.lines.add(f"{t} {name} = {self.expressions.data(first.value).text};")
            return Block(body.body[1:])
        self.lines.add(f"{t} {name};")
        return body

    def _call(self, s: Call) -> None:
        """Write the callee's body in braces, where its parameters are the caller's buffers."""
        x, f = self.expressions, self.functions[s.callee]
        self.lines.add("{")
        with self.lines.indented():
            buffers = {
                p.name: replace(x.buffers[a], buffer=p)
                for p, a in zip(f.params, s.args, strict=True)
            }
            variables: dict[str, Term] = {}
            for d, e in zip(f.dims, s.dims, strict=True):
                value, name = x.data(e), self.names.fresh(d.name)
                self.lines.add(f"const i64 {name} = {value.text};")
                variables[d.name] = Term(name, PRIMARY, d.lo, d.hi, True)
            for v, e in zip(f.scalars, s.scalars, strict=True):
                number, name = x.data(e), self.names.fresh(v.name)
                self.lines.add(f"const {c_type(v.dtype)} {name} = {number.text};")
                variables[v.name] = Term(name)
            outer = x.buffers, x.variables, self.noalias
            x.buffers, x.variables, self.noalias = buffers, variables, f.noalias
            self.write(f.body)
            x.buffers, x.variables, self.noalias = outer
        self.lines.add("}")

    # Loops

    def _for(self, s: For) -> None:
        if s.kind is LoopKind.BOUND:
            self._bound(s)
        elif s.kind is LoopKind.VECTORIZED and (wide := find(s, self._vectors())):
            begun = copies.of_lanes(s) if self.copying else []
            for copy in begun:
                self._copy(copy)
            if not begun:  # lanes go through registers, which no copy reads or fills
                copying, self.copying = self.copying, False
                self._lanes(s, wide)
                self.copying = copying
        else:
            self._loop(s)

    def _declare(self, var: Var, extent: Term) -> str:
        name = self.names.fresh(var.name)
        here = Term(name, PRIMARY, 0, max(extent.hi - 1, 0), True)
        self.expressions.variables[var.name] = here
        return name

    def _bound(self, s: For) -> None:
        assert s.axis in (*AXES, RANK), f"no axis {s.axis}"
        extent = self.axes.setdefault(s.axis, s.extent)
        assert extent == s.extent, f"two extents on {s.axis}: {extent} and {s.extent}"
        name = self._declare(s.var, self.expressions.index(s.extent))
        value = s.axis
        if self.chain is not None and s.axis in AXES[:3]:
            value = self._number(s.axis, self.chain)
        if self.cluster > 1 and s.axis in (AXES[0], RANK):
            value = f"{AXES[0]} {'%' if s.axis == RANK else '/'} {self.cluster}"
        self.lines.add(f"const i64 {name} = {'0' if value == RANK else value};")
        if s.axis == RANK and self.given is not None:
            self._barriers(self.given)
        self.write(s.body)
        if s.axis == RANK and self.given is not None:  # nobody stores to a block that has ended
            self.lines.add("cluster_barrier();")

    def _barriers(self, given: Given) -> None:
        """Declare two barriers that are used in turn: no block is more than one turn ahead."""
        line = self.lines.add
        line(f"__shared__ __align__(8) u64 {given.name}[2];")
        line(f"u32 {given.count} = 0;")
        line(f"if ({FIRST}) {{")
        with self.lines.indented():
            for n in range(2):
                line(f"mbarrier_init(&{given.name}[{n}], {self.cluster + 1});")
        line("}")

    def _number(self, axis: str, chain: Chain) -> str:
        """Return the number of a block along an axis, by when it began."""
        if not self.ticket:
            self.ticket = self.names.fresh("ticket")
            states = self.expressions.buffers[chain.states].name
            self.lines.add(f"const i64 {self.ticket} = chain_ticket({states});")
        x, y, _ = (f"gridDim.{a}" for a in "xyz")
        before = {AXES[0]: "", AXES[1]: f" / {x}", AXES[2]: f" / {x} / {y}"}[axis]
        return f"{self.ticket}{before} % gridDim.{axis[-1]}" if self.several else self.ticket

    def _chain(self, s: Chain) -> None:
        x, t = self.expressions, c_type(s.var.dtype)
        states, totals = (x.buffers[b].name for b in (s.states, s.totals))
        start, value = x.data(s.start).text, x.data(s.value).text
        args = f"{states}, {totals}, {self.ticket}, gridDim.x, {start}, {value}"
        x.bind(s.var, Term(f"chain_{s.op}_{t}({args})"))
        self.write(s.body)

    def _loop(self, s: For, pragma: str = "") -> None:
        extent = self.expressions.index(s.extent)
        if not extent.plain:  # the loop might change what it reads
            end = self.names.fresh(f"{s.var.name}_end")
            self.lines.add(f"const i64 {end} = {extent.text};")
            extent = extent._replace(text=end, level=PRIMARY, is_int=False)
        name = self._declare(s.var, extent)
        if s.kind in (LoopKind.UNROLLED, LoopKind.VECTORIZED):
            pragma = "#pragma unroll"
        if pragma:
            self.lines.add(pragma)
        self.lines.add(f"for (i64 {name} = 0; {name} < {extent.at(SHIFT)}; ++{name}) {{")
        with self.lines.indented():
            self.write(s.body)
        self.lines.add("}")

    def _vectors(self) -> frozenset[str]:
        """Return the one-dimensional buffers that begin where a wide access may."""
        if not self.noalias:  # a wide load may come before a store to the same bytes
            return frozenset()
        buffers = [p.buffer for p in self.expressions.buffers.values() if len(p.buffer.shape) == 1]
        return frozenset(
            b.name for b in buffers if b.scope is Scope.GLOBAL or b.name in self.aligned
        )

    def _lanes(self, s: For, wide: Wide) -> None:
        """Unroll a vectorised loop lane by lane, between its wide loads and wide stores."""
        x = self.expressions
        n = wide.lanes
        outer = x.wide, x.lane, x.lane_var, x.lanes, x.quotients
        x.wide, x.lane_var, x.lanes, x.quotients = {}, s.var.name, n, {}
        loaded = {key: self._wide_load(key, n, c_type(d)) for key, d in wide.loads.items()}
        stored = {key: self._wide_temporary(key, n, c_type(d)) for key, d in wide.stores.items()}
        x.wide = loaded | stored
        for e in wide.quotients:
            x.quotients[e] = self._quotients(e, s.var, n)
        for x.lane in range(n):
            x.variables[s.var.name] = index_literal(x.lane)
            self.write(s.body)
        x.wide, x.lane, x.lane_var, x.lanes, x.quotients = outer
        for key, name in stored.items():
            store = self._wide_name("store", key, n, c_type(wide.stores[key]))
            self.lines.add(f"{store}({self._address(key, n)}, {name});")

    def _quotients(self, e: Binary, lane: Var, n: int) -> str:
        """Divide what every lane has by what all share, and return the name of the vector."""
        x, t = self.expressions, c_type(e.dtype)
        above, name = self.names.fresh(f"above_x{n}"), self.names.fresh(f"quotients_x{n}")
        self.lines.add(f"{t}x{n} {above};")
        for x.lane, part in enumerate(components(n)):
            x.variables[lane.name] = index_literal(x.lane)
            self.lines.add(f"{above}.{part} = {x.data(e.lhs).text};")
        below = x.data(e.rhs).text
        self.lines.add(f"const {t}x{n} {name} = quotients{n}_{t}({above}, {below});")
        return name

    def _wide_load(self, key: WideKey, n: int, t: str) -> str:
        name = self.names.fresh(f"{key[0]}_x{n}")
        load = self._wide_name("load", key, n, t)
        self.lines.add(f"const {t}x{n} {name} = {load}({self._address(key, n)});")
        return name

    def _wide_name(self, what: str, key: WideKey, n: int, t: str) -> str:
        """Return the name of the intrinsic that loads or stores neighbours."""
        scope = self.expressions.buffers[key[0]].buffer.scope
        passing = "pass_" if self.passing and scope is Scope.GLOBAL else ""
        return f"{what}{n}_{passing}{t}"

    def _wide_temporary(self, key: WideKey, n: int, t: str) -> str:
        name = self.names.fresh(f"{key[0]}_x{n}")
        self.lines.add(f"{t}x{n} {name};")
        return name

    def _address(self, key: WideKey, n: int) -> str:
        buffer, group = key
        return f"&{self.expressions.element(buffer, (mul(group, index(n)),))}"


def _stores(s: Stmt, b: Buffer) -> TypeGuard[Store]:
    return isinstance(s, Store) and s.buffer == b.name
