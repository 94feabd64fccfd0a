"""All verdicts on one planned program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias

import numpy as np

from didyma.codegen.memory import peak
from didyma.codegen.memory.allocate import allocated
from didyma.codegen.memory.plan import samples
from didyma.codegen.memory.planners import Planner
from didyma.codegen.memory.values import bound, values_of
from didyma.fuzz.allocator import lives, meaning, wrappers
from didyma.fuzz.allocator.kernels import ROUTINES
from didyma.oracle import in_place, plan_check
from didyma.refimpl.errors import DidymaError
from didyma.refimpl.interp import program as interp
from didyma.refimpl.interp.faults import LoopFault, ProgramFault
from didyma.refimpl.interp.memory_use import MemoryUse
from didyma.refimpl.ir import dims
from didyma.refimpl.ir import program as ir
from didyma.refimpl.ir.dims import DimVar
from didyma.refimpl.ir.lines import walk
from didyma.refimpl.ir.program import Line, Program
from didyma.refimpl.ir.target import PORTABLE
from didyma.refimpl.ir.types import Array
from didyma.refimpl.verify.program import verify

Check: TypeAlias = Literal[
    "planner", "laws", "replay", "lines", "peak", "run", "equal", "placement", "order", "proof",
    "reader", "in place", "wrapper", "replay of calls", "crash", "hang", "lives", "bound",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one check has against a plan."""

    check: Check
    message: str


def laws(bare: Program, planned: Program) -> list[Verdict]:
    """Judge a plan for all bindings at once, without running it."""
    found: list[Verdict] = []
    try:
        verify(planned, kernels=False)
    except DidymaError as e:
        found.append(Verdict("laws", f"{e.code}: {e}"))
    pairs = zip((*bare.functions, bare), (*planned.functions, planned), strict=True)
    if not all(same_work(a.lines, b.lines) for a, b in pairs):
        found.append(Verdict("lines", "the plan changes more than memory"))
    return found


def frugal(bare: Program, planned: Program, by: Planner) -> list[Verdict]:
    """Judge that a plan which is not eager takes no more than one of the program as it stands.

    That one takes no less than the planner's bound, and its buffers live as they are used.
    """
    if found := next(lives.wrong(bare), ""):
        return [Verdict("lives", found)]
    if bare.functions:
        return []  # whose own plans count, too
    values = values_of(bare)
    plain = allocated(values, by, None, PORTABLE.stack)
    for env in samples(bare):
        most, least = peak(planned, env), peak(plain, env)
        if most > least:
            return [Verdict("peak", f"{most} bytes, and {least} as it stands, {dict(env)}")]
        said = bound(values, by.whole is not None, env)
        if said > least:
            return [Verdict("bound", f"{least} bytes as it stands, and no less than {said}")]
    return []


def static(planned: Program, env: Mapping[str, int]) -> list[Verdict]:
    """Judge a plan under a binding, without running it."""
    r = plan_check.replay(planned, env)
    if r.errors:
        return [Verdict("replay", f"{f.kind}: {f.message}") for f in r.errors]
    try:
        said = peak(planned, env)  # with loops: of each run through once
    except KeyError as e:  # in a block that is not run: bytes taken over of who has none
        return [Verdict("peak", f"{e} has no bytes")]
    if any(isinstance(x, ir.Carry) and x.values and x.dims for x in walk(planned.lines)):
        return []  # what grows in a loop is measured at one of its sizes
    plain = not any(isinstance(x, ir.If | ir.While | ir.Repeat) for x in planned.lines)
    if said < r.peak or (plain and said != r.peak):
        return [Verdict("peak", f"the peak is {r.peak}, not {said}")]
    return []


def same_work(bare: Sequence[Line], planned: Sequence[Line]) -> bool:
    """Return whether two programs do the same work: see ``_work``."""
    return list(_work(bare)) == list(_work(planned))


def _work(lines: Sequence[Line]) -> Iterator[object]:
    """What no plan may change: calls, symbols, results, and the blocks that they stand in.

    Launches, copies and views may be others where parts are written straight into their whole;
    whether that gives the same is for the run.
    """
    for line in lines:
        match line:
            case ir.Extern(name, _, _, attrs):
                yield name, attrs
            case ir.Call(callee):
                yield callee
            case ir.Bind() | ir.Return():
                yield line
            case ir.If(cond, then, other):
                yield cond, tuple(_work(then)), tuple(_work(other))
            case ir.While(test, cond, body):
                yield cond, tuple(_work(test)), tuple(_work(body))
            case ir.Repeat(index, extent, body):
                yield index, extent, tuple(_work(body))
            case _:
                pass


def inputs(p: Program, env: Mapping[str, int], seed: int) -> list[Array]:
    """Random inputs of a program: integers small enough for any dtype."""
    r = np.random.default_rng(seed)
    types = p.type
    return [
        r.integers(0, 100, dims.values(types[n].shape, env)).astype(types[n].dtype.numpy)
        for n in p.inputs
    ]


def run(
    bare: Program, planned: Program, env: Mapping[str, int], seed: int, *, wrapped: bool = False
) -> list[Verdict]:
    """Run a planned program in poisoned memory: it gives the bits of the program without memory.

    Where it is ``wrapped``, so does its wrapper, with as many bytes allocated at any time.
    """
    given = inputs(bare, env, seed)
    want = meaning.run(bare, given, env)
    use, taken = MemoryUse(), MemoryUse()
    try:
        found = _differing(
            bare,
            want,
            interp.run(planned, given, in_place.launch, ROUTINES, use=use, variant=seed),
        )
    except in_place.InterferenceError as e:
        return [Verdict("in place", str(e))]
    except (ProgramFault, LoopFault, DidymaError) as e:
        return [Verdict("run", str(e))]
    if found or not wrapped:
        return found
    try:
        got = wrappers.run(planned, given, taken, seed)
        walked = wrappers.walked(planned, given)
    except Exception as e:  # whatever it is, the wrapper has failed
        return [Verdict("wrapper", f"{type(e).__name__}: {e}")]
    if why := taken.unlike(use):
        return [Verdict("wrapper", why)]
    found = _differing(bare, want, got) or _differing(bare, want, walked or want)
    return [Verdict("wrapper", v.message) for v in found]


def _differing(p: Program, want: Sequence[Array], got: Sequence[Array]) -> list[Verdict]:
    for name, a, b in zip(p.results, want, got, strict=True):
        if a.shape != b.shape or a.tobytes() != b.tobytes():
            return [Verdict("equal", f"%{name} differs")]
    return []


def bindings(declared: Sequence[DimVar], r: Random) -> list[dict[str, int]]:
    """Both ends of all ranges, mixed ends, and a binding between; the empty one for no dims."""
    if not declared:
        return [{}]
    return [
        {v.name: v.lo for v in declared},
        {v.name: v.hi for v in declared},
        {v.name: r.choice((v.lo, v.hi)) for v in declared},
        {v.name: r.randint(v.lo, v.hi) for v in declared},
    ]
