"""Slips in kernels that fold rows several times: what they keep, share, guard and store."""

from __future__ import annotations

from tests.mutants.faults import Fault


def _slip(name: str, file: str, old: str, new: str, *levels: str) -> Fault:
    return Fault(name, f"codegen/{file}", old, new, levels)


FAULTS: tuple[Fault, ...] = (
    _slip(
        "rows of a sweep beyond the last, where blocks share them unevenly", "schedule/sweep.py",
        "tail(row, count, share)", "tail(row, count, team.groups)", "kernel",
    ),
    _slip(
        "the last part of a fold thought whole", "schedule/split.py",
        "int(count.value) % (shape.parts * step):", "int(count.value) % step:", "kernel",
    ),
    _slip(
        "two NaN in parts of a fold that are no tie", "lower/combiners.py",
        "    if best.dtype.is_float:\n        ties =", "    if False:\n        ties =", "kernel",
    ),
    _slip(
        "registers of a row read before they are filled", "schedule/row_kernel.py",
        "body = Block((fill, *hint, *items(body)))", "body = Block((*items(body), fill))",
        "kernel",
    ),
    _slip(
        "registers of a row read wherever its operand is", "schedule/row_stages.py",
        "b = some.get(written_out(self.facts, load))",
        "b = next((b for x, b in some.items() if x.buffer == load.buffer), None)", "kernel",
    ),
    _slip(
        "parts of a fold met before all warps' are there", "schedule/team.py",
        "            Barrier(),\n            *taken,", "            *taken,", "kernel",
    ),
    _slip(
        "parts of a fold met in a tree before all are there", "schedule/team.py",
        "statements = (*keep, Barrier(), *tree)", "statements = (*keep, *tree)", "kernel",
    ),
    _slip(
        "one exchange too few among the threads of a row", "schedule/team.py",
        "for n in range(width.bit_length() - 1):", "for n in range(width.bit_length() - 2):",
        "kernel",
    ),
    _slip(
        "the part of a fold of a warp's last thread alone", "schedule/team.py",
        "ix.index(warp - 1)), ix.ZERO)", "ix.index(warp - 1)), ix.index(warp - 1))", "kernel",
    ),
    _slip(
        "parts of the warps of another row of the block", "schedule/team.py",
        "other = (self.group, ", "other = (ix.ZERO, ", "kernel",
    ),
    _slip(
        "neighbours of a row taken at once that begin between accesses", "schedule/lanes.py",
        "if any(k % lanes for k in p.values()):", "if any(k % min(lanes, 2) for k in p.values()):",
        "kernel",
    ),
    _slip(
        "neighbours of a row taken at once beyond its end", "schedule/row_wide.py",
        "return lanes.part(size, n) is not None and all(", "return all(", "kernel", "schedule",
    ),
    _slip(
        "the elements of a row before its first access forgotten", "schedule/row_wide.py",
        "before = ix.sub(ix.mul(start, size), first)\n",
        "before = ix.ZERO\n", "kernel",
    ),
    _slip(
        "the last element of a row behind its accesses forgotten", "schedule/row_wide.py",
        "return ix.sub(length, ix.mul(self.whole, ix.index(width)))",
        "return ix.sub(ix.sub(length, ix.ONE), ix.mul(self.whole, ix.index(width)))", "kernel",
    ),
    _slip(
        "the accesses to a row one too many", "schedule/row_wide.py",
        'less = ix.select(ix.compare("gt", head, ', 'less = ix.select(ix.compare("lt", head, ',
        "kernel",
    ),
    _slip(
        "neighbours of a row one place too far in front", "schedule/row_wide.py",
        "return place if self.edges is None else ix.add(self.edges.head, place)",
        "return place", "kernel",
    ),
    _slip(
        "the ends of a shared fold folded by another block than the first", "schedule/split.py",
        'ix.compare("eq", self.part, ix.ZERO),', 'ix.compare("eq", self.part, ix.ONE),', "kernel",
    ),
    _slip(
        "a group of a shared fold one too far", "schedule/split.py",
        "wide.moved(fold.nest.body, group, v)",
        "wide.moved(fold.nest.body, ix.add(group, ix.ONE), v)", "kernel",
    ),
    _slip(
        "elements beyond the edges of a row", "schedule/row_stages.py",
        'body = guarded([*conds, ix.compare("lt", n, count)], body)', "body = guarded(conds, body)",
        "kernel",
    ),
    _slip(
        "elements at the edges of a row that share a register", "schedule/row_stages.py",
        "body = substitute(wide.flat(inside(ix.add(held, turn))), {old.name: new})",
        "body = substitute(wide.flat(inside(turn)), {old.name: new})", "kernel",
    ),
    _slip(
        "a sum of exponentials that keeps its scale", "schedule/online.py",
        'other: Expr = Binary("mul", total, factor)', "other: Expr = total", "kernel",
    ),
    _slip(
        "a part of a row of nothing but -inf that spoils the rest", "schedule/online.py",
        "Select(none, Const(0.0, total.dtype), other)", "Select(same, total, other)", "kernel",
    ),
    _slip(
        "squares of distances moved as if of one element", "schedule/online.py",
        'Binary("mul", Binary("mul", far, count), far)', 'Binary("mul", far, far)', "kernel",
    ),
    _slip(
        "squares of distances moved as if of elements to come, too", "schedule/row_stages.py",
        "o.corrected(y, Cast(old, x.dtype), now, o.shift)",
        "o.corrected(y, Cast(new, x.dtype), now, o.shift)", "kernel",
    ),
    _slip(
        "a thread's part of a row that keeps its own centre", "schedule/row_stages.py",
        "o.corrected(y, count, now, centre)", "o.corrected(y, count, now, now)", "kernel",
    ),
    _slip(
        "a mean of a part of a row that counts all turns", "schedule/row_stages.py",
        "old, new = self._taken(before), self._taken(end)",
        "old, new = self._taken(before), self._taken(None)", "kernel",
    ),
    _slip(
        "the edges of a row that are no part of one pass", "schedule/row_stages.py",
        "return self._then_edges(once.online, folds, mine, exists, rest) if self.edges else rest",
        "return rest", "kernel",
    ),
    _slip(
        "the edges of a row that count for nothing in a mean", "schedule/row_stages.py",
        "return taken(count, self.team.place, self.team.threads, None)", "return ix.ZERO", "kernel",
    ),
    _slip(
        "the edges of a row that are stored with what is on the shelf alone",
        "schedule/row_stages.py",
        "if self.edges and span[1] is None:", "if self.edges and span[1] is not None:",
        "kernel",
    ),
    _slip(
        "columns of a slanted tile that begin where the row does", "schedule/skewed.py",
        "at = ix.sub(ix.add(x, ix.index(more)), shift)", "at = ix.add(x, ix.index(more))", "kernel",
    ),
    _slip(
        "a slanted tile without the columns before it", "schedule/skewed.py",
        "stage = turns(shape[0], down, stage)", "stage = turns(side, down, stage)", "kernel",
    ),
    _slip(
        "a part of a row of which the edges count for nothing", "schedule/parted.py",
        'ix.select(ix.compare("eq", part, ix.ZERO), edges, ix.ZERO)', "ix.ZERO", "kernel",
    ),
    _slip(
        "a part of a row that is corrected from the whole row's centre", "schedule/parted.py",
        "return o.shifted(acc.var, Cast(_count(self, self.team.rank), acc.var.dtype))",
        "return o.asked", "kernel",
    ),
    _slip(
        "a row without its last part", "schedule/parted.py",
        'guarded([ix.compare("lt", lane, ix.index(parts))], first)',
        'guarded([ix.compare("lt", lane, ix.index(parts - 1))], first)', "kernel",
    ),
    _slip(
        "terms of a shared fold beyond its last", "schedule/split.py",
        '[] if count is None else [ix.compare("lt", k, count)],', "[],", "kernel",
    ),
    _slip(
        "elements of a joined row beyond its end", "schedule/row_stages.py",
        "body = guarded([*(conds if apart else ()), *guards], body)",
        "body = guarded(conds if apart else [], body)", "kernel",
    ),
    _slip(
        "joined rows beyond the last one", "schedule/row_kernel.py",
        "exists = tail(row, count, groups)", "exists = list[Expr]()", "kernel",
    ),
    _slip(
        "lanes of a joined row that take each other's elements", "schedule/row_stages.py",
        "body = Let(unit, ix.add(ix.mul(now, ix.index(team.threads)), team.place), body)",
        "body = Let(unit, ix.add(ix.mul(now, ix.index(team.threads // 2)), team.place), body)",
        "kernel",
    ),
    _slip(
        "what belongs to a joined row stored by every lane", "schedule/row_stages.py",
        'first = [ix.compare("eq", self.team.place, ix.ZERO), *exists]', "first = exists", "kernel",
    ),
    _slip(
        "a picked element read before its thread shares it", "schedule/row_stages.py",
        "last += [Barrier(scope)] if table else []", "last += []", "kernel",
    ),
    _slip(
        "a picked element of the neighbouring place", "schedule/row_stages.py",
        'here = ix.compare("eq", self.rows.axes[0], pick.place)',
        'here = ix.compare("eq", ix.add(self.rows.axes[0], ix.ONE), pick.place)', "kernel",
    ),
    _slip(
        "one turn too few for the elements of a joined row", "schedule/row_threads.py",
        "most = -(-(length // width) // lanes)", "most = length // (lanes * width)",
        "kernel", "schedule",
    ),
    _slip(
        "a joined result in another shape stored at its row", "lower/function.py",
        "near = rows.shape if inside else rows.dropped",
        "near = rows.dropped", "loop", "lower", "schedule",
    ),
    _slip(
        "a value of joined rows computed before the loop it depends on", "lower/place.py",
        "names, folds = names | below, folds or has", "names, folds = names, folds or has",
        "loop", "lower", "schedule",
    ),
    _slip(
        "rows joined around a kernel that stands between", "passes/rows.py",
        " or todo.between(i, j, between):", ":", "fuse",
    ),
    _slip(
        "a value of joined rows that another kernel reads, forgotten", "passes/rows.py",
        "return value in results or any(k not in inside and k in todo.groups for k in readers)",
        "return value in results", "fuse",
    ),
    _slip(
        "what the first block leaves of a sweep dropped", "schedule/sweep.py",
        "step = Yield((Load(b.name, (part, *a.nest.index), b.dtype),))",
        "step = Yield((Load(b.name, (ix.index(blocks - 1), *a.nest.index), b.dtype),))", "kernel",
    ),
    _slip(
        "sums of a sweep begun anew in each row", "schedule/sweep.py",
        "return For(turn, ix.ceildiv(count, ix.index(share)), body)",
        "return For(turn, ix.ceildiv(count, ix.index(share)), Block((self._starts(), body)))",
        "kernel",
    ),
    _slip(
        "places of a row shifted where a sweep adds to its sums", "schedule/sweep.py",
        "(v.name for v in across.nest.index), first.axes, strict=True)",
        "(v.name for v in across.nest.index), [ix.mod(ix.add(x, ix.ONE), n) for x, n in zip("
        "first.axes, first.extents, strict=True)], strict=True)", "kernel",
    ),
    _slip(
        "sums of the other rows of a block forgotten", "schedule/sweep.py",
        "met = [] if team.groups == 1 else [self._met()]", "met = list[Stmt]()", "kernel",
    ),
    _slip(
        "a row of a sweep begun before the last is read", "schedule/sweep.py",
        "if stages.filled == 1:", "if stages.filled == -1:", "kernel",
    ),
    _slip(
        "a row announced behind the last", "schedule/prefetch.py",
        'ix.compare("lt", row, stages.rows.nest.numel)',
        'ix.compare("le", row, stages.rows.nest.numel)', "kernel",
    ),
    _slip(
        "rows announced without asking whether they exist", "schedule/prefetch.py",
        "guarded([exists], Block(tuple(found)))", "guarded([], Block(tuple(found)))", "kernel",
    ),
    _slip(
        "elements announced beyond the end of a row", "schedule/prefetch.py",
        'guarded([ix.compare("lt", place, rows.length)],', "guarded([],", "kernel",
    ),
    _slip(
        "a pass from the end of a row that begins a turn behind it", "schedule/row_stages.py",
        "ix.sub(ix.sub(stop, ix.ONE), turn) if back", "ix.sub(stop, turn) if back", "kernel",
    ),
    _slip(
        "the last of equal elements, in a pass from the end of a row", "schedule/row_stages.py",
        "self._is_back(at) and s.op is not None", "self._is_back(at) and s is not None", "kernel",
    ),
)  # fmt: skip
