"""Registers of a function that may be read before anything sets them.

Liveness at the function's start (Kildall's backward analysis), with sets of registers as the bits
of integers.
"""

from __future__ import annotations

from didyma.codegen.runtime.ptx.code import Function, Instr, Place, Symbol, registers

_NO_RESULT = frozenset(
    ("st", "red", "bra", "brx", "ret", "exit", "call", "bar", "barrier", "stmatrix")
)


def unset(f: Function) -> dict[int, int]:
    """Return the registers that may be read unset, each with the first instruction that reads it.

    Only branches, reads and writes of registers count, not whether a path is ever taken.
    """
    effects = [_effect(i) for i in f.instrs]
    n = len(f.instrs)
    leaders = {0, *f.labels.values()}
    leaders |= {k + 1 for k, i in enumerate(f.instrs) if i.op in ("bra", "brx", "ret", "exit")}
    starts = sorted(s for s in leaders if s < n)
    ends = [*starts[1:], n]
    use_, kill = list[int](), list[int]()
    for a, b in zip(starts, ends, strict=True):
        read = written = 0
        for reads, writes in effects[a:b]:
            read |= reads & ~written
            written |= writes
        use_.append(read)
        kill.append(written)
    number = {s: k for k, s in enumerate(starts)}
    after = [_successors(f, b, number) for b in ends]
    live = [0] * len(starts)
    changed = True
    while changed:
        changed = False
        for k in reversed(range(len(starts))):
            out = 0
            for s in after[k]:
                out |= live[s]
            new = use_[k] | (out & ~kill[k])
            if new != live[k]:
                live[k], changed = new, True
    found = live[0] if live else 0
    return {r: _first(effects, r) for r in _members(found)}


def _effect(i: Instr) -> tuple[int, int]:
    """Return the registers that an instruction reads, and those that it surely sets."""
    sets = () if i.op in _NO_RESULT or not i.args or isinstance(i.args[0], Place) else i.args[:1]
    reads = registers(i.args[len(sets) :])
    if i.guard:
        reads |= {i.guard[0].index}
    writes = registers(sets) if i.guard is None else frozenset[int]()
    return _bits(reads), _bits(writes)


def _bits(members: frozenset[int]) -> int:
    out = 0
    for r in members:
        out |= 1 << r
    return out


def _members(bits: int) -> list[int]:
    return [k for k in range(bits.bit_length()) if bits >> k & 1]


def _successors(f: Function, end: int, number: dict[int, int]) -> list[int]:
    """Return the blocks that may follow the one that ends before an instruction."""
    i = f.instrs[end - 1]
    to: list[int] = []
    if i.op == "bra" and isinstance(i.args[0], Symbol):
        to.append(f.labels.get(i.args[0].name, -1))
    if i.op == "brx":
        names = {a.name for a in i.args if isinstance(a, Symbol)}
        to += [f.labels[t] for k in names for t in f.targets.get(k, ()) if t in f.labels]
    if i.guard is not None or i.op not in ("bra", "brx", "ret", "exit", "trap"):
        to.append(end)
    return [number[t] for t in to if t in number]


def _first(effects: list[tuple[int, int]], r: int) -> int:
    return next((k for k, (reads, _) in enumerate(effects) if reads >> r & 1), 0)
