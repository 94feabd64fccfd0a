"""The domain of targets: graphs at sizes of real programs, compiled for GPUs and not run.

No device is asked and nothing is computed, so axes may be as long as schedules and templates ask.
Judged is what a launch needs of a device, whether memory plans keep values, and of kept programs
what they become.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from didyma.codegen.emit.dynamic import placed
from didyma.codegen.layouts.layout import Layout, Span
from didyma.codegen.layouts.variant import variant
from didyma.codegen.options import Options
from didyma.codegen.pipeline import Compiled, compile
from didyma.codegen.runtime.geometry import evaluate
from didyma.fuzz import census, counters, offers, traits
from didyma.fuzz.chooser import Chooser, Dice
from didyma.fuzz.domains.capacity import excused
from didyma.fuzz.domains.domain import Domain, Judge, Key, Outcome
from didyma.fuzz.graphs import Case
from didyma.fuzz.keys import DECISION
from didyma.fuzz.minimise.retype import Retype, rewritten
from didyma.fuzz.steering.draw import SCHEDULES, draw
from didyma.oracle import plan_check
from didyma.oracle.report import Finding
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.ir.kernel import KernelText
from didyma.refimpl.ir.target import PORTABLE, SM_80, SM_90A, Target
from didyma.refimpl.ir.types import DType, TensorType
from didyma.refimpl.verify.graph import verify

SALT = 4 << 32  # of seeds, so that other graphs are drawn than in other domains
TARGETS = (SM_90A.name, SM_90A.name, SM_80.name, PORTABLE.name)
LONG = (16, 32, 64, 128, 200, 1000, 1024, 4096, 50257, 65536)  # sizes that axes get
WIDE, SHORT = (DType.F32, DType.F64), (DType.F16, DType.BF16)
MOST = 1 << 28  # elements of a value, of which a grid has a thread for each
OFFERED = 4  # of one graph in so many only what recipes offer is read
NARROW = 3  # one graph in so many has floats of 16 bits alone
_BOUNDS = re.compile(r"__launch_bounds__\((\d+)[^)]*\)\s*(\w+)\(")
_SHARED = re.compile(r"__shared__\s+(?:__align__\(\d+\)\s*)?(\w+)\s+\w+((?:\s*\[\s*\d+\s*\])+);")
_ASKED = re.compile(r"\((\w+)_shared__ \+ (\d+)\)")  # arrays in memory that a launch asks for
ALIGNED = 16  # bytes of the widest access
_BYTES = {"bool": 1, "uint2": 8, "uint4": 16, "ulonglong2": 16}


@dataclass(frozen=True, slots=True)
class Targets(Domain[Case]):
    """Graphs whose kernels for GPUs, programs and wrappers are read."""

    options: Options = field(default_factory=Options)

    @property
    def name(self) -> str:
        """``targets``."""
        return "targets"

    @property
    def floor(self) -> float:
        """What is not run is judged by laws alone."""
        return 0.03

    @property
    def usual(self) -> bool:
        """Whether no option of the user changes what is counted."""
        return self.options == Options()

    def draw(self, seed: int, index: int) -> Case:
        """Return the graph of a campaign's seed and an index, most with one or two long axes."""
        salted = seed + SALT
        c = Dice((salted << 64) + index)
        case = draw(salted, index, SCHEDULES)
        for _ in range(c.below(3)):
            case = _lengthened(case, c)
        if c.chance(NARROW):
            short = c.pick(SHORT)
            case = _retyped(case, Retype(dtype=lambda d: short if d in WIDE else d))
        changes = tuple(x for x in case.changes if x[0] != "target")
        case = replace(case, offered=c.chance(OFFERED))
        return replace(case, changes=(("target", c.pick(TARGETS)), *changes))

    def judge(self) -> Judge[Case]:
        """Return the judge."""
        return self.outcome

    def outcome(self, case: Case) -> Outcome:
        """Compile a graph, and judge what there is to launch."""
        if case.offered:
            return self._offered(case)
        size, (heard, hear) = len(case.module.entry.nodes), counters.listener()
        options = case.options(self.options)
        try:
            made = compile(case.module, options, heard=hear)
        except Exception as e:
            if isinstance(e, DidymaError) and (pinned(case) or excused(e, case, self.options)):
                return Outcome(size=size)
            finding = Finding(self.name, "while compiling", "error", f"{type(e).__name__}: {e}")
            return Outcome((finding,), traits.of_error(e), size)
        sizes = {v.name: v.lo for v in made.source.dims} | dict(case.env)
        wrong = next(laws(made, options.device, sizes), None)
        try:
            texts = {"layouts": laid(made, options)}
            if case.counted:
                texts["offers"] = "\n".join(offers.lines(made, options))
        except Exception as e:
            wrong = Finding("texts", "while compiling", "error", f"{type(e).__name__}: {e}")
            texts = {}
        counted = {
            **census.of_compiled(made, options, sizes, loaders=True),
            **counters.of_decisions(heard), **counters.of_texts(texts),
        }  # fmt: skip
        return Outcome(
            () if wrong is None else (wrong,),
            frozenset(),
            size,
            covered=tuple((DECISION, name) for name in heard),
            counters=counted,
        )

    def _offered(self, case: Case) -> Outcome:
        """Lower a graph, and read what recipes offer for each of its loops."""
        size, options = len(case.module.entry.nodes), case.options(self.options)
        try:
            loops = compile(case.module, options, until="lower").loops.values()
            told = [x for loop in loops for x in offers.of_loop(loop, options, switched=True)]
            drawn = () if case.counted else loops
            wrong = [w for loop in drawn for w in offers.crowded_blocks(loop, options)]
        except Exception as e:
            finding = Finding(self.name, "while offering", "error", f"{type(e).__name__}: {e}")
            return Outcome((finding,), traits.of_error(e), size)
        findings = tuple(Finding(self.name, "block", "room", w) for w in wrong[:1])
        counted = counters.of_texts({"offers": "\n".join(told)})
        return Outcome(findings, frozenset(), size, counters=counted)

    def size(self, case: Case) -> tuple[int, ...]:
        """Return the number of nodes of all functions."""
        return (sum(len(f.nodes) for f in case.module.functions),)

    def summary(self, covered: Mapping[Key, int]) -> dict[str, Any]:
        """Return how often each decision was made."""
        return {"decisions": {k[1]: n for k, n in sorted(covered.items())}}


def pinned(case: Case) -> bool:
    """Return whether a case says how its functions are scheduled, which suits no other graph."""
    return not {"kernels.schedules", "kernels.choices"}.isdisjoint(dict(case.changes))


def laid(made: Compiled, options: Options) -> str:
    """Return what becomes of a program whose inputs lie in other ways, and why some are copied."""
    layouts = {
        p.name: _layout(p.type, number)
        for number, p in enumerate(made.source.entry.params)
        if p.type.rank and p.type.strides is None and 0 not in p.type.shape
    }
    found = variant(made, options, layouts)
    text = "" if found.compiled is None else found.compiled.text.source + found.compiled.wrapper
    return f"{[*found.taken]} {found.refused}\n{text}"


def _layout(t: TensorType, number: int) -> Layout:
    """Return one of four ways in which an array lies: turned, or rows that are parts of others.

    The first axis of one whose rows repeat an element is a part of another, if there are several.
    """
    *others, last = map(Span, range(t.rank))
    size = t.shape[-1]
    if number % 4 == 0 or not isinstance(size, int) or size < 2:
        return (last, *reversed(others))
    if number % 4 == 3:
        near = others[:1] if isinstance(t.shape[0], int) and t.rank > 1 else ()
        parts = (Span(s.axis, int(t.shape[0]) + 4, 4) for s in near)
        return (*parts, *others[len(near) :], Span(last.axis, 1, 0, 0))
    return (*others, Span(last.axis, 2 * size + 4, 4, number % 4))


def laws(made: Compiled, target: Target, sizes: Mapping[str, int]) -> Iterator[Finding]:
    """Yield what is wrong with launches on a target at some sizes, or with the plan of memory."""
    for name, message in launches(made.text, target, sizes):
        yield Finding("emit", name, "launch", message)
    for e in plan_check.check(made.program, sizes):
        yield Finding("plan", f"line {e.step}", "plan", f"{e.kind}: {e.message}")


def launches(
    text: KernelText, target: Target, sizes: Mapping[str, int]
) -> Iterator[tuple[str, str]]:
    """Yield the kernels that a target cannot launch as their text and their signature say."""
    for kernel, at in _ASKED.findall(placed(text.source)[0]):
        if int(at) % ALIGNED:
            yield kernel, f"an array begins {at} bytes behind a multiple of {ALIGNED}"
    bounds = {name: int(n) for n, name in _BOUNDS.findall(text.source)}
    for s in text.kernels:
        threads = math.prod(s.block)
        if not target.has_room(s.block):
            yield s.name, f"a block of {s.block} threads"
        if bounds.get(s.name, threads) != threads:
            yield s.name, f"{threads} threads, and the text is for {bounds[s.name]}"
        grid = [evaluate(e, sizes) for e in s.grid]
        if any(n > most for n, most in zip(grid, target.grid, strict=True)):
            yield s.name, f"a grid of {grid} blocks"
        if grid[0] % s.cluster or s.cluster > target.cluster:
            yield s.name, f"clusters of {s.cluster} in a grid of {grid} blocks"
        if unknown := {m.buffer for m in s.maps} - {name for name, _ in s.buffers}:
            yield s.name, f"maps of {sorted(unknown)}, which are no buffers"
        if (shared := shared_bytes(text.source, s.name)) > target.room:
            yield s.name, f"{shared} bytes of shared memory"


def shared_bytes(source: str, kernel: str) -> int:
    """Return the bytes of the shared arrays that a kernel's text declares."""
    start = source.find(f"{kernel}(")
    end = source.find("__global__", start)
    body = source[start : end if end >= 0 else len(source)]
    return sum(
        _nbytes(kind) * math.prod(map(int, re.findall(r"\d+", extents)))
        for kind, extents in _SHARED.findall(body)
    )


def _nbytes(kind: str) -> int:
    """Return the bytes of a type of kernel text by its name, which tells its bits if any."""
    bits = re.search(r"(\d+)$", kind)
    return _BYTES.get(kind) or (int(bits[1]) // 8 if bits else 1)


def _lengthened(case: Case, c: Chooser) -> Case:
    """Return a case whose axes of one size have another, which is long."""
    shapes = [t.shape for t in case.module.entry.types().values()]
    have = sorted({d for shape in shapes for d in shape if isinstance(d, int) and d > 1})
    if not have:
        return case
    old, new = c.pick(have), c.pick(LONG)
    return _retyped(case, Retype(size=lambda d: new if d == old else d))


def _retyped(case: Case, how: Retype) -> Case:
    """Return a case of other types, or as it is where its ops do not take these."""
    with np.errstate(all="ignore"):  # constants may lie outside of another dtype
        m = rewritten(case.module, how)
    if m is None or any(not _is_small(t) for f in m.functions for t in f.types().values()):
        return case
    try:
        verify(m)
    except DidymaError:
        return case
    return replace(case, module=m, given=())


def _is_small(t: TensorType) -> bool:
    return math.prod(d for d in t.shape if isinstance(d, int)) <= MOST
