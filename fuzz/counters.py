"""Exact counters of compiled cases: what kept programs need, to the last access.

They are counted from graphs, kernels and programs at the sizes of a case, so they are the same on
every machine.  Results may be right although a promise is lost: one launch more, elements that are
loaded twice, a larger peak; and where less is done than was, a guard may be gone that these values
do not need.  Of texts a digest is kept, since a text with a wrong operand counts as the right one
does.  So ``fuzz/distilled.py`` holds members of the corpus to their counters, and whoever changes
them on purpose keeps them anew (``python -m tests.mutants.distil counters``).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeAlias

from didyma.codegen.runtime.geometry import evaluate
from didyma.codegen.runtime.simt.access import Traffic
from didyma.fuzz.sectors import FirstWarp
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.ir import dims
from didyma.refimpl.ir.dims import Dim
from didyma.refimpl.ir.graph import CALL, PRIMITIVE, RESHAPE_ONLY, TO, Module
from didyma.refimpl.ir.kernel import Kernel, loops
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.loop import (
    Allocate,
    Atomic,
    Barrier,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Let,
    LetExpr,
    Load,
    LoopKind,
    PrimFunc,
    Ramp,
    Stmt,
    Store,
    Var,
)
from didyma.refimpl.ir.lowered import written_out
from didyma.refimpl.ir.program import Program, Wait
from didyma.refimpl.ir.types import TensorType
from didyma.refimpl.ir.walk import stmt_children, stmt_exprs, stmts, subexprs

MADE = "made: "  # what the names of counters of decisions begin with
TEXT = "text: "  # and those of digests
_OF_GRAPH = ("calls", "bytes", "elements", "results", "constants", "copies")

_DIGITS = 4  # of floats that digests tell: machines differ in the last ones that they compute
_NONE = 1e-9  # what floats are no more than where all of their digits are such
# Patterns that begin with a character are found quickly; a float does not begin within a word.
_FLOATS = re.compile(r"\d(?<![\w.]\d)(?:x[\da-f.]+p[-+]?\d+|\d*(?:\.\d*(?:e[-+]?\d+)?|e[-+]?\d+))")
_BYTES_OF_CONSTANTS = re.compile(r"\"data\":\"[^\"]*\"|rt\.constant\([^\n]*")

Sizes: TypeAlias = Mapping[str, int]
Counters: TypeAlias = Mapping[str, int]


def of_graph(fused: Module, env: Sizes) -> Counters:
    """Count what a graph of Primitive functions needs, where each call runs once.

    ``calls`` are those of functions that compute, ``bytes`` what these read and write,
    ``elements`` what all their nodes compute, ``results`` the most that one of them has,
    ``constants`` the bytes of constants, and ``copies`` the nodes that bring a value to a device.
    """
    sizes, found = _sizes(fused, env), Counter[str](dict.fromkeys(_OF_GRAPH, 0))
    functions = {f.name: f for f in fused.functions}
    for f in fused.functions:
        types = f.types()
        for n in f.nodes:
            found["copies"] += n.op == TO
            if n.op == "constant":
                found["constants"] += _nbytes(n.types[0], sizes)
            if n.op != CALL or PRIMITIVE not in functions[n.callee].attr:
                continue
            callee = functions[n.callee]
            if RESHAPE_ONLY in callee.attr:
                continue
            found["calls"] += 1
            found["results"] = max(found["results"], len(n.results))
            found["bytes"] += sum(_nbytes(types[v], sizes) for v in {*n.args, *n.results})
            found["elements"] += sum(
                math.prod(_size(d, sizes) for d in t.shape) for x in callee.nodes for t in x.types
            )
    return found


def of_kernels(kernels: Iterable[Kernel], env: Sizes) -> Counters:
    """Count what one launch of each kernel does, as its loops say it.

    ``launches`` are those of kernels; ``accesses`` the loads and stores of parameters, a wide one
    once, ``moved`` their bytes, and ``sectors`` those of memory that they touch
    (``fuzz/sectors.py``); ``own`` the loads and stores of other buffers, ``operations`` what
    expressions compute, ``tests`` the conditions of statements and ``barriers`` the barriers, each
    as often as the loops around it run; conditions count as true.  ``steps`` are the statements
    that one thread runs one after another, and ``slots`` those of all threads of the launch, which
    lanes and blocks that idle take as well.  ``scratch`` are the bytes of the buffers that kernels
    make.  A loop counts once where its extent depends on data.
    """
    found = Counter[str]()
    for k in kernels:
        f = written_out(loops(k))
        found["launches"] += 1
        steps = _steps(f.body, env)
        found["steps"] += steps
        found["slots"] += steps * threads(k, env)
        _Walk(f, env, found, FirstWarp.of(f, env)).stmt(f.body, 1, 1)
    return found


def threads(k: Kernel, env: Sizes) -> int:
    """Return how many threads a launch of a kernel has at some sizes."""
    bound = (s for s in stmts(loops(k).body) if isinstance(s, For) and s.kind is LoopKind.BOUND)
    return math.prod({s.axis: _rounds(s.extent, env) for s in bound}.values())


def of_run(use: MemoryUse) -> Counters:
    """Return the ``launches`` and ``copies`` of a run, and its ``peak`` of memory in bytes."""
    copies = sum(name == "copy" for name, _ in use.steps)
    return {"launches": len(use.steps) - copies, "copies": copies, "peak": use.most}


def of_lines(p: Program) -> Counters:
    """Count the ``functions`` of a program, and the ``lines`` and ``waits`` of all, each once."""
    every = [line for f in (p, *p.functions) for line in walk(f.lines)]
    waits = sum(isinstance(line, Wait) for line in every)
    return {"waits": waits, "lines": len(every), "functions": len(p.functions)}


def of_traffic(traffic: Traffic) -> Counters:
    """Return what threads of a simulator did.

    That is ``statements``, ``accesses``, bytes ``moved``, and ``sectors`` that warps touched.
    """
    return {
        "statements": traffic.statements.total(),
        "accesses": traffic.accesses.total(),
        "moved": traffic.read.total() + traffic.written.total(),
        "sectors": traffic.sectors.total(),
    }


def listener() -> tuple[dict[str, list[str]], Callable[[str, str], None]]:
    """Return the values that each decision of a compile is about, and what a compile tells of them.

    >>> heard, hear = listener()
    >>> hear("cast once", "x"), heard
    (None, {'cast once': ['x']})
    """
    heard: dict[str, list[str]] = {}

    def hear(decision: str, value: str) -> None:
        heard.setdefault(decision, []).append(value)

    return heard, hear


def of_decisions(heard: Mapping[str, Sequence[str]]) -> Counters:
    """Count the decisions of a compile by name, given the values that each was about.

    Programs that are decided otherwise may be as right, and slower.
    """
    return {f"{MADE}{name}": len(values) for name, values in sorted(heard.items())}


def of_ways(ways: int) -> Counters:
    """Return the number of ways to schedule the functions of a case."""
    return {f"{MADE}ways to schedule": ways}


def of_texts(texts: Mapping[str, str]) -> Counters:
    """Return the digest of each text by its name."""
    return {f"{TEXT}{name}": digest(text) for name, text in texts.items()}


def digest(text: str) -> int:
    """Return a number of 24 bits that stands for a text.

    Floats are rounded to four digits, and the bytes of constants left out: what is computed of
    constants may have other last digits on other machines.

    >>> digest("x[i] += 0.3333333f;") == digest("x[i] += 0.3333334f;") != digest("x[i] += 0.25f;")
    True
    """
    told = _FLOATS.sub(_rounded, _BYTES_OF_CONSTANTS.sub("", text))
    return int.from_bytes(blake2b(told.encode(), digest_size=3).digest())


def _rounded(found: re.Match[str]) -> str:
    """Return a float with few digits."""
    x = float.fromhex(found[0]) if found[0].startswith("0x") else float(found[0])
    return f"{x if x > _NONE else 0.0:.{_DIGITS}g}."


def unlike(now: Counters, kept: Counters) -> str:
    """Return a sentence about counters that are not those kept, empty if all are.

    >>> unlike({"launches": 2, "peak": 0}, {"launches": 1, "made: cast once": 1})
    'launches 2, kept 1; made: cast once 0, kept 1'
    >>> unlike({"peak": 4, "text: JSON": 7}, {"peak": 4, "text: JSON": 9})
    'text: JSON is another'
    """
    names = dict.fromkeys((*kept, *now))
    return "; ".join(
        f"{k} is another" if k.startswith(TEXT) else f"{k} {now.get(k, 0)}, kept {kept.get(k, 0)}"
        for k in names
        if now.get(k, 0) != kept.get(k, 0)
    )


def needs_more(now: Counters, kept: Counters) -> bool:
    """Return whether some counter is worse: lower if it is one of decisions, else higher."""
    return any(
        (now.get(k, 0) < n if k.startswith(MADE) else now.get(k, 0) > n)
        for k, n in kept.items()
        if not k.startswith(TEXT)
    )


@dataclass(frozen=True, slots=True)
class _Walk:
    """Counts the accesses of a kernel's statements."""

    kernel: PrimFunc
    env: Sizes
    found: Counter[str]
    warp: FirstWarp
    params: Mapping[str, Buffer] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", {b.name: b for b in self.kernel.params})

    def stmt(self, s: Stmt, many: int, wide: int) -> None:
        """Count a statement that runs ``many`` times, each time on ``wide`` neighbours."""
        for e in stmt_exprs(s):
            for x in subexprs(e):
                if isinstance(x, Load):
                    self.access(x.buffer, x.index, many, wide)
                elif not isinstance(x, Var | Const):
                    self.found["operations"] += many
                if isinstance(x, LetExpr):
                    self.warp.let(x.var, x.value)
        match s:
            case For(_, extent, body, LoopKind.VECTORIZED):
                self.stmt(body, many, wide * _rounds(extent, self.env))
                return
            case For(_, extent, body):
                self.stmt(body, many * _rounds(extent, self.env), wide)
                return
            case Store(buffer, index):
                self.access(buffer, index, many, wide)
            case Atomic(_, buffer, index):
                self.access(buffer, index, 2 * many, wide)
            case Let(var, value):
                self.warp.let(var, value)
            case Barrier():
                self.found["barriers"] += many
            case If():
                self.found["tests"] += many
            case Allocate(buffer):
                self.found["scratch"] += _bytes(buffer, self.env)
            case _:
                pass
        for child in stmt_children(s):
            self.stmt(child, many, wide)

    def access(self, buffer: str, index: Iterable[Expr], many: int, wide: int) -> None:
        """Count a load or a store of so many elements that runs so many times."""
        b = self.params.get(buffer)
        if b is None:
            self.found["own"] += many
            return
        at = tuple(index)
        nbytes = wide * math.prod(x.lanes for x in at if isinstance(x, Ramp)) * b.dtype.nbytes
        shape = [_size(d, self.env) for d in b.shape]
        touched = self.warp.sectors(at, shape, b.dtype.nbytes, nbytes)
        self.found["accesses"] += many
        self.found["moved"] += many * nbytes
        self.found["sectors"] += many * touched // self.warp.threads


def _steps(s: Stmt, env: Sizes) -> int:
    """Count the statements without others in them that a thread runs, one after another."""
    below = [_steps(child, env) for child in stmt_children(s)]
    match s:
        case For(_, extent, _, LoopKind.SERIAL | LoopKind.UNROLLED):
            return _rounds(extent, env) * sum(below)
        case If():
            return max(below)
        case _:
            return sum(below) if below else 1


def _bytes(b: Buffer, env: Sizes) -> int:
    return _size(dims.mul(*b.shape), env) * b.dtype.nbytes


def _rounds(extent: Expr, env: Sizes) -> int:
    try:
        return max(0, evaluate(extent, env))
    except (DidymaError, KeyError, TypeError, ValueError):
        return 1


def _sizes(m: Module, env: Sizes) -> Sizes:
    return {v.name: v.lo for v in m.dims} | dict(env)


def _nbytes(t: TensorType, sizes: Sizes) -> int:
    return _size(t.nbytes, sizes)


def _size(d: Dim, sizes: Sizes) -> int:
    return dims.evaluate(d, {name: sizes.get(name, 1) for name in dims.free(d)})
