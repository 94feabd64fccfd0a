"""Slips in kernels that fold rows several times: what they keep, share, guard and store."""

from __future__ import annotations

from tests.mutants.faults import Fault


def _slip(name: str, file: str, old: str, new: str, *levels: str) -> Fault:
    return Fault(name, f"codegen/{file}", old, new, levels)


FAULTS: tuple[Fault, ...] = (
    _slip(
        "registers of a row read before they are filled", "schedule/rows.py",
        "body = Allocate(b, Block((fill, *_items(body))))",
        "body = Allocate(b, Block((*_items(body), fill)))", "kernel",
    ),
    _slip(
        "registers of a row read wherever its operand is", "schedule/rows.py",
        "b = self.kept.get(_written_out(self.facts, load))",
        "b = next((b for x, b in self.kept.items() if x.buffer == load.buffer), None)", "kernel",
    ),
    _slip(
        "parts of a joined fold met before all are there", "schedule/rows.py",
        "*keep, Barrier(), *tree, rest)", "*keep, *tree, rest)", "kernel",
    ),
    _slip(
        "elements of a joined row beyond its end", "schedule/rows.py",
        "body = guarded([*conds, *tail(k, length, self.lanes)], body)",
        "body = guarded(conds, body)", "kernel",
    ),
    _slip(
        "joined rows beyond the last one", "schedule/rows.py",
        "exists = tail(row, count, groups)", "exists = list[Expr]()", "kernel",
    ),
    _slip(
        "lanes of a joined row that take each other's elements", "schedule/rows.py",
        "body = Let(k, ix.add(ix.mul(turn, ix.index(self.lanes)), self.lane), body)",
        "body = Let(k, ix.add(ix.mul(turn, ix.index(max(1, self.lanes // 2))), self.lane), body)",
        "kernel",
    ),
    _slip(
        "what belongs to a joined row stored by every lane", "schedule/rows.py",
        'first = [ix.compare("eq", self.lane, ix.ZERO), *exists]', "first = exists", "kernel",
    ),
    _slip(
        "a picked element read before its thread shares it", "schedule/rows.py",
        "last += [Barrier()] if table else []", "last += []", "kernel",
    ),
    _slip(
        "a picked element of the neighbouring place", "schedule/rows.py",
        'here = ix.compare("eq", self.rows.axes[0], pick.place)',
        'here = ix.compare("eq", ix.add(self.rows.axes[0], ix.ONE), pick.place)', "kernel",
    ),
    _slip(
        "one turn too few for the elements of a joined row", "schedule/row_threads.py",
        "most = -(-length // lanes)", "most = length // lanes", "kernel", "schedule",
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
        " or todo.between(i, j, between)", "", "fuse",
    ),
    _slip(
        "a value of joined rows that another kernel reads, forgotten", "passes/rows.py",
        "return value in results or any(k not in inside and k in todo.groups for k in readers)",
        "return value in results", "fuse",
    ),
)  # fmt: skip
