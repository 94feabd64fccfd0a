"""Slips in schedule steps: what they fail to refuse, and what they leave out or put elsewhere."""

from __future__ import annotations

from tests.mutants.faults import Fault

_WRONG = ("loop", "schedule", "host")


def _slip(name: str, file: str, old: str, new: str, *levels: str) -> Fault:
    return Fault(name, f"codegen/schedule/steps/{file}", old, new, levels or _WRONG)


REFUSALS: tuple[Fault, ...] = (
    _slip(
        "a dependence ignored by reorder", "reorder.py",
        "found = reversed_by(known, inside, before, after, step.reassociates)", "found = None",
    ),
    _slip(
        "a dependence ignored by tile", "reorder.py",
        "return reversed_by(known, inside, before, before[::-1], reassociates) is None",
        "return True",
    ),
    _slip(
        "a dependence ignored by join, which fuses loops", "fuse.py",
        'found = _across(known, first.var.name, before, after, ">")', "found = None",
    ),
    _slip(
        "a joined loop left parallel", "fuse.py",
        'if _across(known, first.var.name, before, after, "<"):', "if False:",
    ),
    _slip(
        "a dependence ignored by compute_at", "compute_at.py",
        "for s in until_used(sequence(made_by.after), step.buffer) if not unchecked else ():",
        "for s in ():",
    ),
    _slip(
        "a let inlined behind a write of what it reads", "inline.py",
        "for part in until_used(s.body, s.var.name):", "for part in ():",
    ),
    _slip(
        "a buffer inlined behind a write of what it is made from", "inline.py",
        "for s in until_used(sequence(made.after), name) if not unchecked else ():",
        "for s in ():",
    ),
    _slip(
        "a dependence ignored by vectorize", "kinds.py",
        'independent(f, loop, "vectorize", unchecked)', "pass",
    ),
    _slip(
        "a dependence ignored by parallel", "kinds.py",
        'independent(f, loop, "parallel", unchecked)', "pass",
    ),
    _slip(
        "a dependence ignored by bind", "kinds.py",
        'independent(f, loop, "bind", unchecked)', "pass",
    ),
    _slip(
        "a loop left parallel where it moves around a serial one", "reorder.py",
        "if carried(Dependences(scan(f)), loop) is None:", "if True:",
    ),
    _slip(
        "a condition moved behind a write of what it reads", "reorder.py",
        "if clash := _loads(e) & stored:", "if clash := set[str]():",
    ),
    _slip(
        "rfactor of a difference, which is not associative", "folds.py",
        "_OPS: Mapping[str, Folding] = MappingProxyType({op: op for op in get_args(Folding)})",
        """_OPS: Any = {op: op for op in (*get_args(Folding), "sub")}
_identity, _update_of = identity, update_of


def identity(op: Any, dtype: DType) -> Const:
    return _identity("add" if op == "sub" else op, dtype)


def update_of(s: Stmt) -> str:
    minus = isinstance(s, Store) and isinstance(s.value, Binary) and s.value.op == "sub"
    mine = s.value.lhs if minus else None
    same = isinstance(mine, Load) and (mine.buffer, mine.index) == (s.buffer, s.index)
    return "sub" if same else _update_of(s)""",
    ),
    _slip(
        "parts of a fold met by its combiner, not its merge", "merges.py",
        "return s.merge", "return s.combine if len(s.combine.operands) == len(s.accs) else s.merge",
    ),
    _slip(
        "sums of floats reordered without saying so", "accesses.py",
        "(reassociates or not b.dtype.is_float)", "True",
    ),
    _slip(
        "elements that a stride keeps apart, taken for any", "dependence.py",
        "return high.get((), 0) // k * k < low.get((), 0)", "return True",
    ),
    _slip(
        "loops of two iterations taken for one", "dependence.py",
        "x.extent.value <= 1", "x.extent.value <= 2",
    ),
)  # fmt: skip

REWRITES: tuple[Fault, ...] = (
    _slip(
        "a missing tail guard", "split.py",
        "rounds(loop.extent, factor), guarded=rest != ix.ZERO)",
        "rounds(loop.extent, factor), guarded=False)",
    ),
    _slip(
        "a split that rounds its extent down", "split.py",
        "rounds = ix.ceildiv if rest != ix.ZERO else ix.floordiv", "rounds = ix.floordiv",
    ),
    _slip(
        "a factor thought to divide what it does not", "split.py",
        "any(k % factor for k in p.values())", "any(k % factor for m, k in p.items() if m)",
    ),
    _slip("a peeled tail dropped", "split.py", "both = Block((most, _tail(step, f, loop, rest)))",
          "both = most"),
    _slip(
        "a peeled tail from the wrong place", "split.py",
        "done = ix.mul(ix.floordiv(loop.extent, factor), factor)",
        "done = ix.floordiv(loop.extent, factor)",
    ),
    _slip(
        "a peeled tail one iteration short", "split.py",
        "return For(var, rest, substitute(", "return For(var, ix.sub(rest, ix.ONE), substitute(",
    ),
    _slip(
        "a fused loop that wraps at the outer extent", "fuse.py",
        "ix.mod(var, inner.loop.extent)", "ix.mod(var, outer.extent)",
    ),
    _slip(
        "a fused loop parallel where one was", "fuse.py",
        "both = {x.kind for x in chain} == {LoopKind.PARALLEL}",
        "both = LoopKind.PARALLEL in {x.kind for x in chain}",
    ),
    _slip(
        "a stage that is read before it is filled", "stage.py",
        'parts = (*(_copied(f, old, new, region, "") if before else ()), *items(body))',
        'parts = (*items(body), *(_copied(f, old, new, region, "") if before else ()))',
    ),
    _slip(
        "a stage that is not filled", "stage.py",
        "return not first.writes", "return False",
    ),
    _slip(
        "a stage that is not copied back", "stage.py",
        "written = any(a.writes for a in touched)", "written = False",
    ),
    _slip(
        "a stage copied whole without a guard", "stage.py",
        "return (nested(names, region.shape, guarded([cond], one)),)",
        "return (nested(names, region.shape, one),)",
    ),
    _slip(
        "a stage of which not every element is stored", "stage.py",
        "if first in covers and same and (not stores or any(a.writes for a in covers)):",
        "if True:",
    ),
    _slip(
        "a place read from memory where a condition forbids it", "regions.py",
        "if loads and not any(map(self.certain, accesses)):", "if False:",
    ),
    _slip(
        "a region one element short", "regions.py",
        "return self.affine.expr(first), high - low + 1, inside",
        "return self.affine.expr(first), max(1, high - low), inside",
    ),
    _slip(
        "threads that fill shared memory without waiting", "stage.py",
        "parts = sequence([fill, Barrier(), *items(body), Barrier()])",
        "parts = sequence([fill, *items(body), Barrier()])",
    ),
    _slip(
        "threads that share a copy and leave out its end", "stage.py",
        "return For(turn, ix.index(-(-numel // count)), ",
        "return For(turn, ix.index(max(1, numel // count)), ",
    ),
    _slip(
        "a part of a cluster's copy that is the first block's", "stage.py",
        "first = ix.add(ix.mul(me, ix.index(side)), at[0])", "first = at[0]",
    ),
    _slip(
        "an element of a cluster's copy read from a wrong rank", "stage.py",
        "ix.unflatten(first, (ix.index(blocks), ix.index(side)))",
        "(ix.mod(first, ix.index(blocks)), ix.mod(first, ix.index(side)))",
    ),
    _slip(
        "a computed part without its guard", "compute_at.py",
        "guarded([region.guard(there, shape)], fill)", "fill",
    ),
    _slip(
        "parts of a fold that start with what is no identity", "folds.py",
        "Store(part.name, (start,), neutral(found.op, acc.dtype))",
        'Store(part.name, (start,), neutral("add" if found.op == "mul" else found.op, acc.dtype))',
    ),
    _slip(
        "parts of a sum that start with 0, not -0", "folds.py",
        'if op == "add" and dtype.is_float else identity', 'if False else identity',
    ),
    _slip(
        "a wrong lane mask in the tree of threads", "across.py",
        'pair = If(ix.compare("lt", var, half)', 'pair = If(ix.compare("le", var, half)',
    ),
    _slip(
        "every thread ends a fold that the first should", "across.py",
        'If(ix.compare("eq", var, ix.ZERO), p.end(at(ix.ZERO)))', "p.end(at(ix.ZERO))",
    ),
    _slip(
        "threads that combine parts without waiting", "across.py",
        "Block((pair, Barrier()))", "pair",
    ),
    _slip(
        "blocks that leave out the last part of a fold", "across.py",
        "again = For(turn, loop.extent, ", "again = For(turn, ix.sub(loop.extent, ix.ONE), ",
    ),
    _slip(
        "parts of a fold that are combined before all blocks have come", "across.py",
        "Block((first, second))", "Block((second, first))",
    ),
    _slip(
        "blocks that keep their parts in one place", "across.py",
        "Store(t.name, (loop.var, *at), m)", "Store(t.name, (ix.ZERO, *at), m)",
    ),
    _slip(
        "a block of a cluster that folds its own part twice", "across.py",
        "others = loaded(tiles, (ix.add(turn, ix.ONE), *at))",
        "others = loaded(tiles, (turn, *at))",
    ),
    _slip(
        "every block of a cluster ends a fold that the first should", "across.py",
        'first = If(ix.compare("eq", var, ix.ZERO), sequence([again, p.end(p.mine)]))',
        "first = sequence([again, p.end(p.mine)])",
    ),
    _slip(
        "a fold of parts that starts with nothing", "across.py",
        "sequence([*p.body[: len(p.accs)], again, p.end(p.mine)])",
        "sequence([again, p.end(p.mine)])",
    ),
    _slip(
        "a pipeline one iteration too far ahead", "buffers.py",
        "ix.add(loop.var, ix.index(step.depth - 1))", "ix.add(loop.var, ix.index(step.depth))",
    ),
    _slip(
        "a pipeline that fills one copy too few before it starts", "buffers.py",
        "head = For(ahead, ix.index(step.depth - 1), first)",
        "head = For(ahead, ix.index(step.depth - 2), first)",
    ),
    _slip(
        "a pipeline with one copy too few", "buffers.py",
        "depth, later = ix.index(step.depth),", "depth, later = ix.index(step.depth - 1),",
    ),
    _slip(
        "a pipeline that fills behind the end", "buffers.py",
        'guarded([ix.compare("lt", later, loop.extent)], into(next_, ix.mod(later, depth)))',
        "into(next_, ix.mod(later, depth))",
    ),
    _slip(
        "a dependence ignored by pipeline", "buffers.py",
        "if clash is not None and not unchecked:", "if False:",
    ),
    _slip(
        "a swizzle that is no permutation", "buffers.py",
        'Binary("xor", at[-1], ix.mod(at[-2], ix.index(by)))',
        'Binary("or", at[-1], ix.mod(at[-2], ix.index(by)))',
    ),
    _slip(
        "a swizzle by more than a row has", "buffers.py",
        "not isinstance(columns, int) or not columns or columns % by:",
        "not isinstance(columns, int) or not columns:",
    ),
    _slip(
        "a redirected store that reads the old buffer", "regions.py",
        "return Store(new, move(tuple(map(on_expr, index))), on_expr(value))",
        "return Store(new, move(tuple(map(on_expr, index))), value)",
    ),
    _slip(
        "tensorize with a function that does something else", "tensorize.py",
        "if callee.dims or not match.equal(callee.body, loop):",
        "match.equal(callee.body, loop)\n    if callee.dims:",
    ),
    _slip(
        "tensorize with arguments in another order", "tensorize.py",
        "args = tuple(match.names.get(p.name, \"\") for p in callee.params)",
        "args = tuple(match.names.get(p.name, \"\") for p in callee.params)[::-1]",
    ),
    _slip(
        "values inlined at another element", "inline.py",
        "at = dict(zip((v.name for v in made.index), map(on_expr, e.index), strict=True))",
        "at = dict(zip((v.name for v in made.index), map(on_expr, e.index[::-1]), strict=True))",
    ),
)  # fmt: skip

ELSEWHERE: tuple[Fault, ...] = (
    Fault(
        "a bind to more threads than a block has", "refimpl/verify/loop.py",
        "if not 1 <= threads <= self.target.threads:", "if threads < 1:", ("schedule",),
    ),
    Fault(
        "a missing barrier of a cluster in the text", "codegen/emit/statements.py",
        'line("cluster_barrier();")', "pass", ("simt",),
    ),
    Fault(
        "an element of another block read from the own one", "codegen/emit/expressions.py",
        "is not Scope.CLUSTER or at[0] == self.rank:", "is not Scope.CLUSTER or at:", ("simt",),
    ),
    Fault(
        "an unrolled loop without its last iteration", "codegen/emit/statements.py",
        'self.lines.add(f"for (i64 {name} = 0; {name} < {extent.at(SHIFT)}; ++{name}) {{")',
        'last = " - 1" if s.kind is LoopKind.UNROLLED else ""\n'
        '        self.lines.add(f"for (i64 {name} = 0; {name} < {extent.at(SHIFT)}{last}; '
        '++{name}) {{")',
        ("host",),
    ),
    Fault(
        "a wrong lane mask: the lanes of a wide access in another order",
        "codegen/emit/statements.py",
        "x.variables[s.var.name] = index_literal(x.lane)",
        "x.variables[s.var.name] = index_literal(x.lane ^ 1)", ("host",),
    ),
)  # fmt: skip

FAULTS: tuple[Fault, ...] = (*REFUSALS, *REWRITES, *ELSEWHERE)
